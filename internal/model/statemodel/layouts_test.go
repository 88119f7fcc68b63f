package statemodel

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/chunktrie"
	"github.com/statelab/statelab/layouts/pagetrie"
)

// fill makes accounts of random hashes, slots of a tenth of them.
func fill(t *testing.T, s layout.State, accounts, slots int, r *rand.Rand) (hashes []layout.Hash) {
	t.Helper()
	random := func() (h layout.Hash) {
		for i := range h {
			h[i] = byte(r.Uint32())
		}
		return h
	}

	for n := range accounts {
		c := layout.Change{
			Account: random(),
			New:     &layout.Account{Nonce: 300, CodeHash: layout.EmptyCode},
		}

		copy(c.New.Balance[22:], "abcdefghij")
		if slots > 0 && n%10 == 0 {
			c.New.CodeHash = random()
			for range slots {
				value := random()
				c.Slots = append(c.Slots, layout.Slot{
					Key:   random(),
					Value: append([]byte{1}, value[1:8+24*r.IntN(2)]...),
				})
			}
		}

		if err := s.Change(c); err != nil {
			t.Fatal(err)
		}

		hashes = append(hashes, c.Account)
		if (n+1)%5000 > 0 && n+1 < accounts {
			continue
		}

		if _, err := s.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
	}

	return hashes
}

