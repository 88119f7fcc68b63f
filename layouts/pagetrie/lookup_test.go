//go:build linux

package pagetrie

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
	"golang.org/x/sys/unix"
)

// externally owned accounts, as the note's simulation has them.
func plainAccount(h *mpt.Hasher, n uint64) (layout.Hash, *layout.Account) {
	a := &layout.Account{Nonce: n % 100, CodeHash: layout.EmptyCode}
	binary.BigEndian.PutUint64(a.Balance[24:], n*0x9e3779b97f4a7c15)
	return h.Sum(binary.BigEndian.AppendUint64(nil, n)), a
}

// grow makes a state of n accounts, perBlock at a time.
func grow(t testing.TB, o layout.Options, n, perBlock uint64) *pageState {
	t.Helper()
	o.Create, o.Overrides = true, map[string]string{"Sync": "false"}
	s := mustOpen(t, o)
	h := mpt.NewHasher()
	for i := range n {
		account, a := plainAccount(h, i)
		must(t, s.Change(layout.Change{Account: account, New: a}))
		if (i+1)%perBlock == 0 || i+1 == n {
			_, err := s.Commit(t.Context())
			must(t, err)
		}
	}

	return s
}

// TestNodesAndPagesPerLookup holds what lookups touch against theory: the formula
// for nodes, and the simulation of the page trie for pages.
func TestNodesAndPagesPerLookup(t *testing.T) {
	if testing.Short() {
		holdAgainstTheory(t, 20_000, 1000, 0)
		return
	}
	holdAgainstTheory(t, 100_000, 1000, 3.95)
	holdAgainstTheory(t, 1_000_000, 20_000, 4.89)
}

func holdAgainstTheory(t *testing.T, n, perBlock uint64, wantPages float64) {
	t.Helper()
	dir := t.TempDir()
	s := grow(t, layout.Options{Dir: dir}, n, perBlock)
	r, err := s.Reader()
	must(t, err)
	h := mpt.NewHasher()
	for i := range n {
		account, want := plainAccount(h, i)
		if a, found, err := r.Account(account); err != nil || !found || a != *want {
			t.Fatalf("account %d: %+v, %v, %v", i, a, found, err)
		}
	}

	touched := r.Touched()
	nodes, pages := float64(*touched.Nodes)/float64(n), float64(*touched.Pages)/float64(n)
	must(t, s.Close())
	checked := check(t, dir)
	t.Logf("%d accounts: %.3f nodes, %.3f pages a lookup; pages %.1f %% full; %+v", n, nodes, pages,
		100*float64(checked.TrieBytes)/float64(checked.TriePages*bodyBytes), checked)
	for want, within := range map[float64]float64{
		mpt.ExpectedNodes(float64(n)):       0.01,
		mpt.ExpectedFoldedNodes(float64(n)): 0.002,
	} {
		if math.Abs(nodes/want-1) > within {
			t.Errorf("%.3f nodes a lookup, expected %.3f", nodes, want)
		}
	}

	if wantPages > 0 && math.Abs(pages/wantPages-1) > 0.03 {
		t.Errorf("%.3f pages a lookup, the simulation has %.2f", pages, wantPages)
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	for how, o := range map[string]layout.Options{
		"mmap":  {},
		"pread": {MemoryBytes: 64 * pageBytes},
	} {
		o.Dir = t.TempDir()
		s := grow(t, o, 3000, 1000)
		h := mpt.NewHasher()
		contract, a := plainAccount(h, 7)
		var slots []layout.Slot
		for i := range uint64(200) {
			key, _ := plainAccount(h, i)
			slots = append(slots, layout.Slot{Key: key, Value: []byte{1}})
		}

		must(t, s.Change(layout.Change{Account: contract, New: a, Slots: slots}))
		_, err := s.Commit(t.Context())
		must(t, err)
		r, err := s.Reader()
		must(t, err)
		i, value := 0, make([]byte, 0, 32)
		if allocated := testing.AllocsPerRun(1000, func() {
			_, found, err := r.Account(slots[i%200].Key)
			value, foundSlot, errSlot := r.Slot(contract, slots[i%200].Key, value)
			if i++; err != nil || errSlot != nil || !found || !foundSlot || len(value) != 1 {
				t.Fatal(found, foundSlot, err, errSlot)
			}
		}); allocated >= 1 {
			t.Errorf("%s: %g allocations a lookup", how, allocated)
		}
	}
}

// TestOldReadersSeeTheirBlock keeps readers on old blocks, and some that move on,
// while the writer reuses pages as fast as it may.
func TestOldReadersSeeTheirBlock(t *testing.T) {
	for how, o := range map[string]layout.Options{
		"mmap":  {},
		"pread": {MemoryBytes: 8 * pageBytes},
	} {
		t.Run(how, func(t *testing.T) {
			o.Dir, o.Create, o.Overrides = t.TempDir(), true, map[string]string{"Sync": "false"}
			s := mustOpen(t, o)
			w := layouttest.Workload{Seed: 9, Accounts: 300, Slots: 30, Changes: 12}
			reference := mpt.NewReference()
			play(t, w, s, reference, 60)
			old, err := s.Reader()
			must(t, err)
			then, err := w.Replayed(s.Block())
			must(t, err)
			done := make(chan struct{})
			var readers sync.WaitGroup
			for range 3 {
				readers.Go(func() {
					for {
						r, err := s.Reader()
						if err != nil {
							t.Error(err)
							return
						}

						for n := range w.Accounts {
							if _, _, err := r.Account(w.Hash(n)); err != nil {
								t.Error(err)
								return
							}
						}

						if err := r.Close(); err != nil {
							t.Error(err)
						}

						select {
						case <-done:
							return
						default:
						}
					}
				})
			}

			play(t, w, s, reference, 200)
			close(done)
			readers.Wait()
			must(t, w.Compare(old, then))
			held := s.tx.space.pages
			must(t, old.Refresh())
			must(t, w.Compare(old, reference))
			must(t, old.Close())
			play(t, w, s, reference, 200)
			if grown := s.tx.space.pages; grown > held*11/10 {
				t.Errorf("%d pages after the old reader moved on, %d before: they are not reused",
					grown, held)
			}
		})
	}
}

// TestDirectReadsAreTheKernels holds the pages that lookups touch, where nothing
// is cached, against what the kernel read from the disk for this process.
func TestDirectReadsAreTheKernels(t *testing.T) {
	dir := t.TempDir()
	s := grow(t, layout.Options{Dir: dir}, 5000, 1000)
	must(t, s.file.Sync())
	must(t, s.Close())
	layout, err := Layout{}.Open(t.Context(),
		layout.Options{Dir: dir, Direct: true, ReadOnly: true})
	if errors.Is(err, unix.EINVAL) {
		t.Skip("the file system has no O_DIRECT")
	}

	must(t, err)
	defer func() { must(t, layout.Close()) }()
	r, err := layout.Reader()
	must(t, err)
	h := mpt.NewHasher()
	lookups := func() {
		for i := range uint64(500) {
			account, want := plainAccount(h, i*7)
			if a, found, err := r.Account(account); err != nil || !found || a != *want {
				t.Fatal(a, found, err)
			}
		}
	}

	before := kernelReadBytes(t)
	lookups()
	kernel := kernelReadBytes(t) - before
	if kernel == 0 {
		t.Skip("the file system is in memory")
	}

	pages, reads := *r.Touched().Pages, *layout.Counters().Reads
	if reads != pages || kernel != pages*pageBytes {
		t.Errorf("%d pages touched, %d read, %d bytes read by the kernel: want the same, %d "+
			"bytes a page", pages, reads, kernel, pageBytes)
	}
}

// kernelReadBytes is what the disk has read for this process.
func kernelReadBytes(t *testing.T) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "\nread_bytes: ")
	_, err = fmt.Sscan(rest, &bytes)
	must(t, err)
	return bytes
}

