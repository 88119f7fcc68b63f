//go:build cgo

package mdbx

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/erigontech/mdbx-go/mdbx"

	"github.com/statelab/statelab/engine"
)

var errReadOnly = errors.New("mdbx: the database is open for reading only")

// writer keeps its batch until Commit: a write transaction bars all other writers
// and is bound to its thread.
type writer struct {
	db    *db
	batch []entry
	data  []byte // keys and values of the batch
}

// entry is a write; its bytes are data[at:at+keyBytes+valueBytes]. A range that is
// deleted has its end for a value.
type entry struct {
	at, keyBytes, valueBytes int
	kind                     kind
}

type kind uint8

const (
	put kind = iota
	deleteKey
	deleteRange
)

func (d *db) Writer() (engine.Writer, error) {
	if d.readOnly {
		return nil, errReadOnly
	}
	return &writer{db: d}, nil
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
	w.batch = append(w.batch, entry{len(w.data), len(key), len(value), kind})
	w.data = append(append(w.data, key...), value...)
}

func (w *writer) Commit() error {
	if len(w.batch) == 0 {
		return nil
	}
	err := w.db.env.Update(w.apply)
	if errors.Is(err, mdbx.MapFull) {
		err = fmt.Errorf("%w: raise --set size_upper", err)
	}
	if err != nil {
		return fmt.Errorf("mdbx: commit a batch of %d entries: %w", len(w.batch), err)
	}
	w.db.commits.Add(1)
	w.db.written.Add(int64(len(w.data)))
	w.batch, w.data = w.batch[:0], w.data[:0]
	return nil
}

func (w *writer) apply(txn *mdbx.Txn) error {
	for _, e := range w.batch {
		key := w.data[e.at : e.at+e.keyBytes]
		value := w.data[e.at+e.keyBytes : e.at+e.keyBytes+e.valueBytes]
		var err error
		switch e.kind {
		case put:
			err = txn.Put(w.db.table, key, value, mdbx.Upsert)
		case deleteKey:
			err = absentIsDeleted(txn.Del(w.db.table, key, nil))
		case deleteRange:
			err = w.deleteRange(txn, key, value)
		}
		if err != nil {
			return fmt.Errorf("key %x: %w", key, err)
		}
	}
	return nil
}

// deleteRange deletes every key from <= key < to.
func (w *writer) deleteRange(txn *mdbx.Txn, from, to []byte) error {
	cursor, err := txn.OpenCursor(w.db.table)
	if err != nil {
		return err
	}
	defer cursor.Close()
	for {
		key, _, err := cursor.Get(from, nil, mdbx.SetRange)
		if err != nil || bytes.Compare(key, to) >= 0 {
			return absentIsDeleted(err)
		}
		if err := cursor.Del(0); err != nil {
			return err
		}
	}
}

func absentIsDeleted(err error) error {
	if mdbx.IsNotFound(err) {
		return nil
	}
	return err
}

func (*writer) Close() error { return nil }
