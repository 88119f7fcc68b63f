package replay

import (
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
		Nodes: cost.Subject.Nodes, DBGets: cost.Subject.DBGets, CacheHits: cost.Subject.CacheHits, CacheMisses: cost.Subject.CacheMisses}
	if inTree := sum.seconds(); inTree > 0 {
		of.LeavesPerSecond = float64(sum.leaves) / inTree
		of.NodesPerSecond = session.Per(of.Nodes, inTree)
		of.DBGetsPerSecond = session.Per(of.DBGets, inTree)
	}
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
	return r.WriteTick(tick)
}