func BenchmarkLookup(b *testing.B) {
	const accounts = 1_000_000
	s := grow(b, layout.Options{Dir: b.TempDir()}, accounts, 20_000)
	h := mpt.NewHasher()
	keys := make([]layout.Hash, 1<<16)
	for i := range keys {
		keys[i], _ = plainAccount(h, uint64(i)*15%accounts)
	}

	lookup := func(b *testing.B, r layout.Reader, i int) {
		if _, found, err := r.Account(keys[i&(len(keys)-1)]); err != nil || !found {
			b.Error(found, err)
		}
	}

	b.Run("one", func(b *testing.B) {
		r, err := s.Reader()
		must(b, err)
		b.ReportAllocs()
		cpu := layouttest.CPUNanos(b)
		for i := 0; b.Loop(); i++ {
			lookup(b, r, i)
		}

		b.ReportMetric((layouttest.CPUNanos(b)-cpu)/float64(b.N), "cpu-ns/op")
		touched := r.Touched()
		b.ReportMetric(float64(*touched.Pages)/float64(b.N), "pages/op")
		b.ReportMetric(float64(*touched.Nodes)/float64(b.N), "nodes/op")
	})

	b.Run("64 at once", func(b *testing.B) {
		cpu := layouttest.CPUNanos(b)
		var workers sync.WaitGroup
		for w := range 64 {
			workers.Go(func() {
				r, err := s.Reader()
				if err != nil {
					b.Error(err)
					return
				}

				for i := range b.N/64 + 1 {
					lookup(b, r, i*64+w)
				}
			})
		}

		workers.Wait()
		b.ReportMetric((layouttest.CPUNanos(b)-cpu)/float64(b.N), "cpu-ns/op")
	})
}

// BenchmarkCommit changes accounts of a state of 200,000, 1000 to a block.
func BenchmarkCommit(b *testing.B) {
	for _, sync := range []string{"true", "false"} {
		b.Run("Sync="+sync, func(b *testing.B) {
			s := grow(b, layout.Options{Dir: b.TempDir()}, 200_000, 10_000)
			s.file.durable = sync == "true"
			h := mpt.NewHasher()
			before, cpu := s.Counters(), layouttest.CPUNanos(b)
			i := uint64(0)
			for b.Loop() {
				for range 1000 {
					account, a := plainAccount(h, i*7919%250_000)
					a.Nonce = i
					i++
					if err := s.Change(layout.Change{Account: account, New: a}); err != nil {
						b.Fatal(err)
					}
				}

				if _, err := s.Commit(b.Context()); err != nil {
					b.Fatal(err)
				}
			}

			after := s.Counters()
			b.ReportMetric((layouttest.CPUNanos(b)-cpu)/float64(i), "cpu-ns/account")
			b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "accounts/s")
			b.ReportMetric(float64(*after.WriteBytes-*before.WriteBytes)/pageBytes/float64(i),
				"pages/account")
		})
	}
}
