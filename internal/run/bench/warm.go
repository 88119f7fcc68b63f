package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
)

// warm runs Gets that are not measured: a given number, or until the reads per Get
// have stopped changing.
func (r *run) warm(ctx context.Context, keys *keyset) error {
	if !r.spec.WarmupAuto && r.spec.WarmupGets == 0 {
		return nil
	}

	if r.usesPageCache() && r.spec.PageCache == Cold && r.spec.MemoryBytes == 0 {
		r.Result.Workload.WarmupRule = "none: the page cache is this engine's cache, and it was " +
			"to be cold"
		return nil
	}

	_, err := r.Phase("warm", func(ops *atomicCount) error {
		t, err := r.team(keys, workload.WarmPhase, 0)
		if err != nil {
			return err
		}

		if r.spec.WarmupAuto {
			err = r.warmUntilSteady(ctx, t, ops)
		} else {
			err = r.drive(ctx, t, stretch{phase: "warm", gets: r.spec.WarmupGets, ops: ops})
		}

		r.Result.Workload.WarmupGets = ops.Load()
		if err == nil && r.spec.PageCache == Cold && !r.usesPageCache() {
			err = r.Evict(ctx) // the warm-up was for the engine's cache
		}

		return errors.Join(err, t.close.all())
	})

	return err
}

// The rule of warmUntilSteady, told in warmup_rule and docs/runs.md.
const (
	minWarmWindows = 8
	maxWarmWindows = 64
	steadyChange   = 0.01
	steadyReads    = 0.001 // a Get: less is no change, however few reads there are
)

// warmWindow is half of the blocks that the cache can hold, within reason: a quarter
// of eight windows asks for as many blocks as the cache can hold. Over fewer Gets a
// cache that is far from steady changes too little to tell.
func warmWindow(cacheBlocks int64) uint64 { return uint64(min(max(cacheBlocks/2, 5_000), 250_000)) }

// cacheBlocks is how many blocks of the database the cache can hold.
func (r *run) cacheBlocks() int64 {
	const blockBytes = 4096
	bytes := r.Result.Cache.Effective
	if left := r.Result.Cache.BlockBytes; left != nil { // by memtables
		bytes = *left
	}

	if r.usesPageCache() {
		bytes = cmp.Or(r.spec.MemoryBytes, math.MaxInt64)
	}

	return min(bytes, r.Result.Database.Bytes) / blockBytes
}

// warmUntilSteady warms in windows until the cache has stopped filling and the
// reads per Get have stopped changing: of every block type, the last quarter of
// all windows differs from the quarter before by at most 1 % of all reads, plus
// one standard deviation of what chance does to such counts. Quarters grow with the
// warm-up, so a slow change is seen where it would be lost in one window.
func (r *run) warmUntilSteady(ctx context.Context, t *team, ops *atomicCount) error {
	w := &result.Warmup{CacheBlocks: r.cacheBlocks()}
	w.WindowGets = warmWindow(w.CacheBlocks)
	// every thread's share is the same, as in a trace
	if rest := w.WindowGets % uint64(r.spec.Threads); rest > 0 {
		w.WindowGets += uint64(r.spec.Threads) - rest
	}

	r.Result.Workload.Warmup = w
	counts := warmCounts{}
	last, err := r.Snapshot()
	if err != nil {
		return err
	}

	used := int64(0)
	for {
		before := last
		if err := r.drive(ctx, t,
			stretch{phase: "warm", gets: w.WindowGets, ops: ops}); err != nil {
			return err
		}

		if last, err = r.Snapshot(); err != nil {
			return err
		}

		w.Windows++
		filling := false
		if now := last.Subject.CacheUsedBytes; now != nil {
			filling = *now > used+used/100 && float64(*now) < 0.95*float64(r.Result.Cache.Effective)
			used = *now
		}

		if !filling && w.FilledAfterGets == 0 {
			w.FilledAfterGets = ops.Load()
		}

		reads, known := r.readsBetween(before, last)
		if known {
			counts.add(reads, w)
		}

		switch {
		case w.Windows < minWarmWindows:
			continue
		case !known && int64(ops.Load()) < 2*w.CacheBlocks && w.Windows < maxWarmWindows:
			continue
		case !known:
			w.Ended = result.WarmupUnwatched
		case !filling && counts.steady(w):
			w.Ended = result.WarmupSteady
		case w.Windows < maxWarmWindows:
			continue
		default:
			w.Ended = result.WarmupGivenUp
			r.Warn(engine.Warning{
				Code: "not_steady",
				Text: fmt.Sprintf("the reads per Get still changed after %d warm-up Gets",
					ops.Load()),
				Remedy: r.words("--warmup with a larger count, or a larger --gets",
					"a larger Workload.WarmupGets, or a larger Workload.Gets"),
			})
		}

		r.Result.Workload.WarmupRule = warmupRule(w, ops.Load())
		return nil
	}
}

