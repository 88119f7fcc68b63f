package main

import (
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/layouts"
	"github.com/statelab/statelab/internal/plan/replays"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// dryRun ends a verb that was only to say what it would do.
type dryRun struct{}

func (dryRun) Error() string { return "dry run" }

// machine is what estimates take from this machine; a dry run takes the time to measure
// the disk under dir.
func (a *app) machine(f *flags, dir string, direct bool) (estimate.Machine, error) {
	m := estimate.Machine{Cores: runtime.NumCPU(), AvailableMemory: host.AvailableMemory()}
	if !f.dryRun {
		return m, nil
	}
	var err error
	if m.WriteBytes, err = host.ProbeWrite(a.ctx, dir); err != nil {
		return m, fmt.Errorf("measure the disk for the estimate: %w", err)
	}
	if direct {
		m.Disk, err = host.Limit(a.ctx, host.LimitPlan{Dir: dir, InFlight: []int{1, 8}, Seconds: ceilingSeconds, Repeats: 1}, func(string) {})
	}
	return m, err
}

// estimated refuses steps that the disk under dir or the memory cannot hold, and shows
// the estimate for --dry-run.
func (a *app) estimated(f *flags, dir string, steps []estimate.Step) (estimate.Estimate, error) {
	e := estimate.Total(steps)
	free, err := host.FreeBytes(dir)
	if err != nil {
		return e, fmt.Errorf("find out how much space is free: %w", err)
	}
	memory := host.AvailableMemory()
	if memory == 0 {
		memory = math.MaxInt64 // the kernel does not tell
	}
	if f.dryRun {
		if err := a.printEstimate(e, free, memory); err != nil {
			return e, err
		}
	}
	if wrong := e.Fits(free, memory); wrong != nil && !f.ignoreSpace && !f.resume && !f.elsewhere() {
		return e, fmt.Errorf("%w; --ignore-space starts all the same", wrong)
	}
	if f.dryRun {
		return e, dryRun{}
	}
	return e, nil
}

// mostRows is how many steps a dry run lists.
const mostRows = 20

func (a *app) printEstimate(e estimate.Estimate, free, memory int64) error {
	runs := len(e.Steps)
	if runs > 0 && e.Steps[runs-1].Kind == estimate.CurveKind {
		runs--
	}
	fmt.Fprintf(a.stdout, "%s, about %s: %s of disk (%s at the end), %s of memory.\nFree: %s of disk, %s of memory.\n\n", plural(runs, "run"),
		roughly(e.Seconds), unit.Bytes(e.PeakDiskBytes), unit.Bytes(e.DiskBytes), unit.Bytes(e.MemoryBytes), unit.Bytes(free), unit.Bytes(memory))
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "run\ttime\tdisk\tmemory\testimated from")
	for _, s := range e.Steps[:min(len(e.Steps), mostRows)] {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", s.Name, roughly(s.Seconds), unit.Bytes(s.PeakDiskBytes), unit.Bytes(s.MemoryBytes), s.Basis)
	}
	if more := len(e.Steps) - mostRows; more > 0 {
		fmt.Fprintf(table, "and %d more\n", more)
	}
	return table.Flush()
}

// roughly is a duration that nobody takes for exact.
func roughly(seconds float64) string {
	d := time.Duration(min(seconds, 1e9) * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", math.Ceil(d.Minutes()))
	}
	return fmt.Sprintf("%.0f h", math.Ceil(d.Hours()))
}

// unfinished are the steps of a sweep that --resume has to measure, and the curve after them.
func (a *app) unfinished(steps []estimate.Step, s sweep.Sweep, how plan.Plan) (left []estimate.Step) {
	points := sweep.New(s, how, a).Points()
	order := plan.Order(len(points), how.Repeats, how.Seed)
	for n, step := range steps {
		if n < len(order) {
			if run, err := result.ReadRun(filepath.Join(how.Out, how.Folder(points, order[n]))); err == nil && run.Status == result.OK {
				continue
			}
		}
		left = append(left, step)
	}
	return left
}

// bytesIn is what the files below dir hold, without write-ahead logs, which no cache holds a
// part of; those that vanish meanwhile do not count.
func bytesIn(dir string) int64 {
	bytes, _ := filesIn(dir)
	return bytes
}

