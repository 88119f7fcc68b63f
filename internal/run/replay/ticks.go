package replay

import (
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
	t.window = append(t.window, part{tick.Seconds, r.totals.leaves, r.totals.seconds()})
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
	begin := last.seconds - min(last.seconds/10, time.Hour.Seconds())
	first := t.window[0]
	for _, p := range t.window {
		if p.seconds <= begin {
			first = p
		}
	}
	w := &result.Window{Seconds: last.seconds - first.seconds, Leaves: last.leaves - first.leaves}
	if inTree := last.inTree - first.inTree; inTree > 0 {
		w.LeavesPerSecond = float64(w.Leaves) / inTree
	}
	return w
}
