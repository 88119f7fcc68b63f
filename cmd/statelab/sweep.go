package main

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/disk"
	"github.com/statelab/statelab/internal/base/unit"
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
		Use:   "sweep --db DIR | --keys N",
		Short: "Measure Gets at each combination of caches, threads and engines",
		Long: `Sweep measures every combination of the listed values, each in a process of its
own, and writes one folder with a report: what a Get costs in block accesses, block
reads, device reads and time. Without --db it makes the databases it needs inside
that folder.

  statelab sweep --db D --cache 0.1%,0.2%,0.5%,1%,2%,3% --threads 8 --out S
  statelab sweep --db D --cache 1% --simulate 0.1%,0.2%,0.5%,2%,3% --out S
  statelab sweep --db CHAINDATA --use-existing --cache 2GiB --page-cache direct
  statelab sweep --db D --rate 20k --threads 64    (open loop: response times)
  statelab sweep --keys 2M --engine pebble2,goleveldb --memory 128MiB --out S
  statelab sweep --resume --out S                  (after Ctrl-C, a kill, a reboot)`,
	})
}

// sweep carries out an experiment on an engine.
func (a *app) sweep(f *flags, m *mistakes) error {
	s := a.sweepOf(f, m)
	if err := m.Err(); err != nil {
		return err
	}

	how, err := a.prepare(f, s.Base.PageCache == bench.Direct, func(
		how plan.Plan, on estimate.Machine,
	) ([]estimate.Step, error) {
		steps, err := a.sweepSteps(s, how, on)
		if f.resume && err == nil {
			steps = s.Unfinished(steps, how)
		}
		return steps, err
	})
	if err != nil {
		return err
	}

	s.Name = cmp.Or(f.Name.Value(), filepath.Base(how.Out))
	s.Databases = absolute(f.databases)
	work := sweep.New(s, how, a)
	if listed, err := a.listed(f, &how, work.Points()); listed || err != nil {
		return err
	}

	p := a.progress()
	if err := a.diskLook(p).Ceiling(a.ctx,
		experiment.SubjectAs[*experiment.SweepConfig](f.Experiment).Ceiling.Value(), s,
		how.Out); err != nil {
		return err
	}

	so, err := plan.Run(a.ctx, how, work, steps(p, ""))
	p.Printf("")
	done := work.Result
	if sweep.TellFailures(done, p.Printf) {
		so.Again = ""
	}

	err = errors.Join(err, s.JudgeCeiling(done, how.Out))
	if so.Status == result.OK && how.Only == nil {
		began := time.Now()
		p.Report("", result.Event{Phase: "predicting"})
		err = errors.Join(err, curve.AddPrediction(a.ctx, s, done, func(
			w sweep.Wanted,
		) (sweep.Target, engine.Engine, error) {
			m := new(mistakes)
			t := a.find(w, m)
			return t, linked(w.Engine), m.Err()
		}))

		done.PhaseSeconds["predict"] = time.Since(began).Seconds()
		err = errors.Join(err, result.WriteSweep(how.Out, done))
		defer p.Printf("time: %s", sweep.TimeWords(done.PhaseSeconds))
	}

	return a.compared(f, p, finished{status: so.Status, error: so.Error, why: so.FailureInfo,
		warnings: done.Warnings, out: how.Out}, so, len(done.Points) > 0, err)
}

// sweepOf is the sweep that f declares.
func (a *app) sweepOf(f *flags, m *mistakes) sweep.Sweep {
	s := experiment.SubjectAs[*experiment.SweepConfig](f.Experiment)
	if err := disk.CheckCeiling(s.Ceiling.Value()); err != nil {
		m.At("disk", "", "%v: name a folder of statelab disk --out, or write none", err)
	}
	m.accessList(s.Accesses.Value())
	declared := sweep.Declared(f.Experiment, a.finder(m, s.Engine.IsSet()), a.command(),
		&m.Mistakes)
	if s.Simulated.IsSet() && m.Err() == nil {
		one := declared.Base
		switch traced := one.WarmupGets + 2*one.Gets; {
		case traced >= curve.MaxGets:
			m.At("simulate", s.Simulated.String(), "the warm-up and twice the measured Gets are "+
				"%s, and a trace in memory has fewer than %s: make fewer Gets, or use statelab "+
				"trace and statelab simulate", unit.Count(traced), unit.Count(curve.MaxGets))
		case !curve.Predictable(declared):
			m.At("simulate", s.Simulated.String(), "other caches are simulated for random Gets of "+
				"keys whose values are known, of engines whose block accesses can be computed "+
				"(%s), where the cache alone varies; otherwise name the sizes with %s",
				strings.Join(subject.Traced(), ", "), m.Name("cache", ""))
		}
	}

	return declared
}
