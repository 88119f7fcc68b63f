package iavlforest

import (
	"sync/atomic"

	"github.com/statelab/statelab/tree"
)

// Counter counts what trees ask of the database below them.
type Counter struct {
	// IsNode tells the entries that are tree nodes from roots, fast nodes and
	// others; keys are without the store's prefix.
	IsNode func(key, value []byte) bool

	nodes, gets, sets, bytes atomic.Int64
}

// Get counts a lookup.
func (c *Counter) Get() { c.gets.Add(1) }

// Batch counts what is put in b, whose keys get a prefix of prefixBytes below.
func (c *Counter) Batch(b Batch, prefixBytes int) Batch {
	return countedBatch{b, c, int64(prefixBytes)}
}

// Batch is a batch of writes to the database.
type Batch interface {
	Set(key, value []byte) error
	Delete(key []byte) error
	Write() error
	WriteSync() error
	Close() error
	GetByteSize() (int, error)
}

type countedBatch struct {
	Batch
	counter     *Counter
	prefixBytes int64
}

func (b countedBatch) Set(key, value []byte) error {
	if b.counter.IsNode(key, value) {
		b.counter.nodes.Add(1)
	}
	b.counter.sets.Add(1)
	b.counter.bytes.Add(b.prefixBytes + int64(len(key)+len(value)))
	return b.Batch.Set(key, value)
}

func (b countedBatch) Delete(key []byte) error {
	b.counter.sets.Add(1)
	b.counter.bytes.Add(b.prefixBytes + int64(len(key)))
	return b.Batch.Delete(key)
}

// Counters are what was counted; the caches are the library's to tell.
func (c *Counter) Counters() tree.Counters {
	nodes, gets, sets, bytes := c.nodes.Load(), c.gets.Load(), c.sets.Load(), c.bytes.Load()
	return tree.Counters{Nodes: &nodes, DBGets: &gets, DBSets: &sets, DBBytes: &bytes}
}
