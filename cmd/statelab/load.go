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

// defaultLoadCache gives loads write buffers of a useful size; with many
// profiles a memtable is a share of the cache.
const defaultLoadCache = "512MiB"

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
	step, err := loadStep(&spec, on)
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
	if f.DB == "" {
		m.add("--db: name the directory of the new database: --db DIR")
	}
	spec := a.loadSpec(f, m)
	spec.Dir, spec.Resume = absolute(f.DB), f.resume
	spec.Threads = m.threads(string(f.Threads))
	if share := m.cacheSize(&spec, cmp.Or(string(f.Cache), defaultLoadCache)); share > 0 {
		m.add("--cache %s: the size of a database that is being loaded is not known: give a size such as --cache 512MiB", f.Cache)
	}
	spec.Handles = m.handles(string(f.Handles))
	if f.DB != "" {
		m.outside("--db", filepath.Dir(spec.Dir))
	}
	if f.out != "" {
		if err := refuseOther(f.out); err != nil {
			m.add("%v", err)
		}
	}
	if len(m.found) == 0 {
		a.checkLoadTarget(f, &spec, m)
	}
	a.tellLibrary(m, spec.Overrides)
	if e := a.engine(spec.Engine, m); e != nil {
		if spec.Profile == "" {
			spec.Profile = e.Info().Profiles[0].Name
		}
		m.checkOptions(e, spec)
	}
	return spec
}

// loadSpec turns the flags that describe a database to make into a spec.
func (a *app) loadSpec(f *flags, m *mistakes) bench.Spec {
	spec := bench.Spec{Schema: bench.SpecSchema, Verb: bench.Load, Command: a.command(),
		Engine: cmp.Or(string(f.Engine), subject.DefaultEngine()), Profile: string(f.Profile),
		Overrides: m.overrides(f.Options), Workload: f.Workload, PageCache: bench.AsIs, Seed: m.seed(f.Seed), Threads: 4,
		Keys: m.atLeastOne("keys", string(f.Keys), "5M"), KeyBytes: int(m.count("key-bytes", f.KeyBytes)), KeyHash: f.KeyHash,
		ValueModel: f.ValueModel, ValueBytes: int(m.count("value-bytes", f.ValueBytes)), BatchKeys: int(m.atLeastOne("batch", f.Batch, "1000")), Age: f.Age.First()}
	if _, _, err := bench.AgeRounds(spec.Age); err != nil {
		m.add("--age: %v", err)
	}
	m.oneOf("workload", f.Workload, verbWorkloads("load")...)
	m.addAll("", keyspace.Keys{Count: max(spec.Keys, 1), Bytes: spec.KeyBytes, Order: keyspace.Hashed, Hash: spec.KeyHash}.Check())
	if _, err := keyspace.NewValues(spec.ValueModel, spec.ValueBytes, spec.Seed); err != nil {
		m.add("%v", err)
	}
	return spec
}

// checkLoadTarget keeps a load from landing on something that is there already,
// and a resume from going on with something else than was begun.
func (a *app) checkLoadTarget(f *flags, spec *bench.Spec, m *mistakes) {
	manifest, err := keyspace.ReadManifest(spec.Dir)
	switch {
	case err == nil && f.resume:
		if f.Engine != "" && string(f.Engine) != manifest.Engine {
			m.add("--engine %s: --resume continues the load of %s with %s: remove --engine", f.Engine, f.DB, manifest.Engine)
		}
		if err := dbformat.Check(manifest.Engine, engine.Options{Dir: f.DB}); err != nil {
			m.add("--resume: %v", err)
		}
		spec.Engine, spec.Profile, spec.Overrides = manifest.Engine, manifest.Profile, manifest.Overrides
		spec.Keys, spec.Workload = manifest.Keys, manifest.Workload
		return
	case err == nil && manifest.Loaded == manifest.Keys:
		m.add("--db %s: holds a complete database of %s keys already: read it, or name a new directory", f.DB, unit.Count(manifest.Keys))
		return
	case err == nil:
		m.add("--db %s: holds an unfinished load (%s of %s keys): add --resume to continue it", f.DB, unit.Count(manifest.Loaded), unit.Count(manifest.Keys))
		return
	case !errors.Is(err, keyspace.ErrNoManifest):
		m.add("--db: %v", err)
		return
	case f.resume:
		m.add("--resume: %s holds no unfinished load", f.DB)
		return
	}
	if err := dbformat.Check(spec.Engine, engine.Options{Dir: f.DB, Create: true}); err != nil {
		m.add("%v", err)
		return
	}
	entries, err := os.ReadDir(spec.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.add("--db: %v", err)
	}
	for _, e := range entries {
		if !engine.MayBeIn(e.Name()) {
			m.add("--db %s: the directory is not empty (%s): name a new one", f.DB, e.Name())
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
	a.printLevels(run.Database.Levels, run.Inflection, run.Database.Bytes, atRest(run))
}

func duration(seconds float64) string { return unit.Significant(seconds, 3) + " s" }
