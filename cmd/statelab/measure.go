package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/disk"
	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/explain/promexport"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
)

// flags are a measuring verb's: an experiment, and what to do with its results.
type flags struct {
	*experiment.Experiment
	out                                     string
	json, strict                            bool
	resume, ignoreSpace, dryRun, printsOnly bool
	// no flag: the folder of the results was not there
	madeOut bool
	// no flag: the command that goes on with the folder, if it is another verb's
	goOn             string
	metrics          experiment.Text
	point, databases string
	versionParts     string // refused
	matrix           bool
}

// steps shows the runs of a plan, each after a label.
func steps(p *console.Progress, before string) func(plan.Progress) {
	return func(at plan.Progress) {
		p.Step(before+at.String(), at.Step, at.Steps, at.Left, at.Event)
	}
}

func newFlags(verb string) *flags { return &flags{Experiment: experiment.New(verb)} }

// displayFlags are those of every verb with an answer.
func (f *flags) displayFlags(cmd *cobra.Command) {
	flag := cmd.Flags()
	flag.BoolVar(&f.json, "json", false, "print JSON, with the field names of the result folder")
	flag.BoolVar(&f.strict, "strict", false, "exit 3 if there is a warning")
}

// outputFlags are those of a verb that measures.
func (f *flags) outputFlags(cmd *cobra.Command) {
	f.displayFlags(cmd)
	flag := cmd.Flags()
	flag.BoolVar(&f.printsOnly, "print-experiment", false, "print the experiment file that these "+
		"flags stand for; measure nothing")
	flag.BoolVar(&f.dryRun, "dry-run", false, "print what would be measured, with an estimate of "+
		"disk, memory and time; measure nothing")
	flag.BoolVar(&f.ignoreSpace, "ignore-space", false,
		"start even if disk space or memory seem insufficient")
	if f.Experiment != nil && f.Measure == experiment.Disk {
		flag.StringVar(&f.out, "out", "",
			"new folder for the result: its page (report.html) and JSON")
		return
	}

	flag.StringVar(&f.out, "out", "", "folder for the results (default: a new one under "+
		"statelab-runs)")
	resumed := "continue what was interrupted in --out"
	if f.Experiment != nil && f.Measure == experiment.Load {
		resumed = "continue the interrupted load of --db"
	}

	flag.BoolVar(&f.resume, "resume", false, resumed)
	setting.Var(flag, &f.metrics, setting.Address.Optional(), "metrics", "",
		"serve Prometheus metrics while it runs, at :PORT for this machine only, or at HOST:PORT")
	if f.Experiment == nil || startsOneByOne(f.Measure) {
		flag.BoolVar(&f.matrix, "print-matrix", false, "print the runs as JSON, for a program "+
			"that starts each with --point; measure nothing")
		flag.StringVar(&f.point, "point", "", "measure only this run of those that "+
			"--print-matrix prints, on this machine")
		flag.StringVar(&f.databases, "databases", "", "with --point: folder for the databases "+
			"that runs load and share (default: in --out)")
	}
}

// startsOneByOne reports whether another program can start each run of a verb's plan.
func startsOneByOne(verb string) bool {
	return slices.Contains([]string{experiment.Sweep, experiment.Replay, experiment.Layouts}, verb)
}

// measuringVerb gives cmd the flags of an experiment and carries it out.
func (a *app) measuringVerb(verb string, cmd *cobra.Command) *cobra.Command {
	f := newFlags(verb)
	verb = f.Measure
	f.Experiment.Flags(cmd.Flags())
	f.outputFlags(cmd)
	if verb == experiment.Replay {
		cmd.Flags().StringVar(&f.versionParts, "parts", "", "")
		// of other verbs; here it is refused with the reason
		cmd.Flags().Lookup("parts").Hidden = true
	}

	return a.checked(cmd, func(m *mistakes, args []string) error {
		if verb == experiment.Price && cmd.Flags().NFlag() == 0 {
			m.Add("price builds states and measures them, which takes minutes: name a folder for " +
				"the results (--out P), and, to build less, --layout and " +
				"--accounts; --from L prices the results of statelab layouts instead")
		}

		if verb == experiment.Disk && len(args) == 1 {
			experiment.SubjectAs[*experiment.DiskConfig](f.Experiment).Dir.SetValues(args[0])
		} else {
			m.NoArguments(args)
		}

		if f.resume && verb != experiment.Load {
			for _, flag := range commandline.Typed(cmd.Flags()) {
				if _, is := f.ByFlag(flag); is {
					m.Add(
						"--%s: not with --resume, which continues the experiment stored in --out",
						flag,
					)
				}
			}

			return a.goOn(f, verb, m)
		}

		return a.measure(f, m)
	})
}

