package statemodel

import (
	"math"
)

// Of NOMT's files: a cell of a leaf is a key, a 2-byte offset and the value; a branch
// names a leaf by some bytes of key and its number.
const (
	nomtLeafBytes   = pageBytes - 2
	nomtCell        = hashBytes + 2
	nomtBranchEntry = 8 + 4
	nomtFanout      = 64
	nomtStoredFrom  = 20 // values below a page of the trie
)

func (s State) values() float64 { return s.Accounts + s.contracts()*s.SlotsPer }

// nomtLeaves are the leaf pages of the B-tree: accounts and slots lie among each other,
// since both are under hashes, and inserts are random.
func nomtLeaves(s State) float64 {
	account := 2 + nonceBytes + balanceBytes + hashBytes*s.ContractShare
	return math.Max(
		1,
		(s.Accounts*(nomtCell+account)+
			s.contracts()*s.SlotsPer*(nomtCell+slotValue))/(nomtLeafBytes*filled),
	)
}

// NOMT is a lookup of a value: one leaf page past the page cache, unless the leaf cache
// has it. Every branch is in memory.
func NOMT(s State, leafCacheBytes float64) []Memory {
	return []Memory{{
		Bytes: leafCacheBytes,
		Classes: []Class{{
			Units:     nomtLeaves(s),
			UnitBytes: pageBytes,
			Visits:    [kinds]float64{1, 1, 1, 1},
		}},
	}}
}

// NOMTLeafCache is what a budget leaves to the leaf cache: less a byte for each bucket
// of the hash table, the branches, the two upper levels of the trie and an eighth that
// comes with caches; and of the rest three quarters.
func NOMTLeafCache(s State, budgetBytes float64) float64 {
	const occupancy, ahead, upper = .75, 1.25, (nomtFanout + nomtFanout*nomtFanout) * pageBytes
	buckets := nomtStoredPages(s.values()*ahead) / occupancy
	branches := nomtLeaves(s) * nomtBranchEntry / filled
	return math.Max(0, (budgetBytes*7/8-buckets-branches-upper)*3/4)
}

// nomtStoredPages are the pages of the trie that are stored, of those of page depth k
// the ones with 20 values below:
//
//	1 + SUM over k >= 1 of 64^k * P(X >= 20), X Poisson with mean values / 64^k
func nomtStoredPages(values float64) float64 {
	pages := 1.0
	for level := float64(nomtFanout); values/level > .01; level *= nomtFanout {
		pages += level * atLeast(nomtStoredFrom, values/level)
	}
	return pages
}

// NOMTProof are the reads of a proof without a cache: the stored pages on the way, and
// the leaf.
//
//	2 + SUM over k >= 1 of P(X >= 19), X other values below, Poisson with mean values / 64^k
func NOMTProof(s State) float64 {
	reads := 2.0
	for level := float64(nomtFanout); s.values()/level > .01; level *= nomtFanout {
		reads += atLeast(nomtStoredFrom-1, s.values()/level)
	}
	return reads
}

// atLeast is the chance of so many events, Poisson with a mean.
func atLeast(count int, mean float64) float64 {
	term, fewer := math.Exp(-mean), 0.0
	for i := range count {
		fewer += term
		term *= mean / float64(i+1)
	}
	return math.Max(0, 1-fewer)
}

// Of QMDB's log, and of its cache.
const (
	// kind, key, and a record padded to the longest account
	qmdbOperation   = 1 + hashBytes + 1 + 74
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
	return []Memory{{
		Bytes: cacheBytes,
		Classes: []Class{{
			Units:     pages,
			UnitBytes: qmdbCachedPage,
			Visits:    [kinds]float64{Account: present, Slot: present},
		}},
	}}
}

// QMDBCache is what a budget leaves to the page cache of QMDB's own. ok is false where
// the index alone is larger: a hash table with a power of two of entries, at most
// seven eighths full.
func QMDBCache(s State, budgetBytes float64) (bytes float64, ok bool) {
	entries := math.Exp2(math.Ceil(math.Log2(s.values() * 8 / 7)))
	bytes = budgetBytes - entries*qmdbIndexEntry - qmdbBufferBytes
	return bytes, bytes > 0
}
