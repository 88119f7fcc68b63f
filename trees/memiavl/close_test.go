//go:build linux

package memiavl

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/crypto-org-chain/cronos/memiavl"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/tree"
)

// TestCloseWaitsForAllWriters holds two of the goroutines that write a snapshot up, in the opening
// of pipes that nobody reads, and lets one of them fail: memiavl's own Close does not wait for the
// other.
func TestCloseWaitsForAllWriters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "forest")
	f, err := Sync().Open(t.Context(), tree.Options{Dir: dir, Create: true, Stores: stores(),
		Overrides: map[string]string{"SnapshotInterval": "1"}})
	must(t, err)

	snapshot := filepath.Join(dir,
		fmt.Sprintf("%s%020d%s", memiavl.SnapshotPrefix, 1, memiavl.TmpSuffix))
	bank, staking := holdUp(t, filepath.Join(snapshot, "bank")),
		holdUp(t, filepath.Join(snapshot, "staking"))
	must(t, os.Mkdir(filepath.Join(snapshot, "bank", memiavl.FileNameLeaves), 0o755)) // no file

	must(t, write(f, 0))
	_, err = f.Commit(t.Context())
	must(t, err)
	waitForWriters(t, 2)
	letGo(t, bank)
	waitForWriters(t, 1)

	closed := make(chan error)
	go func() { closed <- f.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close returned (%v) while a snapshot was being written", err)
	case <-time.After(200 * time.Millisecond):
	}

	letGo(t, staking)
	if !t.Failed() {
		must(t, <-closed)
	}

	if _, err := os.Stat(snapshot); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", snapshot, err)
	}
}

// holdUp makes a pipe of the first file of a tree in a snapshot: its writer waits for a reader. The
// pipe has a second name, since memiavl removes the folder.
func holdUp(t *testing.T, folder string) (pipe string) {
	t.Helper()
	pipe = filepath.Join(t.TempDir(), "pipe")
	must(t, os.MkdirAll(folder, 0o755))
	must(t, unix.Mkfifo(pipe, 0o600))
	must(t, os.Link(pipe, filepath.Join(folder, memiavl.FileNameNodes)))
	return pipe
}

func letGo(t *testing.T, pipe string) {
	t.Helper()
	reader, err := os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { must(t, reader.Close()) })
}

// waitForWriters waits until so many goroutines write trees of a snapshot.
func waitForWriters(t *testing.T, n int) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "memiavl.writeSnapshot(") != n {
		time.Sleep(time.Millisecond)
	}
}