func (a *app) runVerb() *cobra.Command {
	f := new(flags)
	var schema bool
	var on setting.Value[setting.Target]
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run an experiment file",
		Long: `Run measures what an experiment file declares. Every measuring verb prints the file
that its flags mean with --print-experiment, and stores it with its results.

  statelab sweep --db D --cache 1%,3% --print-experiment > e.yaml
  statelab run e.yaml --out S
  statelab run e.yaml --on slurm:fast --out S      (a node of a cluster for each run)
  statelab run --resume --out S                    (after Ctrl-C, a kill, a reboot)
  statelab run --schema > experiment.schema.json   (JSON Schema for editors)

Relative paths in the file start from the current directory.`,
	}

	f.outputFlags(cmd)
	setting.Var(cmd.Flags(), &on, setting.TargetKind, "on", "", "where to run, in place of what "+
		"the file says: local, slurm or slurm:PARTITION")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of experiment files")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		switch {
		case schema:
			return a.printJSON(experiment.JSONSchema())
		case f.resume && len(args) == 0:
			if on.IsSet() {
				m.Add("--on: not with --resume, which continues where the experiment in --out runs")
			}
			return a.goOn(f, "", m)
		case len(args) != 1 || f.resume:
			m.Add("name one experiment file (statelab run FILE), or a folder to continue " +
				"(statelab run --resume --out S)")
		}

		if err := m.Err(); err != nil {
			return err
		}

		d, err := experiment.ReadFile(args[0])
		if d == nil {
			if errors.As(err, new(*fs.PathError)) {
				return err
			}
			return usage("%v", err)
		}

		if err != nil {
			// what is wrong with the values together follows
			m.Found, m.Typed = strings.Split(err.Error(), "\n"), true
		}

		f.Experiment, m.In = &d.Experiment, d
		if on.IsSet() {
			f.Where.SetValues(on.Value())
		}

		return a.measure(f, m)
	})
}

// goOn continues the experiment that is stored in --out; verb is the one expected, ""
// for any.
func (a *app) goOn(f *flags, verb string, m *mistakes) error {
	if f.out == "" {
		m.Add("--resume: name the folder to continue: --out FOLDER")
	}

	if err := m.Err(); err != nil {
		return err
	}

	d, err := experiment.Stored(f.out, verb)
	if err != nil {
		return usage("--resume: %v", err)
	}

	f.Experiment, m.In = &d.Experiment, d
	return a.measure(f, m)
}

// measure carries out the experiment that flags or a file declare.
func (a *app) measure(f *flags, m *mistakes) error {
	f.checkWhere(m)
	if !startsOneByOne(f.Measure) && (f.matrix || f.point != "") {
		m.Add("--print-matrix and --point: the runs of statelab %s cannot be started one by one",
			f.Measure)
	}

	if f.printsOnly {
		if err := m.Err(); err != nil {
			return err
		}
		return f.Experiment.Write(a.stdout)
	}

	if m.Err() == nil {
		stop, err := a.serveMetrics(&f.metrics, f.Measure, a.progress())
		if err != nil {
			return err
		}
		defer stop()
	}

	return map[string]func(*flags, *mistakes) error{
		experiment.Load:    a.load,
		experiment.Sweep:   a.sweep,
		experiment.Replay:  a.replay,
		experiment.Layouts: a.layouts,
		experiment.Disk:    a.disk,
		experiment.Price:   a.price,
	}[f.Measure](
		f,
		m,
	)
}

