package evidence

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// verifyFolder is where the runs of Verify are, below the folder of the advice.
const verifyFolder = "verify"

// probe reads from the disk of the database. Its own files are read if they are
// large enough; nothing is written beside the files of another's database.
func (a *Asked) probe(ctx context.Context, run *result.Run) (advise.Disk, error) {
	if a.ProbeSeconds == 0 {
		if a.Table {
			return advise.Disk{Absent: "a level table has no disk to read from"}, nil
		}
		return advise.Disk{Absent: "--probe-seconds 0"}, nil
	}
	dir := a.Dir
	if a.Gets.Spec.Foreign && run.Database.Bytes < enoughToProbe {
		other, remove, err := Elsewhere(a.Dir, a.Out)
		if err != nil {
			return advise.Disk{Absent: err.Error()}, nil
		}
		defer remove()
		dir = other
	}
	a.Tell(result.Event{Phase: "probing the disk"})
	probing := host.LimitPlan{Dir: dir, InFlight: []int{1, 4, 16}, Seconds: a.ProbeSeconds / probeRepeats, Repeats: probeRepeats}
	probed, err := host.Limit(ctx, probing, func(string) {})
	switch {
	case err != nil && ctx.Err() == nil:
		return advise.Disk{Absent: err.Error(), Failed: true}, nil // the rest of the advice stands
	case err != nil:
		return advise.Disk{}, err
	case probed.Contradicted != "":
		return advise.Disk{Absent: "its probe contradicts itself, perhaps because others use the disk: " + probed.Contradicted, Failed: true}, nil
	}
	var disk advise.Disk
	for _, point := range probed.Points {
		disk.Points = append(disk.Points, advise.ProbePoint{InFlight: point.InFlight, ReadsPerSecond: point.ReadsPerSecond, MeanNanos: point.MeanNanos,
			P99Nanos: int64(point.P99Nanos)})
	}
	return disk, nil
}

// probeRepeats are compared: what other users of the disk do shows in how far they are apart.
const probeRepeats = 3

// enoughToProbe is well above what host.OpenProbe wants of a directory's files.
const enoughToProbe = 512 << 20

// Elsewhere is a folder on the disk of dir where a file may be written: out, or a new one among the temporary files, which
// belong to others and are not read. Remove it when the probe has ended.
func Elsewhere(dir, out string) (folder string, remove func(), err error) {
	own, err := host.DeviceOf(dir)
	if err != nil {
		return "", nil, err
	}
	for _, other := range []string{out, os.TempDir()} {
		if other == "" {
			continue
		}
		if d, err := host.DeviceOf(other); err != nil || d.Name != own.Name {
			continue
		}
		if other == out {
			return out, func() {}, nil
		}
		folder, err := os.MkdirTemp(other, "statelab-probe-")
		return folder, func() { _ = os.RemoveAll(folder) }, err
	}
	return "", nil, fmt.Errorf("the database is too small to be probed, and statelab writes nothing into its folder: name a folder on %s with --out", own.Name)
}

// verify measures the cache that runs and the recommended one, each in a
// process of its own, read-only, and predicts those very runs.
func (a *Asked) verify(ctx context.Context, model advise.Model, traced bool, advice advise.Advice) ([]advise.Verified, error) {
	spec := a.Gets.Spec
	if model.List != nil {
		spec.WarmupGets, spec.Gets, spec.WarmupAuto = model.List.WarmupGets, model.List.Gets, false
	}
	spec.Threads = verifyThreads
	if spec.AccessList != "" {
		spec.Threads = 1 // in the list's order
	}
	if host.DirectSupported(a.Dir) == nil {
		spec.PageCache = bench.Direct
	}
	var caches []setting.CacheSize
	for _, bytes := range slices.Compact([]int64{advice.Now.CacheBytes, advice.Then.CacheBytes}) {
		if bytes > 0 {
			caches = append(caches, setting.Bytes(bytes))
		}
	}
	folder := filepath.Join(a.Runs, verifyFolder)
	how := plan.Plan{Out: folder, Repeats: 1, Seed: a.Seed}
	if err := os.MkdirAll(filepath.Join(folder, result.PointsDir), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the measurement: %w", err)
	}
	sizes := setting.To(caches...)
	work := sweep.New(sweep.Sweep{Name: "advise " + a.Dir, Command: a.Command, Base: spec, Axes: []sweep.Axis{sweep.Caches(&sizes)}}, how, a.By)
	so, err := plan.Run(ctx, how, work, a.Step)
	done := work.Result
	if err == nil && so.Status != result.OK {
		err = so.Failure(so.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	a.Say("measured: %s", folder)
	var verified []advise.Verified
	for _, point := range done.Points {
		v, err := a.predictRun(ctx, model, traced, spec, point)
		if err != nil {
			return nil, err
		}
		verified = append(verified, v)
	}
	return verified, nil
}

// verifyThreads shorten the measurement; they do not change what a Get reads.
const verifyThreads = 4

// predictRun predicts a run that was measured: its warm-up, its Gets.
func (a *Asked) predictRun(ctx context.Context, model advise.Model, traced bool, spec bench.Spec, point result.Point) (v advise.Verified, err error) {
	if point.Figures.BlockReadsPerGet == nil {
		return v, fmt.Errorf("verify %s: block reads were not counted", unit.Bytes(point.CacheBytes))
	}
	spec.WarmupGets, spec.Gets = point.WarmupGets, point.Figures.Gets
	predicted := 0.0
	if traced && spec.WarmupGets+2*spec.Gets <= curve.MostGets {
		gets := a.Gets
		gets.Spec = spec
		points, err := curve.Predict(ctx, gets, a.Cores, pebbledb.OpenReserveBytes, []int64{point.CacheBytes}, nil)
		if err != nil {
			return v, fmt.Errorf("verify %s: %w", unit.Bytes(point.CacheBytes), err)
		}
		predicted = points[0].BlockReadsPerGet
	} else {
		in := model.Input
		in.Levels, in.CacheBytes, in.WarmupGets, in.Gets = model.Levels, []int64{point.CacheBytes}, spec.WarmupGets, spec.Gets
		in.ReservedBytes = a.restReserve(spec.Engine, true)(point.CacheBytes)
		points, err := predict.Run(ctx, in)
		if err != nil {
			return v, fmt.Errorf("verify %s: %w", unit.Bytes(point.CacheBytes), err)
		}
		predicted = points[0].BlockReadsPerGet
	}
	v = advise.Verified{
		CacheBytes: point.CacheBytes, WarmupGets: point.WarmupGets, Gets: point.Figures.Gets,
		Predicted: predicted, Measured: *point.Figures.BlockReadsPerGet,
		DeviceReadsPerGet: point.Figures.DeviceReadsPerGet, PageCache: spec.PageCache,
	}
	if v.Measured > 0 {
		v.ErrorPercent = 100 * (v.Predicted/v.Measured - 1)
	}
	return v, nil
}
