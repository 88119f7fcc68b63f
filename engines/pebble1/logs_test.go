package pebble1

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble1fs"
)

// TestLogsAreKept: Pebble opens a database for reading while its writer flushes a memtable
// between the manifest and the logs. It then misses keys without an error.
func TestLogsAreKept(t *testing.T) {
	dir := t.TempDir()
	writer, err := pebble.Open(dir, &pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { closed(t, writer) })
	if err := writer.Set([]byte("key"), []byte("value"), pebble.Sync); err != nil {
		t.Fatal(err)
	}

	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}

	base := &flushing{
		FS:     pebble1fs.ReadOnly(vfs.Default, blockio.ReadOnly{IgnoreLock: true}),
		writer: writer,
		log:    logs[0],
	}

	var reader *pebble.DB
	err = blockio.DetectWALRemoval([]string{dir}, true, func() (err error) {
		reader, err = pebble.Open(dir, &pebble.Options{FS: base, ReadOnly: true})
		return err
	})

	if reader == nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { closed(t, reader) })
	if _, _, missed := reader.Get([]byte("key")); !errors.Is(missed, pebble.ErrNotFound) {
		t.Errorf("Get: %v, where Pebble has read no log that holds the key", missed)
	}

	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a log was deleted, and the error is %v", err)
	}
}

// flushing lets the writer flush when the directory is listed after the manifest was read,
// until log is gone.
type flushing struct {
	vfs.FS
	writer *pebble.DB
	log    string
	ready  bool
}

func (f *flushing) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	f.ready = f.ready || strings.Contains(name, "MANIFEST")
	return f.FS.Open(name, options...)
}

func (f *flushing) List(dir string) ([]string, error) {
	for f.ready { // until the log is used again under another name
		if err := errors.Join(f.writer.Set([]byte("other"), nil, pebble.Sync),
			f.writer.Flush()); err != nil {
			return nil, err
		}

		_, err := f.FS.Stat(f.log)
		f.ready = err == nil
	}

	return f.FS.List(dir)
}

func closed(t *testing.T, db *pebble.DB) {
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
