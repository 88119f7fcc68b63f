package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

func (a *app) sweepVerb() *cobra.Command {
	return a.measuringVerb(experiment.Sweep, &cobra.Command{
		Use:   "sweep --db DIR --cache LIST",
		Short: "Measure Gets at each combination of caches, threads and engines",
		Long: `Sweep measures every combination of the listed values, each in a process of its
own, and writes one folder with a report: what a Get costs in block accesses, block
reads, device reads and time. Without --db it makes the databases it needs inside
that folder.

  statelab sweep --db D --cache 0.1%,0.2%,0.5%,1%,2%,3% --threads 8 --out S
  statelab sweep --db CHAINDATA --use-existing --cache 2GiB --page-cache direct
  statelab sweep --db D --rate 20k --threads 64    (open loop: response times)
  statelab sweep --keys 2M --engine pebble1,pebble2 --cache 8MiB,64MiB --out S
  statelab sweep --db D --cache 1% --set MemTableSize=4MiB,64MiB --out S
  statelab sweep --resume --out S                  (after Ctrl-C, a kill, a reboot)`,
	})
}

// sweep carries out an experiment on an engine.
func (a *app) sweep(f *flags, m *mistakes) error {
	s, repeats := a.sweepOf(f, m)
	if err := m.err(); err != nil {
		return err
	}
	how, err := a.prepare(f, s.Base.Seed, repeats, s.Base.PageCache == bench.Direct, func(how plan.Plan, on estimate.Machine) ([]estimate.Step, error) {
		steps, err := a.sweepSteps(s, how, on)
		if f.resume && err == nil {
			return a.unfinished(steps, s, how)
		}
		return steps, err
	})
	if err != nil {
		return err
	}
	s.Name = cmp.Or(f.Name, filepath.Base(how.Out))
	s.Databases = absolute(f.databases)
	work, err := sweep.New(s, how, a)
	if err != nil {
		return err
	}
	if how.Only, err = f.only(how, work.Points()); err != nil || f.matrix {
		return errors.Join(err, a.printMatrix(f, how, work.Points()))
	}
	p := a.progress()
	if err := a.ceiling(f.Ceiling, s, how.Out, p); err != nil {
		return err
	}
	so, err := plan.Run(a.ctx, how, work, func(at plan.Progress) { p.step("", at, at.Event) })
	p.say("")
	done := work.Result
	failed, again := 0, 0 // again: those that --resume would measure to the same end
	for _, point := range done.Points {
		if point.Status == result.Failed {
			p.say("the point with %s failed: %s", axesWords(point.Axes), point.Tell(point.Error))
			failed++
			if point.Code == engine.CodeNoBlocks {
				again++
			}
		}
	}
	if again > 0 && again == failed {
		so.Again = ""
	}
	err = errors.Join(err, judgeCeiling(s, done, how.Out))
	if so.Status == result.OK && how.Only == nil {
		began := time.Now()
		a.addPredicted(s, done, p)
		done.PhaseSeconds["predict"] = time.Since(began).Seconds()
		err = errors.Join(err, result.WriteSweep(how.Out, done))
		defer p.say("time: %s", phaseWords(done.PhaseSeconds))
	}
	return a.compared(f, p, finished{status: so.Status, error: so.Error, why: so.Why, warnings: done.Warnings, out: how.Out}, so, len(done.Points) > 0, err)
}

// phaseWords lists what took time, the longest first, and what share was not spent on Gets.
func phaseWords(seconds map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(seconds), func(a, b string) int { return cmp.Compare(seconds[b], seconds[a]) })
	total, outside := 0.0, 0.0
	var words []string
	for _, name := range names {
		total += seconds[name]
		if name != "warm" && name != "measure" && name != "load" && name != "settle" {
			outside += seconds[name]
		}
		if seconds[name] >= 0.05 {
			words = append(words, cmp.Or(map[string]string{
				"start": "starting processes", "prepare": "opening databases", "accesses": "counting block accesses", "warm": "warming up",
				"measure": "measuring", "load": "loading", "settle": "waiting for compactions", "predict": "predicting",
			}[name], name)+" "+duration(seconds[name]))
		}
	}
	return fmt.Sprintf("%s; %.0f%% neither for Gets nor for loading", strings.Join(words, ", "), 100*outside/max(total, 1e-9))
}

