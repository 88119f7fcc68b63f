//go:build cgo

package lmdb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/PowerDNS/lmdb-go/lmdb"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/mmapdb"
)

type db struct {
	env      *lmdb.Env
	table    lmdb.DBI
	settings settings
	readOnly bool
	budget   int64   // for all memory; 0 is none
	opened   uintptr // last transaction at Open

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
	const force = true
	if err := d.env.Sync(force); err != nil {
		return fmt.Errorf("lmdb: sync: %w", err)
	}
	return nil
}

// Settle syncs: LMDB works only while it is called.
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

// Shape counts the pages in use and those free between them, not the map.
func (d *db) Shape() (engine.Shape, error) {
	info, err := d.env.Info()
	if err != nil {
		return engine.Shape{}, fmt.Errorf("lmdb: shape: %w", err)
	}
	stat, err := d.env.Stat()
	if err != nil {
		return engine.Shape{}, fmt.Errorf("lmdb: shape: %w", err)
	}
	return engine.Shape{Bytes: (info.LastPNO + 1) * int64(stat.PSize), Files: 1}, nil
}

// Memory is the page cache, which the harness holds to the budget. Pages that a
// commit changes are the process's own while it runs: as many as the batch needs.
func (d *db) Memory() []engine.MemoryShare {
	if d.budget == 0 {
		return nil
	}
	return []engine.MemoryShare{{Use: "page cache", Bytes: d.budget, Basis: "limit"}}
}

// Warnings tells of a writer that came after Open: without a lock file it does not
// know of our readers.
func (d *db) Warnings() []engine.Warning {
	info, err := d.env.Info()
	if err != nil || !d.readOnly || info.LastTxnID == int64(d.opened) {
		return nil
	}
	return []engine.Warning{{Code: "written_meanwhile", Text: "another process wrote to the database while it was read: values may be wrong",
		Remedy: "stop it, or measure a copy made by mdb_copy"}}
}

// SampleKeys draws places between the first key and the last.
func (d *db) SampleKeys(ctx context.Context, n int, seed uint64, yield func(key []byte) error) error {
	return d.env.View(func(txn *lmdb.Txn) error {
		cursor, err := txn.OpenCursor(d.table)
		if err != nil {
			return fmt.Errorf("lmdb: sample keys: %w", err)
		}
		defer cursor.Close()
		get := func(key []byte, op uint) ([]byte, error) {
			key, _, err := cursor.Get(key, nil, op)
			if lmdb.IsNotFound(err) {
				return nil, nil
			}
			return key, err
		}
		return mmapdb.Sample(ctx, mmapdb.Cursor{
			First: func() ([]byte, error) { return get(nil, lmdb.First) },
			Last:  func() ([]byte, error) { return get(nil, lmdb.Last) },
			Next:  func() ([]byte, error) { return get(nil, lmdb.NextNoDup) },
			Seek:  func(key []byte) ([]byte, error) { return get(key, lmdb.SetRange) },
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
	return errors.Join(err, d.env.Close())
}

// end is called with the mutex held.
func (d *db) end(r *reader) {
	d.accesses += r.accesses.Load()
	delete(d.readers, r)
	r.txn.Abort()
}