// serveMetrics serves Prometheus metrics until stop is called, if an address is given.
func (a *app) serveMetrics(
	at *experiment.Text, verb string, p *console.Progress,
) (stop func(), err error) {
	if !at.IsSet() {
		return func() {}, nil
	}

	a.live = promexport.NewLive(verb)
	stop, address, err := a.live.Serve(at.Value())
	if err != nil {
		return func() {}, err
	}

	p.Printf("metrics: http://%s/metrics", address)
	return stop, nil
}

func (a *app) progress() *console.Progress {
	o := console.Options{Quiet: a.quiet, Events: a.events}
	if a.live != nil {
		o.Live = a.live
	}
	return console.New(a.stderr, o)
}

// prepare estimates the steps, refuses those that cannot fit, and makes the folder of
// the results, which holds the experiment.
func (a *app) prepare(f *flags, direct bool,
	stepsOf func(plan.Plan, estimate.Machine) ([]estimate.Step, error)) (plan.Plan, error) {
	p := plan.Plan{
		Repeats: int(f.Repeats.Value()),
		Seed:    f.Seed.Value(),
		Out:     outFolder(f.out, f.Measure),
	}

	if s, is := f.Subject.(*experiment.SweepConfig); is {
		p.Loads = int(s.Loads.Value())
		p.Repeats *= max(1, p.Loads)
	}

	p.Resume = cmp.Or(f.goOn, fmt.Sprintf("statelab %s --resume --out %s", f.Measure, p.Out))
	if f.matrix {
		return p, nil
	}

	if !f.resume {
		if err := refuseOther(p.Out); err != nil {
			return p, err
		}
	}

	dir := p.Out
	if made := f.Measure == experiment.Replay || f.Measure == experiment.Layouts; made &&
		f.DB.IsSet() {
		if err := output.OutsideDatabases(f.DB.Value()); err != nil {
			return p, usage("--db: %v", err)
		}
		dir = absolute(f.DB.Value())
	}

	if f.elsewhere() {
		runs, err := slurm.For(f.Experiment, p.Out, a.tables.Programs(), a.progress().Printf)
		if err != nil {
			return p, err
		}

		p.Remote = runs
		if s, is := f.Subject.(*experiment.SweepConfig); is && s.Ceiling.Value() == disk.Auto {
			s.Ceiling.SetValues(disk.None) // this machine's disk is not theirs
		}
	}

	dir = host.Existing(dir)
	on, err := disk.Machine(a.ctx, dir, f.dryRun, direct)
	if err != nil {
		return p, err
	}

	steps, err := stepsOf(p, on)
	if err != nil {
		return p, err
	}

	e, err := a.estimated(f, dir, steps)
	if err != nil {
		return p, err
	}

	if len(steps) > 0 {
		p.Remaining = e.Remaining
	}

	_, err = os.Lstat(p.Out)
	f.madeOut = err != nil
	// The experiment first: without it, a folder of points can neither be resumed nor used again.
	if err := a.claim(f, p.Out); err != nil {
		return p, err
	}

	if err := os.MkdirAll(filepath.Join(p.Out, result.PointsDir), 0o755); err != nil {
		return p, fmt.Errorf("make the folder of the runs: %w", err)
	}

	return p, nil
}

// leaveNoTrace removes what a command has put into the folder of its results where it failed
// because a database is in use, which is found only when the database is opened: the command can
// be given again. It reports whether it did; what other failures left, --resume goes on with.
func (f *flags) leaveNoTrace(out string, why engine.Code) (bool, error) {
	if f.resume || f.elsewhere() || f.point != "" || why != engine.CodeInUse {
		return false, nil
	}
	around := kinds.Files(func(k kinds.Kind) bool { return k.Around })
	return plan.Undo(out, append(around, experiment.File), f.madeOut)
}

// claim makes the folder of the results, takes it for this command and stores the experiment in it.
func (a *app) claim(f *flags, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the results: %w", err)
	}

	if f.point == "" { // runs that somebody else starts share the folder
		held, err := output.LockDir(out)
		if err != nil {
			return err
		}
		a.ends = append(a.ends, held.Close) // its lock goes with it
	}

	return a.storeExperiment(f, out)
}

