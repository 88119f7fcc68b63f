package goleveldb

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

const lockName = "LOCK"

// readOnly is the storage of a directory in which nothing may change: goleveldb's
// own makes a lock file where there is none.
type readOnly struct {
	dir  string
	lock *os.File // nil: not taken

	mu     sync.Mutex
	pinned map[int64]*os.File // tables kept open, so that their writer cannot take them away
}

var errReadOnly = errors.New("goleveldb: the database is open for reading only")

// openReadOnly takes the shared lock, or, beside a writer, pins the tables there
// are.
func openReadOnly(dir string, besideWriter bool) (*readOnly, error) {
	r := &readOnly{dir: dir, pinned: map[int64]*os.File{}}
	var err error
	if besideWriter {
		err = r.pinAll()
	} else {
		err = r.takeLock()
	}

	if err != nil {
		return nil, errors.Join(err, r.Close())
	}

	return r, nil
}

func (r *readOnly) takeLock() error {
	path := filepath.Join(r.dir, lockName)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nobody ever locked it
	}

	if err != nil {
		return blockio.AsLocked(err, path)
	}

	r.lock = file
	return blockio.AsLocked(shareLock(file), path)
}

func (r *readOnly) pinAll() error {
	tables, err := r.List(storage.TypeTable)
	if err != nil {
		return err
	}

	for _, fd := range tables {
		if err := r.pin(fd.Num); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}

// pin keeps a table open.
func (r *readOnly) pin(number int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pinned[number] != nil {
		return nil
	}

	file, err := r.openFile(storage.FileDesc{Type: storage.TypeTable, Num: number})
	if err == nil {
		r.pinned[number] = file
	}

	return err
}

func (r *readOnly) openFile(fd storage.FileDesc) (*os.File, error) {
	path := filepath.Join(r.dir, fd.String())
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && fd.Type == storage.TypeTable {
		if old, oldErr := os.Open(strings.TrimSuffix(path, "ldb") + "sst"); oldErr == nil {
			return old, nil
		}
	}
	return file, err
}

// Open opens a file, a pinned one whether or not it still has a name.
func (r *readOnly) Open(fd storage.FileDesc) (storage.Reader, error) {
	r.mu.Lock()
	pinned := r.pinned[fd.Num]
	r.mu.Unlock()
	if fd.Type == storage.TypeTable && pinned != nil {
		return os.Open(fmt.Sprintf("/proc/self/fd/%d", pinned.Fd()))
	}

	if fd.Type == storage.TypeJournal {
		return r.openJournals()
	}

	file, err := r.openFile(fd)
	if err != nil {
		return nil, err // not a nil *os.File in an interface
	}

	return file, nil
}

// GetMeta names the manifest.
func (r *readOnly) GetMeta() (storage.FileDesc, error) {
	current, err := os.ReadFile(filepath.Join(r.dir, "CURRENT"))
	if err != nil {
		return storage.FileDesc{}, err
	}

	fd, is := parseName(string(bytes.TrimSuffix(current, []byte("\n"))))
	if !is || fd.Type != storage.TypeManifest {
		return storage.FileDesc{},
			&storage.ErrCorrupted{Err: fmt.Errorf("CURRENT names no manifest: %q", current)}
	}

	return fd, nil
}

// List lists the files of some types. Of journals it is the newest alone, which Open gives the
// content of all: goleveldb, when it only reads, takes the end of the first journal for an error at
// the second.
func (r *readOnly) List(types storage.FileType) ([]storage.FileDesc, error) {
	found, err := r.files(types)
	if types == storage.TypeJournal && len(found) > 1 {
		found = found[len(found)-1:]
	}
	return found, err
}

// journalBlockBytes is that of the format; zeros fill a block whose writer stopped.
const journalBlockBytes = 32 << 10

// openJournals is all journals, one after the other. Of one that a flush has made obsolete,
// goleveldb skips the batches, because they are older than what the manifest says of its tables.
func (r *readOnly) openJournals() (storage.Reader, error) {
	journals, err := r.files(storage.TypeJournal)
	if err != nil {
		return nil, err
	}

	var all []byte
	for _, fd := range journals {
		text, err := os.ReadFile(filepath.Join(r.dir, fd.String()))
		if err != nil {
			return nil, err
		}

		if rest := len(all) % journalBlockBytes; rest > 0 {
			all = append(all, make([]byte, journalBlockBytes-rest)...)
		}

		all = append(all, text...)
	}

	return joined{bytes.NewReader(all)}, nil
}

type joined struct{ *bytes.Reader }

func (joined) Close() error { return nil }

// files are those of some types, in the order of their numbers.
func (r *readOnly) files(types storage.FileType) ([]storage.FileDesc, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, err
	}

	var found []storage.FileDesc
	for _, e := range entries {
		if fd, is := parseName(e.Name()); is && fd.Type&types != 0 {
			found = append(found, fd)
		}
	}

	slices.SortFunc(found, func(x, y storage.FileDesc) int { return cmp.Compare(x.Num, y.Num) })
	return found, nil
}

// parseName reads the name of a LevelDB file.
func parseName(name string) (storage.FileDesc, bool) {
	fd := storage.FileDesc{Type: storage.TypeManifest}
	digits, is := strings.CutPrefix(name, "MANIFEST-")
	if !is {
		var ending string
		digits, ending, _ = strings.Cut(name, ".")
		switch ending {
		case "log":
			fd.Type = storage.TypeJournal
		case "ldb", "sst":
			fd.Type = storage.TypeTable
		case "tmp":
			fd.Type = storage.TypeTemp
		default:
			return fd, false
		}
	}

	number, err := strconv.ParseUint(digits, 10, 63)
	fd.Num = int64(number)
	return fd, err == nil
}

// Lock is goleveldb's lock within the process: there is no other user.
func (*readOnly) Lock() (storage.Locker, error) { return unlocker{}, nil }

type unlocker struct{}

func (unlocker) Unlock() {}

func (*readOnly) Log(string) {}

func (*readOnly) SetMeta(storage.FileDesc) error { return errReadOnly }

func (*readOnly) Create(storage.FileDesc) (storage.Writer, error) { return nil, errReadOnly }

func (*readOnly) Remove(storage.FileDesc) error { return errReadOnly }

func (*readOnly) Rename(storage.FileDesc, storage.FileDesc) error { return errReadOnly }

// Close releases lock and pins.
func (r *readOnly) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, file := range r.pinned {
		errs = append(errs, file.Close())
	}

	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}

	r.pinned, r.lock = map[int64]*os.File{}, nil
	return errors.Join(errs...)
}