// sweepOf is the sweep that f declares.
func (a *app) sweepOf(f *flags, m *mistakes) (s sweep.Sweep, repeats int) {
	m.ceiling(f.Ceiling)
	fixed, options := m.options(f.allOptions())
	f.axes = true
	if f.DB == "" && f.Keys == "" && subject.KeepsNothing(string(f.Engine)) {
		f.DB = "." // it opens nothing
	}
	g := *f // with one value where a list is an axis
	g.Options = nil
	for name, value := range fixed {
		g.Options = append(g.Options, name+"="+value)
	}
	var t target
	switch {
	case f.DB != "":
		if f.Engine.Several() {
			m.add("--engine %s: with --db a sweep reads one database with one engine; without --db it makes a database for each", f.Engine)
		}
		if f.Age != bench.NoAge {
			m.add("--age %s: not with --db; to age a database, load it with statelab load --age", f.Age)
		}
		if f.Keys != "" {
			m.add("--keys %s: not with --db, whose number of keys is fixed", f.Keys)
		}
		g.Engine = experiment.List(f.Engine.First())
		t = a.target(&g, m)
	default:
		s.Load = a.loadOf(&g, m)
		t.engine = a.firstEngine(engines(f), m)
	}
	s.Axes = a.axes(f, &g, t, options)
	m.addAll("", s.Check())
	s.Base = a.readSpec(&g, t, m)
	if f.DB == "" && f.Engine.Several() && f.Profile == "" {
		s.Base.Profile = "" // every engine's own
	}
	s.Command = a.command()
	for _, o := range options {
		if len(o.Values) > 1 && f.DB != "" {
			m.stored(f, t, o.Name, o.Values...)
		}
	}
	m.pointOptions(a, f, s, options)
	return s, int(m.atLeastOne("repeats", f.Repeats, "3"))
}

func engines(f *flags) []string { return list(cmp.Or(string(f.Engine), subject.DefaultEngine())) }

// loadOf is how a sweep makes its databases.
func (a *app) loadOf(f *flags, m *mistakes) *bench.Spec {
	if f.Keys == "" {
		m.add("give --db DIR to measure a database, or --keys N to make one for the sweep (example: --keys 2M)")
		return nil
	}
	g := *f
	g.Workload, g.Engine, g.Profile, g.Keys = workload.FillRandom, "", "", experiment.List(f.Keys.First())
	spec := a.loadSpec(&g, m)
	m.cacheSize(&spec, defaultLoadCache)
	a.tellLibrary(m, spec.Overrides)
	return &spec
}

// axes are what varies, and the settings that reports name in any case. g gets one
// value of those that a spec needs.
func (a *app) axes(f, g *flags, t target, options []plan.Option) (axes []result.Axis) {
	add := func(name string, values []string) {
		if len(values) > 0 {
			axes = append(axes, result.Axis{Name: name, Values: values})
		}
	}
	add(sweep.ClassAxis, f.Constraint.Values())
	profiles := g.Profile.Values() // target may have found the database's own
	if f.DB == "" {
		add(sweep.EngineAxis, engines(f))
		add(sweep.KeysAxis, f.Keys.Values())
		if f.Age != bench.NoAge {
			add(sweep.AgeAxis, f.Age.Values())
		}
		if entry := engines(f); len(profiles) == 0 && len(entry) == 1 && t.engine != nil {
			_, own, _ := strings.Cut(entry[0], ":")
			profiles = []string{cmp.Or(own, t.engine.Info().Profiles[0].Name)}
		}
	}
	add(sweep.ProfileAxis, profiles)
	g.Profile = ""
	if len(profiles) > 0 {
		g.Profile = experiment.List(profiles[0])
	}
	if modes := f.PageCache.Values(); len(modes) > 1 {
		add(sweep.PageCacheAxis, modes)
		g.PageCache = experiment.List(modes[0])
	}
	add(sweep.HandlesAxis, f.Handles.Values())
	add(sweep.ThreadsAxis, f.Threads.Values())
	if f.Rate != "0" {
		add(sweep.RateAxis, f.Rate.Values())
	}
	if f.Workload == workload.MultiReadRandom {
		add(sweep.BatchGetsAxis, f.BatchGets.Values())
		add(sweep.BatchOrderAxis, f.BatchOrder.Values())
		add(sweep.InFlightAxis, f.InFlight.Values())
	}
	if f.Procs != "0" {
		add(sweep.ProcsAxis, f.Procs.Values())
	}
	add(sweep.MemoryAxis, f.Memory.Values())
	add(sweep.CacheAxis, f.Cache.Values())
	for _, o := range options {
		if len(o.Values) > 1 {
			add(sweep.OptionAxis+o.Name, o.Values)
		}
	}
	return axes
}

