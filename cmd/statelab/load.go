package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/look"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

func (a *app) loadVerb() *cobra.Command {
	return a.measuringVerb(experiment.Load, &cobra.Command{
		Use:   "load --db DIR --keys N",
		Short: "Create a database whose keys and values can be checked later",
		Long: `Load writes N keys, waits until the engine's background work has ended, reads
some keys back and leaves a manifest in the database.

  statelab load --db D --keys 5M
  statelab load --db D --keys 200M --workload fillsorted   (5 to 10 times faster)
  statelab load --db D --resume                            (after a kill)`,
	})
}

func (a *app) load(f *flags, m *mistakes) error {
	spec := a.loadAsked(f, m)
	if err := m.err(); err != nil {
		return err
	}
	near := host.Existing(spec.Dir)
	on, err := a.machine(f, near, false)
	if err != nil {
		return err
	}
	step, err := sweep.LoadStep(&spec, on)
	if err != nil {
		return err
	}
	if _, err := a.estimated(f, near, []estimate.Step{step}); err != nil {
		return err
	}
	spec.Out = cmp.Or(absolute(f.out), filepath.Join(spec.Dir, engine.OwnFolder, "load"))
	p := a.progress()
	p.say("loading %s keys into %s with %s, profile %s", unit.Count(spec.Keys), spec.Dir, spec.Engine, spec.Profile)
	run, err := a.Do(a.ctx, sweep.JobOf(&spec), func(e result.Event) { p.tell("", e) })
	p.say("")
	if err != nil {
		return err
	}
	if run.Status != result.Failed { // a full disk has no room for it, and its run says what to do
		err = a.storeExperiment(f, spec.Out)
	}
	return a.finish(f, p, finished{status: run.Status, error: run.Error, why: run.Why, warnings: run.Warnings, out: spec.Out, explain: func() error {
		if f.json {
			return a.printJSON(run)
		}
		if run.Status == result.OK {
			a.printLoad(run)
		}
		return nil
	}}, err)
}

// loadAsked is what the flags ask to load; what is wrong with them goes to m.
func (a *app) loadAsked(f *flags, m *mistakes) bench.Spec {
	if !f.DB.Given() {
		m.At("db", "", "name the directory of the new database: %s", m.Name("db", "DIR"))
	}
	s := experiment.Of[*experiment.Loaded](f.Experiment)
	spec := sweep.LoadSpec(f.Experiment, &s.Made, a.command())
	spec.Engine, spec.Profile = cmp.Or(s.Engine.String(), subject.DefaultEngine()), s.Profile.V()
	spec.Dir, spec.Resume, spec.Threads, spec.Handles = absolute(f.DB.V()), f.resume, s.Threads.V(), int(s.Handles.V())
	if cache := s.Cache.V(); s.Cache.Given() {
		spec.CacheAsked, spec.CacheBytes = s.Cache.String(), cache.Bytes
		if cache.Share > 0 {
			m.At("cache", s.Cache.String(), "the size of a database that is being loaded is not known: give a size such as %s", m.Name("cache", "512MiB"))
		}
	}
	if f.DB.Given() {
		m.outside("db", filepath.Dir(spec.Dir))
	}
	if f.out != "" {
		if err := refuseOther(f.out); err != nil {
			m.add("%v", err)
		}
	}
	if len(m.Found) == 0 {
		a.checkLoadTarget(f, &spec, m)
	}
	a.tellLibrary(m, spec.Overrides)
	if e := a.engine(spec.Engine, m); e != nil {
		if spec.Profile == "" {
			spec.Profile = e.Info().Profiles[0].Name
		}
		sweep.CheckOptions(e, spec, &m.Mistakes)
	}
	return spec
}

// checkLoadTarget keeps a load from landing on something that is there already,
// and a resume from going on with something else than was begun.
func (a *app) checkLoadTarget(f *flags, spec *bench.Spec, m *mistakes) {
	dir := f.DB.V()
	manifest, err := keyspace.ReadManifest(spec.Dir)
	switch {
	case err == nil && f.resume:
		if s := experiment.Of[*experiment.Loaded](f.Experiment); s.Engine.Given() && spec.Engine != manifest.Engine {
			m.At("engine", spec.Engine, "--resume continues the load of %s with %s: remove %s", dir, manifest.Engine, m.Name("engine", ""))
		}
		if err := dbformat.Check(manifest.Engine, engine.Options{Dir: dir}); err != nil {
			m.add("--resume: %v", err)
		}
		spec.Engine, spec.Profile, spec.Overrides = manifest.Engine, manifest.Profile, manifest.Overrides
		spec.Keys, spec.Workload = manifest.Keys, manifest.Workload
		return
	case err == nil && manifest.Loaded == manifest.Keys:
		m.At("db", dir, "holds a complete database of %s keys already: read it, or name a new directory", unit.Count(manifest.Keys))
		return
	case err == nil:
		m.At("db", dir, "holds an unfinished load (%s of %s keys): add --resume to continue it", unit.Count(manifest.Loaded), unit.Count(manifest.Keys))
		return
	case !errors.Is(err, keyspace.ErrNoManifest):
		m.At("db", "", "%v", err)
		return
	case f.resume:
		m.add("--resume: %s holds no unfinished load", dir)
		return
	}
	if err := dbformat.Check(spec.Engine, engine.Options{Dir: dir, Create: true}); err != nil {
		m.add("%v", err)
		return
	}
	entries, err := os.ReadDir(spec.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.At("db", "", "%v", err)
	}
	for _, e := range entries {
		if !engine.MayBeIn(e.Name()) {
			m.At("db", dir, "the directory is not empty (%s): name a new one", e.Name())
			return
		}
	}
}

func (a *app) printLoad(run *result.Run) {
	f := run.Figures
	if f.Puts == 0 {
		fmt.Fprintf(a.stdout, "Nothing was missing: the load of %s keys had finished before.", unit.Count(run.Workload.Keys))
	} else {
		fmt.Fprintf(a.stdout, "%s keys in %s: %s keys/s", unit.Count(run.Workload.Keys), duration(f.Seconds), unit.Count(uint64(f.PutsPerSecond)))
	}
	if f.WriteAmplification != nil {
		fmt.Fprintf(a.stdout, ", write amplification %s", unit.Significant(*f.WriteAmplification, 3))
	}
	fmt.Fprintf(a.stdout, "\n%s in %s\n\n", unit.Bytes(run.Database.Bytes), plural(run.Database.Files, "file"))
	look.Levels(a.stdout, run.Database.Levels, run.Inflection, run.Database.Bytes, look.AtRest(run))
}

func duration(seconds float64) string { return unit.Significant(seconds, 3) + " s" }
