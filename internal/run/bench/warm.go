package bench

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
)

// warm runs Gets that are not measured: a given number, or until a window's
// reads per Get have stopped changing.
func (r *run) warm(ctx context.Context, keys *keyset) error {
	if !r.spec.WarmupAuto && r.spec.WarmupGets == 0 {
		return nil
	}
	if r.usesPageCache() && r.spec.PageCache == Cold && r.spec.MemoryBytes == 0 {
		r.Result.Workload.WarmupRule = "none: the page cache is this engine's cache, and it was to be cold"
		return nil
	}
	_, err := r.Phase("warm", func(ops *atomicCount) error {
		t, err := r.team(keys, workload.WarmPhase, 0)
		if err != nil {
			return err
		}
		service := measure.NewHistogram()
		if r.spec.WarmupAuto {
			err = r.warmUntilSteady(ctx, t, keys.choice.Keys, ops, service)
		} else {
			err = r.drive(ctx, t, stretch{phase: "warm", gets: r.spec.WarmupGets, ops: ops, service: service})
		}
		r.Result.Workload.WarmupGets = ops.Load()
		if err == nil && r.spec.PageCache == Cold && !r.usesPageCache() {
			err = r.Evict(ctx) // the warm-up was for the engine's cache
		}
		return errors.Join(err, t.close())
	})
	return err
}

// The rule of warmUntilSteady, told in warmup_rule and docs/methods/reads.md.
const (
	steadyWindows  = 3
	maxWarmWindows = 40
	steadySpread   = 0.01
)

// windowGets is a fiftieth of the keys, within reason: long enough to average
// over, short enough to notice when it is over.
func windowGets(keys uint64) uint64 { return min(max(keys/50, 20_000), 1_000_000) }

// warmUntilSteady warms in windows. The cache is steady when the reads per Get of
// the last three windows lie within 1 % (plus what chance does to windows of this
// size) and the cache has stopped filling.
func (r *run) warmUntilSteady(ctx context.Context, t *team, keys uint64, ops *atomicCount, service *measure.Histogram) error {
	window := windowGets(keys)
	allowed := steadySpread + 2/math.Sqrt(float64(window))
	var readsPerGet []float64
	used := int64(0)
	for n := 1; ; n++ {
		before, err := r.Snapshot()
		if err != nil {
			return err
		}
		if err := r.drive(ctx, t, stretch{phase: "warm", gets: window, ops: ops, service: service}); err != nil {
			return err
		}
		end, err := r.Snapshot()
		if err != nil {
			return err
		}
		reads, known := r.readsBetween(before, end)
		if !known {
			if n == steadyWindows {
				r.Result.Workload.WarmupRule = fmt.Sprintf("%d windows of %d Gets (no block reads to watch)", n, window)
				return nil
			}
			continue
		}
		readsPerGet = append(readsPerGet, float64(reads)/float64(window))
		filling, after := false, end.Subject
		if after.CacheUsedBytes != nil {
			filling = *after.CacheUsedBytes > used+used/100 && float64(*after.CacheUsedBytes) < 0.95*float64(r.Result.Cache.Effective)
			used = *after.CacheUsedBytes
		}
		if n >= steadyWindows && !filling && spread(readsPerGet[n-steadyWindows:]) <= allowed {
			r.Result.Workload.WarmupRule = fmt.Sprintf("until steady: %d windows of %d Gets, the last %d within %.1f%%", n, window, steadyWindows, 100*allowed)
			return nil
		}
		if n == maxWarmWindows {
			r.Result.Workload.WarmupRule = fmt.Sprintf("until steady, given up after %d windows of %d Gets", n, window)
			r.Warn(engine.Warning{Code: "not_steady", Text: fmt.Sprintf("the reads per Get still changed after %d warm-up Gets", ops.Load()),
				Remedy: "--warmup with a larger count, or a larger --gets"})
			return nil
		}
	}
}

// readsBetween is the number of block reads between two snapshots, however they
// are counted; false where nobody counts them.
func (r *run) readsBetween(before, after session.Snapshot[engine.Counters]) (reads int64, known bool) {
	if d := after.Subject.Sub(*before.Subject); d.Reads != nil {
		return d.Reads.Total().Count, true
	}
	return after.Process.MajorFaults - before.Process.MajorFaults, r.usesPageCache()
}

// spread is (max - min) / max of positive numbers.
func spread(values []float64) float64 {
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	if high == 0 {
		return 0
	}
	return (high - low) / high
}
