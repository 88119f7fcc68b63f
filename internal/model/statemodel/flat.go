package statemodel

import "math"

// record is a key of a flat table: a letter and hashes.
const (
	accountKey = 1 + hashBytes
	slotKey    = 1 + 2*hashBytes
)

// accountValue is the nonce, the balance behind its length, and the code's hash of a
// contract.
func (s State) accountValue() float64 {
	return nonceBytes + 1 + balanceBytes + hashBytes*s.ContractShare
}

// Pages of libmdbx: a header, and of each record a 2-byte pointer and a node header.
const (
	mdbxPageBytes = pageBytes - 20
	mdbxRecord    = 2 + 8
)

// filled is the share of a B-tree's pages that random inserts fill (A. Yao, On random
// 2-3 trees, Acta Informatica 9, 1978).
const filled = math.Ln2

// FlatMDBX are the pages of one B-tree in the page cache: accounts and slots lie in
// different leaves, and a level of branch pages is above each until one is left.
func FlatMDBX(s State, pageCacheBytes float64) []Memory {
	room := mdbxPageBytes * filled
	var classes []Class
	add := func(records, key, value float64, visits [kinds]float64) {
		for units := records * (mdbxRecord + key + value) / room; ; units *= (mdbxRecord + key) / room {
			classes = append(classes, Class{Units: max(1, units), UnitBytes: pageBytes, Visits: visits})
			if units <= 1 {
				return
			}
		}
	}
	add(s.Accounts, accountKey, s.accountValue(), [kinds]float64{1, 1, 0, 0})
	add(s.contracts()*s.SlotsPer, slotKey, slotValue, [kinds]float64{0, 0, 1, 1})
	return []Memory{{Bytes: pageCacheBytes, Classes: classes}}
}

// Blocks of Pebble: what a record takes beyond key and value (three lengths and the
// trailer), of an index entry (a separator of a few bytes, trailer, handle, restart),
// and of the cache for each block, in v2.
const (
	pebbleBlock      = 4096
	pebbleRecord     = 3 + 8
	pebbleIndexEntry = 3 + 5 + 8 + 6 + 4
	pebbleV2Charge   = 336
)

// FlatPebble are the data and index blocks in Pebble's cache, and below it the pages
// of the blocks in the file, where they are as long: hashes do not compress. A key
// shares with the one before it what N keys have in common, log256 N bytes.
//
// One level is taken for all: nine tenths of the keys are in the last. It is the model of
// caches that are warm; FirstFlatPebble has the levels.
func FlatPebble(s State, cacheBytes float64, shards int, pageCacheBytes float64) []Memory {
	cache := Memory{Bytes: cacheBytes, Policy: ClockPro, Shards: shards}
	add := func(records, key, value float64, visits [kinds]float64) {
		if records < 1 {
			return
		}
		key -= math.Log(records) / math.Log(256)
		blocks := math.Max(1, records*(pebbleRecord+key+value)/pebbleBlock)
		cache.Classes = append(cache.Classes,
			Class{Units: blocks, UnitBytes: pebbleBlock + pebbleV2Charge, Visits: visits},
			Class{Units: math.Max(1, blocks*pebbleIndexEntry/pebbleBlock), UnitBytes: pebbleBlock + pebbleV2Charge, Visits: visits})
	}
	add(s.Accounts, accountKey, s.accountValue(), [kinds]float64{1, 1, 0, 0})
	add(s.contracts()*s.SlotsPer, slotKey-hashBytes*(1-1/s.SlotsPer), slotValue, [kinds]float64{0, 0, 1, 1})
	return []Memory{cache, filePages(cache.Classes, pebbleBlock, pageCacheBytes)}
}

// filePages are the pages that blocks lie on in their file, asked for by the misses of
// a block cache.
func filePages(blocks []Class, fileBytes, pageCacheBytes float64) Memory {
	file := Memory{Bytes: pageCacheBytes, Classes: quiet(passing(blocks))}
	for i := range file.Classes {
		file.Classes[i].UnitBytes, file.Classes[i].EndToEnd = fileBytes, true
	}
	return file
}
