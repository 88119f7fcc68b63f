package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// verifyFolder is where the runs of Verify are, below the folder of the advice.
const verifyFolder = "verify"

// probe reads from the disk of the database. Its own files are read if they are
// large enough; nothing is written beside the files of another's database.
func (a *Request) probe(ctx context.Context, run *result.Run) (advice.Disk, error) {
	if a.ProbeSeconds == 0 {
		if a.Table {
			return advice.Disk{Absent: "a level table has no disk to read from"}, nil
		}
		return advice.Disk{Absent: "--probe-seconds 0"}, nil
	}

	dir := a.Dir
	if a.Gets.Spec.Foreign && run.Database.Bytes < enoughToProbe {
		other, remove, err := ProbeDir(a.Dir, a.Out)
		if err != nil {
			return advice.Disk{Absent: err.Error()}, nil
		}

		defer remove()
		dir = other
	}

	a.Tell(result.Event{Phase: "probing the disk"})
	probing := host.DiskPlan{
		Dir:      dir,
		InFlight: []int{1, 4, 16},
		Seconds:  a.ProbeSeconds / probeRepeats,
		Repeats:  probeRepeats,
	}

	probed, err := host.MeasureDisk(ctx, probing, func(string) {})
	switch {
	case err != nil && ctx.Err() == nil:
		return advice.Disk{Absent: err.Error(), Failed: true}, nil // the rest of the advice stands
	case err != nil:
		return advice.Disk{}, err
	case probed.Contradicted != "":
		return advice.Disk{
			Absent: "its probe contradicts itself, perhaps because others use the disk: " +
				probed.Contradicted,
			Failed: true,
		}, nil
	}

	var disk advice.Disk
	for _, point := range probed.Points {
		disk.Points = append(disk.Points, advice.ProbePoint{
			InFlight:       point.InFlight,
			ReadsPerSecond: point.ReadsPerSecond,
			MeanNanos:      point.MeanNanos,
			P99Nanos:       int64(point.P99Nanos),
		})
	}

	return disk, nil
}

// probeRepeats are compared: what other users of the disk do shows in how far they are apart.
const probeRepeats = 3

// enoughToProbe is well above what host.OpenProbe wants of a directory's files.
const enoughToProbe = 512 << 20

// ProbeDir returns a folder on the disk of dir where a file may be written: out, or a new one among
// the temporary files, which belong to others and are not read. Remove it when the probe has ended.
func ProbeDir(dir, out string) (folder string, remove func(), err error) {
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

	return "", nil, fmt.Errorf("the database is too small to be probed, and statelab writes "+
		"nothing into its folder: name a folder on %s with --out", own.Name)
}

