package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/interleave"
	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/compare"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result/figure"
)

// comparing is what compare is told beside an experiment.
type comparing struct {
	*flags
	run                  bool
	by                   string
	allow, failIf        []string
	page, benchOut, csvs string
	force                bool
	margin               experiment.Float
	names                []string // of the settings that are run
}

func (a *app) compareVerb() *cobra.Command {
	c := &comparing{flags: newFlags(experiment.Sweep)}
	cmd := &cobra.Command{
		Use:   "compare A B...",
		Short: "Decide whether results differ; --run: measure until that is decided",
		Long: `Compare judges every figure of the folders given with that of the first one, the
baseline. Engine, version, profile, options, cache, memory and threads may differ.
It refuses folders that differ in the conditions (workload, keys, values, number of
Gets, page cache, machine). Sweeps are compared at the settings that both have.

  statelab compare OLD NEW
  statelab compare S --by engine                   (one sweep, split by an axis)
  statelab compare OLD NEW --fail-if '` + figure.BlockReadsPerGet.Key + ` > +2%'   (exit 1, for CI)
  statelab compare --run 'engine=pebble1' 'engine=pebble2' --keys 300k --cache 2MiB
  statelab compare OLD NEW --bench old-new.txt     (lines that benchstat reads)

Block reads of one thread with equal seeds repeat exactly: one run each shows a change.
Times and rates need at least 5 runs each, interleaved (in one sweep, or by --run). One load
of a database is one observation: --run loads engines several times where that is quick.
With --run, compare measures interleaved runs of both settings until every figure is
decided, for at most --repeats pairs. Settings are flags of statelab sweep without dashes;
flags outside the quotes apply to both sides.`,
	}

	c.Experiment.Flags(cmd.Flags())
	flag := cmd.Flags()
	flag.Lookup("repeats").Usage, flag.Lookup("repeats").DefValue = "with --run: maximum number "+
		"of pairs of runs", fmt.Sprint(maxPairs)
	flag.Lookup("loads").Usage = "with --run: databases of each side, from different seeds " +
		fmt.Sprintf("(default: %d if the sides share none and loading takes less than a minute, "+
			"else 1); --repeats is rounded up to a multiple", difference.DefaultLoads)
	flag.BoolVar(&c.run, "run", false, "measure interleaved runs of two settings instead of "+
		"reading folders")
	flag.StringVar(&c.by, "by", "", "compare the values of this axis within one folder; the "+
		"first value is the baseline")
	flag.StringSliceVar(&c.allow, "allow", nil, "conditions that may differ, separated by "+
		"commas, by the names that the error message gives")
	flag.StringArrayVar(&c.failIf, "fail-if", nil,
		"exit 1 if a figure certainly changed by more than this, or if there are too few runs to "+
			"tell: 'FIGURE > +N%', or without % in the "+
			"figure's unit; figures by their names in --json, such as "+figure.GetsPerSecond.Key)

	setting.Var(flag, &c.margin, setting.Share, "margin", "2%",
		"equivalence margin: \"no difference found\" requires that the whole confidence interval "+
			"lies inside")
	flag.StringVar(&c.page, "page", "", "also write an HTML page to this file")
	flag.StringVar(&c.benchOut, "bench", "",
		"also write the runs as Go benchmark lines to this file")
	flag.StringVar(&c.csvs, "csv", "", "also write all tables, with values in full, into this "+
		"CSV file")
	flag.BoolVar(&c.force, "force", false, "with --page, --bench or --csv: replace the file if "+
		"it exists")
	flag.BoolVar(&c.json, "json", false, "print JSON")
	flag.StringVar(&c.out, "out", "", "with --run: folder for the results (default: a new one "+
		"under statelab-runs)")
	flag.BoolVar(&c.ignoreSpace, "ignore-space", false, "with --run: start even if disk space or "+
		"memory seem insufficient")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		if !c.run {
			for _, name := range commandline.Typed(flag) {
				if _, is := c.ByFlag(name); is || name == "out" || name == "ignore-space" {
					m.Add(
						"--%s: only with --run, which measures; without it compare reads folders",
						name,
					)
				}
			}
		}

		return a.compare(c, m, args)
	})
}