func filesIn(dir string) (bytes int64, files int) {
	walk := func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(entry.Name()) == ".log" {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			bytes, files = bytes+info.Size(), files+1
		}
		return nil
	}
	if filepath.WalkDir(dir, walk) != nil {
		return 0, 0
	}
	return bytes, files
}

func loadStep(spec *bench.Spec, on estimate.Machine) (estimate.Step, error) {
	values, err := keyspace.NewValues(spec.ValueModel, spec.ValueBytes, spec.Seed)
	if err != nil {
		return estimate.Step{}, err
	}
	return estimate.Load(estimate.LoadSpec{Engine: spec.Engine, Sorted: spec.Workload == workload.FillSorted, Keys: spec.Keys,
		PairBytes: float64(spec.KeyBytes) + values.MeanBytes(), Table32: spec.ValueModel == keyspace.Table32, CacheBytes: spec.CacheBytes,
		Threads: spec.Threads}, on), nil
}

// sweepSteps are the steps of a sweep in their order: the first on a database that is
// to be made makes it.
func (a *app) sweepSteps(s sweep.Sweep, how plan.Plan, on estimate.Machine) (steps []estimate.Step, err error) {
	settings := s.Settings()
	made := map[string]estimate.Step{}
	held, files := filesIn(s.Base.Dir)
	var points []estimate.ReadSpec
	for _, step := range plan.Order(len(settings), how.Repeats, how.Seed) {
		setting := settings[step.Point]
		var load estimate.Step
		first := false
		if s.Base.Dir == "" {
			spec := setting.Made()
			var known bool
			if load, known = made[spec.Dir]; !known {
				if load, err = loadStep(&spec, on); err != nil {
					return nil, err
				}
				made[spec.Dir], first = load, true
			}
			held = load.TableBytes
		}
		spec := setting.Spec(held)
		point := estimate.ReadSpec{Engine: spec.Engine, Keys: max(setting.Load.Keys, uint64(spec.SampleKeys)), DatabaseBytes: held, Files: files,
			CacheBytes: spec.CacheBytes, MemoryBytes: spec.MemoryBytes, Threads: spec.Threads, Gets: spec.Gets, WarmupGets: spec.WarmupGets,
			WarmupAuto: spec.WarmupAuto, AccessGets: spec.AccessGets, Direct: spec.PageCache == bench.Direct, Cold: spec.PageCache == bench.Cold,
			Rate: spec.Rate, Cgo: a.tables.engines.WithCgo(spec.Engine)}
		points = append(points, point)
		read := estimate.Read(point, on)
		if first {
			load.Kind, load.Name = "load and read", load.Name+", then reading"
			load.Seconds, load.MemoryBytes = load.Seconds+read.Seconds, max(load.MemoryBytes, read.MemoryBytes)
			read = load
		}
		steps = append(steps, read)
	}
	if predictable(s) {
		steps = append(steps, estimate.Curve(points))
	}
	return steps, nil
}

func layoutSteps(l layouts.Layouts, how plan.Plan, on estimate.Machine) (steps []estimate.Step) {
	of := len(l.Entries)
	for _, step := range plan.Order(len(l.Accounts)*of, how.Repeats, how.Seed) {
		c := l.Base.Chain
		steps = append(steps, estimate.Layout(estimate.LayoutSpec{Layout: l.Entries[step.Point%of].Label, Accounts: l.Accounts[step.Point/of],
			ContractShare: c.ContractShare, SlotsPer: c.SlotsPer, Reads: l.Base.Reads, First: l.Base.First, MemoryBytes: l.Base.MemoryBytes, Keep: l.Keep}, on))
	}
	return steps
}

// replaySteps know the changes of a set that says how many it has.
func replaySteps(r replays.Replays, info changeset.Info, how plan.Plan, on estimate.Machine) (steps []estimate.Step) {
	if info.Totals == nil {
		return nil // only reading the whole set tells
	}
	for _, step := range plan.Order(len(r.Entries), how.Repeats, how.Seed) {
		steps = append(steps, estimate.Replay(estimate.ReplaySpec{Tree: r.Entries[step.Point].Info.Name, Changes: info.Totals.Changes, Bytes: bytesIn(r.Base.Changes),
			Stores: len(info.Stores), CacheNodes: r.Base.CacheNodes}, on))
	}
	return steps
}