// pointOptions asks the engines what they think of the options of the points.
func (m *mistakes) pointOptions(a *app, f *flags, s sweep.Sweep, options []plan.Option) {
	if f.Memory != "" && f.Cache != "" {
		m.add("--memory and --cache: a memory budget covers the cache: give one of them")
	}
	settings, err := s.Settings()
	if err != nil {
		return // said by Check
	}
	if f.DB == "" {
		m.twice("engine", f.Engine.Values())
	}
	checked := map[string]bool{}
	held := int64(0) // at most what a share of the database is a share of
	if f.DB != "" && !f.elsewhere() {
		held = bytesIn(f.DB)
	}
	for _, setting := range settings {
		if s.Load != nil && f.Age == bench.NoAge {
			held = mostBytes(s.LoadOf(setting))
		}
		m.roomForBlocks(s.Spec(setting, held))
		spec := s.Spec(setting, 0)
		if key := fmt.Sprint(spec.Engine, spec.Profile, spec.CacheBytes, spec.MemoryBytes, spec.Handles, spec.Overrides, spec.PageCache); !checked[key] {
			checked[key] = true
			m.checkOptions(a.engine(spec.Engine, new(mistakes)), spec) // engines that are missing were named before
		}
	}
}

// mostBytes is more than a database of Pebble takes once it is loaded: 1.09 times its keys
// and values in measurements of 20k to 5M keys.
func mostBytes(load bench.Spec) int64 {
	values, err := keyspace.NewValues(load.ValueModel, load.ValueBytes, load.Seed)
	if err != nil {
		return 0 // said of the spec
	}
	return int64(1.25 * float64(load.Keys) * (float64(load.KeyBytes) + values.MeanBytes()))
}

// roomForBlocks refuses a cache that memtables would fill.
func (m *mistakes) roomForBlocks(spec bench.Spec) {
	if !subject.IsPebble(spec.Engine) || spec.CacheBytes == 0 || spec.Overrides["MemTableSize"] != "" {
		return
	}
	if _, _, err := sweep.ParseCache(spec.CacheAsked); err != nil {
		return // was reported: the size is not what was meant
	}
	takes, err := pebbledb.OpenReserveBytes(spec.Engine, spec.Profile, spec.CacheBytes, spec.ReadOnly)
	if err != nil || takes < spec.CacheBytes { // an unknown profile is reported as such
		return
	}
	remedy := ""
	if least, err := pebbledb.OpenReserveBytes(spec.Engine, spec.Profile, spec.CacheBytes, true); err == nil && least < spec.CacheBytes && !spec.ReadOnly {
		remedy = ", or add --read-only, with which they take " + map[bool]string{true: "nothing", false: unit.Bytes(least)}[least == 0]
	}
	asked := spec.CacheAsked
	if strings.HasSuffix(asked, "%") {
		asked += " (at most " + view.ShortBytes(spec.CacheBytes) + " of this database)"
	}
	m.add("--cache %s: the memtables of %s take %s of the cache, which leaves nothing for blocks: give more, such as --cache %s%s", asked, spec.Engine,
		unit.Bytes(takes), strings.ReplaceAll(view.ShortBytes(2*takes), " ", ""), remedy)
}

// axesWords are the settings of a point, such as "cache 1%, threads 2".
func axesWords(axes map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(axes)) {
		words = append(words, name+" "+axes[name])
	}
	return strings.Join(words, ", ")
}
