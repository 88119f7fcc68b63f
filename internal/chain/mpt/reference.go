package mpt

import (
	"bytes"
	"fmt"
	"math"

	"github.com/statelab/statelab/layout"
)

// Reference is a state in memory: slow, simple, and what layouts are tested
// against. Not safe for concurrent use.
type Reference struct {
	hasher   *Hasher
	accounts refTrie
	known    map[layout.Hash]*refAccount
}

type refAccount struct {
	layout.Account
	storage refTrie
	slots   map[layout.Hash][]byte
}

// NewReference returns an empty state.
func NewReference() *Reference {
	return &Reference{hasher: NewHasher(), known: map[layout.Hash]*refAccount{}}
}

// Change makes one account's change, as state.State defines it.
func (r *Reference) Change(c layout.Change) error {
	if c.New == nil {
		delete(r.known, c.Account)
		r.accounts.put(c.Account, nil)
		return nil
	}

	account := r.known[c.Account]
	if account == nil {
		account = &refAccount{slots: map[layout.Hash][]byte{}}
		r.known[c.Account] = account
	}

	account.Account = *c.New
	for _, s := range c.Slots {
		if len(s.Value) > 32 || len(s.Value) > 0 && s.Value[0] == 0 {
			return fmt.Errorf("slot %x of account %x: %x is no value of a slot", s.Key, c.Account,
				s.Value)
		}

		if len(s.Value) == 0 {
			delete(account.slots, s.Key)
			account.storage.put(s.Key, nil)
			continue
		}

		account.slots[s.Key] = bytes.Clone(s.Value)
		account.storage.put(s.Key, AppendString(nil, s.Value))
	}

	storageRoot := account.storage.root(r.hasher)
	r.accounts.put(c.Account, AppendAccount(nil, c.New, &storageRoot))
	return nil
}

// Root is the state's root.
func (r *Reference) Root() layout.Hash { return r.accounts.root(r.hasher) }

// Account looks an account up.
func (r *Reference) Account(account layout.Hash) (a layout.Account, found bool) {
	if known := r.known[account]; known != nil {
		return known.Account, true
	}
	return a, false
}

// Slot looks a slot up; an absent one is nil. The value belongs to the Reference.
func (r *Reference) Slot(account, key layout.Hash) []byte {
	if known := r.known[account]; known != nil {
		return known.slots[key]
	}
	return nil
}

// Accounts is the number of accounts.
func (r *Reference) Accounts() int { return len(r.known) }

// refTrie is a trie of one kind of value.
type refTrie struct{ top *refNode }

// refNode is a leaf, or a branch with the extension before it folded in.
type refNode struct {
	path     []byte // a nibble each
	value    []byte // of a leaf
	children *[16]*refNode
	ref      Ref // zero: to be made anew
}

func (t *refTrie) put(key layout.Hash, value []byte) {
	path := AppendNibbles(nil, key[:], 0, PathNibbles)
	if value == nil {
		t.top = t.top.without(path)
	} else {
		t.top = t.top.with(path, value)
	}
}

func (t *refTrie) root(h *Hasher) layout.Hash {
	ref := t.top.refer(h)
	return h.Root(&ref)
}

func (n *refNode) with(path, value []byte) *refNode {
	if n == nil {
		return &refNode{path: path, value: value}
	}

	n.ref = Ref{}
	common := 0
	for common < len(n.path) && n.path[common] == path[common] {
		common++
	}

	if common < len(n.path) { // parts ways inside the path: a branch there
		branch := &refNode{path: path[:common:common], children: new([16]*refNode)}
		branch.children[n.path[common]] = n
		n.path = n.path[common+1:]
		branch.children[path[common]] = &refNode{path: path[common+1:], value: value}
		return branch
	}

	if n.children == nil {
		n.value = value
		return n
	}

	turn := path[common]
	n.children[turn] = n.children[turn].with(path[common+1:], value)
	return n
}

func (n *refNode) without(path []byte) *refNode {
	if n == nil || !bytes.HasPrefix(path, n.path) {
		return n
	}

	if n.children == nil {
		return nil
	}

	n.ref = Ref{}
	turn := path[len(n.path)]
	n.children[turn] = n.children[turn].without(path[len(n.path)+1:])
	var only *refNode
	var last byte
	for nibble, child := range n.children {
		if child == nil {
			continue
		}

		if only != nil {
			return n // still a branch
		}

		only, last = child, byte(nibble)
	}

	only.path = append(append(bytes.Clone(n.path), last), only.path...)
	only.ref = Ref{}
	return only
}

func (n *refNode) refer(h *Hasher) Ref {
	if n == nil {
		return Ref{}
	}

	if n.ref[0] != 0 {
		return n.ref
	}

	if n.children == nil {
		n.ref = h.Leaf(n.path, n.value)
		return n.ref
	}

	var children [16]Ref
	for i, child := range n.children {
		children[i] = child.refer(h)
	}

	n.ref = h.PrefixedBranch(n.path, &children)
	return n.ref
}

// ExpectedNodes is the mean number of nodes that a lookup meets, the leaf
// included, in a trie of n keys that are spread evenly:
//
//	1 + SUM over d >= 0 of 1 - (1 - 16^-d)^(n-1)
//
// At depth d of a key's path stands a node above the leaf if any of the other n-1
// keys shares its first d nibbles: a branch, or an extension, which counts once
// for each nibble. About log16 n + 1.71.
func ExpectedNodes(n float64) float64 { return expected(n, 1) }

// ExpectedFoldedNodes is the same for a trie whose branches hold the extension
// before them:
//
//	1 + SUM over d >= 0 of 1 - (1 - 16^-d * 15/16)^(n-1)
//
// A branch stands at depth d if another key shares d nibbles and differs in the
// next.
func ExpectedFoldedNodes(n float64) float64 { return expected(n, 15./16) }

// expected takes the chance of another key at depth 0 to count there.
func expected(n, chance float64) float64 {
	if n < 1 {
		return 0
	}

	nodes := 1.0
	for range PathNibbles {
		nodes += 1 - math.Pow(1-chance, n-1)
		chance /= 16
	}

	return nodes
}

// Depth is what stands at one nibble depth of a trie of evenly spread keys, in the
// mean.
type Depth struct {
	Branches float64 // that fork there
	Children float64 // of one
	OnPath   float64 // chance that a key's path has a branch there
}

// ExpectedDepths are the depths of a trie of n keys, from the root down. A key's
// first d+1 nibbles are any with chance q = 16^-(d+1); the 16^d subtries of depth d
// are empty with chance (1 - 16q)^n, and lead to one child alone with chance
// 16 * ((1 - 15q)^n - (1 - 16q)^n): else a branch is there.
func ExpectedDepths(n float64) (depths [PathNibbles]Depth) {
	q := 1. / 16
	subtries := 1.0
	for d := range depths {
		none := func(children float64) float64 { return math.Exp(n * math.Log1p(-children*q)) }
		empty := 0.0 // log1p(-1) is -Inf at the root
		if d > 0 {
			empty = none(16)
		}

		single := 16 * (none(15) - empty)
		branch, children := 1-empty-single, 16*-math.Expm1(n*math.Log1p(-q))-single
		if n*q < 1e-4 { // the differences vanish: pairs of keys that fork there
			branch = 120 * n * (n - 1) * q * q
			children = 2 * branch
		}

		depths[d] = Depth{
			Branches: subtries * branch,
			OnPath:   -math.Expm1((n - 1) * math.Log1p(-15*q)),
		}

		if branch > 0 {
			depths[d].Children = children / branch
		}

		q /= 16
		subtries *= 16
	}

	return depths
}
