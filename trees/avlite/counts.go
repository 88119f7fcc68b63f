//go:build cgo

package avlite

import (
	"sync/atomic"

	"github.com/cosmos/iavl"

	"github.com/statelab/statelab/tree"
)

// counts are of all stores of a forest. The tree counts what it asks its caches
// and its database for; the nodes it writes are counted on the way.
type counts struct {
	nodes, cacheHits, cacheMisses, logHits, dbGets count // cacheHits are of the nodes' cache alone
}

func (c *counts) read() tree.Counters {
	logHits := c.logHits.now()
	cacheHits := c.cacheHits.Load() + *logHits
	return tree.Counters{
		Nodes:       c.nodes.now(),
		CacheHits:   &cacheHits,
		LogHits:     logHits,
		CacheMisses: c.cacheMisses.now(),
		DBGets:      c.dbGets.now(),
	}
}

type count struct{ atomic.Int64 }

func (c *count) Inc() { c.Add(1) }

func (c *count) now() *int64 {
	n := c.Load()
	return &n
}

// gauge counts how often something was added to it.
type gauge struct{ adds atomic.Int64 }

func (g *gauge) Add(float64) { g.adds.Add(1) }
func (*gauge) Sub(float64)   {}
func (*gauge) Set(float64)   {}

// countingNodes counts the nodes a tree writes.
type countingNodes struct {
	iavl.NodeBackend
	written *count
}

func (n countingNodes) QueueNode(node *iavl.Node) error {
	n.written.Inc()
	return n.NodeBackend.QueueNode(node)
}
