//go:build cgo

package lmdb

import (
	"errors"
	"fmt"

	"github.com/PowerDNS/lmdb-go/lmdb"

	"github.com/statelab/statelab/engine"
)

var errReadOnly = errors.New("lmdb: the database is open for reading only")

// writer keeps its batch until Commit: a write transaction bars all other writers
// and is bound to its thread.
type writer struct {
	db    *db
	batch []entry
	data  []byte // keys and values of the batch
}

// entry is a write; its bytes are data[at:at+keyBytes+valueBytes].
type entry struct {
	at, keyBytes, valueBytes int
	deleted                  bool
}

func (d *db) Writer() (engine.Writer, error) {
	if d.readOnly {
		return nil, errReadOnly
	}
	return &writer{db: d}, nil
}

func (w *writer) Put(key, value []byte) error {
	w.add(key, value, false)
	return nil
}

func (w *writer) Delete(key []byte) error {
	w.add(key, nil, true)
	return nil
}

func (w *writer) add(key, value []byte, deleted bool) {
	w.batch = append(w.batch, entry{len(w.data), len(key), len(value), deleted})
	w.data = append(append(w.data, key...), value...)
}

func (w *writer) Commit() error {
	if len(w.batch) == 0 {
		return nil
	}
	err := w.db.env.Update(w.apply)
	if lmdb.IsMapFull(err) {
		err = fmt.Errorf("%w: raise --set map_size", err)
	}
	if err != nil {
		return fmt.Errorf("lmdb: commit a batch of %d entries: %w", len(w.batch), err)
	}
	w.db.commits.Add(1)
	w.db.written.Add(int64(len(w.data)))
	w.batch, w.data = w.batch[:0], w.data[:0]
	return nil
}

// apply returns LMDB's errors as they are: their kind is asked for.
func (w *writer) apply(txn *lmdb.Txn) error {
	for _, e := range w.batch {
		key := w.data[e.at : e.at+e.keyBytes]
		var err error
		if e.deleted {
			err = txn.Del(w.db.table, key, nil)
			if lmdb.IsNotFound(err) {
				err = nil
			}
		} else {
			err = txn.Put(w.db.table, key, w.data[e.at+e.keyBytes:e.at+e.keyBytes+e.valueBytes], 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (*writer) Close() error { return nil }
