package mmapdb

import (
	"bytes"
	"context"
	"fmt"

	"github.com/statelab/statelab/engine"
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

// Words are a library's names of the operations of a cursor and of an absent key.
type Words struct {
	First, Last, Next, SetRange uint
	IsNotFound                  func(error) bool
}

func (w Words) absentIsNil(err error) error {
	if w.IsNotFound(err) {
		return nil
	}
	return err
}

// SampleTable calls Sample with a cursor on table.
func SampleTable[T any, C LibraryCursor](
	ctx context.Context, txn Txn[T, C], table T, w Words, n int, seed uint64, yield func(key []byte) error,
) error {
	cursor, err := txn.OpenCursor(table)
	if err != nil {
		return fmt.Errorf("sample keys: %w", err)
	}
	defer cursor.Close()
	get := func(key []byte, operation uint) ([]byte, error) {
		key, _, err := cursor.Get(key, nil, operation)
		if w.IsNotFound(err) {
			return nil, nil
		}
		return key, err
	}
	return Sample(ctx, Cursor{
		First: func() ([]byte, error) { return get(nil, w.First) },
		Last:  func() ([]byte, error) { return get(nil, w.Last) },
		Next:  func() ([]byte, error) { return get(nil, w.Next) },
		Seek:  func(key []byte) ([]byte, error) { return get(key, w.SetRange) },
	}, n, seed, yield)
}

// NamedTables lists the named tables: the keys of the root, where its first key is the
// name of one.
func NamedTables[T any, C LibraryCursor](txn Txn[T, C], root T, w Words, tableOf func(name string) (engine.Table, bool)) (found []engine.Table, err error) {
	cursor, err := txn.OpenCursor(root)
	if err != nil {
		return nil, err
	}
	defer cursor.Close()
	name, _, err := cursor.Get(nil, nil, w.First)
	for ; err == nil && len(found) < MostTables && bytes.IndexByte(name, 0) < 0; name, _, err = cursor.Get(nil, nil, w.Next) {
		table, is := tableOf(string(name))
		if !is {
			break // a value, no table
		}
		found = append(found, table)
	}
	return found, w.absentIsNil(err)
}

// Batch is what a writer keeps until Commit: a write transaction bars all other writers
// and is bound to its thread.
type Batch struct {
	writes []write
	data   []byte // keys and values
}

// write has the bytes data[at:at+keyBytes+valueBytes]. A range that is deleted has its
// end for a value.
type write struct {
	at, keyBytes, valueBytes int
	kind                     kind
}

type kind uint8

const (
	put kind = iota
	deleteKey
	deleteRange
)

// Apply writes b to table in txn.
func Apply[T any, C LibraryCursor](b *Batch, txn Txn[T, C], table T, w Words) error {
	for _, e := range b.writes {
		key := b.data[e.at : e.at+e.keyBytes]
		value := b.data[e.at+e.keyBytes : e.at+e.keyBytes+e.valueBytes]
		var err error
		switch e.kind {
		case put:
			err = txn.Put(table, key, value, 0)
		case deleteKey:
			err = w.absentIsNil(txn.Del(table, key, nil))
		case deleteRange:
			err = applyRange(txn, table, w, key, value)
		}
		if err != nil {
			return fmt.Errorf("key %x: %w", key, err)
		}
	}
	return nil
}

// applyRange deletes every key from <= key < to.
func applyRange[T any, C LibraryCursor](txn Txn[T, C], table T, w Words, from, to []byte) error {
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

type writer struct {
	db     *DB
	batch  Batch
	update func(*Batch) error
}

// NewWriter returns a writer whose batches update writes in a transaction.
func (d *DB) NewWriter(update func(*Batch) error) (engine.Writer, error) {
	if d.config.ReadOnly {
		return nil, fmt.Errorf("%s: the database is open for reading only", d.config.Name)
	}
	return &writer{db: d, update: update}, nil
}

func (w *writer) Put(key, value []byte) error {
	w.add(key, value, put)
	return nil
}

func (w *writer) Delete(key []byte) error {
	w.add(key, nil, deleteKey)
	return nil
}

func (w *writer) DeleteRange(from, to []byte) error {
	w.add(from, to, deleteRange)
	return nil
}

func (w *writer) add(key, value []byte, kind kind) {
	b := &w.batch
	b.writes = append(b.writes, write{len(b.data), len(key), len(value), kind})
	b.data = append(append(b.data, key...), value...)
}

func (w *writer) Commit() error {
	b := &w.batch
	if len(b.writes) == 0 {
		return nil
	}
	if err := w.update(b); err != nil {
		return fmt.Errorf("%s: commit a batch of %d entries: %w", w.db.config.Name, len(b.writes), err)
	}
	w.db.commits.Add(1)
	w.db.written.Add(int64(len(b.data)))
	b.writes, b.data = b.writes[:0], b.data[:0]
	return nil
}

func (*writer) Close() error { return nil }
