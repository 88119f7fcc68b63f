package mmapdb

import (
	"bytes"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// Txn is a transaction of either library, whose types of a table and of a cursor are
// T and C.
type Txn[T any, C LibraryCursor] interface {
	Put(table T, key, value []byte, flags uint) error
	Del(table T, key, value []byte) error
	OpenCursor(table T) (C, error)
}

// LibraryCursor is the cursor of either library.
type LibraryCursor interface {
	Get(key, value []byte, operation uint) ([]byte, []byte, error)
	Del(flags uint) error
	Close()
}

// CursorOps are a library's names of the operations of a cursor and of an absent key.
type CursorOps struct {
	First, Next, SetRange uint
	IsNotFound            func(error) bool
}

func (w CursorOps) absentIsNil(err error) error {
	if w.IsNotFound(err) {
		return nil
	}
	return err
}

// namedTables lists the named tables: the keys of the root, where its first key is the
// name of one.
func namedTables[T any, C LibraryCursor](txn Txn[T, C], root T, w CursorOps,
	tableOf func(name string) (engine.Table, error)) (found []engine.Table, err error) {
	cursor, err := txn.OpenCursor(root)
	if err != nil {
		return nil, err
	}

	defer cursor.Close()
	name, _, err := cursor.Get(nil, nil, w.First)
	for ; err == nil && len(found) < MaxTables &&
		bytes.IndexByte(name, 0) < 0; name, _, err = cursor.Get(
		nil,
		nil,
		w.Next,
	) {
		table, err := tableOf(string(name))
		if err != nil {
			break // a value, no table
		}
		found = append(found, table)
	}

	return found, w.absentIsNil(err)
}

// Apply writes b to table in txn.
func Apply[T any, C LibraryCursor](b *adapter.Batch, txn Txn[T, C], table T, w CursorOps) error {
	return b.Each(
		func(key, value []byte) error { return txn.Put(table, key, value, 0) },
		func(key []byte) error { return w.absentIsNil(txn.Del(table, key, nil)) },
		func(from, to []byte) error { return applyRange(txn, table, w, from, to) })
}

// applyRange deletes every key from <= key < to.
func applyRange[T any, C LibraryCursor](
	txn Txn[T, C], table T, w CursorOps, from, to []byte,
) error {
	cursor, err := txn.OpenCursor(table)
	if err != nil {
		return err
	}

	defer cursor.Close()
	for {
		key, _, err := cursor.Get(from, nil, w.SetRange)
		if err != nil || bytes.Compare(key, to) >= 0 {
			return w.absentIsNil(err)
		}

		if err := cursor.Del(0); err != nil {
			return err
		}
	}
}

// writer keeps a batch until Commit: a write transaction bars all other writers and is bound to its
// thread.
type writer struct {
	adapter.Batch
	db     *DB
	update func(*adapter.Batch) error
}

// NewWriter returns a writer whose batches update writes in a transaction.
func (d *DB) NewWriter(update func(*adapter.Batch) error) (engine.Writer, error) {
	if d.config.ReadOnly {
		return nil, fmt.Errorf("%s: the database is open for reading only", d.config.Name)
	}
	return &writer{db: d, update: update}, nil
}

func (w *writer) DeleteRange(from, to []byte) error { return w.AddRange(from, to) }

func (w *writer) Commit() error {
	if w.Len() == 0 {
		return nil
	}

	if err := w.update(&w.Batch); err != nil {
		return fmt.Errorf("%s: commit a batch of %d entries: %w", w.db.config.Name, w.Len(), err)
	}

	w.db.commits.Add(1)
	w.db.written.Add(w.Bytes())
	w.Reset()
	return nil
}

func (*writer) Close() error { return nil }
