// Package pebble2fs puts internal/observe/blockio under Pebble v2: a file system that
// counts the reads of tables, one that refuses every change, and a reader of
// table anatomies.
package pebble2fs

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

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

// Unwrap returns the file system below.
func (fs countingFS) Unwrap() vfs.FS { return fs.FS }

// Open wraps tables and the files of separated values. Pebble reopens one with
// SequentialReadsOption to compact it: those reads are background.
func (fs countingFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := fs.FS.Open(name, opts...)
	kind, number := fileKind(name)
	if err != nil || kind == other {
		return file, err
	}
	if slices.Contains(opts, vfs.SequentialReadsOption) {
		return &backgroundFile{File: file, recorder: fs.recorder}, nil
	}
	var handle *blockio.Handle
	if kind == table {
		handle, err = fs.recorder.Open(number, name, file.Fd())
	} else {
		handle, err = fs.recorder.OpenValues(number, name, file.Fd())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &foregroundFile{File: file, handle: handle}, nil
}

type kind int

const (
	other kind = iota
	table
	values
)

func fileKind(path string) (kind, blockio.FileNumber) {
	base, found := filepath.Base(path), table
	digits, is := strings.CutSuffix(base, ".sst")
	if !is {
		found = values
		digits, is = strings.CutSuffix(base, ".blob")
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if !is || err != nil {
		return other, 0
	}
	return found, blockio.FileNumber(number)
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
