package bench

import (
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/internal/run/timed"
)

// floor measures the harness by itself: the same loop on an engine that answers
// "absent" at once.
func (r *run) floor() {
	r.Result.Figures.HarnessNanosPerGet = new(HarnessFloor(r.Clock))
}

// floorGets is short enough to go before every run: some 20 ms.
const floorGets = 200_000

// HarnessFloor is the cost of the loop around a Get, in nanoseconds: choosing and
// making a 32-byte key, two clock reads, recording.
func HarnessFloor(clock *measure.Clock) float64 {
	m := floorManifest()
	keys := &keyset{choice: workload.Choice{Keys: m.Keys, MissingShare: 1, Seed: 1}, space: m.KeySpace(), values: new(keyspace.Values)}
	w := timed.NewWorker(clock, &gets{keySource: keys.source(workload.MeasurePhase, 0)}, nothing{})
	return session.Floor(clock, floorGets, w.Run)
}

// floorManifest describes the keys that the harness is measured with.
func floorManifest() *keyspace.Manifest {
	const keys, keyBytes, valueBytes = 1 << 20, 32, 110
	return &keyspace.Manifest{Keys: keys, Loaded: keys, Settled: true, KeyBytes: keyBytes, KeyOrder: keyspace.Hashed, KeyHash: keyspace.Mix,
		ValueModel: keyspace.Random, ValueBytes: valueBytes}
}

// nothing is an engine's reader without an engine.
type nothing struct{}

func (nothing) Get(_, dst []byte) ([]byte, bool, error) { return dst, false, nil }

func (nothing) Close() error { return nil }
