package blockbased

import (
	"container/list"
	"slices"
)

// hashOrder is the order of iteration of a std::unordered_map of GNU's C++ library with numbers as
// keys. RocksDB chooses by it, level by level, which tables it opens with a database of limited
// open files and never closes. Source: bits/hashtable.h and hashtable_c++0x.cc of libstdc++. The
// zero value is empty.
type hashOrder struct {
	buckets  uint64
	order    list.List                // of keys
	elements map[uint64]*list.Element // by key
	first    map[uint64]*list.Element // of each bucket that has any
}

// nextBuckets are the numbers of buckets that a map grows through: the primes of libstdc++ that are
// at least 13 or twice the one before.
func nextBuckets() []uint64 {
	return []uint64{13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933,
		351061, 712697, 1447153, 2938679, 5967347, 12117689}
}

// insert puts a new key in front of those of its bucket, or else in front of all. One that is there
// stays.
func (h *hashOrder) insert(key uint64) {
	if h.elements[key] != nil {
		return
	}

	if h.elements == nil {
		h.elements, h.first = map[uint64]*list.Element{}, map[uint64]*list.Element{}
	}

	if uint64(len(h.elements)) == h.buckets {
		h.grow()
	}

	h.link(key)
}

func (h *hashOrder) link(key uint64) {
	bucket := key % h.buckets
	var at *list.Element
	if first := h.first[bucket]; first != nil {
		at = h.order.InsertBefore(key, first)
	} else {
		at = h.order.PushFront(key)
	}
	h.first[bucket], h.elements[key] = at, at
}

// grow distributes the keys again, in their order. Beyond any number of tables it does not.
func (h *hashOrder) grow() {
	sizes := nextBuckets()
	at := slices.IndexFunc(sizes, func(n uint64) bool { return n > h.buckets })
	if at < 0 {
		return
	}

	before := h.keys()
	h.buckets = sizes[at]
	h.order.Init()
	clear(h.first)
	for _, key := range before {
		h.link(key)
	}
}

func (h *hashOrder) erase(key uint64) {
	at := h.elements[key]
	if at == nil {
		return
	}

	if bucket := key % h.buckets; h.first[bucket] == at {
		delete(h.first, bucket)
		if next := at.Next(); next != nil && next.Value.(uint64)%h.buckets == bucket {
			h.first[bucket] = next
		}
	}

	h.order.Remove(at)
	delete(h.elements, key)
}

// keys are in the order of iteration.
func (h *hashOrder) keys() (all []uint64) {
	for at := h.order.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(uint64))
	}
	return all
}
