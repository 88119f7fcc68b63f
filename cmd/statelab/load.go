package main

import (
	"cmp"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/disk"
	"github.com/statelab/statelab/internal/ask/inspect"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
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

func (a *app) load(f *flags, m *mistakes) (err error) {
	m.Results(f.out)
	spec := sweep.LoadDeclared(f.Experiment, f.resume, a.finder(m, true), a.command(), &m.Mistakes)
	if err := m.Err(); err != nil {
		return err
	}

	near := host.Existing(spec.Dir)
	on, err := disk.Machine(a.ctx, near, f.dryRun, false)
	if err != nil {
		return err
	}

	step, err := estimate.Load(&spec, on)
	if err != nil {
		return err
	}

	if _, err := a.estimated(f, near, []estimate.Step{step}); err != nil {
		return err
	}

	spec.Out = cmp.Or(absolute(f.out), filepath.Join(spec.Dir, engine.OwnFolder, "load"))
	if err := a.makeOut(f.out, output.MakeFolder); err != nil {
		return err
	}

	p := a.progress()
	p.Printf("loading %s keys into %s with %s, profile %s", unit.Count(spec.Keys), spec.Dir,
		spec.Engine, spec.Profile)
	run, err := a.Do(a.ctx, sweep.JobOf(&spec), func(e result.Event) { p.Report("", e) })
	p.Printf("")
	if err != nil {
		return err
	}

	if run.Status != result.Failed { // a full disk has no room for it, and its run says what to do
		err = a.storeExperiment(f, spec.Out)
	}

	return a.finish(f, p,
		finished{
			status:   run.Status,
			error:    run.Error,
			why:      run.FailureInfo,
			warnings: run.Warnings,
			out:      spec.Out,
			explain: func() error {
				if f.json {
					return a.printJSON(run)
				}

				if run.Status == result.OK {
					return a.show(inspect.Load(run))
				}

				return nil
			},
		}, err)
}
