package layouttest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/layout"
)

// uniform makes accounts with uniform hashes, every tenth of them a contract with
// 16 slots, half of 32 bytes, half of 8: what statelab layouts makes by default.
func uniform(i uint64, slots []layout.Slot) (layout.Change, []layout.Slot) {
	c := layout.Change{
		Account: spread(i),
		New:     &layout.Account{Nonce: i % 1000, CodeHash: layout.EmptyCode},
	}

	copy(c.New.Balance[22:], c.Account[:10])
	if i%10 > 0 {
		return c, slots
	}

	c.New.CodeHash = spread(1<<40 + i)
	slots = slots[:0]
	for j := range uint64(16) {
		key := spread(1<<41 + i*16 + j)
		value := append(make([]byte, 0, 32), key[:32-j%2*24]...)
		value[0] |= 1
		slots = append(slots, layout.Slot{Key: key, Value: value})
	}

	c.Slots = slots
	return c, slots
}

// spread is the uniform hash of a number.
func spread(i uint64) (h layout.Hash) {
	for at := 0; at < len(h); at += 8 {
		i += 0x9e3779b97f4a7c15
		z := (i ^ i>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.BigEndian.PutUint64(h[at:], z^z>>31)
	}
	return h
}

// BenchmarkBuild makes a state; an operation is a block. -benchtime 200x is a
// million accounts in blocks of 5k, ten in blocks of 50k.
func BenchmarkBuild(b *testing.B, l layout.Layout) {
	for _, block := range []uint64{5000, 50_000} {
		b.Run(fmt.Sprintf("block=%dk", block/1000), func(b *testing.B) {
			s := openFor(b, l,
				layout.Options{Dir: b.TempDir(), Create: true, MemoryBytes: 64 << 20})
			var slots []layout.Slot
			next, cpu := uint64(0), CPUNanos(b)
			for b.Loop() {
				for range block {
					var c layout.Change
					c, slots = uniform(next, slots)
					next++
					if err := s.Change(c); err != nil {
						b.Fatal(err)
					}
				}

				if _, err := s.Commit(b.Context()); err != nil {
					b.Fatal(err)
				}
			}

			b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "accounts/s")
			b.ReportMetric((CPUNanos(b)-cpu)/float64(next), "cpu-ns/account")
			if written := s.Counters().WriteBytes; written != nil {
				b.ReportMetric(float64(*written)/float64(next), "written-B/account")
			}

			must(b, s.Close())
		})
	}
}

// BenchmarkReads looks accounts up with 1, 8 and 64 in flight, past the page cache
// and through it.
func BenchmarkReads(b *testing.B, l layout.Layout) {
	const accounts = 1_000_000
	dir := b.TempDir()
	s := openFor(b, l, layout.Options{Dir: dir, Create: true})
	var slots []layout.Slot
	for i := range uint64(accounts) {
		var c layout.Change
		c, slots = uniform(i, slots)
		must(b, s.Change(c))
		if i%50_000 == 49_999 {
			_, err := s.Commit(b.Context())
			must(b, err)
		}
	}

	must(b, s.Close())
	for _, direct := range []bool{true, false} {
		for _, inFlight := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("direct=%v/inflight=%d", direct, inFlight), func(b *testing.B) {
				s := openFor(b, l, layout.Options{
					Dir:         dir,
					ReadOnly:    true,
					Direct:      direct,
					MemoryBytes: 64 << 20,
				})

				readers := make([]layout.Reader, inFlight)
				for i := range readers {
					var err error
					readers[i], err = s.Reader()
					must(b, err)
				}

				look(b, readers, accounts, 20_000) // fills the cache
				before, cpu := s.Counters().Reads, CPUNanos(b)
				b.ReportAllocs()
				b.ResetTimer()
				look(b, readers, accounts, b.N)
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lookups/s")
				if after := s.Counters().Reads; before != nil && after != nil {
					b.ReportMetric(float64(*after-*before)/float64(b.N), "reads/op")
				}

				b.ReportMetric((CPUNanos(b)-cpu)/float64(b.N), "cpu-ns/op")
				for _, r := range readers {
					must(b, r.Close())
				}

				must(b, s.Close())
			})
		}
	}
}

// look shares n lookups among readers.
func look(b *testing.B, readers []layout.Reader, accounts uint64, n int) {
	var group sync.WaitGroup
	for w, r := range readers {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), uint64(n)))
			for range (n + w) / len(readers) {
				if _, found, err := r.Account(spread(rng.Uint64N(accounts))); err != nil || !found {
					b.Error(found, err)
					return
				}
			}
		})
	}

	group.Wait()
}

func openFor(b *testing.B, l layout.Layout, o layout.Options) layout.State {
	b.Helper()
	s, err := l.Open(b.Context(), o)
	must(b, err)
	return s
}

// CPUNanos is the processor time of the process so far: on a shared machine the clock
// says more about the neighbours.
func CPUNanos(b *testing.B) float64 {
	b.Helper()
	var usage unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}
