//go:build linux

package badger

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

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
