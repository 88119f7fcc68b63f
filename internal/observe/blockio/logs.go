package blockio

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// KeepingLogs calls read, which makes an engine read the manifest and then the write-ahead
// logs (*.log) in dir. With beside, the database's writer may be at work meanwhile: when it
// flushes a memtable after the engine has read the manifest, the log of that memtable is
// deleted, or renamed and written anew. The engine takes that for the end of the log and
// misses its keys without an error. So a log that was there before and is not there
// afterwards is an error that wraps fs.ErrNotExist: read again.
func KeepingLogs(dir string, beside bool, read func() error) error {
	if !beside {
		return read()
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := read(); err != nil {
		return err
	}
	for _, entry := range before {
		if !strings.HasSuffix(entry.Name(), ".log") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("a write-ahead log was deleted while it was read: %w", err)
		}
	}
	return nil
}
