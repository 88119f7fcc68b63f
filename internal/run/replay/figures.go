package replay

import (
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// phase runs work as a named phase with its own counters.
func (r *run) phase(name string, work func() error) error {
	r.tell(result.Event{Phase: name})
	began, leaves := time.Now(), r.totals.leaves
	gets := r.result.Figures.Gets
	var counters tree.Counters
	if r.forest != nil {
		counters = r.forest.Counters()
	}
	device, err := r.deviceNow()
	if err != nil {
		return err
	}
	before, err := host.ProcessNow()
	if err != nil {
		return err
	}
	workErr := work()
	p := result.Phase{Name: name, Seconds: time.Since(began).Seconds(), Ops: r.totals.leaves - leaves + r.result.Figures.Gets - gets}
	if r.forest != nil && name != closePhase {
		p.Engine = between(counters, r.forest.Counters())
	}
	if after, err := host.ProcessNow(); err == nil {
		io := host.ProcessBetween(before, after)
		p.Process, p.CPUNanos = &io, io.UserNanos+io.SystemNanos
	}
	if after, err := r.deviceNow(); err == nil && after != nil && device != nil {
		io := host.DeviceBetween(*device, *after)
		p.Device = &io
	}
	r.result.Phases = append(r.result.Phases, p)
	return workErr
}

// deviceNow are the counters of a block device that is the tree's alone, nil
// where there is none.
func (r *run) deviceNow() (*result.DeviceIO, error) {
	if !r.device.Private {
		return nil, nil
	}
	io, err := r.device.Now()
	if err != nil {
		return nil, fmt.Errorf("read the counters of %s: %w", r.device.Name, err)
	}
	return &io, nil
}

// between lists the tree's counters that are known, as differences.
func between(before, after tree.Counters) map[string]int64 {
	known := map[string]int64{}
	for name, pair := range map[string][2]*int64{
		"nodes": {before.Nodes, after.Nodes}, "cache_hits": {before.CacheHits, after.CacheHits}, "cache_misses": {before.CacheMisses, after.CacheMisses},
		"db_gets": {before.DBGets, after.DBGets}, "db_sets": {before.DBSets, after.DBSets}, "db_bytes": {before.DBBytes, after.DBBytes},
	} {
		if pair[1] == nil {
			continue
		}
		known[name] = *pair[1]
		if pair[0] != nil {
			known[name] -= *pair[0]
		}
	}
	return known
}

// tellProgress reports the last committed version.
func (r *run) tellProgress(tick *result.Tick) {
	e := result.Event{Phase: replayPhase, Done: r.totals.versions, Unit: "versions", Tick: tick}
	if r.last != math.MaxInt64 {
		e.Total = uint64(r.last - r.result.Figures.FirstVersion + 1)
	}
	r.tell(e)
}

// figures puts the totals into the result, as far as the run came.
func (r *run) figures() {
	t, f := r.totals, r.result.Figures.Replay
	f.Leaves, f.Sets, f.Removes, f.Versions, f.LastVersion, f.UserBytes = t.leaves, t.leaves-t.removes, t.removes, t.versions, t.version, t.userBytes
	f.ApplySeconds, f.CommitSeconds = float64(t.applyNanos)/1e9, float64(t.commitNanos)/1e9
	f.SyncSeconds, f.WaitSeconds = float64(t.syncNanos)/1e9, float64(t.waitNanos)/1e9
	if r.commits.N() > 0 {
		summary := r.commits.Summary()
		f.CommitNanos = &summary
	}
	if t.leaves > 0 && t.seconds() > 0 {
		f.LeavesPerSecond = float64(t.leaves) / t.seconds()
		f.SettledPerSecond = float64(t.leaves) / (t.seconds() + f.SyncSeconds)
		f.ApplyNanos = float64(t.applyNanos) / float64(t.leaves)
		if f.HarnessNanos != nil {
			percent := 100 * *f.HarnessNanos * float64(t.leaves) / float64(t.applyNanos+t.commitNanos)
			f.HarnessPercent = &percent
			r.judgeHarness(percent)
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
	r.treeFigures(f, t)
	r.diskFigures(f)
}

// maxHarnessPercent is what the harness may take of a tree's time unnoticed.
const maxHarnessPercent = 3

func (r *run) judgeHarness(percent float64) {
	if percent > maxHarnessPercent && r.result.Engine.RootRule != result.NoRoots {
		r.warn(engine.Warning{Code: "harness_share", Text: fmt.Sprintf("the harness took %.1f%% of the time per leaf", percent), Remedy: "compare such a tree by its own time: subtract harness_ns_per_leaf"})
	}
}

// treeFigures are what the tree itself counted until the writes were settled.
func (r *run) treeFigures(f *result.Replay, t totals) {
	c := r.counted
	f.Nodes, f.CacheHits, f.CacheMisses, f.DBGets, f.DBSets, f.DBBytes = c.Nodes, c.CacheHits, c.CacheMisses, c.DBGets, c.DBSets, c.DBBytes
	f.NodesPerSecond, f.DBGetsPerSecond = rate(c.Nodes, t.seconds()), rate(c.DBGets, t.seconds())
	if c.DBBytes != nil && t.userBytes > 0 {
		amplification := float64(*c.DBBytes) / float64(t.userBytes)
		r.result.Figures.WriteAmplification = &amplification
	}
	why := "the tree does not tell"
	if f.TreeSize == nil {
		why = "the replay did not come to its end"
	}
	for name, figure := range map[string]*int64{"nodes_per_second": c.Nodes, "cache_hits": c.CacheHits, "cache_misses": c.CacheMisses,
		"db_gets_per_second": c.DBGets, "write_amplification": c.DBBytes, "tree_size": f.TreeSize} {
		if figure == nil {
			r.absent(why, name)
		}
	}
}

// diskFigures are what the files take, and what reached the device for them.
func (r *run) diskFigures(f *result.Replay) {
	bytes, files, err := host.Allocated(r.spec.Dir)
	if err != nil {
		r.absent(err.Error(), "disk_bytes")
	} else {
		f.DiskBytes = &bytes
		r.result.Database.Bytes, r.result.Database.Files, r.result.Database.Written = bytes, files, "statelab"
	}
	var written int64
	for _, p := range r.result.Phases {
		switch {
		case p.Name != replayPhase && p.Name != settlePhase:
		case p.Device != nil:
			written += p.Device.WriteBytes
		case p.Process != nil: // whole folios where one page of them is made dirty
			written += p.Process.WriteBytes
		}
	}
	if f.UserBytes > 0 {
		amplification := float64(written) / float64(f.UserBytes)
		r.result.Figures.DeviceWriteAmplification = &amplification
	}
}
