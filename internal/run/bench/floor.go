package bench

import (
	"sync/atomic"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
)

// floor measures the harness by itself: the same loop on an engine that answers
// "absent" at once.
func (r *run) floor() {
	ns := HarnessFloor(r.Clock)
	r.Result.Figures.HarnessNanosPerGet = &ns
}

// floorGets is short enough to go before every run: some 20 ms.
const floorGets = 200_000

// HarnessFloor is the cost of the loop around a Get, in nanoseconds: choosing and
// making a 32-byte key, two clock reads, recording.
func HarnessFloor(clock *measure.Clock) float64 {
	keys := &keyset{choice: workload.Choice{Keys: 1 << 20, MissingShare: 1, Seed: 1},
		space: keyspace.Keys{Count: 1 << 20, Bytes: 32, Order: keyspace.Hashed, Hash: keyspace.Mix}, values: new(keyspace.Values)}
	w := &worker{keys: keys.source(workload.MeasurePhase, 0), reader: nothing{}, clock: clock, service: measure.NewRecorder(), stop: new(atomic.Bool)}
	return session.Floor(clock, floorGets, w.run)
}

// nothing is an engine's reader without an engine.
type nothing struct{}

func (nothing) Get(_, dst []byte) ([]byte, bool, error) { return dst, false, nil }

func (nothing) Close() error { return nil }
