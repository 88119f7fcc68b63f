package predict

import (
	"math"
	"testing"

	"github.com/statelab/statelab/engine"
)

// Shards whose miss rates do not change any more drift by nothing, however long each of
// them was played on.
func TestCalmShardsDoNotDrift(t *testing.T) {
	classes := []class{{kind: engine.Data, perGet: 1}, {kind: engine.Filter, perGet: 5}}
	shard := func(data, filter int64, playedOn int64) outcome {
		one := tally{{accesses: 1000, misses: data}, {accesses: 5000, misses: filter}}
		later := newTally(2)
		later.addTimes(one, float64(playedOn))
		return outcome{measured: one, steady: later}
	}

	shards := []outcome{shard(990, 1500, 1), shard(700, 300, 400), shard(500, 4000, 37)}
	if drift := driftToSteadyState(classes, shards); math.Abs(drift) > 1e-9 {
		t.Errorf("drift of %g reads per Get", drift)
	}
}
