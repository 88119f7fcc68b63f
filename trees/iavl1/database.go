package iavl1

import (
	"fmt"

	"cosmossdk.io/core/store"
	"github.com/cosmos/iavl/db"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/statelab/statelab/internal/adapt/iavlforest"
)

// database is what lies below all stores.
type database interface {
	store.KVStoreWithBatch
	Scan(start, end []byte) (iavlforest.Iterator, error)
}

type levelDB struct{ *db.GoLevelDB }

// openLevelDB opens the database of that name in dir as the SDK does.
func openLevelDB(dir, name string, readOnly bool) (levelDB, error) {
	level, err := db.NewGoLevelDBWithOpts(name, dir, &opt.Options{
		Filter:         filter.NewBloomFilter(10),
		ErrorIfMissing: readOnly,
		ReadOnly:       readOnly,
	})
	return levelDB{level}, err
}

func (d levelDB) Scan(start, end []byte) (iavlforest.Iterator, error) { return d.Iterator(start, end) }

// prefixed is a store's part of the database.
func prefixed(base store.KVStoreWithBatch, name string) *db.PrefixDB {
	return db.NewPrefixDB(base, iavlforest.Prefix(name))
}

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

func (d counted) NewBatch() store.Batch { return d.counter.Batch(d.DB.NewBatch(), d.prefixBytes) }

func (d counted) NewBatchWithSize(n int) store.Batch {
	return d.counter.Batch(d.DB.NewBatchWithSize(n), d.prefixBytes)
}

const nodePrefix = 's'

// isNode tells nodes from the roots of versions that changed nothing, which are
// empty or the key of an earlier root.
func isNode(key, value []byte) bool {
	return key[0] == nodePrefix && len(value) > 0 && value[0] != nodePrefix
}

// logger hands iavl's words on.
type logger struct{ say func(string) }

func (l logger) Info(message string, about ...any)  { l.tell("info", message, about) }
func (l logger) Warn(message string, about ...any)  { l.tell("warning", message, about) }
func (l logger) Error(message string, about ...any) { l.tell("error", message, about) }

// Debug says nothing: iavl calls it for every node that a removal passes.
func (logger) Debug(string, ...any) {}

func (l logger) tell(level, message string, about []any) {
	if l.say != nil {
		l.say(fmt.Sprint(level, ": ", message, " ", about))
	}
}
