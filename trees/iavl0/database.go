package iavl0

import (
	db "github.com/cosmos/cosmos-db"

	"github.com/statelab/statelab/internal/adapt/iavlforest"
)

type levelDB struct{ *db.GoLevelDB }

func (d levelDB) Scan(start, end []byte) (iavlforest.Iterator, error) { return d.Iterator(start, end) }

// counted counts what a store's tree asks of its part of the database.
type counted struct {
	db.DB
	counter     *iavlforest.Counter
	prefixBytes int
}

func (d counted) Get(key []byte) ([]byte, error) {
	d.counter.Get()
	return d.DB.Get(key)
}

func (d counted) Has(key []byte) (bool, error) {
	d.counter.Get()
	return d.DB.Has(key)
}

func (d counted) NewBatch() db.Batch { return d.counter.Batch(d.DB.NewBatch(), d.prefixBytes) }

func (d counted) NewBatchWithSize(n int) db.Batch {
	return d.counter.Batch(d.DB.NewBatchWithSize(n), d.prefixBytes)
}

func isNode(key, _ []byte) bool { return key[0] == 'n' }
