//go:build cgo

package mdbx

import (
	"fmt"
	"sync/atomic"

	"github.com/erigontech/mdbx-go/mdbx"

	"github.com/statelab/statelab/engine"
)

// reader keeps its transaction as long as nothing is committed: beginning anew for
// each Get costs twice the lookup itself. Held longer, a transaction would hide
// later commits. While held it keeps pages from being reused. It may move between
// threads.
type reader struct {
	db   *db
	txn  *mdbx.Txn
	seen uint64 // commits when the transaction began
	// depth is the number of pages from the root to a leaf, all leaves alike.
	depth    int64
	accesses atomic.Int64
	_        [64]byte // counters of two readers are not on one cache line
}

func (d *db) Reader() (engine.Reader, error) {
	seen := d.commits.Load()
	txn, err := d.env.BeginTxn(nil, mdbx.Readonly)
	if err != nil {
		return nil, fmt.Errorf("mdbx: begin to read: %w", err)
	}
	r := &reader{db: d, txn: txn, seen: seen}
	if err := r.measure(); err != nil {
		txn.Abort()
		return nil, fmt.Errorf("mdbx: begin to read: %w", err)
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.readers[r] = struct{}{}
	return r, nil
}

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	if commits := r.db.commits.Load(); commits != r.seen {
		if err := r.renew(commits); err != nil {
			return dst[:0], false, err
		}
	}
	value, err := r.txn.Get(r.db.table, key)
	if err != nil && !mdbx.IsNotFound(err) {
		return dst[:0], false, err
	}
	r.accesses.Store(r.accesses.Load() + r.depth) // nobody else writes it
	return append(dst[:0], value...), err == nil, nil
}

// renew begins at the newest state, which is that of commits or a later one.
func (r *reader) renew(commits uint64) error {
	r.txn.Reset()
	if err := r.txn.Renew(); err != nil {
		return err
	}
	r.seen = commits
	return r.measure()
}

// measure learns how many pages a Get touches. Values of their own pages and
// trees of duplicates add to them, but not to every Get.
func (r *reader) measure() error {
	stat, err := r.txn.StatDBI(r.db.table)
	if err != nil {
		return err
	}
	flags, err := r.txn.Flags(r.db.table)
	if err != nil {
		return err
	}
	if stat.OverflowPages > 0 || flags&mdbx.DupSort != 0 {
		r.db.untold.Store(true)
	}
	r.depth = int64(stat.Depth)
	return nil
}

func (r *reader) Close() error {
	r.db.mutex.Lock()
	defer r.db.mutex.Unlock()
	if _, open := r.db.readers[r]; open {
		r.db.end(r)
	}
	return nil
}
