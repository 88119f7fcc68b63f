package geth

import (
	"context"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/triedb"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

func TestAdmission(t *testing.T) {
	for _, l := range Layouts() {
		t.Run(l.Info().Name, func(t *testing.T) {
			e := layouttest.Expectations{Options: layout.Options{MemoryBytes: minMemoryBytes}}
			if l.(scheme).binary {
				e.KeepsContracts, e.BalanceBytes = true, maxBalance
			}
			layouttest.TestLayout(t, l, e)
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

	name := func(i int) layout.Hash {
		return layout.Hash(crypto.Keccak256Hash(binary.BigEndian.AppendUint64(nil, uint64(i))))
	}
	for _, l := range Layouts() {
		t.Run(l.Info().Name, func(t *testing.T) {
			s := create(t, l, t.TempDir())
			defer func() { must(t, s.Close()) }()
			n, lookups := n, lookups
			if l.(scheme).flat {
				n, lookups = 1000, 1000
			}

			for i := range n {
				must(t,
					s.Change(layout.Change{
						Account: name(i),
						New:     &layout.Account{Nonce: uint64(i), CodeHash: layout.EmptyCode},
					}))

				if i%10_000 == 9999 || i == n-1 {
					commit(t, s)
				}
			}

			reader, err := s.Reader()
			must(t, err)
			for i := range lookups {
				i *= n / lookups
				if a, found, err := reader.Account(name(i)); err != nil || !found ||
					a.Nonce != uint64(i) {
					t.Fatalf("account %d: %+v, %v, %v", i, a, found, err)
				}
			}

			if l.(scheme).flat {
				if nodes := reader.Touched().Nodes; nodes != nil {
					t.Errorf("flat lookups touched %d nodes", *nodes)
				}
				return
			}

			nodes, want := float64(*reader.Touched().Nodes)/float64(lookups),
				mpt.ExpectedNodes(float64(n))
			if l.(scheme).binary {
				want = statemodel.BinaryNodes(float64(n), triedb.DefaultBinTrieGroupDepth)
			}

			t.Logf("%d accounts: %.4f nodes a lookup, expected %.4f", n, nodes, want)
			if math.Abs(nodes/want-1) > .01 {
				t.Errorf("%.4f nodes a lookup, expected %.4f", nodes, want)
			}
		})
	}
}

func create(t *testing.T, l layout.Layout, dir string) layout.State {
	t.Helper()
	s, err := l.Open(context.Background(), layout.Options{
		Dir:         dir,
		Create:      true,
		MemoryBytes: minMemoryBytes,
	})
	if err != nil {
		t.Fatal(err)
	}

	return s
}

func reopen(t *testing.T, l layout.Layout, s layout.State, dir string) layout.State {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	again, err := l.Open(context.Background(),
		layout.Options{Dir: dir, MemoryBytes: minMemoryBytes})
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

func commit(t *testing.T, s layout.State) layout.Hash {
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
			var roots []layout.Hash
			for i := range 3 {
				change := layout.Change{
					Account: layout.Hash{byte(i)},
					New:     &layout.Account{Nonce: 1, CodeHash: layout.EmptyCode},
				}

				if err := s.Change(change); err != nil {
					t.Fatal(err)
				}

				roots = append(roots, commit(t, s))
			}

			c := s.(*chain)
			if l.(scheme).byPath { // killed between the head and the nodes of block 4
				h := head{block: 4, root: [32]byte{4}, parent: roots[2]}
				if err := c.writeHead(h); err != nil {
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
	o := layout.Options{
		Profile:     "none",
		MemoryBytes: 1 << 20,
		Direct:      true,
		Overrides:   map[string]string{"cache": "1"},
	}

	for _, l := range Layouts() {
		if errs := l.Check(o); len(errs) != 4 {
			t.Errorf("%s: %v", l.Info().Name, errs)
		}
	}
}

// TestQuiet: a database is quiet once no compaction runs or has ended, and nothing but the polls
// themselves is read.
func TestQuiet(t *testing.T) {
	begin := time.Unix(1000, 0)
	q := quiet{since: begin}
	for i, c := range []struct {
		compactions string
		running     bool
		chars       int64
		want        time.Duration
	}{
		{"1", false, 5000, 0},
		{"1", false, 5100, time.Second},
		{"1", true, 5200, 0},
		{"1", false, 5300, time.Second},
		{"2", false, 5400, 0},
		{"2", false, 7000, 0},
		{"2", false, 7100, time.Second},
		{"2", false, 7220, 2 * time.Second},
	} {
		now := begin.Add(time.Duration(i) * time.Second)
		if got := q.see(c.compactions, c.running, c.chars, now); got != c.want {
			t.Errorf("poll %d: quiet for %v, want %v", i, got, c.want)
		}
	}
}
