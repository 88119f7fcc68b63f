package pebbledb

import (
	"fmt"

	"github.com/statelab/statelab/engine"
)

// Batch is the batch of a version, whose type of write options is O.
type Batch[O any] interface {
	Set(key, value []byte, _ *O) error
	Delete(key []byte, _ *O) error
	DeleteRange(from, to []byte, _ *O) error
	Commit(*O) error
	Empty() bool
	Count() uint32
	Reset()
	Close() error
}

type writer[O any] struct {
	db     *DB
	batch  Batch[O]
	noSync *O
	bytes  int64 // keys and values in the batch
}

// NewWriter returns a writer to d that fills batch and commits it with noSync.
func NewWriter[O any](d *DB, batch Batch[O], noSync *O) engine.Writer {
	return &writer[O]{db: d, batch: batch, noSync: noSync}
}

func (w *writer[O]) Put(key, value []byte) error {
	w.bytes += int64(len(key) + len(value))
	return w.batch.Set(key, value, nil)
}

func (w *writer[O]) Delete(key []byte) error {
	w.bytes += int64(len(key))
	return w.batch.Delete(key, nil)
}

func (w *writer[O]) DeleteRange(from, to []byte) error {
	w.bytes += int64(len(from) + len(to))
	return w.batch.DeleteRange(from, to, nil)
}

func (w *writer[O]) Commit() error {
	if w.batch.Empty() {
		return nil
	}
	if err := w.batch.Commit(w.noSync); err != nil {
		return fmt.Errorf("%s: commit a batch of %d entries: %w", w.db.config.adapter, w.batch.Count(), err)
	}
	w.db.written.Add(w.bytes)
	w.bytes = 0
	w.batch.Reset()
	return nil
}

func (w *writer[O]) Close() error { return w.batch.Close() }