func (a *app) compare(c *comparing, m *mistakes, args []string) error {
	limits, wrong := compare.ParseLimits(c.failIf)
	for _, err := range wrong {
		m.Add("--fail-if %v", err)
	}

	m.NewFileIf("page", c.page, &c.force)
	m.NewFileIf("bench", c.benchOut, &c.force)
	m.NewFileIf("csv", c.csvs, &c.force)
	switch {
	case c.run && len(args) != 2:
		m.Add("--run needs two settings in quotes (example: compare --run 'engine=pebble1' " +
			"'engine=pebble2' --keys 300k --cache 2MiB)")
	case c.run && c.by != "":
		m.Add("--by: not with --run")
	case !c.run && c.by != "" && len(args) != 1:
		m.Add("--by splits one folder: name exactly one")
	case !c.run && c.by == "" && len(args) < 2:
		m.Add("name at least two folders (example: statelab compare OLD NEW), or split one " +
			"sweep: statelab compare S --by engine")
	}

	if simulated := experiment.SubjectAs[*experiment.SweepConfig](c.Experiment).Simulated; c.run &&
		simulated.IsSet() {
		m.At("simulate", simulated.String(), "only of statelab sweep: compare measures")
	}

	if c.run {
		return a.compareRuns(c, limits, m, args)
	}

	margin := c.margin.Value()
	for _, folder := range args {
		m.Readable("", folder)
	}

	if err := m.Err(); err != nil {
		return err
	}

	result, err := c.judge(0, margin, args...)
	if err != nil {
		return err
	}

	return a.tellComparison(c, result, limits)
}

// judge compares folders.
func (c *comparing) judge(alpha, margin float64, folders ...string) (*compare.Comparison, error) {
	return compare.Folders(folders, c.names, c.by, compare.Options{
		Allow:  c.allow,
		Alpha:  alpha,
		Margin: margin,
	})
}

// tellComparison prints the verdicts and writes the files asked for.
func (a *app) tellComparison(
	c *comparing, found *compare.Comparison, limits []compare.Limit,
) error {
	if err := a.print(c.json, found); err != nil {
		return err
	}

	shown := func(as func(io.Writer, *doc.Document) error) func(io.Writer) error {
		return func(w io.Writer) error { return as(w, found.Document()) }
	}
	for _, to := range []struct {
		path  string
		write func(io.Writer) error
	}{{c.page, shown(render.Page)}, {c.benchOut, found.Bench}, {c.csvs, shown(render.CSV)}} {
		if to.path == "" {
			continue
		}

		if err := output.Write(to.path, commandline.Replaces(&c.force), func(f *os.File) error {
			return to.write(f)
		}); err != nil {
			return err
		}
	}

	var failed []string
	for _, limit := range limits {
		failed = append(failed, found.Failures(limit)...)
	}

	if len(failed) > 0 {
		return errors.New("--fail-if: " + strings.Join(failed, "; "))
	}

	return nil
}

// maxPairs is how many pairs of runs compare --run measures if --repeats is not given.
const maxPairs = 20

// compareRuns measures two settings in turns (A B, B A, ...) until their figures are
// decided.
func (a *app) compareRuns(
	c *comparing, limits []compare.Limit, m *mistakes, settings []string,
) error {
	if runtime.GOOS != "linux" {
		return errNeedsLinux("compare --run", runtime.GOOS)
	}

	if c.Repeats.Value() <= 1 {
		c.Repeats.SetValues(maxPairs)
	}

	margin, maximum := c.margin.Value(), int(c.Repeats.Value())
	if err := m.Err(); err != nil {
		return err
	}

	loads, err := a.loadsOfSides(c, settings, maximum)
	if err != nil {
		return err
	}

	// Every load gets as many pairs as the others.
	c.Repeats.SetValues(uint64((maximum + loads - 1) / loads))
	maximum = int(c.Repeats.Value()) * loads
	out := outFolder(c.out, "compare")
	if err := refuseOther(out); err != nil {
		return err
	}

	var sides [2]interleave.Side
	var of [2]*flags
	for i, setting := range settings {
		e, err := c.WithSettings(setting)
		if err != nil {
			return usage("%q: %v", setting, err)
		}

		f := *c.flags
		f.Experiment, f.out, of[i] = e, filepath.Join(out, string(rune('a'+i))), &f
		if sides[i], err = a.sideOf(&f, setting, filepath.Join(out, "databases"), m); err != nil {
			return err
		}
	}

	c.names = settings
	p := a.progress()
	found, pairs, err := interleave.Run(a.ctx, sides, maximum, limits,
		func(alpha float64) (*compare.Comparison, error) {
			return c.judge(alpha, margin, sides[0].Plan.Out, sides[1].Plan.Out)
		}, p)

	switch {
	case found != nil && engine.CodeOf(err) == engine.CodeInterrupted:
		p.Printf("interrupted after %d pairs, which say:", pairs)
		return errors.Join(err, a.tellComparison(c, found, limits))
	case err != nil:
		return errors.Join(err, leaveNoTrace(out, engine.CodeOf(err), of))
	}

	a.progress().Printf("stopped after %d of at most %d pairs; results: %s", pairs, maximum, out)
	return a.tellComparison(c, found, limits)
}

