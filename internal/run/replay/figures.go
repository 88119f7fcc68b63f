package replay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/tree"
)

type cost = session.Cost[tree.Counters]

// phase runs work as a named phase; its operations are leaves and Gets.
func (r *run) phase(name string, work func() error) (cost, error) {
	return r.Phase(name, func(ops *atomic.Uint64) error {
		before := r.totals.leaves + r.Result.Figures.Gets
		err := work()
		ops.Store(r.totals.leaves + r.Result.Figures.Gets - before)
		return err
	})
}

// counters are the tree's; nil while it is not open.
func (r *run) counters() *tree.Counters {
	if r.forest == nil {
		return nil
	}
	return new(r.forest.Counters())
}

// note lists the tree's counters that are known.
func note(c tree.Counters, p *result.Phase) {
	p.Engine = session.Known(map[string]*int64{
		"nodes":          c.Nodes,
		"cache_hits":     c.CacheHits,
		"cache_misses":   c.CacheMisses,
		"db_gets":        c.DBGets,
		"db_sets":        c.DBSets,
		"db_bytes":       c.DBBytes,
		"log_cache_hits": c.LogHits,
	})
}

// tellProgress reports the last committed version.
func (r *run) tellProgress(tick *result.Tick) {
	e := result.Event{Phase: replayPhase, Done: r.totals.versions, Unit: "versions", Tick: tick}
	if r.last != math.MaxInt64 {
		e.Total = uint64(r.last - r.Result.Figures.FirstVersion + 1)
	}
	r.Tell(e)
}

// figures puts the totals into the result, as far as the run came.
func (r *run) figures() {
	t, f, all := r.totals, r.Result.Figures.Replay, &r.Result.Figures
	f.Leaves, f.Sets, f.Removes, f.Versions, f.LastVersion, f.UserBytes = t.leaves,
		t.leaves-t.removes, t.removes, t.versions, t.version, t.userBytes
	f.ApplySeconds, f.CommitSeconds = float64(t.applyNanos)/1e9, float64(t.commitNanos)/1e9
	f.SyncSeconds, f.WaitSeconds = float64(t.syncNanos)/1e9, float64(t.waitNanos)/1e9
	if r.commits.N() > 0 {
		f.CommitNanos = new(r.commits.Summary())
	}

	if t.leaves > 0 && t.seconds() > 0 {
		all.Record(figure.LeavesPerSecond, float64(t.leaves)/t.seconds())
		all.Record(figure.LeavesPerSecond.Settled(), float64(t.leaves)/(t.seconds()+f.SyncSeconds))
		all.Record(figure.ApplyTimePerLeaf, float64(t.applyNanos)/float64(t.leaves))
		if harness, known := all.Number(figure.HarnessTimePerLeaf); known {
			percent := 100 * harness * float64(t.leaves) / float64(t.applyNanos+t.commitNanos)
			all.Record(figure.HarnessPercent, percent)
			if percent > maxHarnessPercent && r.Result.Engine.RootRule != result.NoRoots {
				r.Warn(engine.Warning{
					Code: "harness_share",
					Text: fmt.Sprintf("statelab's own work took %.1f%% of the time per leaf",
						percent),
					Remedy: "to compare the trees alone, subtract " +
						figure.HarnessTimePerLeaf.Key + " from the time",
				})
			}
		}
	}

	if r.roots != nil && r.roots.roots != nil {
		last := r.roots.last()
		f.Root = &last.Roots
		f.RootsChecked = r.roots.checked
		if f.ResumedAt == nil {
			f.RootsDigest = hex.EncodeToString(r.roots.digest[:])
		}
	}

	if f.Root == nil && f.ResumedAt != nil && r.info.RootRule != result.NoRoots {
		r.Warn(engine.Warning{
			Code: "root_unknown",
			Text: "the tree held the last version already when the replay was resumed, and its " +
				"root was not stored",
			Remedy: "replay it again without --resume to compare its root",
		})
	}

	r.treeFigures(t)
	if f.LastWindow = r.ticks.lastWindow(); f.LastWindow == nil {
		r.NotKnown(fmt.Sprintf("the replay is shorter than %d s", minTicks), "last_window")
	}

	r.diskFigures(f)
}

// maxHarnessPercent is what the harness may take of a tree's time unnoticed.
const maxHarnessPercent = 3

// treeFigures are what the tree itself counted until the writes were settled.
func (r *run) treeFigures(t totals) {
	c, all := r.counted, &r.Result.Figures
	seconds := t.seconds()
	why := "the tree does not tell"
	if !all.Has(figure.TreeSize) {
		why = "the replay did not come to its end"
		r.MarkUnavailable(why, figure.TreeSize)
	}

	counted := func(of figure.Figure, n *int64) { all.RecordIf(of, figure.If(n)) }
	counted(figure.NodesWritten, c.Nodes)
	counted(figure.CacheHits, c.CacheHits)
	counted(figure.CacheMisses, c.CacheMisses)
	counted(figure.DBGets, c.DBGets)
	counted(figure.DBSets, c.DBSets)
	counted(figure.DBBytes, c.DBBytes)
	counted(figure.LogHits, c.LogHits)
	all.RecordIf(figure.NodesPerSecond, figure.If(session.Per(c.Nodes, seconds)))
	all.RecordIf(figure.DBGetsPerSecond, figure.If(session.Per(c.DBGets, seconds)))
	all.RecordIf(figure.LogHitsPerSecond, figure.If(session.Per(c.LogHits, seconds)))

	for _, told := range []struct {
		of figure.Figure
		n  *int64
	}{
		{figure.NodesPerSecond, c.Nodes}, {figure.CacheHits, c.CacheHits}, {figure.CacheMisses,
			c.CacheMisses},
		{figure.DBGetsPerSecond, c.DBGets}, {figure.WriteAmplification, c.DBBytes},
	} {
		if told.n == nil {
			r.MarkUnavailable(why, told.of)
		}
	}

	if c.DBBytes != nil && t.userBytes > 0 {
		all.Record(figure.WriteAmplification, float64(*c.DBBytes)/float64(t.userBytes))
	}
}

