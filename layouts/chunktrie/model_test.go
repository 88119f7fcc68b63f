//go:build linux

package chunktrie

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

// evenly fills a state with n accounts whose keys are spread evenly.
func evenly(t testing.TB, o layout.Options, n int) (*Store, []layout.Hash) {
	t.Helper()
	s := open(t, o)
	rng := rand.New(rand.NewPCG(11, 11))
	keys := make([]layout.Hash, n)
	for i := range keys {
		for j := 0; j < 32; j += 8 {
			v := rng.Uint64()
			for k := range 8 {
				keys[i][j+k] = byte(v >> (8 * k))
			}
		}

		account := layout.Account{Nonce: uint64(i % 300), CodeHash: layout.EmptyCode}
		account.Balance[24] = byte(i)
		must(t, s.Change(layout.Change{Account: keys[i], New: &account}))
		if i%5000 == 4999 || i == n-1 {
			_, err := s.Commit(t.Context())
			must(t, err)
		}
	}

	return s, keys
}

// expectedReads is the mean number of reads with branches of the first levels in
// memory: those below, and the leaf.
func expectedReads(n float64, levels int) float64 {
	reads := 1.0
	for d := levels; d < mpt.PathNibbles; d++ {
		reads += 1 - math.Pow(1-math.Pow(16, -float64(d)), n-1)
	}
	return reads
}

// foldedNodes is the mean number of nodes where an extension is the path of the
// branch behind it: a branch counts where another key leaves this one's path.
func foldedNodes(n float64) float64 {
	nodes := 1.0
	for d := range mpt.PathNibbles {
		nodes += 1 - math.Pow(1-15*math.Pow(16, -float64(d+1)), n-1)
	}
	return nodes
}

// TestNodesAndReadsAreTheModels holds nodes and reads of a lookup against the
// closed forms.
func TestNodesAndReadsAreTheModels(t *testing.T) {
	n := blocks(20_000, 100_000)
	o := layout.Options{Dir: newDir(t), Create: true}
	s, keys := evenly(t, o, n)
	must(t, s.Close())
	o.Create = false
	for levels := range pinnedLevels + 1 {
		o.Overrides = map[string]string{"PinnedLevels": strconv.Itoa(levels)}
		s := open(t, o)
		before := *s.Counters().Reads
		r := reader(t, s)
		for _, key := range keys {
			if _, found, err := r.Account(key); !found || err != nil {
				t.Fatalf("account %x: found %v, %v", key, found, err)
			}
		}

		touched := r.Touched()
		nodes := float64(*touched.Nodes) / float64(n)
		if want := mpt.ExpectedNodes(float64(n)); math.Abs(nodes/want-1) > 0.01 {
			t.Errorf("%d levels pinned: %.4f nodes a lookup, expected %.4f", levels, nodes, want)
		}

		if want := foldedNodes(float64(n)); math.Abs(nodes/want-1) > 0.003 {
			t.Errorf("%d levels pinned: %.4f nodes a lookup, expected with extensions folded %.4f",
				levels, nodes, want)
		}

		reads := float64(*s.Counters().Reads-before) / float64(n)
		if want := expectedReads(float64(n), levels); math.Abs(reads/want-1) > 0.03 {
			t.Errorf("%d levels pinned: %.4f reads a lookup, expected %.4f", levels, reads, want)
		}

		t.Logf("%d levels pinned: %.4f nodes, %.4f sectors, %.4f reads a lookup (models %.4f, "+
			"folded %.4f, and %.4f), %v",
			levels, nodes, float64(*touched.Pages)/float64(n), reads,
			mpt.ExpectedNodes(float64(n)), foldedNodes(float64(n)),
			expectedReads(float64(n), levels), s.Memory())

		must(t, r.Close())
		must(t, s.Close())
	}
}

// TestBudget gives less memory than the levels want, when opened and while blocks
// are written.
func TestBudget(t *testing.T) {
	const budget = 4 << 20
	n := 200_000
	if !testring.All() {
		n = 80_000
	}

	o := layout.Options{Dir: newDir(t), Create: true, MemoryBytes: budget}
	s, keys := evenly(t, o, n)
	written := s.Effective()["PinnedLevels"]
	pinnedFits := func(s *Store) {
		t.Helper()
		sum := int64(0)
		for _, share := range s.Memory() {
			sum += share.Bytes
		}

		if sum > budget || sum < budget/2 {
			t.Errorf("%v of a budget of %d", s.Memory(), budget)
		}
	}

	pinnedFits(s)
	must(t, s.Close())
	o.Create = false
	s = open(t, o)
	pinnedFits(s)
	if opened := s.Effective()["PinnedLevels"]; opened != written || opened == "6" ||
		opened == "0" {
		t.Errorf("%s levels when opened, %s when written", opened, written)
	}

	opened := s.pins.levels
	must(t, s.Change(layout.Change{Account: keys[0]}))
	if _, err := s.Commit(t.Context()); err != nil {
		t.Error(err)
	}

	for depth := range opened { // the account of memory goes on where loading left it
		if d := math.Abs(float64(s.pins.levels[depth] - opened[depth])); d > 2000 {
			t.Errorf("depth %d: %d bytes after a block, %d before", depth, s.pins.levels[depth],
				opened[depth])
		}
	}

	must(t, s.Close())
	o.MemoryBytes = 1 << 20
	if errs := (Layout{}).Check(o); len(errs) != 1 {
		t.Errorf("a budget of 1 MiB: %v", errs)
	}
}

