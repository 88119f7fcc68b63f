package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/explain/report"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

func (a *app) sweepVerb() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "sweep --db DIR --cache LIST",
		Short: "Measure many points: lists of caches, threads, handles, profiles, engines",
		Long: `Sweep measures every combination of the listed values, each in a process of its
own, and writes one folder with a report. Without --db it loads the databases it
needs inside that folder.

  statelab sweep --db D --cache 0.1%,0.2%,0.5%,1%,2%,3% --threads 8 --out S
  statelab sweep --keys 2M --engine pebble1,pebble2 --cache 8MiB,64MiB --out S
  statelab sweep --resume --out S                  (after Ctrl-C, a kill, a reboot)`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.sweep(cmd, f, args) },
	}
	f.databaseFlags(cmd, " (list)")
	f.readFlags(cmd)
	f.loadFlagsOfSweep(cmd)
	f.outputFlags(cmd)
	flag := cmd.Flags()
	flag.StringVar(&f.threads, "threads", "1", "Gets in flight (list)")
	flag.StringVar(&f.name, "name", "", "label in charts (default: the name of the output folder)")
	flag.StringVar(&f.disk, "disk", diskAuto, "the disk's own limit, drawn as a ceiling: a folder of statelab disk --out, none, or auto: a short look at the disk with --page-cache direct or cold")
	flag.BoolVar(&f.resume, "resume", false, "go on with the sweep in --out")
	return cmd
}

// loadFlagsOfSweep are the flags of databases that a sweep makes itself.
func (f *flags) loadFlagsOfSweep(cmd *cobra.Command) {
	flag := cmd.Flags()
	flag.StringVar(&f.keys, "keys", "1M", "number of keys of a database made for the sweep (list)")
	f.keyHash = keyspace.Mix
	flag.StringVar(&f.keyBytes, "key-bytes", "32", "bytes of a key of a database made for the sweep")
	flag.StringVar(&f.valueBytes, "value-bytes", "110", "bytes of a value of a database made for the sweep")
	flag.StringVar(&f.valueModel, "value-model", "random", "value model of a database made for the sweep")
}