// diskFigures are what the files take, and what reached the device for them.
func (r *run) diskFigures(f *result.Replay) {
	bytes, files, err := host.Allocated(r.spec.Dir)
	if err != nil {
		r.MarkUnavailable(err.Error(), figure.DiskBytes)
	} else {
		r.Result.Figures.Record(figure.DiskBytes, float64(bytes))
		r.Result.Database.Bytes, r.Result.Database.Files, r.Result.Database.Written = bytes, files,
			"statelab"
	}

	var written int64
	for _, p := range r.Result.Phases {
		switch {
		case p.Name != replayPhase && p.Name != settlePhase:
		case p.Device != nil:
			written += p.Device.WriteBytes
		case p.Process != nil: // whole folios where one page of them is made dirty
			written += p.Process.WriteBytes
		}
	}

	if f.UserBytes > 0 {
		r.Result.Figures.Record(figure.DeviceWriteAmplification,
			float64(written)/float64(f.UserBytes))
	}
}

// floorLeaves is short enough to go before every run: some milliseconds.
const floorLeaves = 1_000_000

// HarnessFloor is what the timed part of the harness costs per leaf of no tree, in
// nanoseconds: the loop, the call through the interface and, once a batch, the
// clock. Batches hold 100 changes, fewer than blocks of a busy chain.
func HarnessFloor(clock *measure.Clock) float64 {
	changes := make([]changeset.Change, 100)
	for i := range changes {
		changes[i] = changeset.Change{Key: []byte("key"), Value: []byte("value"), Delete: i%4 == 0}
	}

	var forest tree.Forest = nothing{}
	return session.Overhead(clock, floorLeaves, func(leaves uint64) error {
		var timed int64
		for range leaves / uint64(len(changes)) {
			begin := clock.Ticks()
			if _, err := change(forest, changes); err != nil {
				return err
			}
			timed += clock.Ticks() - begin
		}

		return nil
	})
}

// nothing is a forest without a tree.
type nothing struct{ tree.Forest }

func (nothing) Set(int, []byte, []byte) error { return nil }

func (nothing) Remove(int, []byte) error { return nil }

func (nothing) Commit(context.Context) (tree.Commit, error) { return tree.Commit{}, nil }

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

	of := result.TreeTick{
		Version:     r.totals.version,
		Leaves:      r.totals.leaves,
		WriteBytes:  figure.Known(float64(cost.Process.WriteBytes)),
		UserBytes:   figure.Known(float64(sum.userBytes)),
		Nodes:       cost.Subject.Nodes,
		DBGets:      cost.Subject.DBGets,
		CacheHits:   cost.Subject.CacheHits,
		CacheMisses: cost.Subject.CacheMisses,
		LogHits:     cost.Subject.LogHits,
	}

	if inTree := sum.seconds(); inTree > 0 {
		of.LeavesPerSecond = figure.Known(float64(sum.leaves) / inTree)
		of.NodesPerSecond = session.Per(of.Nodes, inTree)
		of.DBGetsPerSecond = session.Per(of.DBGets, inTree)
	}

	of.GoHeapBytes, of.GoCollections = goMemory()
	resident, err := host.RSS()
	if err != nil {
		return err
	}

	of.RSSBytes = figure.Known(float64(resident))

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

	t.window = append(t.window, part{tick.Seconds, r.totals.leaves, r.totals.seconds(), of.DBGets,
		of.DiskBytes})
	tick.Tree = &of
	t.at, r.counted = r.totals, r.forest.Counters()
	t.commits.Reset()
	r.tellProgress(&tick)
	return errors.Join(r.rows.flush(), r.WriteTick(tick))
}

// goMemory is what Go's heap holds and how often it was collected; it stops nothing.
func goMemory() (heap, collections *int64) {
	of := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
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

// minTicks tell a tenth.
const minTicks = 20

// lastWindow is the last tenth of the replay, an hour at most; nil where it was too
// short to tell one.
func (t *ticker) lastWindow() *result.Window {
	n := len(t.window)
	if n < minTicks {
		return nil
	}

	last := t.window[n-1]
	length := min(last.seconds/10, time.Hour.Seconds())
	first, earlier := t.upTo(last.seconds-length), t.upTo(last.seconds-2*length)
	from, begin := t.window[first], t.window[earlier]
	w := &result.Window{
		Seconds:         last.seconds - from.seconds,
		Leaves:          last.leaves - from.leaves,
		LeavesPerSecond: last.speedSince(from),
	}

	if earlier < first {
		w.Before = figure.Known(from.speedSince(begin))
	}

	var seen []part
	for _, p := range t.window[first:] {
		if p.disk != nil {
			seen = append(seen, p)
		}
	}

	if n := len(seen); n > 1 && seen[n-1].leaves > seen[0].leaves {
		w.DiskBytesPerLeaf = figure.Known(float64(*seen[n-1].disk-*seen[0].disk) / float64(
			seen[n-1].leaves-seen[0].leaves,
		))
	}

	for _, p := range t.window[first+1:] {
		if p.gets != nil {
			w.DBGets = figure.Known(float64(*p.gets) + w.DBGets.OrZero())
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
