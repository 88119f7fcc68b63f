// Package pebble1fs puts internal/observe/blockio under Pebble v1: a file system that
// counts the reads of tables, one that refuses every change, and a reader of
// table anatomies.
package pebble1fs

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/statelab/statelab/internal/observe/blockio"
)

// Counting returns base with the reads of its tables counted by recorder.
func Counting(base vfs.FS, recorder *blockio.Recorder) vfs.FS {
	return countingFS{FS: base, recorder: recorder}
}

type countingFS struct {
	vfs.FS
	recorder *blockio.Recorder
}

// Open wraps tables. Pebble reopens one with SequentialReadsOption to compact
// it: those reads are background.
func (fs countingFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := fs.FS.Open(name, opts...)
	number, isTable := TableNumber(name)
	if err != nil || !isTable {
		return file, err
	}
	if slices.Contains(opts, vfs.SequentialReadsOption) {
		return &backgroundFile{File: file, recorder: fs.recorder}, nil
	}
	handle, err := fs.recorder.Open(number, name, file.Fd())
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &foregroundFile{File: file, handle: handle}, nil
}

// TableNumber returns the number in the name of a table file.
func TableNumber(path string) (blockio.FileNumber, bool) {
	digits, isTable := strings.CutSuffix(filepath.Base(path), ".sst")
	if !isTable {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return blockio.FileNumber(number), err == nil
}

type foregroundFile struct {
	vfs.File
	handle *blockio.Handle
}

// ReadAt reads and counts. Prefetch and Stat stay with the buffered descriptor.
func (f *foregroundFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.handle.Direct() {
		return f.handle.ReadDirect(p, offset)
	}
	n, err := f.File.ReadAt(p, offset)
	f.handle.Count(n, offset)
	return n, err
}

func (f *foregroundFile) Close() error {
	return errors.Join(f.handle.Close(), f.File.Close())
}

type backgroundFile struct {
	vfs.File
	recorder *blockio.Recorder
}

func (f *backgroundFile) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(p, offset)
	f.recorder.CountBackground(n, offset)
	return n, err
}
