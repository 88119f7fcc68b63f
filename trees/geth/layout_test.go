package geth

import (
	"bytes"
	"context"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/state"
)

func create(t *testing.T, l state.Layout, dir string) state.State {
	t.Helper()
	s, err := l.Open(context.Background(), state.Options{Dir: dir, Create: true, MemoryBytes: minMemoryBytes})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func reopen(t *testing.T, l state.Layout, s state.State, dir string) state.State {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := l.Open(context.Background(), state.Options{Dir: dir, MemoryBytes: minMemoryBytes})
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func commit(t *testing.T, s state.State) state.Hash {
	t.Helper()
	root, err := s.Commit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// The main network's first block is the largest state whose root everybody knows.
func TestGenesisOfTheMainNetwork(t *testing.T) {
	const root = "d7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544"
	alloc := core.DefaultGenesisBlock().Alloc
	if len(alloc) != 8893 {
		t.Fatalf("%d accounts", len(alloc))
	}
	for _, l := range Layouts() {
		t.Run(l.Info().Name, func(t *testing.T) {
			dir := t.TempDir()
			s := create(t, l, dir)
			for address, account := range alloc {
				change := state.Change{Account: crypto.Keccak256Hash(address[:]),
					New: &state.Account{Balance: uint256.MustFromBig(account.Balance).Bytes32(), Nonce: account.Nonce, CodeHash: state.EmptyCode}}
				if err := s.Change(change); err != nil {
					t.Fatal(err)
				}
			}
			if got := commit(t, s); hex.EncodeToString(got[:]) != root {
				t.Errorf("root %x", got)
			}
			s = reopen(t, l, s, dir)
			defer s.Close()
			if got := s.Root(); hex.EncodeToString(got[:]) != root || s.Block() != 1 {
				t.Errorf("reopened at block %d, root %x", s.Block(), got)
			}
			reader, err := s.Reader()
			if err != nil {
				t.Fatal(err)
			}
			for address, account := range alloc {
				got, found, err := reader.Account(crypto.Keccak256Hash(address[:]))
				if err != nil || !found || got.Balance != uint256.MustFromBig(account.Balance).Bytes32() {
					t.Fatalf("%v: %+v, %v, %v", address, got, found, err)
				}
			}
			nodes := reader.Touched().Nodes
			if l.(layout).flat {
				if nodes != nil {
					t.Errorf("a flat lookup touched %d nodes", *nodes)
				}
				return
			}
			if mean, want := float64(*nodes)/float64(len(alloc)), mpt.ExpectedNodes(float64(len(alloc))); mean < want-.1 || mean > want+.1 {
				t.Errorf("%.3f nodes a lookup, %.3f expected", mean, want)
			}
		})
	}
}

// random makes and unmakes accounts and slots out of few names, so that most things
// happen to each of them.
type random struct {
	*rand.Rand
	accounts, keys []state.Hash
}

func newRandom(seed uint64) *random {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0))}
	for i := range 120 {
		r.accounts = append(r.accounts, state.Hash(crypto.Keccak256Hash([]byte{byte(i), 'a'})))
		r.keys = append(r.keys, state.Hash(crypto.Keccak256Hash([]byte{byte(i), 'k'})))
	}
	return r
}

func (r *random) block() (changes []state.Change) {
	chosen := r.Perm(len(r.accounts))[:r.IntN(30)]
	for _, i := range chosen {
		c := state.Change{Account: r.accounts[i]}
		if r.IntN(5) > 0 {
			c.New = &state.Account{Nonce: r.Uint64N(3), Balance: uint256.NewInt(r.Uint64()).Bytes32(), CodeHash: state.EmptyCode}
			if r.IntN(3) == 0 {
				c.New.CodeHash = r.keys[i]
			}
			for _, k := range r.Perm(len(r.keys))[:r.IntN(12)] {
				slot := state.Slot{Key: r.keys[k]}
				if r.IntN(4) > 0 {
					slot.Value = bytes.Repeat([]byte{byte(1 + r.IntN(255))}, 1+r.IntN(32))
				}
				c.Slots = append(c.Slots, slot)
			}
		}
		changes = append(changes, c)
	}
	return changes
}

func TestLayoutsAgreeWithTheReference(t *testing.T) {
	for _, l := range Layouts() {
		t.Run(l.Info().Name, func(t *testing.T) {
			dir := t.TempDir()
			s := create(t, l, dir)
			defer func() { s.Close() }()
			reference, r := mpt.NewReference(), newRandom(7)
			for block := uint64(1); block <= 60; block++ {
				for _, c := range r.block() {
					if err := s.Change(c); err != nil {
						t.Fatal(err)
					}
					if err := reference.Change(c); err != nil {
						t.Fatal(err)
					}
				}
				if got, want := commit(t, s), reference.Root(); got != want {
					t.Fatalf("block %d: root %x, the reference has %x", block, got, want)
				}
				if block%17 == 0 {
					s = reopen(t, l, s, dir)
				}
				if s.Block() != block || s.Root() != reference.Root() {
					t.Fatalf("block %d: at block %d, root %x", block, s.Block(), s.Root())
				}
				if block%6 == 0 {
					compare(t, s, reference, r)
				}
			}
		})
	}
}

func compare(t *testing.T, s state.State, reference *mpt.Reference, r *random) {
	t.Helper()
	reader, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, account := range r.accounts {
		got, found, err := reader.Account(account)
		want, exists := reference.Account(account)
		if err != nil || found != exists || got != want {
			t.Fatalf("account %x: %+v, %v, %v; the reference has %+v, %v", account, got, found, err, want, exists)
		}
		for _, key := range r.keys {
			got, found, err := reader.Slot(account, key, nil)
			if want := reference.Slot(account, key); err != nil || found != (len(want) > 0) || !slices.Equal(got, want) {
				t.Fatalf("slot %x of %x: %x, %v, %v; the reference has %x", key, account, got, found, err, want)
			}
		}
	}
}

// A copy of the files is what a kill would leave: the commit has returned.
func TestHeadWithoutItsNodesIsTheBlockBefore(t *testing.T) {
	for _, l := range Layouts() {
		t.Run(l.Info().Name, func(t *testing.T) {
			dir := t.TempDir()
			s := create(t, l, dir)
			defer func() { s.Close() }()
			var roots []state.Hash
			for i := range 3 {
				change := state.Change{Account: state.Hash{byte(i)}, New: &state.Account{Nonce: 1, CodeHash: state.EmptyCode}}
				if err := s.Change(change); err != nil {
					t.Fatal(err)
				}
				roots = append(roots, commit(t, s))
			}
			c := s.(*chain)
			if l.(layout).byPath { // killed between the head and the nodes of block 4
				if err := writeHead(c.disk, head{block: 4, root: [32]byte{4}, parent: roots[2]}); err != nil {
					t.Fatal(err)
				}
			}
			s = reopen(t, l, s, dir)
			if s.Block() != 3 || s.Root() != roots[2] {
				t.Errorf("reopened at block %d, root %x", s.Block(), s.Root())
			}
		})
	}
}

func TestCheckNamesEveryMistake(t *testing.T) {
	o := state.Options{Profile: "none", MemoryBytes: 1 << 20, Direct: true, Overrides: map[string]string{"cache": "1"}}
	for _, l := range Layouts() {
		if errs := l.Check(o); len(errs) != 4 {
			t.Errorf("%s: %v", l.Info().Name, errs)
		}
	}
}
