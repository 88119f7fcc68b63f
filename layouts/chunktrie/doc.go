//go:build linux

// Package chunktrie is a state layout that keeps an Ethereum trie natively: nodes
// packed one behind another into the chunks of one file, each reached by one read,
// because its parent knows its address and its length.
//
// Read layout.go, then reader.go (a lookup), pins.go and arena.go (what is in memory),
// flights.go (lookups that share reads), commit.go (a block), node.go and
// pointer.go (bytes), chunks.go and roots.go (the file), compact.go. Tests check whole
// states (whole_test.go).
//
// Goals: a lookup that reads each node below the pinned levels once and allocates
// nothing; every kept version readable while the next is written; whole blocks
// after a kill. Non-goals: code, proofs, forks, several writers.
package chunktrie
