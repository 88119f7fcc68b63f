//go:build unix

package blockbased

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"golang.org/x/sys/unix"
)

// TestLogVanishesWhileTheManifestIsRead: what it holds is in no table of that manifest, so the
// database is to be read again.
func TestLogVanishesWhileTheManifestIsRead(t *testing.T) {
	dir := t.TempDir()
	owner, err := leveldb.OpenFile(dir, nil)
	must(t, err)
	must(t, owner.Put([]byte("key"), nil, nil))
	must(t, owner.Close())

	name, err := manifestName(dir)
	must(t, err)
	path := filepath.Join(dir, name)
	content, err := os.ReadFile(path)
	must(t, err)
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	must(t, err)
	if len(logs) != 1 {
		t.Fatal(logs)
	}

	// Whoever opens a pipe waits for the other end.
	must(t, os.Remove(path))
	must(t, unix.Mkfifo(path, 0o600))
	played := make(chan error, 1)
	go func() {
		pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			played <- err
			return
		}

		err = os.Remove(logs[0]) // as after a flush
		_, wrote := pipe.Write(content)
		played <- errors.Join(err, wrote, pipe.Close())
	}()

	r, err := open(dir, dir, defaultFamily, levelReading(false, 4<<10))
	must(t, <-played)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("resolver %v, error %v: the log is missing", r, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