// TestReadsAreTheKernels holds the reads and bytes that are counted against the
// kernel's account of this process, through the page cache and past it.
func TestReadsAreTheKernels(t *testing.T) {
	for _, direct := range []bool{false, true} {
		o := layout.Options{Dir: newDir(t), Create: true, Profile: "unpinned", Direct: direct}
		s, keys := evenly(t, o, 1000)
		before := s.Counters()
		r := reader(t, s)
		bytes, calls := kernelReads(t)
		for _, key := range keys {
			if _, found, err := r.Account(key); !found || err != nil {
				t.Fatalf("account %x: found %v, %v", key, found, err)
			}
		}

		bytesAfter, callsAfter := kernelReads(t)
		after := s.Counters()
		bytes, calls = bytesAfter-bytes, callsAfter-calls
		const own = 10 // calls of reading the account itself and of the runtime
		if counted := *after.Reads - *before.Reads; counted != *r.Touched().Nodes ||
			calls < counted || calls > counted+own {
			t.Errorf("direct %v: %d reads counted for %d nodes, the kernel saw %d", direct,
				counted, *r.Touched().Nodes, calls)
		}

		if counted := *after.ReadBytes - *before.ReadBytes; bytes > counted+own*512 ||
			bytes < counted {
			t.Errorf("direct %v: %d bytes counted, the kernel saw %d", direct, counted, bytes)
		}

		must(t, r.Close())
		must(t, s.Close())
	}
}

// kernelReads are the bytes and calls of all reads of this process so far.
func kernelReads(t *testing.T) (bytes, calls int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	must(t, err)
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d", &bytes, new(int64),
		&calls); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return bytes, calls
}

func TestLookupsAllocateNothing(t *testing.T) {
	for _, profile := range []string{"default", "unpinned"} {
		s, keys := evenly(t, layout.Options{Dir: newDir(t), Create: true, Profile: profile}, 5000)
		slot := layout.Slot{Key: keys[1], Value: []byte{7}}
		commit(t, s, []layout.Change{{
			Account: keys[0],
			New:     &layout.Account{},
			Slots:   []layout.Slot{slot},
		}})

		r := reader(t, s)
		value := make([]byte, 0, 32)
		i := 0
		if n := testing.AllocsPerRun(1000, func() {
			i++
			if _, found, err := r.Account(keys[i]); !found || err != nil {
				t.Error(found, err)
			}

			if v, found, err := r.Slot(keys[0], keys[1],
				value); !found || err != nil || len(v) != 1 {
				t.Error(v, found, err)
			}
		}); n > 0 {
			t.Errorf("%s: %g allocations a lookup", profile, n)
		}

		must(t, r.Close())
		must(t, s.Close())
	}
}

const benchmarkAccounts = 200_000

func BenchmarkLookup(b *testing.B) {
	for _, c := range []struct {
		name, profile string
		direct        bool
	}{
		{"pinned", "default", false},
		{"unpinned", "unpinned", false},
		{"pinned, direct", "default", true},
		{"unpinned, direct", "unpinned", true},
	} {
		s, keys := evenly(b,
			layout.Options{Dir: newDir(b), Create: true, Profile: c.profile, Direct: c.direct},
			benchmarkAccounts)
		r := reader(b, s)
		b.Run(c.name+"/serial", func(b *testing.B) {
			b.ReportAllocs()
			i, cpu := 0, layouttest.CPUNanos(b)
			for b.Loop() {
				if _, found, err := r.Account(keys[i*7919%len(keys)]); !found || err != nil {
					b.Fatal(found, err)
				}
				i++
			}

			b.ReportMetric((layouttest.CPUNanos(b)-cpu)/float64(i), "cpu-ns/key")
		})

		b.Run(c.name+"/64 in flight", func(b *testing.B) {
			const size = 4096
			batch, out := make([]layout.Hash, size), make([]Found, size)
			i, cpu := 0, layouttest.CPUNanos(b)
			for b.Loop() {
				for j := range batch {
					batch[j] = keys[(i*size+j)*7919%len(keys)]
				}

				if err := r.Accounts(batch, 64, out); err != nil || !out[0].Exists {
					b.Fatal(err)
				}

				i++
			}

			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i*size), "ns/key")
			b.ReportMetric((layouttest.CPUNanos(b)-cpu)/float64(i*size), "cpu-ns/key")
		})

		must(b, r.Close())
		must(b, s.Close())
	}
}

// BenchmarkCommit changes 1,000 of the accounts a block.
func BenchmarkCommit(b *testing.B) {
	s, keys := evenly(b, layout.Options{Dir: newDir(b), Create: true}, benchmarkAccounts)
	const size = 1000
	before := s.Counters()
	i, cpu := 0, layouttest.CPUNanos(b)
	b.ReportAllocs()
	for b.Loop() {
		for range size {
			i++
			account := layout.Account{Nonce: uint64(i), CodeHash: layout.EmptyCode}
			must(b, s.Change(layout.Change{Account: keys[i*7919%len(keys)], New: &account}))
		}

		if _, err := s.Commit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}

	after := s.Counters()
	b.ReportMetric((layouttest.CPUNanos(b)-cpu)/float64(i), "cpu-ns/change")
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "changes/s")
	b.ReportMetric(float64(*after.NodesNew-*before.NodesNew)/float64(i), "nodes/change")
	b.ReportMetric(float64(*after.WriteBytes-*before.WriteBytes)/float64(i), "B/change")
	b.ReportMetric(float64(*after.Reads-*before.Reads)/float64(i), "reads/change")
	must(b, s.Close())
}
