package changeset

import (
	"bytes"
	"fmt"
)

// checker follows a set and finds what no set may hold: versions that do not
// ascend, changes out of the order that was promised.
type checker struct {
	order   Order
	version int64 // the one open, or the last
	open    bool

	// What decides whether the version so far is sorted and net.
	store    int
	key      []byte
	anything bool
	sorted   bool

	allSorted bool // every version so far
}

func newChecker(order Order) *checker { return &checker{order: order, allSorted: true} }

func (c *checker) begin(version int64) error {
	switch {
	case c.open:
		return fmt.Errorf("version %d begins before version %d ends", version, c.version)
	case version <= 0:
		return fmt.Errorf("version %d: they count from 1", version)
	case version <= c.version:
		return fmt.Errorf("version %d after version %d: versions must ascend", version, c.version)
	}
	c.version, c.open, c.anything, c.sorted = version, true, false, true
	return nil
}

func (c *checker) change(store int, key []byte) error {
	if !c.sorted {
		return nil
	}
	if c.anything && (store < c.store || store == c.store && bytes.Compare(key, c.key) <= 0) {
		c.sorted, c.allSorted = false, false
		if c.order == OrderSortedNet {
			return fmt.Errorf("key %x of store %d comes after key %x of store %d in a set that says it is sorted-net", key, store, c.key, c.store)
		}
	}
	c.anything, c.store = true, store
	c.key = append(c.key[:0], key...)
	return nil
}

func (c *checker) end() { c.open = false }
