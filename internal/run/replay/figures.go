package replay

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
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
	p.Engine = session.Known(map[string]*int64{"nodes": c.Nodes, "cache_hits": c.CacheHits, "cache_misses": c.CacheMisses,
		"db_gets": c.DBGets, "db_sets": c.DBSets, "db_bytes": c.DBBytes, "log_cache_hits": c.LogHits})
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
	t, f := r.totals, r.Result.Figures.Replay
	f.Leaves, f.Sets, f.Removes, f.Versions, f.LastVersion, f.UserBytes = t.leaves, t.leaves-t.removes, t.removes, t.versions, t.version, t.userBytes
	f.ApplySeconds, f.CommitSeconds = float64(t.applyNanos)/1e9, float64(t.commitNanos)/1e9
	f.SyncSeconds, f.WaitSeconds = float64(t.syncNanos)/1e9, float64(t.waitNanos)/1e9
	if r.commits.N() > 0 {
		f.CommitNanos = new(r.commits.Summary())
	}
	if t.leaves > 0 && t.seconds() > 0 {
		f.LeavesPerSecond = float64(t.leaves) / t.seconds()
		f.SettledPerSecond = float64(t.leaves) / (t.seconds() + f.SyncSeconds)
		f.ApplyNanos = float64(t.applyNanos) / float64(t.leaves)
		if f.HarnessNanos != nil {
			percent := 100 * *f.HarnessNanos * float64(t.leaves) / float64(t.applyNanos+t.commitNanos)
			f.HarnessPercent = &percent
			if percent > maxHarnessPercent && r.Result.Engine.RootRule != result.NoRoots {
				r.Warn(engine.Warning{Code: "harness_share", Text: fmt.Sprintf("statelab's own work took %.1f%% of the time per leaf", percent),
					Remedy: "to compare the trees alone, subtract harness_ns_per_leaf from the time"})
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
		r.Warn(engine.Warning{Code: "root_unknown", Text: "the tree held the last version already when the replay was resumed, and its root was not stored",
			Remedy: "replay it again without --resume to compare its root"})
	}
	r.treeFigures(f, t)
	if f.LastWindow = r.ticks.lastWindow(); f.LastWindow == nil {
		r.Absent(fmt.Sprintf("the replay is shorter than %d s", leastTicks), "last_window")
	}
	r.diskFigures(f)
}

// maxHarnessPercent is what the harness may take of a tree's time unnoticed.
const maxHarnessPercent = 3

// treeFigures are what the tree itself counted until the writes were settled.
func (r *run) treeFigures(f *result.Replay, t totals) {
	c := r.counted
	f.Nodes, f.CacheHits, f.CacheMisses, f.DBGets, f.DBSets, f.DBBytes = c.Nodes, c.CacheHits, c.CacheMisses, c.DBGets, c.DBSets, c.DBBytes
	f.NodesPerSecond, f.DBGetsPerSecond = session.Per(c.Nodes, t.seconds()), session.Per(c.DBGets, t.seconds())
	f.LogHits, f.LogHitsPerSecond = c.LogHits, session.Per(c.LogHits, t.seconds())
	if c.DBBytes != nil && t.userBytes > 0 {
		r.Result.Figures.WriteAmplification = new(float64(*c.DBBytes) / float64(t.userBytes))
	}
	why := "the tree does not tell"
	if f.TreeSize == nil {
		why = "the replay did not come to its end"
	}
	for name, figure := range map[string]*int64{"nodes_per_second": c.Nodes, "cache_hits": c.CacheHits, "cache_misses": c.CacheMisses,
		"db_gets_per_second": c.DBGets, "write_amplification": c.DBBytes, "tree_size": f.TreeSize} {
		if figure == nil {
			r.Absent(why, name)
		}
	}
}

// diskFigures are what the files take, and what reached the device for them.
func (r *run) diskFigures(f *result.Replay) {
	bytes, files, err := host.Allocated(r.spec.Dir)
	if err != nil {
		r.Absent(err.Error(), "disk_bytes")
	} else {
		f.DiskBytes = &bytes
		r.Result.Database.Bytes, r.Result.Database.Files, r.Result.Database.Written = bytes, files, "statelab"
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
		r.Result.Figures.DeviceWriteAmplification = new(float64(written) / float64(f.UserBytes))
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
	return session.Floor(clock, floorLeaves, func(leaves uint64) error {
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
