//go:build linux

package badger

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// reader keeps its transaction until something is committed.
type reader struct {
	db          *db
	transaction *badger.Txn // nil before the first Get
	commits     int64       // what it sees
}

func (d *db) Reader() (engine.Reader, error) { return &reader{db: d}, nil }

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	// Loaded before the transaction begins: it sees these commits, or more.
	if commits := r.db.commits.Load(); r.transaction == nil || commits != r.commits {
		r.renew(commits)
	}
	item, err := r.transaction.Get(key)
	if err != nil {
		if errors.Is(err, badger.ErrKeyNotFound) {
			return dst[:0], false, nil
		}
		return dst[:0], false, err
	}
	value, err := item.ValueCopy(dst)
	return value, true, err
}

func (r *reader) renew(commits int64) {
	if r.transaction != nil {
		r.transaction.Discard()
	}
	r.transaction, r.commits = r.db.badger.NewTransaction(false), commits
}

func (r *reader) Close() error {
	if r.transaction != nil {
		r.transaction.Discard()
		r.transaction = nil
	}
	return nil
}

var errReadOnly = errors.New("badger: the database is open for reading only")

// writer keeps a batch apart until Commit, since a transaction of Badger holds on
// to the slices it is given.
type writer struct {
	adapter.Batch
	db *db
}

func (d *db) Writer() (engine.Writer, error) {
	if d.badger.Opts().ReadOnly {
		return nil, errReadOnly
	}
	return &writer{db: d}, nil
}

// Commit fails for a batch beyond 15 % of a memtable: Badger would split it.
func (w *writer) Commit() error {
	if w.Len() == 0 {
		return nil
	}
	if err := w.commit(); err != nil {
		return fmt.Errorf("badger: commit a batch of %d entries, %d bytes: %w", w.Len(), w.Bytes(), err)
	}
	w.db.commits.Add(1)
	w.db.written.Add(w.Bytes())
	w.Reset()
	return nil
}

func (w *writer) commit() error {
	transaction := w.db.badger.NewTransaction(true)
	defer transaction.Discard()
	if err := w.Each(transaction.Set, transaction.Delete, nil); err != nil {
		return err
	}
	return transaction.Commit()
}

func (*writer) Close() error { return nil }

// withoutReadahead tells the kernel that the tables mapped now are read at random.
// Badger maps them without advice, so that a fault reads as much as the device's
// readahead allows: megabytes for a Get, where the page cache is short. It has no
// option for that; the mappings are this process's own, and /proc names them.
func withoutReadahead(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("find the mapped tables: %w", err)
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || filepath.Dir(fields[5]) != dir || filepath.Ext(fields[5]) != ".sst" {
			continue
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
			return fmt.Errorf("find the mapped tables: %w", err)
		}
		// By number: the memory is Badger's, and no Go pointer to it is ours to make.
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_RANDOM)
		if errno != 0 && !errors.Is(errno, unix.ENOMEM) { // ENOMEM: unmapped meanwhile
			return fmt.Errorf("advise random reads of %s: %w", fields[5], errno)
		}
	}
	return lines.Err()
}
