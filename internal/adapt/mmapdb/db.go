// Package mmapdb holds what the adapters of LMDB and libmdbx share, which map one file
// into memory and have one interface, but for the types: whether another process holds
// the file, counters, readers and writers, the choice of a table, and keys sampled with a cursor.
//
// Non-goals: opening environments; other options (internal/adapt/adapter).
package mmapdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// Config is what a library told DB about an open database.
type Config struct {
	Name     string // of the adapter
	Path     string // of the file
	ReadOnly bool
	Budget   int64 // for all memory; 0 is none
	Dirty    int64 // the part of it for pages that a write transaction changes
	// Sync makes what was committed survive a power cut; Close ends the library's
	// environment.
	Sync, Close func() error
}

// MaxTables bounds how many tables are listed: Erigon has about a hundred.
const MaxTables = 200

// Readers is the option of how many readers there can be.
func Readers(to *int, minimum, maximum int) adapter.Option {
	legal := fmt.Sprintf("%d to %d", minimum, maximum)
	return adapter.NewOption("max_readers", "8192", legal, strconv.Itoa(*to), func(
		text string,
	) (err error) {
		*to, err = strconv.Atoi(text)
		if err == nil && (*to < minimum || *to > maximum) {
			err = errors.New("it must be " + legal)
		}
		return err
	}).Means("how many readers there can be")
}

// DB is what adapters embed: readers, and what they and writers count.
type DB struct {
	config Config

	commits atomic.Uint64 // readers begin anew when it moves
	written atomic.Int64  // keys and values committed, bytes
	// untold is set once a Get may touch pages that are not of the path from the
	// root to a leaf.
	untold atomic.Bool

	mutex    sync.Mutex
	readers  map[*Reader]struct{}
	accesses int64    // of readers that are closed
	data     *os.File // whose pages were read to sample keys; nil: not opened
}

// New returns the DB of an environment that is open.
func New(c Config) *DB { return &DB{config: c, readers: map[*Reader]struct{}{}} }

// Sync makes what was committed survive a power cut, too.
func (d *DB) Sync(context.Context) error {
	if d.config.ReadOnly {
		return nil
	}
	if err := d.config.Sync(); err != nil {
		return fmt.Errorf("%s: sync: %w", d.config.Name, err)
	}
	return nil
}

// Settle syncs: the libraries work only while they are called.
func (d *DB) Settle(ctx context.Context, _ func(engine.Settling)) error { return d.Sync(ctx) }

// Counters tells the pages that Gets touched. Which of them were read from the
// device is the kernel's to say.
func (d *DB) Counters() engine.Counters {
	c := engine.Counters{UserWriteBytes: new(d.written.Load())}
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

// Memory is the page cache, which the harness holds to the budget, and the pages that
// a write transaction changes; while none runs, the page cache may have theirs.
func (d *DB) Memory() []engine.MemoryShare {
	if d.config.Budget == 0 {
		return nil
	}

	shares := []engine.MemoryShare{{
		Use:   engine.PageCacheUse,
		Bytes: d.config.Budget - d.config.Dirty,
		Basis: "limit",
	}}

	if d.config.Dirty > 0 {
		shares = append(shares, engine.MemoryShare{
			Use:   "write buffers",
			Bytes: d.config.Dirty,
			Basis: "limit",
		})
	}

	return shares
}

// Close ends the transactions of readers first: their pages are unmapped next.
func (d *DB) Close() error {
	err := d.Sync(context.Background())
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for r := range d.readers {
		d.end(r)
	}
	err = errors.Join(err, d.config.Close())
	if d.data != nil {
		err = errors.Join(err, d.data.Close())
	}
	return err
}

// end is called with the mutex held.
func (d *DB) end(r *Reader) {
	d.accesses += r.accesses.Load()
	delete(d.readers, r)
	r.txn.Abort()
}

// ReadTxn is a read transaction of either library.
type ReadTxn interface {
	Reset()
	Renew() error
	Abort()
}

// Reader is what readers embed, whose Get the adapters write themselves: it is to call
// nothing through an interface. It begins with Renew if the reader is Stale, and ends with
// Count.
//
// A reader keeps its transaction as long as nothing is committed: beginning anew for
// each Get costs twice the lookup itself. Held longer, a transaction would hide
// later commits. While held it keeps pages from being reused. It may move between
// threads.
type Reader struct {
	Seen uint64 // commits when the transaction began

	db      *DB
	txn     ReadTxn
	measure func() (Pages, error)
	// depth is the number of pages from the root to a leaf, all leaves alike.
	depth    int64
	accesses atomic.Int64
	_        [64]byte // counters of two readers are not on one cache line
}

// Pages are what a Get touches. Values of their own pages and trees of duplicates add
// to them, but not to every Get: More says that there are such.
type Pages struct {
	Depth int64
	More  bool
}

// Begin begins a transaction of r. measure tells the pages of its Gets.
func (d *DB) Begin(r *Reader, begin func() (ReadTxn, error), measure func() (Pages, error)) error {
	r.db, r.Seen, r.measure = d, d.commits.Load(), measure
	txn, err := begin()
	if err != nil {
		return fmt.Errorf("%s: begin to read: %w", d.config.Name, err)
	}

	r.txn = txn
	if err := r.learn(); err != nil {
		txn.Abort()
		return fmt.Errorf("%s: begin to read: %w", d.config.Name, err)
	}

	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.readers[r] = struct{}{}
	return nil
}

func (r *Reader) learn() error {
	pages, err := r.measure()
	if pages.More {
		r.db.untold.Store(true)
	}
	r.depth = pages.Depth
	return err
}

// Stale reports whether something was committed since the transaction began.
func (r *Reader) Stale() bool { return r.db.commits.Load() != r.Seen }

// Renew begins at the newest state, which is that of the commits so far or a later one.
func (r *Reader) Renew() error {
	commits := r.db.commits.Load()
	r.txn.Reset()
	if err := r.txn.Renew(); err != nil {
		return err
	}
	r.Seen = commits
	return r.learn()
}

// Count counts the pages of a Get.
func (r *Reader) Count() { r.accesses.Store(r.accesses.Load() + r.depth) } // nobody else writes it

// Close ends the transaction.
func (r *Reader) Close() error {
	r.db.mutex.Lock()
	defer r.db.mutex.Unlock()
	if _, open := r.db.readers[r]; open {
		r.db.end(r)
	}
	return nil
}
