package goleveldb

import (
	"errors"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb"

	"github.com/statelab/statelab/engine"
)

type reader struct{ leveldb *leveldb.DB }

func (d *db) Reader() (engine.Reader, error) { return reader{d.leveldb}, nil }

// Get copies once more than a caller of goleveldb would: its value is a fresh
// slice each time.
func (r reader) Get(key, dst []byte) ([]byte, bool, error) {
	value, err := r.leveldb.Get(key, nil)
	if err != nil {
		if errors.Is(err, leveldb.ErrNotFound) {
			return dst[:0], false, nil
		}
		return dst[:0], false, err
	}
	return append(dst[:0], value...), true, nil
}

func (reader) Close() error { return nil }

type writer struct {
	db    *db
	batch leveldb.Batch
	bytes int64 // keys and values in the batch
}

func (d *db) Writer() (engine.Writer, error) {
	if d.readOnly {
		return nil, errReadOnly
	}
	return &writer{db: d}, nil
}

func (w *writer) Put(key, value []byte) error {
	w.bytes += int64(len(key) + len(value))
	w.batch.Put(key, value)
	return nil
}

func (w *writer) Delete(key []byte) error {
	w.bytes += int64(len(key))
	w.batch.Delete(key)
	return nil
}

func (w *writer) Commit() error {
	if err := w.db.leveldb.Write(&w.batch, nil); err != nil {
		return fmt.Errorf("goleveldb: commit a batch of %d entries: %w", w.batch.Len(), err)
	}
	w.db.written.Add(w.bytes)
	w.bytes = 0
	w.batch.Reset()
	return nil
}

func (*writer) Close() error { return nil }
