package bbolt

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/statelab/statelab/engine"
)

var errReadOnly = errors.New("bbolt: the database is open for reading only")

// writer keeps a batch apart until Commit: a bbolt transaction locks out all other
// writers from its first Put on.
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
	if d.bolt.IsReadOnly() {
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

func (w *writer) Commit() error {
	if len(w.writes) == 0 {
		return nil
	}
	if err := w.db.commit(w.apply); err != nil {
		return fmt.Errorf("bbolt: commit a batch of %d entries: %w", len(w.writes), err)
	}
	w.db.written.Add(int64(len(w.buffer)))
	w.buffer, w.writes = w.buffer[:0], w.writes[:0]
	return nil
}

func (w *writer) apply(tx *bbolt.Tx) error {
	bucket := tx.Bucket(bucketName())
	for _, x := range w.writes {
		key, value := w.buffer[x.keyStart:x.keyEnd], w.buffer[x.keyEnd:x.valueEnd]
		var err error
		if x.deleted {
			err = bucket.Delete(key)
		} else {
			err = bucket.Put(key, value)
		}
		if err != nil {
			return fmt.Errorf("key %x: %w", key, err)
		}
	}
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
