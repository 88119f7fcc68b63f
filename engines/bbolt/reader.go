package bbolt

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// reader keeps a read transaction between Gets, since beginning one costs about as
// much as a warm lookup (BenchmarkGet). A transaction sees no later commit, keeps
// old pages from being used again, and a commit that has to map a larger file
// waits for its end: so a commit ends those of all readers before it begins, and
// until it is through readers take a transaction per Get.
type reader struct {
	db    *db
	pages atomic.Int64 // accessed

	mu     sync.Mutex // between a Get and a commit
	tx     *bbolt.Tx
	bucket *bbolt.Bucket // of tx
}

func (d *db) Reader() (engine.Reader, error) {
	r := &reader{db: d}
	d.mu.Lock()
	d.readers[r] = struct{}{}
	d.mu.Unlock()
	return r, nil
}

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.tx != nil
	// Asked before the transaction begins: one that begins during a commit is old
	// when the commit is through, one that begins before it is ended by it.
	once := r.db.committing.Load()
	if !held {
		if err := r.begin(); err != nil {
			return dst[:0], false, err
		}
	}

	r.pages.Add(r.db.pagesPerGet(held))
	value := r.bucket.Get(key)
	found := value != nil
	dst = append(dst[:0], value...)
	if once {
		return dst, found, r.end()
	}

	return dst, found, nil
}

// pagesPerGet is how many pages a Get walks: to find the bucket, unless that is
// done, the page it is registered in; and the way down.
func (d *db) pagesPerGet(held bool) int64 {
	if held || d.inline.Load() {
		return d.depth.Load()
	}
	return d.depth.Load() + 1
}

func (r *reader) begin() error {
	tx, err := r.db.bolt.Begin(false)
	if err != nil {
		return fmt.Errorf("bbolt: begin to read: %w", err)
	}
	r.tx, r.bucket = tx, tx.Bucket(bucketName())
	return nil
}

func (r *reader) end() error {
	if r.tx == nil {
		return nil
	}

	tx := r.tx
	r.tx, r.bucket = nil, nil
	if err := tx.Rollback(); err != nil {
		return fmt.Errorf("bbolt: end reading: %w", err)
	}

	return nil
}

// release ends the transaction from another goroutine.
func (r *reader) release() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end()
}

func (r *reader) Close() error {
	r.db.mu.Lock()
	if _, open := r.db.readers[r]; open {
		delete(r.db.readers, r)
		r.db.closed += r.pages.Load()
	}
	r.db.mu.Unlock()
	return r.release()
}

// releaseReaders ends every transaction that a reader holds between Gets. With
// committing set none is left afterwards but those of Gets that run right now.
func (d *db) releaseReaders() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.readers {
		if err := r.release(); err != nil {
			return err
		}
	}
	return nil
}

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
