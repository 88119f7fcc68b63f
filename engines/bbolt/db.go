package bbolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

type db struct {
	bolt        *bbolt.DB
	path        string
	options     *bbolt.Options
	memoryBytes int64 // the budget; 0: none
	warnings    []engine.Warning

	written atomic.Int64 // keys and values committed, bytes
	depth   atomic.Int64 // pages from the bucket's root to a leaf, both included
	inline  atomic.Bool  // the bucket is so small that it lies in the page above

	// readers are those that may hold a transaction; see reader.go.
	mu         sync.Mutex
	readers    map[*reader]struct{}
	committing atomic.Bool
	commits    sync.Mutex // one at a time, as bbolt has it
	closed     int64      // pages accessed by readers that are closed; guarded by mu
}

// bucketName is the one bucket. A function, since a slice is no constant.
func bucketName() []byte { return []byte("statelab") }

func (d *db) start(o engine.Options) error {
	d.readers = map[*reader]struct{}{}
	if o.CacheBytes > 0 && !o.Create { // a load has one whatever the engine
		d.warnings = append(d.warnings, engine.Warning{
			Code:   "no_block_cache",
			Text:   fmt.Sprintf("bbolt has no block cache: the cache size of %s has no effect", unit.Bytes(o.CacheBytes)),
			Remedy: "limit the page cache instead: --memory 512MiB",
		})
	}
	if o.Create {
		if err := d.bolt.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket(bucketName())
			return err
		}); err != nil {
			return fmt.Errorf("create the bucket: %w", err)
		}
	}
	return d.learnDepth()
}

// learnDepth measures the tree, in which all leaves are equally deep.
func (d *db) learnDepth() error {
	return d.view(func(pages *pages, root pgid) error {
		depth, err := pages.depth(root)
		d.depth.Store(depth)
		d.inline.Store(root == 0)
		return err
	})
}

// view hands out the pages of the tree as they are now. root is 0 where the
// bucket lies in the page of its parent.
func (d *db) view(see func(pages *pages, root pgid) error) error {
	return d.bolt.View(func(tx *bbolt.Tx) (err error) {
		bucket := tx.Bucket(bucketName())
		if bucket == nil {
			return &engine.NotADatabaseError{Dir: d.path, Why: "there is no bucket " + string(bucketName())}
		}
		file, err := os.Open(d.path)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		return see(&pages{file: file, pageBytes: d.bolt.Info().PageSize}, pgid(bucket.Root()))
	})
}

// Sync makes commits survive a power cut, too; a kill they survive anyway.
func (d *db) Sync(context.Context) error {
	if d.bolt.IsReadOnly() {
		return nil
	}
	if err := d.bolt.Sync(); err != nil {
		return fmt.Errorf("bbolt: sync %s: %w", d.path, err)
	}
	return nil
}

// Settle has nothing to wait for: bbolt does no work in the background. It syncs,
// so that the kernel has none left either.
func (d *db) Settle(ctx context.Context, _ func(engine.Settling)) error { return d.Sync(ctx) }

func (d *db) Counters() engine.Counters {
	d.mu.Lock()
	accessed := d.closed
	for r := range d.readers {
		accessed += r.pages.Load()
	}
	d.mu.Unlock()
	return engine.Counters{
		Accesses:       &[engine.NumBlockTypes]int64{engine.Page: accessed},
		UserWriteBytes: new(d.written.Load()),
	}
}

// Shape is the size of the file, free pages included.
func (d *db) Shape() (engine.Shape, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return engine.Shape{}, fmt.Errorf("bbolt: %w", err)
	}
	return engine.Shape{Bytes: info.Size(), Files: 1}, nil
}

// Memory is the page cache alone: the freelist and the pages of a running commit
// come and go with the writes.
func (d *db) Memory() []engine.MemoryShare {
	if d.memoryBytes > 0 {
		return []engine.MemoryShare{{Use: "page cache", Bytes: d.memoryBytes, Basis: "limit"}}
	}
	shape, err := d.Shape()
	if err != nil {
		return nil
	}
	return []engine.MemoryShare{{Use: "page cache", Bytes: shape.Bytes, Basis: "estimate"}}
}

func (d *db) Warnings() []engine.Warning { return d.warnings }

// Close ends what transactions readers still hold: bbolt would wait for them.
func (d *db) Close() error {
	if err := errors.Join(d.releaseReaders(), d.bolt.Close()); err != nil {
		return fmt.Errorf("bbolt: close %s: %w", d.path, err)
	}
	return nil
}