// storeExperiment writes the experiment into the folder of its results.
func (a *app) storeExperiment(f *flags, out string) error {
	resolved, err := f.Experiment.Resolved()
	if err != nil {
		return err
	}
	return output.Atomically(filepath.Join(out, experiment.File), func(to *os.File) error {
		return resolved.Write(to)
	})
}

// finished is what a measuring verb ends with.
type finished struct {
	status, error string
	why           result.FailureInfo
	warnings      []engine.Warning
	out           string       // "": nothing is left of it
	explain       func() error // prints the answer; nil: there is none
}

// finish prints the answer, the warnings and the folder, and turns the outcome into an
// error: nil if and only if all that was asked for is measured.
func (a *app) finish(f *flags, p *console.Progress, d finished, err error) error {
	if d.explain != nil {
		err = errors.Join(err, d.explain())
	}

	p.Warn(d.warnings...)
	if d.out != "" {
		p.Printf("results: %s", d.out)
	}

	switch {
	case d.status == result.Interrupted:
		p.Printf("%s", d.error)
		return errInterrupted
	case err != nil:
		return err
	case d.status != result.OK:
		return d.why.Failure(d.error)
	case f.strict && len(d.warnings) > 0:
		return madeFatal(len(d.warnings))
	}

	return nil
}

// compared finishes a plan, whose report is shown if it has a row.
func (a *app) compared(
	f *flags, p *console.Progress, d finished, so plan.Outcome, hasRows bool, err error,
) error {
	if hasRows {
		d.explain = func() error { return a.explain(f.json, "", d.out) }
	}

	switch {
	case so.Whole && f.resume:
		p.Printf("nothing was missing: all runs had finished before")
	case so.Status == result.Interrupted:
		d.status, d.error, d.why = so.Status, so.Error, so.FailureInfo
	case so.Again != "" && f.point == "":
		d.why.Remedy = "once the cause is removed, measure what is missing: " + so.Again
	}

	if so.Status == result.Failed && !hasRows {
		gone, tidyErr := f.leaveNoTrace(d.out, so.Code)
		if err = errors.Join(err, tidyErr); gone {
			d.out, d.error, d.why = "", so.Error, so.FailureInfo
		}
	}

	return a.finish(f, p, d, err)
}

// answer is what a verb finds out.
type answer interface{ Document() *doc.Document }

// show prints a document.
func (a *app) show(d *doc.Document) error { return render.Terminal(a.stdout, d) }

// print prints an answer as text, or as JSON.
func (a *app) print(asJSON bool, found answer) error {
	if !asJSON {
		return a.show(found.Document())
	}
	if as, is := found.(interface{ JSON() any }); is {
		return a.printJSON(as.JSON())
	}
	return a.printJSON(found)
}

func (a *app) printJSON(v any) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// Do carries a job out on this machine, in the runner of its subject.
func (a *app) Do(ctx context.Context, job runners.Job, tell result.EventFunc) (*result.Run, error) {
	r, err := a.tables.Runner(job.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", job.Spec.Head().Subject, err)
	}
	return r.Do(ctx, job, tell)
}

// dryRun ends a verb that was only to say what it would do.
type dryRun struct{}

func (dryRun) Error() string { return "dry run" }

// estimated refuses steps that the disk under dir or the memory cannot hold, and shows
// the estimate for --dry-run.
func (a *app) estimated(f *flags, dir string, steps []estimate.Step) (estimate.Estimate, error) {
	e := estimate.Total(steps)
	var show func(*doc.Document) error
	if f.dryRun {
		show = a.show
	}

	wrong, err := disk.Room(e, dir, show)
	switch {
	case err != nil:
		return e, err
	case wrong != nil && !f.ignoreSpace && !f.resume && !f.elsewhere():
		return e, fmt.Errorf("%w; --ignore-space starts all the same", wrong)
	case f.dryRun:
		return e, dryRun{}
	}

	return e, nil
}

// sweepSteps are what each run of a sweep will take.
func (a *app) sweepSteps(
	s sweep.Sweep, how plan.Plan, on estimate.Machine,
) ([]estimate.Step, error) {
	return s.Steps(how, on, a.tables.Engines.WithCgo, curve.Predictable(s))
}
