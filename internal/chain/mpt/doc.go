// Package mpt holds the rules of Ethereum's Merkle-Patricia trie that every
// layout with such roots needs: paths of nibbles, the encoding of nodes, what a
// parent holds of a child, how many nodes a lookup meets; and a trie in memory
// that other tries are held against.
//
// Keys are hashes, 64 nibbles long: no key is another's prefix, so no branch
// holds a value.
//
// Goals: encoding and hashing without allocation. Non-goals: storing nodes,
// proofs, decoding.
package mpt
