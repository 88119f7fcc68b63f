package statemodel

import "math"

// Of QMDB's log, and of its cache.
const (
	qmdbOperation   = 1 + hashBytes + 1 + 74 // kind, key, and a record padded to the longest account
	qmdbPage        = pageBytes - 12
	qmdbCachedPage  = qmdbPage + 84
	qmdbIndexEntry  = 17
	qmdbBufferBytes = 2 << 20
)

// QMDB is a lookup of a key in the index in memory, then of the page of the log that
// holds its operation, and of a second where it crosses a page's end. Pages are read
// past the page cache. Accounts and slots lie among each other.
func QMDB(s State, cacheBytes float64) []Memory {
	pages := s.values() * qmdbOperation / qmdbPage
	present := 1 + float64(qmdbOperation)/qmdbPage
	return []Memory{{Bytes: cacheBytes, Classes: []Class{{Units: pages, UnitBytes: qmdbCachedPage, Visits: [kinds]float64{Account: present, Slot: present}}}}}
}

// QMDBCache is what a budget leaves to the page cache of QMDB's own. ok is false where
// the index alone is larger: a hash table with a power of two of entries, at most
// seven eighths full.
func QMDBCache(s State, budgetBytes float64) (bytes float64, ok bool) {
	entries := math.Exp2(math.Ceil(math.Log2(s.values() * 8 / 7)))
	bytes = budgetBytes - entries*qmdbIndexEntry - qmdbBufferBytes
	return bytes, bytes > 0
}