// verify measures the cache that runs and the recommended one, each in a
// process of its own, read-only, and predicts those very runs.
func (a *Request) verify(
	ctx context.Context, model advise.Model, traced bool, advice advise.Advice,
) ([]advise.Verified, error) {
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

	sizes := setting.NewValue(caches...)
	work := sweep.New(sweep.Sweep{
		Name:    "advise " + a.Dir,
		Command: a.Command,
		Base:    spec,
		Axes:    []sweep.Axis{sweep.Caches(&sizes)},
	}, how, a.By)

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
func (a *Request) predictRun(
	ctx context.Context, model advise.Model, traced bool, spec bench.Spec, point result.Point,
) (v advise.Verified, err error) {
	if !point.Figures.Has(figure.BlockReadsPerGet) {
		return v, fmt.Errorf("verify %s: block reads were not counted",
			unit.Bytes(point.CacheBytes))
	}

	spec.WarmupGets, spec.Gets = point.WarmupGets, point.Figures.Gets
	predicted := 0.0
	if traced && spec.WarmupGets+2*spec.Gets <= curve.MaxGets {
		gets := a.Gets
		gets.Spec = spec
		points, err := curve.Predict(ctx, gets, a.Cores, pebbledb.OpenReserveBytes,
			[]int64{point.CacheBytes}, nil)
		if err != nil {
			return v, fmt.Errorf("verify %s: %w", unit.Bytes(point.CacheBytes), err)
		}

		predicted = points[0].BlockReadsPerGet
	} else {
		in := model.Input
		in.Levels, in.CacheBytes, in.WarmupGets, in.Gets = model.Levels, []int64{point.CacheBytes},
			spec.WarmupGets, spec.Gets
		in.ReservedBytes = a.restReserve(spec.Engine, true)(point.CacheBytes)
		points, err := predict.Run(ctx, in)
		if err != nil {
			return v, fmt.Errorf("verify %s: %w", unit.Bytes(point.CacheBytes), err)
		}

		predicted = points[0].BlockReadsPerGet
	}

	v = advise.Verified{
		CacheBytes: point.CacheBytes, WarmupGets: point.WarmupGets, Gets: point.Figures.Gets,
		Predicted: predicted, Measured: point.Figures.OrZero(figure.BlockReadsPerGet),
		DeviceReadsPerGet: point.Figures.Value(figure.DeviceReadsPerGet), PageCache: spec.PageCache,
	}

	if v.Measured > 0 {
		v.ErrorPercent = 100 * (v.Predicted/v.Measured - 1)
	}

	return v, nil
}

// A trace costs memory and, of a large database, all its metadata to be read.
// Beyond these the level model has to do.
const (
	minTracedGets       = 200_000
	tracedWarmupShare   = 4 // parts of five
	tracedBlocksPerFill = 2 // a cache is full after its blocks were asked for twice over
	usualBlockBytes     = 4 << 10
)

// draw predicts the curve of e: from a trace of the database's own blocks where it can be traced,
// and else from the sizes of its levels. It tells whether there is a trace.
func (a *Request) draw(
	ctx context.Context, run *result.Run, model *advise.Model, e *advise.Evidence,
) (traced bool, err error) {
	var t *cachesim.Trace
	gets := uint64(0)
	switch {
	case a.Table:
	case a.Trace != "":
		if t, model.List, err = a.traceKept(); err == nil {
			gets = model.List.WarmupGets + model.List.Gets
		}
	case a.Gets.Spec.AccessList != "":
		if t, model.List, err = a.traceList(ctx, run); err == nil {
			gets = model.List.WarmupGets + model.List.Gets
		}
	default:
		t, gets, err = a.traceRandom(ctx, run)
	}

	if err != nil {
		return false, err
	}

	if t != nil {
		model.Cost = a.costOf(ctx, t)
	}

	if a.openFiles != nil {
		if e.OpenTables, err = a.openTables(ctx, *model); err != nil {
			return false, err
		}
	}

	e.Curve, err = advise.Draw(ctx, *model, func(done int) {
		a.Tell(result.Event{Phase: "predicting", Done: uint64(done), Unit: "points"})
	})
	e.Curve.TracedGets = int(gets)
	return t != nil, err
}

// traceRandom traces Gets that fill every cache of the curve, unless the database is too large
// for that, or changes underneath: then nil, and why is said.
func (a *Request) traceRandom(
	ctx context.Context, run *result.Run,
) (t *cachesim.Trace, traced uint64, err error) {
	gets := max(minTracedGets, 5*tracedBlocksPerFill*advise.MaxDrawn(run.Database.Levels,
		run.Database.Values)/usualBlockBytes/tracedWarmupShare)
	table := a.Gets.Spec.Overrides["table"]
	if gets > curve.MaxGets || !curve.Traceable(run.Database.Levels) {
		if table != "" {
			return nil, 0, errors.New("--table: the database is too large to be traced, and the " +
				"sizes of its levels do not tell kinds of keys apart: measure with statelab " +
				"sweep --table")
		}

		if err := advise.OnlyLevels(a.Dir, run.Database.Values); err != nil {
			return nil, 0, err
		}

		a.Say("the database is too large to be traced: the prediction uses the sizes of its levels")
		return nil, 0, nil
	}

	warmup := uint64(gets) * tracedWarmupShare / (tracedWarmupShare + 1)
	t, err = a.trace(ctx, warmup, uint64(gets)-warmup)
	if err != nil && ctx.Err() == nil && table == "" && run.Database.Values == nil {
		a.Say("the database cannot be traced (%v): the prediction uses the sizes of its levels",
			err)
		return nil, 0, nil
	}

	return t, uint64(gets), err
}

// traceList traces the Gets of an access list, once: the first half fills the cache, the other
// counts. A curve for random keys is no stand-in where that cannot be done.
func (a *Request) traceList(
	ctx context.Context, run *result.Run,
) (*cachesim.Trace, *advise.List, error) {
	if metadata := curve.MetadataBytes(run.Database.Levels); metadata > curve.MaxMetadata {
		return nil, nil, fmt.Errorf("--accesses: a trace needs %s of filters and indexes in "+
			"memory, at most %s are read: measure with statelab sweep --accesses",
			unit.Bytes(metadata), unit.Bytes(curve.MaxMetadata))
	}

	spec := a.Gets.Spec
	gets, err := bench.ListGets(ctx, a.Gets.Engine, &spec)
	if err != nil {
		return nil, nil, err
	}

	if gets < 2 || gets > curve.MaxGets {
		return nil, nil, fmt.Errorf("--accesses %s: its blocks ask for %s keys, advise needs "+
			"from 2 to %s: use a list of other blocks", spec.AccessList, unit.Count(gets),
			unit.Count(uint64(curve.MaxGets)))
	}

	list := &advise.List{
		Name:       filepath.Base(spec.AccessList),
		KeyScheme:  spec.KeyScheme,
		Gets:       gets - gets/2,
		WarmupGets: gets / 2,
	}

	t, err := a.trace(ctx, list.WarmupGets, list.Gets)
	if err != nil {
		return nil, nil, err
	}

	return t, a.sum(list, t), nil
}

// sum adds what the blocks of the list's trace come to.
func (a *Request) sum(list *advise.List, t *cachesim.Trace) *advise.List {
	for _, b := range t.Blocks {
		list.Bytes += int64(b.Bytes) + subject.PebbleVersion(a.Gets.Spec.Engine).BlockCharge()
	}
	list.FirstReads = float64(firstReads(t)) / float64(list.Gets)
	return list
}

// traceKept reads a trace that was kept, such as that of a node's own Gets. What memtables took of
// its cache is left out: for other caches they are reckoned.
func (a *Request) traceKept() (*cachesim.Trace, *advise.List, error) {
	file, err := os.Open(a.Trace)
	if err != nil {
		return nil, nil, fmt.Errorf("--trace: %w", err)
	}

	defer file.Close() // read only
	t, header, err := trace.Load(file)
	if err != nil {
		return nil, nil, fmt.Errorf("--trace %s: %w", a.Trace, err)
	}

	if err := a.Gets.Fits(a.Trace, header); err != nil {
		return nil, nil, err
	}

	if err := a.Gets.FitsBlocks(a.Trace, header, t.Blocks); err != nil {
		return nil, nil, err
	}

	counted := len(t.Gets) - t.WarmupGets
	if counted < 1 {
		return nil, nil, engine.Fail(engine.CodeUsage, "--trace %s: it has no Get behind those "+
			"that fill the cache: watch for longer", a.Trace)
	}

	t.Events = slices.DeleteFunc(t.Events, func(e cachesim.Event) bool { return e.Reserved != 0 })
	list := &advise.List{
		Name:       filepath.Base(a.Trace),
		Gets:       uint64(counted),
		WarmupGets: uint64(t.WarmupGets),
	}

	return t, a.sum(list, t), nil
}

// trace traces as many Gets.
func (a *Request) trace(ctx context.Context, warmup, gets uint64) (*cachesim.Trace, error) {
	of := a.Gets
	of.Spec.Threads, of.Spec.WarmupAuto, of.Spec.WarmupGets, of.Spec.Gets = 1, false, warmup, gets
	t, header, err := curve.Traced(ctx, of, a.Tell)
	if err == nil && header.OpenFiles != nil && of.Spec.Handles == 0 {
		a.openFiles, a.traced = header.OpenFiles, [2]uint64{warmup, gets}
	}
	return t, err
}

// openTables is what the limit of open files costs: the Gets are traced once more, with all tables
// open.
func (a *Request) openTables(
	ctx context.Context, model advise.Model,
) (o *advice.OpenFileLimit, err error) {
	cacheBytes := cmp.Or(model.NowBytes, openTablesCache)
	now, err := model.Cost(cacheBytes, model.RestReserve(cacheBytes))
	if err != nil {
		return nil, err
	}

	open := *a
	open.Gets.Spec.Handles = a.openFiles.Enough
	t, err := open.trace(ctx, a.traced[0], a.traced[1])
	if err != nil {
		return nil, err
	}

	then, err := open.costOf(ctx, t)(cacheBytes, model.RestReserve(cacheBytes))
	return &advice.OpenFileLimit{
		Limit:      a.openFiles.Limit,
		Tables:     a.openFiles.Tables,
		Enough:     a.openFiles.Enough,
		CacheBytes: cacheBytes,
		Reads:      now.BlockReadsPerGet,
		ReadsOpen:  then.BlockReadsPerGet,
	}, err
}

// openTablesCache is the cache with which the cost of opening tables is told where no cache is in
// use.
const openTablesCache = 64 << 20

// costOf is the advise.Model's.
func (a *Request) costOf(
	ctx context.Context, t *cachesim.Trace,
) func(cacheBytes, reservedBytes int64) (advise.Cost, error) {
	return func(cacheBytes, reservedBytes int64) (advise.Cost, error) {
		setup := cachesim.Setup{
			Policy:        subject.PebbleVersion(a.Gets.Spec.Engine).Policy(),
			Cores:         a.Cores,
			ReservedBytes: reservedBytes,
		}

		points, err := cachesim.Curve(ctx, t, setup, []int64{cacheBytes})
		if err != nil {
			return advise.Cost{},
				fmt.Errorf("simulate a cache of %s: %w", unit.Bytes(cacheBytes), err)
		}

		return advise.Cost{
			BlockReadsPerGet: points[0].BlockReadsPerGet(),
			DataBlocksPerGet: points[0].DataBlocksPerGet(),
		}, nil
	}
}

// firstReads are the accesses after the warm-up to blocks that were not accessed before.
func firstReads(t *cachesim.Trace) (reads int) {
	seen := make([]bool, len(t.Blocks))
	for i, number := range t.Accesses {
		if !seen[number] && uint32(i) >= t.Gets[t.WarmupGets] {
			reads++
		}
		seen[number] = true
	}
	return reads
}
