package bench

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/pace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/timed"
)

const keyBytes = 32

// getsOn asks for the keys of a loaded shelf.
func getsOn(t testing.TB, missing float64, model string) *gets {
	t.Helper()
	values, err := keyspace.NewValues(model, 110, 1)
	if err != nil {
		t.Fatal(err)
	}

	keys := &keyset{
		choice: workload.Choice{Keys: shelfKeys, MissingShare: missing, Seed: 1},
		space: keyspace.Keys{
			Count: shelfKeys,
			Bytes: keyBytes,
			Order: keyspace.Hashed,
			Hash:  keyspace.Mix,
			Seed:  1,
		},
		values: values,
	}

	return &gets{keySource: keys.source(workload.MeasurePhase, 0)}
}

// workerOn is a worker over them.
func workerOn(t testing.TB, reader engine.Reader, missing float64, model string) *timed.Worker {
	t.Helper()
	return timed.NewWorker(measure.NewClock(), getsOn(t, missing, model), reader)
}

// filled is a shelf with the pairs that workerOn asks for.
func filled(t testing.TB, model string) *shelf {
	t.Helper()
	values, err := keyspace.NewValues(model, 110, 1)
	if err != nil {
		t.Fatal(err)
	}

	s, key := newShelf(), make([]byte, keyBytes)
	maker := keyspace.Keys{
		Count: shelfKeys,
		Bytes: keyBytes,
		Order: keyspace.Hashed,
		Hash:  keyspace.Mix,
		Seed:  1,
	}.Maker()

	for i := range uint64(shelfKeys) {
		maker.Key(key, i)
		s.pairs[string(key)] = values.Value(nil, i, 0)
	}

	return s
}

// fewAllocations in 2000 Gets are those of histograms, which make a part of their counters when a
// time needs it; of a Get there is none.
const fewAllocations = 20

func TestAGetAllocatesNothing(t *testing.T) {
	for _, model := range []string{keyspace.Random, keyspace.Table32, keyspace.TrieNode} {
		for name, w := range map[string]*timed.Worker{
			"absent":  workerOn(t, nothing{}, 1, model),
			"present": workerOn(t, &shelfReader{filled(t, model)}, 0.3, model),
		} {
			if err := w.Run(2000); err != nil { // the value buffer grows once
				t.Fatal(err)
			}

			if allocs := testing.AllocsPerRun(5, func() {
				if err := w.Run(2000); err != nil {
					t.Error(err)
				}
			}); allocs > fewAllocations {
				t.Errorf("%s, %s: %v allocations in 2000 Gets", name, model, allocs)
			}

			w.SetPacer(pace.ConstantRate(1e9, 0, 1))
			if allocs := testing.AllocsPerRun(5, func() {
				if err := w.Run(2000); err != nil {
					t.Error(err)
				}
			}); allocs > fewAllocations {
				t.Errorf("%s, %s, open loop: %v allocations in 2000 Gets", name, model, allocs)
			}
		}
	}
}

func TestAWrongAnswerEndsTheWorkerAndNamesTheKey(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, c := range []struct {
		name    string
		missing float64
		onGet   func(call int64, key, value []byte, found bool) ([]byte, bool, error)
		want    string
	}{
		{"wrong value", 0, func(_ int64, _, value []byte, _ bool) ([]byte, bool, error) {
			return append([]byte{value[0] ^ 1}, value[1:]...), true, nil
		}, "wrong answer"},
		{"value cut short", 0,
			func(_ int64, _, value []byte, _ bool) ([]byte, bool, error) {
				return value[:50], true, nil
			}, "wrong answer"},
		{"value of another key", 0,
			func(int64, []byte, []byte, bool) ([]byte, bool, error) {
				return make([]byte, 110), true, nil
			}, "wrong answer"},
		{"missing", 0,
			func(int64, []byte, []byte, bool) ([]byte, bool, error) { return nil, false, nil },
			"wrong answer: a key that was written is missing"},
		{"value of an absent key", 1,
			func(int64, []byte, []byte, bool) ([]byte, bool, error) {
				return []byte("made up"), true, nil
			},
			"wrong answer: a value of 7 bytes for a key that was never written"},
		{"failed", 0,
			func(int64, []byte, []byte, bool) ([]byte, bool, error) { return nil, false, broken },
			"disk on fire"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := filled(t, keyspace.Random)
			var asked string
			s.onGet = func(call int64, key, value []byte, found bool) ([]byte, bool, error) {
				if call < 7 {
					return value, found, nil
				}
				asked = fmt.Sprintf("get key %x: ", key)
				return c.onGet(call, key, value, found)
			}

			w := workerOn(t, &shelfReader{s}, c.missing, keyspace.Random)
			err := w.Run(100)
			if err == nil || !strings.HasPrefix(err.Error(), asked) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s%s", err, asked, c.want)
			}

			if s.gets.Load() != 7 {
				t.Errorf("%d Gets: it went on", s.gets.Load())
			}
		})
	}
}

// BenchmarkNullGet is the harness alone: choose and make a key, two clock reads,
// record. 100 ns is the most it may cost.
func BenchmarkNullGet(b *testing.B) {
	w := workerOn(b, nothing{}, 1, keyspace.Random)
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(uint64(b.N)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCheckedGet adds the check of a value of 110 bytes, which is not timed
// but is CPU time of the run.
func BenchmarkCheckedGet(b *testing.B) {
	w := workerOn(b, &shelfReader{filled(b, keyspace.Random)}, 0, keyspace.Random)
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(uint64(b.N)); err != nil {
		b.Fatal(err)
	}
}
