//go:build cgo

package mdbx

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/erigontech/mdbx-go/mdbx"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/mmapdb"
)

type db struct {
	env      *mdbx.Env
	table    mdbx.DBI
	settings settings
	readOnly bool
	budget   int64 // for all memory; 0 is none

	commits atomic.Uint64 // readers begin anew when it moves
	written atomic.Int64  // keys and values committed, bytes
	// untold is set once a Get may touch pages that are not of the path from the
	// root to a leaf.
	untold atomic.Bool

	mutex    sync.Mutex
	readers  map[*reader]struct{}
	accesses int64 // of readers that are closed
}

// Sync makes what was committed survive a power cut, too.
func (d *db) Sync(context.Context) error {
	if d.readOnly {
		return nil
	}
	const force, wait = true, false
	if err := d.env.Sync(force, wait); err != nil {
		return fmt.Errorf("mdbx: sync: %w", err)
	}
	return nil
}

// Settle syncs: libmdbx works only while it is called.
func (d *db) Settle(ctx context.Context, _ func(engine.Settling)) error { return d.Sync(ctx) }

// Counters tells the pages that Gets touched. Which of them were read from the
// device is the kernel's to say.
func (d *db) Counters() engine.Counters {
	written := d.written.Load()
	c := engine.Counters{UserWriteBytes: &written}
	if d.untold.Load() {
		return c
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	total := d.accesses
	for r := range d.readers {
		total += r.accesses.Load()
	}
	c.Accesses = &[engine.NumBlockTypes]int64{engine.Page: total}
	return c
}

// Shape counts the pages in use and those free between them, not the hole up to
// the end of the file.
func (d *db) Shape() (engine.Shape, error) {
	info, err := d.env.Info(nil)
	if err != nil {
		return engine.Shape{}, fmt.Errorf("mdbx: shape: %w", err)
	}
	return engine.Shape{Bytes: int64(info.MiLastPgNo+1) * int64(info.PageSize), Files: 1}, nil
}

func (d *db) pageBytes() (int64, error) {
	info, err := d.env.Info(nil)
	if err != nil {
		return 0, err
	}
	return int64(info.PageSize), nil
}

// Memory is the page cache, which the harness holds to the budget, and the pages that
// a write transaction changes; while none runs, the page cache may have theirs.
func (d *db) Memory() []engine.MemoryShare {
	switch {
	case d.budget == 0:
		return nil
	case d.readOnly:
		return []engine.MemoryShare{{Use: "page cache", Bytes: d.budget, Basis: "limit"}}
	}
	dirty := dirtyBytes(d.budget)
	return []engine.MemoryShare{
		{Use: "page cache", Bytes: d.budget - dirty, Basis: "limit"},
		{Use: "write buffers", Bytes: dirty, Basis: "limit"},
	}
}

func (*db) Warnings() []engine.Warning { return nil }

// SampleKeys draws places between the first key and the last.
func (d *db) SampleKeys(ctx context.Context, n int, seed uint64, yield func(key []byte) error) error {
	return d.env.View(func(txn *mdbx.Txn) error {
		cursor, err := txn.OpenCursor(d.table)
		if err != nil {
			return fmt.Errorf("mdbx: sample keys: %w", err)
		}
		defer cursor.Close()
		get := func(key []byte, op uint) ([]byte, error) {
			key, _, err := cursor.Get(key, nil, op)
			if mdbx.IsNotFound(err) {
				return nil, nil
			}
			return key, err
		}
		return mmapdb.Sample(ctx, mmapdb.Cursor{
			First: func() ([]byte, error) { return get(nil, mdbx.First) },
			Last:  func() ([]byte, error) { return get(nil, mdbx.Last) },
			Next:  func() ([]byte, error) { return get(nil, mdbx.NextNoDup) },
			Seek:  func(key []byte) ([]byte, error) { return get(key, mdbx.SetRange) },
		}, n, seed, yield)
	})
}

// Close ends the transactions of readers first: their pages are unmapped next.
func (d *db) Close() error {
	err := d.Sync(context.Background())
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for r := range d.readers {
		d.end(r)
	}
	d.env.Close()
	return err
}

// end is called with the mutex held.
func (d *db) end(r *reader) {
	d.accesses += r.accesses.Load()
	delete(d.readers, r)
	r.txn.Abort()
}
