//go:build linux

// Package pagetrie is a state layout: Ethereum's Merkle-Patricia trie packed into
// 4096-byte pages of one file, several levels of the trie to a page, changed by
// copying pages.
//
// Read it in this order: page.go (cells in a page), node.go (nodes in cells),
// lookup.go (a Get), pending.go, edit.go and split.go (a change), commit.go and space.go (a
// block and where its pages go), file.go (what is where in the file), source.go
// (how pages are read). Tests check whole states (whole_test.go).
//
// Goals: a lookup that allocates nothing and counts what it touches; old blocks
// readable while a new one is written; the newest committed block back after a
// kill; a flipped bit is an error that names the page.
// Non-goals: proofs, history beyond what open readers hold, many writers.
package pagetrie
