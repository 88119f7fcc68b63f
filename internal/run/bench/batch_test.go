package bench

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/timed"
)

// batching makes Gets of g in batches.
func batching(
	t testing.TB, g *gets, reader engine.Reader, size int, sorted bool, inFlight int,
	open func() (engine.Reader, error),
) (*timed.Worker, *batches) {
	t.Helper()
	b := &batches{gets: *g, sorted: sorted, answers: make([]engine.Answer, size)}
	var err error
	if b.many, err = manyOf(reader, inFlight, open); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := b.many.Close(); err != nil {
			t.Error(err)
		}
	})

	return timed.NewWorker(measure.NewClock(), b, b), b
}

func TestABatchAllocatesNothingAndAnswersEveryGet(t *testing.T) {
	s := filled(t, keyspace.Random)
	open := func() (engine.Reader, error) { return &shelfReader{s}, nil }
	for _, inFlight := range []int{0, 1, 4} {
		for _, sorted := range []bool{false, true} {
			w, b := batching(t, getsOn(t, 0.3, keyspace.Random), &shelfReader{s}, 32, sorted,
				inFlight, open)
			if err := w.Run(4000); err != nil { // value buffers grow once
				t.Fatal(err)
			}

			if allocs := testing.AllocsPerRun(5, func() {
				if err := w.Run(2000); err != nil {
					t.Error(err)
				}
			}); allocs > fewAllocations {
				t.Errorf("%d in flight, sorted %v: %v allocations in 2000 Gets", inFlight, sorted,
					allocs)
			}

			if want := uint64(4000 + 6*2000); b.found+b.missing != want {
				t.Errorf("%d in flight: %d Gets answered, %d made", inFlight, b.found+b.missing,
					want)
			}
		}
	}
}

func TestSortedBatchesAscendAndHaveTheSameKeys(t *testing.T) {
	take := func(sorted bool) (keys [][]byte) {
		b := &batches{gets: *getsOn(t, 0.2, keyspace.Random), sorted: sorted}
		for range 3 {
			batch := b.take(50)
			for i, c := range batch {
				if sorted && i > 0 && bytes.Compare(batch[i-1].key, c.key) > 0 {
					t.Errorf("key %d is before the one it follows", i)
				}

				if !bytes.Equal(b.keys[i], c.key) {
					t.Errorf("key %d is %x for the engine, %x for the check", i, b.keys[i], c.key)
				}

				keys = append(keys, bytes.Clone(c.key))
			}
		}

		return keys
	}

	seen := map[string]int{}
	for _, key := range take(false) {
		seen[string(key)]++
	}

	for _, key := range take(true) {
		seen[string(key)]--
	}

	for key, n := range seen {
		if n != 0 {
			t.Errorf("key %x: %d more unsorted than sorted", key, n)
		}
	}
}

func TestAWrongAnswerInABatchEndsTheWorker(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, inFlight := range []int{1, 4} {
		for want, onGet := range map[string]func(
			call int64, key, value []byte, found bool,
		) ([]byte, bool, error){
			"wrong answer": func(call int64, _, value []byte, found bool) ([]byte, bool, error) {
				if call == 20 {
					return append([]byte{value[0] ^ 1}, value[1:]...), true, nil
				}
				return value, found, nil
			},
			"disk on fire": func(call int64, _, value []byte, found bool) ([]byte, bool, error) {
				if call == 20 {
					return nil, false, broken
				}
				return value, found, nil
			},
		} {
			s := filled(t, keyspace.Random)
			s.onGet = onGet
			w, _ := batching(t, getsOn(t, 0, keyspace.Random), &shelfReader{s}, 16, false, inFlight,
				func() (engine.Reader, error) { return &shelfReader{s}, nil })
			err := w.Run(1000)
			if err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "get key ") {
				t.Errorf("%d in flight: %v, want %q", inFlight, err, want)
			}

			if s.gets.Load() > 32 {
				t.Errorf("%d in flight: %d Gets: it went on", inFlight, s.gets.Load())
			}
		}
	}
}

// BenchmarkNullBatch is BenchmarkNullGet in batches: what a batch costs a Get.
func BenchmarkNullBatch(b *testing.B) {
	w, _ := batching(b, getsOn(b, 1, keyspace.Random), nothing{}, 64, false, 1, nil)
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(uint64(b.N)); err != nil {
		b.Fatal(err)
	}
}
