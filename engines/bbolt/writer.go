package bbolt

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

var errReadOnly = errors.New("bbolt: the database is open for reading only")

// writer keeps a batch apart until Commit: a bbolt transaction locks out all other
// writers from its first Put on.
type writer struct {
	adapter.Batch
	db *db
}

func (d *db) Writer() (engine.Writer, error) {
	if d.bolt.IsReadOnly() {
		return nil, errReadOnly
	}
	return &writer{db: d}, nil
}

func (w *writer) Commit() error {
	if w.Len() == 0 {
		return nil
	}
	err := w.db.commit(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bucketName())
		return w.Each(bucket.Put, bucket.Delete, nil)
	})
	if err != nil {
		return fmt.Errorf("bbolt: commit a batch of %d entries: %w", w.Len(), err)
	}
	w.db.written.Add(w.Bytes())
	w.Reset()
	return nil
}

// commit runs one update while no reader holds a transaction between Gets.
func (d *db) commit(update func(*bbolt.Tx) error) error {
	d.commits.Lock()
	defer d.commits.Unlock()
	d.committing.Store(true)
	defer d.committing.Store(false)
	if err := d.releaseReaders(); err != nil {
		return err
	}
	if err := d.bolt.Update(update); err != nil {
		return err
	}
	return d.learnDepth()
}

func (*writer) Close() error { return nil }
