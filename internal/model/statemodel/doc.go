// Package statemodel predicts how often a lookup of state reads below each memory
// that a layout has: its own cache, then the page cache.
//
// What a memory keeps is divided into classes of units (nodes, pages, blocks) that
// lookups ask for alike: so many units of so many bytes, asked for so often a
// lookup. Classes follow from the number of accounts and the rules of the layout;
// what stays in memory follows from Che's approximation (H. Che, Y. Tung, Z. Wang,
// Hierarchical Web Caching Systems, IEEE JSAC 20(7), 2002), and for Pebble's cache
// from playing the requests through internal/model/cachesim.
//
// What the first lookup after opening reads is another question (first.go): blocks of
// Pebble's levels, drawn and counted.
//
// Goals: no constant fitted to a measurement; the run as it was, stretch by stretch,
// and sizes nobody builds. Non-goals: time, concurrency, skewed lookups.
//
// Read in this order: memory.go (what stays), stretches.go and steady.go (misses), trie.go (nodes by
// depth), then a file for each layout.
package statemodel