// maxLoadSeconds is how long compare --run may spend on the loads of one side without being asked.
const maxLoadSeconds = 60

// loadsOfSides is how many databases each side gets, which it also sets: what --loads says. If that
// is not given and the sides share no database, difference.DefaultLoads, where these are estimated
// to take less than maxLoadSeconds and there may be a pair on each; else one.
func (a *app) loadsOfSides(c *comparing, settings []string, maxPairs int) (int, error) {
	of := func(e *experiment.Experiment) *experiment.Count {
		return &experiment.SubjectAs[*experiment.SweepConfig](e).Loads
	}
	asked, names, seconds := of(c.Experiment), map[string]bool{}, 0.
	for _, setting := range settings {
		e, err := c.WithSettings(setting)
		if err != nil {
			return 0, usage("%q: %v", setting, err)
		}

		if !of(e).Equal(*asked) {
			return 0, usage("%q: both sides have as many loads: give --loads outside the quotes",
				setting)
		}

		f, m := *c.flags, new(mistakes)
		f.Experiment = e
		s := a.sweepOf(&f, m)
		if m.Err() != nil || s.Load == nil {
			continue // said of the side; a database that is given is one load
		}

		spec := s.Settings()[0].LoadSpec(0)
		names[spec.Dir] = true
		if step, err := estimate.Load(&spec, estimate.Machine{}); err == nil {
			seconds = max(seconds, step.Seconds)
		}
	}

	all := seconds * difference.DefaultLoads
	if !asked.IsSet() && len(names) == len(settings) && all < maxLoadSeconds &&
		maxPairs >= difference.DefaultLoads {
		asked.SetValues(difference.DefaultLoads)
		a.progress().Printf("each side is loaded %d times, from %[1]d seeds (about %s; --loads 1: "+
			"once)", difference.DefaultLoads, unit.Roughly(all))
	}

	return int(max(1, asked.Value())), nil
}

// leaveNoTrace removes out where neither side has measured anything, so that the command can be
// given again.
func leaveNoTrace(out string, why engine.Code, sides [2]*flags) error {
	for _, f := range sides {
		if gone, err := f.leaveNoTrace(f.out, why); err != nil || !gone {
			return err
		}
	}

	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		return err
	}

	return os.Remove(out)
}

// sideOf prepares a side.
func (a *app) sideOf(f *flags, name, databases string, m *mistakes) (interleave.Side, error) {
	s := a.sweepOf(f, m)
	if err := m.Err(); err != nil {
		return interleave.Side{}, err
	}

	for _, axis := range s.Axes {
		if len(axis.Values) > 1 {
			return interleave.Side{},
				usage("%q: --%s has %d values; give one value of each setting", name, axis.Name,
					len(axis.Values))
		}
	}

	s.Name, s.Databases = name, databases
	how, err := a.prepare(f, s.Base.PageCache == bench.Direct, func(
		how plan.Plan, on estimate.Machine,
	) ([]estimate.Step, error) {
		return a.sweepSteps(s, how, on)
	})
	if err != nil {
		return interleave.Side{}, err
	}

	return interleave.Side{Plan: how, Work: sweep.New(s, how, a)}, nil
}
