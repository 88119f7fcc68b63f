package blockio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
)

// EngineFile is what the wrapper of a file needs of the one below, which is a
// vfs.File of either version of Pebble.
type EngineFile interface {
	io.ReaderAt
	io.Closer
	Fd() uintptr
}

// CountedFile reads a table or a file of separated values and counts. It is to be
// embedded above the vfs.File it reads: Prefetch and Stat stay with that one.
type CountedFile struct {
	file     EngineFile
	recorder *Recorder
	handle   *Handle // nil: of background reads
}

// OpenFile wraps file, which it closes if it fails. Of a file that is not counted
// (logs, manifests) it returns nil. sequential tells the reads of compactions.
func (r *Recorder) OpenFile(name string, file EngineFile, sequential bool) (*CountedFile, error) {
	kind, number := fileKind(name)
	if kind == other {
		return nil, nil
	}

	counted := &CountedFile{file: file, recorder: r}
	if sequential {
		return counted, nil
	}

	open := r.Open
	if kind == values {
		open = r.OpenValues
	}

	var err error
	if counted.handle, err = open(number, name, file.Fd()); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return counted, nil
}

// ValuesExt ends the name of a file of separated values.
const ValuesExt = ".blob"

type kind int

const (
	other kind = iota
	table
	values
)

func fileKind(path string) (kind, FileNumber) {
	base, found := filepath.Base(path), table
	digits, is := strings.CutSuffix(base, ".sst")
	if !is {
		found = values
		digits, is = strings.CutSuffix(base, ValuesExt)
	}

	number, err := strconv.ParseUint(digits, 10, 64)
	if !is || err != nil {
		return other, 0
	}

	return found, FileNumber(number)
}

// ReadAt reads and counts.
func (f *CountedFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.handle == nil {
		n, err := f.file.ReadAt(p, offset)
		f.recorder.CountBackground(n, offset)
		return n, err
	}

	if f.handle.Direct() {
		return f.handle.ReadDirect(p, offset)
	}

	n, err := f.file.ReadAt(p, offset)
	f.handle.Read(p[:n], offset)
	return n, err
}

// Close closes the handle and the file.
func (f *CountedFile) Close() error {
	if f.handle == nil {
		return f.file.Close()
	}
	return errors.Join(f.handle.Close(), f.file.Close())
}

// ReadOnly is the part of a file system without any way to change it that both
// versions of Pebble declare alike. It is to be embedded above the file system it
// reads.
type ReadOnly struct {
	IgnoreLock bool              // the lock of another process is not looked at
	Opened     func(name string) // is told of every file that is opened; may be nil
}

// OpenError is the error of opening a file. It tells a table that is gone by an error of its own
// where the database is another process's: Pebble ends the process when it misses a file.
func (r ReadOnly) OpenError(err error, name string) error {
	if r.Opened != nil {
		r.Opened(name)
	}
	if r.IgnoreLock {
		return AsVanished(err, name)
	}
	return err
}

// Lock takes the lock without creating or truncating its file.
func (r ReadOnly) Lock(name string) (io.Closer, error) {
	if r.IgnoreLock {
		return io.NopCloser(nil), nil
	}
	return LockExisting(name)
}

// Refused is the error of an operation that would change something.
func Refused(operation, name string) error {
	return fmt.Errorf("%s %s: refused, the database is open for reading only", operation, name)
}

// Link is refused, as is all that follows.
func (ReadOnly) Link(_, name string) error { return Refused("link", name) }

// Remove is refused.
func (ReadOnly) Remove(name string) error { return Refused("remove", name) }

// RemoveAll is refused.
func (ReadOnly) RemoveAll(name string) error { return Refused("remove", name) }

// Rename is refused.
func (ReadOnly) Rename(name, _ string) error { return Refused("rename", name) }

// MkdirAll is refused.
func (ReadOnly) MkdirAll(name string, _ os.FileMode) error { return Refused("make", name) }

// DetectWALRemoval calls read, which makes an engine read the manifest and then the write-ahead
// logs (*.log) in dirs. With beside, the database's writer may be at work meanwhile: when it
// flushes a memtable after the engine has read the manifest, the log of that memtable is
// deleted, or renamed and written anew. The engine takes that for the end of the log and
// misses its keys without an error. So a log that was there before and is not there
// afterwards is an error that wraps fs.ErrNotExist: read again.
func DetectWALRemoval(dirs []string, beside bool, read func() error) error {
	if !beside {
		return read()
	}

	var before []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}

		for _, entry := range entries {
			if strings.HasSuffix(entry.Name(), ".log") {
				before = append(before, filepath.Join(dir, entry.Name()))
			}
		}
	}

	if err := read(); err != nil {
		return err
	}

	for _, log := range before {
		if _, err := os.Lstat(log); err != nil {
			return fmt.Errorf("a write-ahead log was deleted while it was read: %w", err)
		}
	}

	return nil
}

// sampledDataBlocks are read of each table to estimate how much its data grows
// when decompressed.
const sampledDataBlocks = 4

// LearningFile reads a table for a Learner and notes how large each block it
// reads is when decompressed. It has the method set of Pebble's Readable but
// for NewReadHandle, whose type differs between versions. For one goroutine.
type LearningFile struct {
	file    StoredFile
	bytes   int64
	decoded map[uint64]int64 // by offset
}

// StoredFile is what is read to learn a layout.
type StoredFile interface {
	io.ReaderAt
	io.Closer
}

// NewLearning returns a file of so many bytes to learn from. Close closes it.
func NewLearning(file StoredFile, bytes int64) *LearningFile {
	return &LearningFile{file: file, bytes: bytes, decoded: map[uint64]int64{}}
}

// OpenLearning opens the table at path.
func OpenLearning(path string) (*LearningFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return NewLearning(file, info.Size()), nil
}

// TableLayout makes the layout of the table from its blocks, after the caller had
// all index blocks read through f.
func (f *LearningFile) TableLayout(blocks []Block, entries uint64) (*TableLayout, error) {
	if err := f.sampleData(blocks); err != nil {
		return nil, err
	}
	return NewTableLayout(blocks, f.bytes, entries, f.decoded)
}

func (f *LearningFile) sampleData(blocks []Block) error {
	var data int // the number of data blocks
	for _, b := range blocks {
		if b.Type == engine.Data {
			data++
		}
	}

	n, seen := min(sampledDataBlocks, data), 0
	for i, sampled := 0, 0; sampled < n; i++ {
		b := blocks[i]
		if b.Type != engine.Data {
			continue
		}

		if seen++; seen-1 < sampled*data/n {
			continue
		}

		sampled++
		if int64(b.Length) > f.bytes {
			return fmt.Errorf("data block at %d: longer than the table", b.Offset)
		}

		if err := f.ReadAt(context.Background(), make([]byte, b.Length+trailerBytes),
			int64(b.Offset)); err != nil {
			return fmt.Errorf("sample the data block at %d: %w", b.Offset, err)
		}
	}

	return nil
}

// ReadAt fills p or fails.
func (f *LearningFile) ReadAt(_ context.Context, p []byte, offset int64) error {
	n, err := f.file.ReadAt(p, offset)
	if n < len(p) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}

	if bytes, ok := DecodedBytes(p); ok {
		f.decoded[uint64(offset)] = bytes
	}

	return nil
}

// Close closes the file.
func (f *LearningFile) Close() error { return f.file.Close() }

// Size is the size of the table in bytes.
func (f *LearningFile) Size() int64 { return f.bytes }