func (a *app) sweep(cmd *cobra.Command, f *flags, args []string) error {
	m := new(mistakes)
	m.unknownFlags(cmd, a.args)
	m.noArguments(args)
	m.disk(f.disk)
	if f.resume {
		if f.out == "" {
			m.add("--resume: say which sweep: --out FOLDER")
		}
		if err := m.err(); err != nil {
			return err
		}
		plan, err := sweep.ReadPlan(absolute(f.out))
		if err != nil {
			return usage("--resume: %v", err)
		}
		return a.carryOut(f, plan, absolute(f.out))
	}
	var t target
	var load *bench.Spec
	axes := []result.Axis{}
	add := func(name, text string) {
		if values := list(text); values != nil {
			axes = append(axes, result.Axis{Name: name, Values: values})
		}
	}
	if f.db != "" {
		engines := list(f.engine)
		if len(engines) > 1 {
			m.add("--engine %s: with --db a sweep reads one database with one engine; without --db it makes a database for each", f.engine)
			f.engine = engines[0]
		}
		m.single("keys", f.keys, "a sweep of --db")
		t = a.target(f, m)
	} else {
		g := *f
		g.workload, g.engine, g.profile, g.keys = workload.FillRandom, "", "", list(f.keys)[0]
		spec := a.loadSpec(&g, m)
		m.cacheSize(&spec, defaultLoadCache)
		load = &spec
		a.tellLibrary(m, spec.Overrides)
		add(sweep.EngineAxis, orDefault(f.engine, "pebble1"))
		add(sweep.KeysAxis, f.keys)
	}
	engines := list(orDefault(f.engine, "pebble1"))
	if f.db == "" {
		t.engine = a.firstEngine(engines, m)
	}
	profiles := f.profile
	if f.db == "" && profiles == "" && len(engines) == 1 && t.engine != nil {
		_, profiles, _ = strings.Cut(engines[0], ":")
		profiles = orDefault(profiles, t.engine.Info().Profiles[0].Name)
	}
	add(sweep.ProfileAxis, profiles)
	pageCaches := list(f.pageCache)
	if len(pageCaches) > 1 {
		add(sweep.PageCacheAxis, f.pageCache)
		f.pageCache = first(pageCaches)
		if slices.Contains(pageCaches, bench.Direct) {
			f.pageCache = bench.Direct // the one that an engine may refuse; the axis sets it
		}
	}
	add(sweep.HandlesAxis, f.handles)
	add(sweep.ThreadsAxis, f.threads)
	if f.rate != "0" {
		add(sweep.RateAxis, f.rate)
	}
	add(sweep.MemoryAxis, f.memory)
	add(sweep.CacheAxis, f.cache)
	f.profile = first(list(profiles))
	spec := a.readSpec(f, t, m)
	m.addAll("", sweep.Plan{Axes: axes}.Check())
	if f.cache != "" {
		spec.CacheAsked = first(list(f.cache)) // for the check below; axes set it
	}
	m.memory(&spec, first(list(f.memory)))
	if f.db == "" {
		a.checkEngines(engines, list(profiles), spec, m)
		if len(engines) > 1 && profiles == "" {
			spec.Profile = "" // every engine's own
		}
	} else {
		for _, profile := range list(profiles) {
			spec.Profile = profile
			m.checkOptions(t.engine, spec)
		}
	}
	spec.CacheAsked, spec.MemoryAsked, spec.MemoryBytes = "", "", 0
	repeats := int(m.atLeastOne("repeats", f.repeats, "3"))
	if err := m.err(); err != nil {
		return err
	}
	return a.sweepOfLoaded(f, spec, load, axes, repeats, "sweep")
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// sweepOf measures a read with a relative cache or repeats: a sweep of one point.
func (a *app) sweepOf(f *flags, spec bench.Spec, axes []result.Axis, repeats int, verb string) error {
	if spec.CacheAsked != "" {
		axes = append(axes, result.Axis{Name: sweep.CacheAxis, Values: []string{spec.CacheAsked}})
	}
	axes = append(axes, result.Axis{Name: sweep.ThreadsAxis, Values: []string{fmt.Sprint(spec.Threads)}})
	return a.sweepOfLoaded(f, spec, nil, axes, repeats, verb)
}

func (a *app) sweepOfLoaded(f *flags, spec bench.Spec, load *bench.Spec, axes []result.Axis, repeats int, verb string) error {
	out := f.outFolder(verb)
	if err := refuseOther(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make --out: %w", err)
	}
	plan := sweep.Plan{Name: orDefault(f.name, filepath.Base(out)), Command: a.command(), Base: spec, Load: load, Axes: axes, Repeats: repeats, Seed: spec.Seed}
	return a.carryOut(f, plan, out)
}

// carryOut runs a plan and prints what came of it.
func (a *app) carryOut(f *flags, plan sweep.Plan, out string) error {
	p := a.progress(f.quiet)
	if err := a.ceiling(f.disk, plan, out, p); err != nil {
		return err
	}
	done, sweepErr := sweep.Run(a.ctx, plan, out, a.runPoint, func(point, points int, label string, e bench.Event) {
		p.tell(fmt.Sprintf("point %d of %d (%s): ", point, points, label), e)
	})
	p.say("")
	if done == nil {
		return sweepErr
	}
	for _, point := range done.Points {
		if point.Status == result.Failed {
			p.say("point %v failed: %s", point.Axes, point.Error)
		}
	}
	if done.Status == result.OK {
		a.addPredicted(plan, done, p)
		if err := result.WriteSweep(out, done); err != nil {
			return err
		}
		p.say("")
	}
	if len(done.Points) > 0 {
		if err := a.explain(f, out); err != nil {
			return err
		}
	}
	for _, w := range done.Warnings {
		p.say("warning: %s", w.Text)
		if w.Remedy != "" {
			p.say("         remedy: %s", w.Remedy)
		}
	}
	p.say("sweep folder: %s", out)
	switch {
	case done.Status == result.Interrupted:
		p.say("%s", done.Error)
		return errInterrupted
	case sweepErr != nil:
		return sweepErr
	case done.Status == result.Failed:
		return errors.New(done.Error)
	case f.strict && len(done.Warnings) > 0:
		return &strictError{len(done.Warnings)}
	}
	return nil
}

// explain prints the answer and writes the report of a sweep folder.
func (a *app) explain(f *flags, out string) error {
	in, err := report.FromFolders(out)
	if err != nil {
		return err
	}
	if f.json {
		done, err := result.ReadSweep(out)
		if err != nil {
			return err
		}
		if err := a.printJSON(done); err != nil {
			return err
		}
	} else if err := report.Text(a.stdout, in); err != nil {
		return err
	}
	path := filepath.Join(out, result.ReportFile)
	if err := writeReport(path, in); err != nil {
		return err
	}
	if !f.json {
		fmt.Fprintf(a.stdout, "\nreport: %s\n", path)
	}
	return nil
}
