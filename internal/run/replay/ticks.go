package replay

import (
	"cmp"
	"errors"
	"runtime/metrics"
	"time"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// Looking at every file of a tree may take long: it gets a twentieth of the time at
// most.
const diskShare = 20

// ticker writes a line of series.jsonl about every second. It is called between
// versions, never while the tree's time is taken.
type ticker struct {
	*session.Interval[tree.Counters]
	at       totals
	commits  *measure.Histogram // of this tick
	diskNext time.Time
	window   []part // one a tick
}

// begin starts the clock of the series.
func (t *ticker) begin(r *run) (err error) {
	t.commits = measure.NewHistogram()
	t.Interval, err = r.Interval(replayPhase)
	return err
}

// tick writes what happened since the last one. between is true where the tree
// has committed all it was given, so that its shape may be asked for.
func (t *ticker) tick(r *run, now time.Time, between bool) error {
	sum := r.totals.minus(t.at)
	tick, cost, err := t.End(sum.leaves)
	if err != nil {
		return err
	}
	if t.commits.N() > 0 {
		tick.P50, tick.P99 = t.commits.Quantile(0.5), t.commits.Quantile(0.99)
	}
	of := result.TreeTick{Version: r.totals.version, Leaves: r.totals.leaves, WriteBytes: cost.Process.WriteBytes, UserBytes: sum.userBytes,
		Nodes: cost.Subject.Nodes, DBGets: cost.Subject.DBGets, CacheHits: cost.Subject.CacheHits, CacheMisses: cost.Subject.CacheMisses,
		LogHits: cost.Subject.LogHits}
	if inTree := sum.seconds(); inTree > 0 {
		of.LeavesPerSecond = float64(sum.leaves) / inTree
		of.NodesPerSecond = session.Per(of.Nodes, inTree)
		of.DBGetsPerSecond = session.Per(of.DBGets, inTree)
	}
	of.GoHeapBytes, of.GoCollections = goMemory()
	if of.RSSBytes, err = host.RSS(); err != nil {
		return err
	}
	if between {
		if of.TreeSize, of.TreeHeight, err = r.shape(); err != nil {
			return err
		}
	}
	if now.After(t.diskNext) {
		bytes, _, err := host.Allocated(r.spec.Dir)
		if err != nil {
			return err
		}
		of.DiskBytes, t.diskNext = &bytes, now.Add(diskShare*time.Since(now))
	}
	t.window = append(t.window, part{tick.Seconds, r.totals.leaves, r.totals.seconds(), of.DBGets, of.DiskBytes})
	tick.Tree = &of
	t.at, r.counted = r.totals, r.forest.Counters()
	t.commits.Reset()
	r.tellProgress(&tick)
	return errors.Join(r.rows.flush(), r.WriteTick(tick))
}

// goMemory is what Go's heap holds and how often it was collected; it stops nothing.
func goMemory() (heap, collections *int64) {
	of := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(of)
	bytes, cycles := int64(of[0].Value.Uint64()), int64(of[1].Value.Uint64())
	return &bytes, &cycles
}

// part is where the replay was at a tick.
type part struct {
	seconds float64 // since it began
	leaves  uint64  // so far
	inTree  float64 // seconds
	gets    *int64  // of the tree's database, in this tick
	disk    *int64  // bytes of the tree's files, where they were looked at
}

// leastTicks tell a tenth.
const leastTicks = 20

// lastWindow is the last tenth of the replay, an hour at most; nil where it was too
// short to tell one.
func (t *ticker) lastWindow() *result.Window {
	n := len(t.window)
	if n < leastTicks {
		return nil
	}
	last := t.window[n-1]
	length := min(last.seconds/10, time.Hour.Seconds())
	first, earlier := t.upTo(last.seconds-length), t.upTo(last.seconds-2*length)
	from, begin := t.window[first], t.window[earlier]
	w := &result.Window{Seconds: last.seconds - from.seconds, Leaves: last.leaves - from.leaves, LeavesPerSecond: last.speedSince(from)}
	if earlier < first {
		w.Before = new(from.speedSince(begin))
	}
	var seen []part
	for _, p := range t.window[first:] {
		if p.disk != nil {
			seen = append(seen, p)
		}
	}
	if n := len(seen); n > 1 && seen[n-1].leaves > seen[0].leaves {
		w.DiskBytesPerLeaf = new(float64(*seen[n-1].disk-*seen[0].disk) / float64(seen[n-1].leaves-seen[0].leaves))
	}
	for _, p := range t.window[first+1:] {
		if p.gets != nil {
			w.DBGets = new(*p.gets + *cmp.Or(w.DBGets, new(int64)))
		}
	}
	return w
}

// upTo is the place of the last tick that is not after a time, the first if there is none.
func (t *ticker) upTo(seconds float64) (place int) {
	for i, p := range t.window {
		if p.seconds <= seconds {
			place = i
		}
	}
	return place
}

// speedSince is the number of leaves per second in the tree since an earlier tick.
func (p part) speedSince(before part) float64 {
	if inTree := p.inTree - before.inTree; inTree > 0 {
		return float64(p.leaves-before.leaves) / inTree
	}
	return 0
}
