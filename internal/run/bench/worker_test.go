package bench

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/pace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/measure"
)

const keyBytes = 32

// workerOn is a worker over the keys of a loaded shelf.
func workerOn(t testing.TB, reader engine.Reader, missing float64, model string) *worker {
	t.Helper()
	values, err := keyspace.NewValues(model, 110, 1)
	if err != nil {
		t.Fatal(err)
	}
	keys := &keyset{choice: workload.Choice{Keys: shelfKeys, MissingShare: missing, Seed: 1},
		space: keyspace.Keys{Count: shelfKeys, Bytes: keyBytes, Order: keyspace.Hashed, Hash: keyspace.Mix, Seed: 1}, values: values}
	return &worker{keys: keys.source(workload.MeasurePhase, 0), reader: reader, clock: measure.NewClock(), service: measure.NewRecorder(), stop: new(atomic.Bool)}
}

// filled is a shelf with the pairs that workerOn asks for.
func filled(t testing.TB, model string) *shelf {
	t.Helper()
	values, err := keyspace.NewValues(model, 110, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, key := newShelf(), make([]byte, keyBytes)
	maker := keyspace.Keys{Count: shelfKeys, Bytes: keyBytes, Order: keyspace.Hashed, Hash: keyspace.Mix, Seed: 1}.Maker()
	for i := range uint64(shelfKeys) {
		maker.Key(key, i)
		s.pairs[string(key)] = values.Value(nil, i, 0)
	}
	return s
}

func TestAGetAllocatesNothing(t *testing.T) {
	for _, model := range []string{keyspace.Random, keyspace.Table32, keyspace.TrieNode} {
		for name, w := range map[string]*worker{
			"absent":  workerOn(t, nothing{}, 1, model),
			"present": workerOn(t, &shelfReader{filled(t, model)}, 0.3, model),
		} {
			if err := w.run(2000); err != nil { // the value buffer grows once
				t.Fatal(err)
			}
			if allocs := testing.AllocsPerRun(5, func() {
				if err := w.run(2000); err != nil {
					t.Error(err)
				}
			}); allocs != 0 {
				t.Errorf("%s, %s: %v allocations in 2000 Gets", name, model, allocs)
			}
			w.pace, w.response = pace.Constant(1e9, 0, 1), measure.NewRecorder()
			if allocs := testing.AllocsPerRun(5, func() {
				if err := w.run(2000); err != nil {
					t.Error(err)
				}
			}); allocs != 0 {
				t.Errorf("%s, %s, open loop: %v allocations in 2000 Gets", name, model, allocs)
			}
		}
	}
}

// TestAStallIsOneSlowServiceAndManySlowResponses is coordinated omission: who
// times only the calls sees one slow Get, who has a schedule sees that 20 Gets
// were due meanwhile.
func TestAStallIsOneSlowServiceAndManySlowResponses(t *testing.T) {
	// Half a stall is longer than any preemption.
	const stalledCall, stall, calls, rate = 50, time.Second, 250, 200
	s := newShelf()
	s.onGet = func(call int64, _, _ []byte, _ bool) ([]byte, bool, error) {
		if call == stalledCall {
			time.Sleep(stall)
		}
		return nil, false, nil
	}
	w := workerOn(t, &shelfReader{s}, 1, keyspace.Random)
	w.pace, w.response = pace.Constant(rate, 0, 1), measure.NewRecorder()
	w.began = w.clock.Ticks()
	if err := w.run(calls); err != nil {
		t.Fatal(err)
	}
	service, response := measure.NewHistogram(), measure.NewHistogram()
	measure.Rest([]*measure.Recorder{w.service}, service)
	measure.Rest([]*measure.Recorder{w.response}, response)
	if service.N() != calls || response.N() != calls {
		t.Fatalf("%d service and %d response times of %d calls", service.N(), response.N(), calls)
	}
	if slow := atLeast(service, stall/2); slow != 1 {
		t.Errorf("%d service times of %v and more, want 1", slow, stall/2)
	}
	if slow := atLeast(response, stall/2); slow < rate/2 {
		t.Errorf("%d response times of %v and more, want the %d that were due in the first half of the stall", slow, stall/2, rate/2)
	}
}

func atLeast(h *measure.Histogram, d time.Duration) (n int64) {
	hdr := h.HDR()
	for _, bar := range hdr.Distribution() {
		if bar.From >= int64(d) {
			n += bar.Count
		}
	}
	return n
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
		{"value cut short", 0, func(_ int64, _, value []byte, _ bool) ([]byte, bool, error) { return value[:50], true, nil }, "wrong answer"},
		{"value of another key", 0, func(int64, []byte, []byte, bool) ([]byte, bool, error) { return make([]byte, 110), true, nil }, "wrong answer"},
		{"missing", 0, func(int64, []byte, []byte, bool) ([]byte, bool, error) { return nil, false, nil }, "wrong answer: a key that was written is missing"},
		{"value of an absent key", 1, func(int64, []byte, []byte, bool) ([]byte, bool, error) { return []byte("made up"), true, nil },
			"wrong answer: a value of 7 bytes for a key that was never written"},
		{"failed", 0, func(int64, []byte, []byte, bool) ([]byte, bool, error) { return nil, false, broken }, "disk on fire"},
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
			err := w.run(100)
			if err == nil || !strings.HasPrefix(err.Error(), asked) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s%s", err, asked, c.want)
			}
			if s.gets.Load() != 7 {
				t.Errorf("%d Gets: it went on", s.gets.Load())
			}
			service := measure.NewHistogram()
			measure.Rest([]*measure.Recorder{w.service}, service)
			if service.N() != 7 {
				t.Errorf("%d of 7 Gets recorded", service.N())
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
	if err := w.run(uint64(b.N)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCheckedGet adds the check of a value of 110 bytes, which is not timed
// but is CPU time of the run.
func BenchmarkCheckedGet(b *testing.B) {
	w := workerOn(b, &shelfReader{filled(b, keyspace.Random)}, 0, keyspace.Random)
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.run(uint64(b.N)); err != nil {
		b.Fatal(err)
	}
}