// warmCounts are block reads by type and window.
type warmCounts map[string][]int64

// add appends a window, also to what run.json will show.
func (c warmCounts) add(reads map[string]int64, w *result.Warmup) {
	for name := range reads {
		if c[name] == nil {
			c[name] = make([]int64, w.Windows-1)
		}
	}

	for name := range c {
		c[name] = append(c[name], reads[name])
	}

	if w.ReadsPerGet == nil {
		w.ReadsPerGet = map[string][]float64{}
	}

	for name, windows := range c {
		for n := len(w.ReadsPerGet[name]); n < len(windows); n++ {
			w.ReadsPerGet[name] = append(w.ReadsPerGet[name],
				float64(windows[n])/float64(w.WindowGets))
		}
	}
}

// steady compares the last quarter with the one before, and notes both.
func (c warmCounts) steady(w *result.Warmup) bool {
	quarter := w.Windows / 4
	gets := float64(quarter) * float64(w.WindowGets)
	sums := func(name string) (before, last float64) {
		windows := c[name][w.Windows-2*quarter:]
		for i, n := range windows {
			if i < quarter {
				before += float64(n)
			} else {
				last += float64(n)
			}
		}

		return before, last
	}

	w.Before, w.Last = 0, 0
	// in one order, so that equal runs have equal sums
	for _, name := range slices.Sorted(maps.Keys(c)) {
		before, last := sums(name)
		w.Before += before / gets
		w.Last += last / gets
	}

	still := func(before, last float64) bool {
		return math.Abs(before-last) <= max(steadyChange*w.Last, steadyReads)*gets+
			math.Sqrt(before+last)
	}

	for name := range c {
		if before, last := sums(name); !still(before, last) {
			return false
		}
	}

	return still(w.Before*gets, w.Last*gets)
}

// warmupRule tells what a warm-up did, and why it ended.
func warmupRule(w *result.Warmup, gets uint64) string {
	did := fmt.Sprintf("%d windows of %d Gets", w.Windows, w.WindowGets)
	quarters := fmt.Sprintf("%.4f block reads per Get in the last quarter of %d, %.4f in the "+
		"quarter before", w.Last, gets, w.Before)
	switch w.Ended {
	case result.WarmupUnwatched:
		return fmt.Sprintf("%s, at least two for each of the %d blocks that the cache can hold "+
			"(no block reads to watch)", did, w.CacheBlocks)
	case result.WarmupGivenUp:
		return fmt.Sprintf("until steady, given up after %s: %s", did, quarters)
	}

	return fmt.Sprintf("until steady: %s: the cache had stopped filling after %d Gets; %s; no "+
		"block type changed by more than 1%% of that and chance", did,
		w.FilledAfterGets, quarters)
}

// readsBetween is the number of block reads by type between two snapshots, however
// they are counted; false where nobody counts them.
func (r *run) readsBetween(
	before, after session.Snapshot[engine.Counters],
) (reads map[string]int64, known bool) {
	if d := after.Subject.Sub(*before.Subject); d.Reads != nil {
		reads = map[string]int64{}
		for name, t := range byType(d.Reads) {
			reads[name] = t.Count
		}
		return reads, true
	}

	return map[string]int64{engine.Page.String(): after.Process.MajorFaults -
		before.Process.MajorFaults}, r.usesPageCache() && r.Uncounted() == ""
}
