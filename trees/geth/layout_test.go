package geth

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/state"
	"github.com/statelab/statelab/state/statetest"
)

func TestAdmission(t *testing.T) {
	for _, l := range Layouts() {
		t.Run(l.Info().Name, func(t *testing.T) {
			statetest.Admit(t, l, statetest.Expectations{Options: state.Options{MemoryBytes: minMemoryBytes}})
		})
	}
}

// TestNodesPerLookup holds the nodes of a lookup against theory; flat lookups tell
// of none.
func TestNodesPerLookup(t *testing.T) {
	n, lookups := 200_000, 50_000
	if testing.Short() {
		n, lookups = 20_000, 5000
	}
	name := func(i int) state.Hash {
		return state.Hash(crypto.Keccak256Hash(binary.BigEndian.AppendUint64(nil, uint64(i))))
	}
	for _, l := range Layouts() {
		t.Run(l.Info().Name, func(t *testing.T) {
			s := create(t, l, t.TempDir())
			defer func() { must(t, s.Close()) }()
			n, lookups := n, lookups
			if l.(layout).flat {
				n, lookups = 1000, 1000
			}
			for i := range n {
				must(t, s.Change(state.Change{Account: name(i), New: &state.Account{Nonce: uint64(i), CodeHash: state.EmptyCode}}))
				if i%10_000 == 9999 || i == n-1 {
					commit(t, s)
				}
			}
			reader, err := s.Reader()
			must(t, err)
			for i := range lookups {
				i *= n / lookups
				if a, found, err := reader.Account(name(i)); err != nil || !found || a.Nonce != uint64(i) {
					t.Fatalf("account %d: %+v, %v, %v", i, a, found, err)
				}
			}
			if l.(layout).flat {
				if nodes := reader.Touched().Nodes; nodes != nil {
					t.Errorf("flat lookups touched %d nodes", *nodes)
				}
				return
			}
			nodes, want := float64(*reader.Touched().Nodes)/float64(lookups), mpt.ExpectedNodes(float64(n))
			t.Logf("%d accounts: %.4f nodes a lookup, expected %.4f", n, nodes, want)
			if math.Abs(nodes/want-1) > .01 {
				t.Errorf("%.4f nodes a lookup, expected %.4f", nodes, want)
			}
		})
	}
}

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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, s state.State) state.Hash {
	t.Helper()
	root, err := s.Commit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return root
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
