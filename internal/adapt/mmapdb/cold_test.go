//go:build cgo

package mmapdb_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/lmdb"
	"github.com/statelab/statelab/engines/mdbx"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

const (
	childDir     = "STATELAB_MMAPTEST_DIR"
	childProfile = "STATELAB_MMAPTEST_PROFILE"

	keys      = 200_000
	perBatch  = 1000
	gets      = 3000
	pageBytes = 4096
	tolerance = 0.03
	// Reading ahead fetches many pages for one that is asked for.
	minAhead = 3
)

// counted is what a fresh process says of its cold Gets.
type counted struct {
	First    result.ProcessIO // of the first Get
	Process  result.ProcessIO // of all
	Device   result.DeviceIO
	Accesses int64 // pages touched, as the engine tells
	Left     int64 // bytes in the page cache before the first Get
}

// TestColdLMDB and TestColdMDBX hold engines that map their file into memory against the kernel's
// counters: page faults of the process, bytes it fetched, and requests of the block device where
// that is private (root).
func TestColdLMDB(t *testing.T) { testCold(t, lmdb.Engine{}) }
func TestColdMDBX(t *testing.T) { testCold(t, mdbx.Engine{}) }

// testCold loads a database and reads it cold, without readahead and with it, each in
// a process of its own, as runs are. It must be called from a top-level test,
// directly, which runs again in those processes.
func testCold(t *testing.T, e engine.Engine) {
	if dir := os.Getenv(childDir); dir != "" {
		answer(e, dir, os.Getenv(childProfile))
	}

	dir, private := place(t)
	load(t, e, dir)

	exact := ask(t, dir, "noreadahead")
	if exact.Left > 0 {
		t.Skipf("%d bytes of the database cannot be dropped from the page cache here", exact.Left)
	}

	faults, pages := exact.Process.MajorFaults, exact.Process.ReadBytes/pageBytes
	t.Logf("noreadahead: %d Gets touched %d pages: %d major faults, %d pages fetched, %d device "+
		"reads (private: %t)",
		gets, exact.Accesses, faults, pages, exact.Device.Reads, private)
	agree(t, "major faults and pages fetched", faults, pages)
	if private {
		agree(t, "major faults and device reads", faults, exact.Device.Reads)
		agree(t, "pages fetched and device bytes", pages, exact.Device.ReadBytes/pageBytes)
	}

	if faults < gets/2 || faults > exact.Accesses {
		t.Errorf("%d faults of %d Gets that touched %d pages", faults, gets, exact.Accesses)
	}

	// On an empty cache every page that the first Get touches is a fault, but for
	// those that opening looked at: meta pages, and perhaps the root.
	depth := exact.Accesses / gets
	if exact.Accesses%gets != 0 || exact.First.MajorFaults < depth-1 ||
		exact.First.MajorFaults > depth {
		t.Errorf("the first Get made %d faults, each touches %d/%d pages", exact.First.MajorFaults,
			exact.Accesses, gets)
	}

	ahead := ask(t, dir, "readahead")
	t.Logf("readahead: %d major faults, %d pages fetched", ahead.Process.MajorFaults,
		ahead.Process.ReadBytes/pageBytes)
	if ahead.Process.MajorFaults*minAhead > faults {
		t.Errorf("readahead: %d faults, without it %d", ahead.Process.MajorFaults, faults)
	}

	if fetched := ahead.Process.ReadBytes / pageBytes; fetched < minAhead*pages {
		t.Errorf("readahead fetches %d pages, without it %d", fetched, pages)
	}

	if ahead.Accesses != exact.Accesses {
		t.Errorf("readahead touches %d pages, without it %d", ahead.Accesses, exact.Accesses)
	}
}

// place is a directory on a device of its own, or any.
func place(t *testing.T) (dir string, private bool) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	const volumeBytes = 512 << 20
	mountPoint, err := host.VolumeCreate(t.Context(), image, volumeBytes)
	if err != nil {
		t.Logf("device reads are not checked: %v", err)
		return filepath.Join(t.TempDir(), "db"), false
	}

	t.Cleanup(func() {
		if err := host.VolumeRemove(image); err != nil {
			t.Error(err)
		}
	})

	return filepath.Join(mountPoint, "db"), true
}

func load(t *testing.T, e engine.Engine, dir string) {
	t.Helper()
	db, err := e.Open(t.Context(), engine.Options{Dir: dir, Create: true})
	if err != nil {
		t.Fatal(err)
	}

	w, err := db.Writer()
	if err != nil {
		t.Fatal(err)
	}

	value := make([]byte, 110)
	for i := range uint64(keys) {
		if err := w.Put(keyOf(i), value); err != nil {
			t.Fatal(err)
		}

		if i%perBatch == perBatch-1 {
			if err := w.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}

	if err := errors.Join(w.Close(), db.Settle(t.Context(), nil), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// keyOf spreads the numbers over the key space.
func keyOf(i uint64) []byte {
	key := make([]byte, 32)
	binary.BigEndian.PutUint64(key, i*0x9e3779b97f4a7c15)
	return key
}

func ask(t *testing.T, dir, profile string) (c counted) {
	t.Helper()
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command(os.Args[0], "-test.run=^"+top+"$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childProfile+"="+profile)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", profile, err)
	}

	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatalf("%s: %v: %q", profile, err, out)
	}

	return c
}

func agree(t *testing.T, what string, a, b int64) {
	t.Helper()
	if off := float64(a-b) / float64(max(b, 1)); off > tolerance || off < -tolerance {
		t.Errorf("%s: %d and %d differ by %.1f%%", what, a, b, 100*off)
	}
}

// answer never returns.
func answer(e engine.Engine, dir, profile string) {
	c, err := read(e, dir, profile)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(c)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Exit(0)
}