// The table of splits, carried from one depth to another, against layouts/pagetrie.
func TestPagesAgainstPageTries(t *testing.T) {
	for _, of := range []State{
		{Accounts: 12_000},
		{Accounts: 40_000},
		{Accounts: 25_000, ContractShare: .1, SlotsPer: 16},
		{Accounts: 25_000, ContractShare: .1, SlotsPer: 8},
	} {
		s, err := pagetrie.Layout{}.Open(context.Background(), layout.Options{
			Dir:    t.TempDir(),
			Create: true,
		})
		if err != nil {
			t.Fatal(err)
		}

		hashes := fill(t, s, int(of.Accounts), int(of.SlotsPer), rand.New(rand.NewPCG(9, 10)))
		r, err := s.Reader()
		if err != nil {
			t.Fatal(err)
		}

		for _, h := range hashes {
			if _, found, err := r.Account(h); !found || err != nil {
				t.Fatal(found, err)
			}
		}

		counted := float64(*r.Touched().Pages) / float64(len(hashes))
		if got, ok := Pages(of); !ok || math.Abs(got-counted) > .02*counted {
			t.Errorf("%+v: %.3f pages a lookup, counted %.3f", of, got, counted)
		}

		if err := r.Close(); err != nil {
			t.Error(err)
		}

		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What the blocks of a build write, against the file of layouts/chunktrie before anything
// is compacted; and the reads of its lookups with nothing pinned.
func TestChunksAgainstAChunkTrie(t *testing.T) {
	of := State{
		Accounts:      30_000,
		ContractShare: .1,
		SlotsPer:      16,
		BlockAccounts: 5000,
		DiskBytes:     math.Inf(1),
	}

	s, err := chunktrie.Layout{}.Open(context.Background(), layout.Options{
		Dir:     t.TempDir(),
		Create:  true,
		Profile: "unpinned",
	})
	if err != nil {
		t.Fatal(err)
	}

	hashes := fill(t, s, int(of.Accounts), int(of.SlotsPer), rand.New(rand.NewPCG(11, 12)))
	bytes, err := s.DiskBytes()
	if err != nil {
		t.Fatal(err)
	}

	if got := sum(of.chunkPages()) * pageBytes; math.Abs(got-float64(bytes)) > .1*float64(bytes) {
		t.Errorf("%.1f MB written, the file takes %.1f MB", got/1e6, float64(bytes)/1e6)
	}

	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}

	before := *s.Counters().Reads
	for _, h := range hashes {
		if _, found, err := r.Account(h); !found || err != nil {
			t.Fatal(found, err)
		}
	}

	counted := float64(*s.Counters().Reads-before) / float64(len(hashes))
	if got := Steady(ChunkTrie(of, 0, 0), Account)[0]; math.Abs(got-counted) > .01*counted {
		t.Errorf("%.3f reads a lookup, counted %.3f", got, counted)
	}

	if err := r.Close(); err != nil {
		t.Error(err)
	}

	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A simulation of page splits that shares no code with layouts/pagetrie, made before it,
// gave these pages a lookup.
func TestPagesAgainstAnotherSimulation(t *testing.T) {
	for accounts, pages := range map[float64]float64{
		1e5:   3.95,
		1e6:   4.89,
		1e7:   5.7,
		2.5e8: 6.9,
		1e9:   7.4,
	} {
		got, ok := Pages(State{Accounts: accounts})
		if !ok || math.Abs(got-pages) > .025*pages {
			t.Errorf("%g accounts: %.3f pages, simulated %g", accounts, got, pages)
		}
	}
}

// With no memory every unit on the way is read, with all there is none.
func TestEndsOfMemory(t *testing.T) {
	s := State{
		Accounts:      1e6,
		ContractShare: .1,
		SlotsPer:      16,
		BlockAccounts: 5000,
		DiskBytes:     800e6,
	}

	pages, _ := Pages(s)
	paged, _ := PageTrie(s, 0, 0)
	nodes := 0.0
	for _, at := range s.depths() {
		nodes += at.OnPath
	}

	geth := GethMemory{Shards: 8}
	for name, of := range map[string]struct {
		memories []Memory
		reads    float64 // of the first memory
	}{
		"pagetrie":    {paged, pages},
		"chunktrie":   {ChunkTrie(s, 0, 0), nodes + 1},
		"flat-mdbx":   {FlatMDBX(s, 0), 4}, // a leaf, three branch pages
		"flat-pebble": {FlatPebble(s, 0, 8, 0), 2},
		"geth-path":   {GethPath(s, geth), nodes + 1},
		"geth-hash":   {GethHash(s, geth), nodes + 1},
		"geth-flat":   {GethFlat(s, geth), 1},
	} {
		if got := Steady(of.memories, Account)[0]; math.Abs(got-of.reads) > .01 {
			t.Errorf("%s without memory: %.3f requests, not %.3f", name, got, of.reads)
		}

		for i := range of.memories {
			of.memories[i].Bytes = 1e12
		}

		for i, got := range Steady(of.memories, Account) {
			if got > 1e-6 {
				t.Errorf("%s with all of it in memory: %g reads below memory %d", name, got, i)
			}
		}
	}
}

// The smallest states have figures too, without storage as well.
func TestSmallStates(t *testing.T) {
	for _, s := range []State{
		{Accounts: 1},
		{Accounts: 2},
		{Accounts: 30},
		{Accounts: 30, ContractShare: .1, SlotsPer: 1},
	} {
		s.BlockAccounts, s.DiskBytes = 5000, 1<<20
		paged, _ := PageTrie(s, 0, 0)
		geth := GethMemory{Shards: 4}
		for name, memories := range map[string][]Memory{
			"pagetrie":    paged,
			"chunktrie":   ChunkTrie(s, 0, 0),
			"flat-mdbx":   FlatMDBX(s, 0),
			"flat-pebble": FlatPebble(s, 0, 4, 0),
			"geth-path":   GethPath(s, geth),
			"geth-hash":   GethHash(s, geth),
			"geth-flat":   GethFlat(s, geth),
			"nomt":        NOMT(s, 0),
			"qmdb":        QMDB(s, 0),
		} {
			for i, got := range Steady(memories, Account) {
				if !(got >= 0 && got < 7) {
					t.Errorf("%s of %g accounts: %g reads below memory %d", name, s.Accounts, got,
						i)
				}
			}

			for i, got := range After(memories, []LookupPhase{{Slot, 10}, {Account, 10}}) {
				if !(got >= 0 && got < 7) {
					t.Errorf("%s of %g accounts: %g reads at first below memory %d", name,
						s.Accounts, got, i)
				}
			}
		}
	}
}

func TestSplitsAreShares(t *testing.T) {
	for _, slots := range []float64{0, splitSlots} {
		splits := parseSplits(slots)
		if len(splits) < 10 {
			t.Fatalf("%d lines for %g slots per account", len(splits), slots)
		}

		for i, s := range splits {
			if s.nodes < 0 || s.nodes > s.accounts+1e-9 || s.accounts > 1 || s.contracts > 1 ||
				i > 0 && s.keys <= splits[i-1].keys {
				t.Errorf("%g slots: %+v", slots, s)
			}
		}
	}

	if _, ok := Pages(State{Accounts: 1e6, ContractShare: .5, SlotsPer: 16}); ok {
		t.Error("more storage than was simulated has a figure")
	}
}
