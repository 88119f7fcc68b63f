package statemodel

import (
	_ "embed"
	"fmt"
	"math"
	"strings"
)

// simulatedSplits says which nodes begin a page: layouts/pagetrie was filled with
// accounts of random hashes, without storage and with 16 slots of a tenth of them,
// and its pages were walked. Columns: slots per account; keys expected below a node
// of that depth, N / 16^depth; share of the nodes that begin a page, share of the
// lookups of accounts that turn a page there, and of those of contracts.
//
// A page trie looks alike wherever the subtries below hold as many keys: depth 3 of
// 65,000 accounts and depth 4 of 1,045,000 differ by 0.3 %.
//
//go:embed splits.csv
var simulatedSplits string

// split is a line of that table.
type split struct{ keys, nodes, accounts, contracts float64 }

const (
	splitSlots            = 1.6 // per account, of the simulation with storage
	splitSlotsPerContract = 16
)

// parseSplits reads the lines of one number of slots per account, fewest keys first.
// The table is embedded; a test reads all of it.
func parseSplits(slotsPerAccount float64) (splits []split) {
	for line := range strings.Lines(simulatedSplits) {
		if strings.HasPrefix(line, "#") {
			continue
		}

		var slots float64
		var s split
		if _, err := fmt.Sscanf(line, "%g,%g,%g,%g,%g", &slots, &s.keys, &s.nodes, &s.accounts,
			&s.contracts); err != nil {
			panic("statemodel: embedded splits.csv: " + err.Error())
		}

		if slots == slotsPerAccount {
			splits = append(splits, s)
		}
	}

	return splits
}

// splitAt goes between the lines, on a logarithmic axis: with fewer keys than the
// first no node begins a page, with more than the last each does.
func splitAt(splits []split, keys float64) split {
	if keys <= splits[0].keys {
		return split{}
	}

	for i := range splits[1:] {
		a, b := splits[i], splits[i+1]
		if keys <= b.keys {
			return a.toward(b, math.Log(keys/a.keys)/math.Log(b.keys/a.keys))
		}
	}

	return split{nodes: 1, accounts: 1, contracts: 1}
}

func (s split) toward(b split, share float64) split {
	at := func(from, to float64) float64 { return from + share*(to-from) }
	return split{at(s.keys, b.keys), at(s.nodes, b.nodes), at(s.accounts, b.accounts),
		at(s.contracts, b.contracts)}
}

// pageClasses are the pages by the depth of the node they begin with. ok is false for
// more storage than was simulated.
func pageClasses(s State) (classes []Class, ok bool) {
	storage := s.ContractShare * s.SlotsPer / splitSlots
	if storage > 1 || s.SlotsPer > splitSlotsPerContract {
		return nil, false
	}

	plain, stored := parseSplits(0), parseSplits(splitSlots)
	classes = []Class{{Units: 1, UnitBytes: pageBytes, Visits: [kinds]float64{1, 1, 1, 1}}}
	begins := s.Accounts
	for _, above := range s.depths() {
		begins /= 16
		at := splitAt(plain, begins).toward(splitAt(stored, begins), storage)
		pages := at.nodes * above.Branches * above.Children
		if pages < 1e-3 {
			continue
		}

		account, slot := at.accounts*above.OnPath, at.contracts*above.OnPath
		classes = append(classes, Class{
			Units:     pages,
			UnitBytes: pageBytes,
			Visits:    [kinds]float64{account, account, slot, slot},
		})
	}

	return classes, true
}

// Pages are the pages that a lookup of a present account touches.
func Pages(s State) (pages float64, ok bool) {
	classes, ok := pageClasses(s)
	for _, c := range classes {
		pages += c.Visits[Account]
	}
	return pages, ok
}

// PageTrie is layouts/pagetrie: its own cache, whose second chance is taken for LRU, and
// the page cache below it. ok is false for more storage than was simulated.
func PageTrie(s State, cacheBytes, pageCacheBytes float64) (memories []Memory, ok bool) {
	classes, ok := pageClasses(s)
	if !ok {
		return nil, false
	}
	return []Memory{
		{Bytes: cacheBytes, Classes: passing(classes)},
		{Bytes: pageCacheBytes, Classes: quiet(classes)},
	}, true
}

// TrieDB is Base's TrieDB, by the pages of PageTrie: mapped into memory, without a cache of its
// own.
func TrieDB(s State, pageCacheBytes float64) (memories []Memory, ok bool) {
	classes, ok := pageClasses(s)
	return []Memory{{Bytes: pageCacheBytes, Classes: classes}}, ok
}

// passing sends the misses of each class to the same class below.
func passing(classes []Class) []Class {
	for i := range classes {
		classes[i].To = make([]float64, len(classes))
		classes[i].To[i] = 1
	}
	return classes
}

// quiet are classes that only misses ask for.
func quiet(classes []Class) (below []Class) {
	for _, c := range classes {
		below = append(below, Class{Units: c.Units, UnitBytes: c.UnitBytes})
	}
	return below
}
