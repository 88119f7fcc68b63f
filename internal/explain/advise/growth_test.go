package advise

import (
	"context"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
)

// TestGrow: what is known of the present cache stays as it is told, a grown database reads no less
// with the same cache, and the cache that keeps the reads is not smaller.
func TestGrow(t *testing.T) {
	testring.Outer(t, "it predicts thirty caches")
	spec := lsm.BenchKVDB(60e3)
	spec.LBaseMaxBytes = 1 * mib
	levels := lsm.WithCharge(lsm.SteadyStateLevels(spec), cachesim.PebbleV2.BlockCharge())
	m := Model{
		Levels:      levels,
		Input:       predict.Input{Version: cachesim.PebbleV2, Cores: 1, Seeds: []uint64{1}},
		RestReserve: func(int64) int64 { return 0 },
	}

	present := Place{CacheBytes: 2 * mib, BlockCacheBytes: 2 * mib, BlockReadsPerGet: 0.8}
	g, err := Grow(context.Background(), m, present,
		lsm.Growth{LBaseMaxBytes: spec.LBaseMaxBytes,
			TargetFileBytes: spec.TargetFileBytes}.Levels,
		Grown{Factor: 2},
		func(int) {})
	if err != nil {
		t.Fatal(err)
	}

	var before, after engine.Level
	for _, l := range levels {
		before = before.Plus(l)
	}
	for _, l := range g.Levels {
		after = after.Plus(l)
	}

	if g.Now != present || after.Keys != 2*before.Keys || g.Bytes != after.Bytes ||
		g.Then.CacheBytes != present.CacheBytes ||
		g.Then.BlockReadsPerGet <= present.BlockReadsPerGet ||
		g.Same == nil || g.Same.CacheBytes <= present.CacheBytes || g.Near == nil {
		t.Errorf("%+v", g)
	}

	for _, words := range []string{"If its state grows to 2x, the tables take about",
		"block reads instead of 0.800; a cache of"} {
		if !strings.Contains(g.sentence(), words) {
			t.Errorf("%q lacks %q", g.sentence(), words)
		}
	}

}

// TestGrowthWithoutACache: without a present cache, only the size and the recommendation are told.
func TestGrowthWithoutACache(t *testing.T) {
	alone := Growth{Grown: Grown{Factor: 1.5}, Bytes: 3 * gib, Near: &Place{CacheBytes: 20 * mib}}
	if got := alone.sentence(); got != "If its state grows to 1.5x, the tables take about "+
		"3.00 GiB of the disk; 20.0 MiB is then recommended." {
		t.Error(got)
	}
}
