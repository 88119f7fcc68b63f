package pebble2

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/engine"
)

type reader struct{ pebble *pebble.DB }

func (d *db) Reader() (engine.Reader, error) { return reader{d.pebble}, nil }

func (r reader) Get(key, dst []byte) ([]byte, bool, error) {
	value, closer, err := r.pebble.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return dst[:0], false, nil
		}
		return dst[:0], false, err
	}
	dst = append(dst[:0], value...)
	return dst, true, closer.Close()
}

func (reader) Close() error { return nil }

var errReadOnly = errors.New("pebble2: the database is open for reading only")

type writer struct {
	db    *db
	batch *pebble.Batch
	bytes int64 // keys and values in the batch
}

func (d *db) Writer() (engine.Writer, error) {
	if d.readOnly {
		return nil, errReadOnly
	}
	return &writer{db: d, batch: d.pebble.NewBatch()}, nil
}

func (w *writer) Put(key, value []byte) error {
	w.bytes += int64(len(key) + len(value))
	return w.batch.Set(key, value, nil)
}

func (w *writer) Delete(key []byte) error {
	w.bytes += int64(len(key))
	return w.batch.Delete(key, nil)
}

func (w *writer) DeleteRange(from, to []byte) error {
	w.bytes += int64(len(from) + len(to))
	return w.batch.DeleteRange(from, to, nil)
}

func (w *writer) Commit() error {
	if w.batch.Empty() {
		return nil
	}
	if err := w.batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("pebble2: commit a batch of %d entries: %w", w.batch.Count(), err)
	}
	w.db.written.Add(w.bytes)
	w.bytes = 0
	w.batch.Reset()
	return nil
}

func (w *writer) Close() error { return w.batch.Close() }
