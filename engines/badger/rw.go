//go:build linux

package badger

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/statelab/statelab/engine"
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
	db     *db
	buffer []byte // keys and values
	writes []write
}

// write is a Put or Delete; key and value lie in the buffer, back to back.
type write struct {
	keyStart, keyEnd, valueEnd int
	deleted                    bool
}

func (d *db) Writer() (engine.Writer, error) {
	if d.badger.Opts().ReadOnly {
		return nil, errReadOnly
	}
	return &writer{db: d}, nil
}

func (w *writer) Put(key, value []byte) error { return w.add(key, value, false) }

func (w *writer) Delete(key []byte) error { return w.add(key, nil, true) }

func (w *writer) add(key, value []byte, deleted bool) error {
	start := len(w.buffer)
	w.buffer = append(append(w.buffer, key...), value...)
	w.writes = append(w.writes, write{keyStart: start, keyEnd: start + len(key), valueEnd: len(w.buffer), deleted: deleted})
	return nil
}

// Commit fails for a batch beyond 15 % of a memtable: Badger would split it.
func (w *writer) Commit() error {
	if len(w.writes) == 0 {
		return nil
	}
	if err := w.commit(); err != nil {
		return fmt.Errorf("badger: commit a batch of %d entries, %d bytes: %w", len(w.writes), len(w.buffer), err)
	}
	w.db.commits.Add(1)
	w.db.written.Add(int64(len(w.buffer)))
	w.buffer, w.writes = w.buffer[:0], w.writes[:0]
	return nil
}

func (w *writer) commit() error {
	transaction := w.db.badger.NewTransaction(true)
	defer transaction.Discard()
	for _, x := range w.writes {
		key, value := w.buffer[x.keyStart:x.keyEnd:x.keyEnd], w.buffer[x.keyEnd:x.valueEnd:x.valueEnd]
		var err error
		if x.deleted {
			err = transaction.Delete(key)
		} else {
			err = transaction.Set(key, value)
		}
		if err != nil {
			return err
		}
	}
	return transaction.Commit()
}

func (*writer) Close() error { return nil }
