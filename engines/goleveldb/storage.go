package goleveldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/statelab/statelab/internal/observe/blockio"
)

// counting is a storage whose reads of tables are counted by a recorder.
type counting struct {
	storage.Storage
	dir      string
	oldNames bool // some tables are called .sst, as LevelDB did before 2013
	recorder *blockio.Recorder
	log      func(string) // may be nil

	changed      blockio.Changes       // told when the tables may have changed
	compactions  atomic.Int64          // begun, that read tables
	journalBytes atomic.Int64          // written
	replayed     atomic.Int64          // bytes of journals read at opening
	failure      atomic.Pointer[error] // the first failed write
}

func newCounting(
	base storage.Storage, dir string, recorder *blockio.Recorder, log func(string),
) (*counting, error) {
	old, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return nil, err
	}

	return &counting{
		Storage:  base,
		dir:      dir,
		oldNames: len(old) > 0,
		recorder: recorder,
		log:      log,
		changed:  blockio.NewChanges(),
	}, nil
}

// tablePath names the file of a table.
func (c *counting) tablePath(number blockio.FileNumber) string {
	path := filepath.Join(c.dir, fmt.Sprintf("%06d.ldb", number))
	if c.oldNames {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return strings.TrimSuffix(path, "ldb") + "sst"
		}
	}
	return path
}

// Open wraps tables.
func (c *counting) Open(fd storage.FileDesc) (storage.Reader, error) {
	file, err := c.Storage.Open(fd)
	if err == nil && fd.Type == storage.TypeJournal {
		return &journalFile{file, &c.replayed}, nil
	}

	if err != nil || fd.Type != storage.TypeTable {
		return file, err
	}

	described, is := file.(interface{ Fd() uintptr })
	if !is {
		return nil, errors.Join(fmt.Errorf("table %d is no file of the system", fd.Num),
			file.Close())
	}

	number := blockio.FileNumber(fd.Num)
	handle, err := c.recorder.Open(number, c.tablePath(number), described.Fd())
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return &tableFile{Reader: file, handle: handle}, nil
}

// journalFile counts what is read of journals, which happens at opening alone.
type journalFile struct {
	storage.Reader
	read *atomic.Int64
}

func (f *journalFile) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	f.read.Add(int64(n))
	return n, err
}

type tableFile struct {
	storage.Reader
	handle *blockio.Handle
}

// ReadAt reads and counts.
func (f *tableFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.handle.Direct() {
		return f.handle.ReadDirect(p, offset)
	}
	n, err := f.Reader.ReadAt(p, offset)
	f.handle.Read(p[:n], offset)
	return n, err
}

func (f *tableFile) Close() error { return errors.Join(f.handle.Close(), f.Reader.Close()) }

// Create wraps what is written.
func (c *counting) Create(fd storage.FileDesc) (storage.Writer, error) {
	file, err := c.Storage.Create(fd)
	if err != nil {
		c.failed(fd, err)
		return nil, err
	}
	return &writtenFile{Writer: file, storage: c, fd: fd}, nil
}

type writtenFile struct {
	storage.Writer
	storage *counting
	fd      storage.FileDesc
}

func (f *writtenFile) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if f.fd.Type == storage.TypeJournal {
		f.storage.journalBytes.Add(int64(n))
	}
	if err != nil {
		f.storage.failed(f.fd, err)
	}
	return n, err
}

func (f *writtenFile) Sync() error {
	err := f.Writer.Sync()
	if err != nil {
		f.storage.failed(f.fd, err)
	}
	return err
}

// failed remembers what could not be written: goleveldb tries again for ever, and
// writers wait meanwhile.
func (c *counting) failed(fd storage.FileDesc, err error) {
	err = fmt.Errorf("write %v: %w", fd, err)
	c.failure.CompareAndSwap(nil, &err)
}

// Log is told of every change of tables, after it: the only way goleveldb has of
// saying so.
func (c *counting) Log(line string) {
	if strings.HasPrefix(line, "table@compaction L") {
		c.compactions.Add(1)
	}

	c.changed.Tell()
	if c.log != nil {
		c.log(line)
	}

	c.Storage.Log(line)
}

// syncJournals makes what the journals hold survive a power cut, too. It goes by
// the files, since goleveldb syncs only together with a write.
func (c *counting) syncJournals() error {
	journals, err := c.List(storage.TypeJournal)
	if err != nil {
		return err
	}

	for _, fd := range journals {
		err := syncFile(filepath.Join(c.dir, fd.String()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // flushed to a table meanwhile
			return err
		}
	}

	return nil
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
