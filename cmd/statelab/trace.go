package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// traceFlags are the flags of trace as typed.
type traceFlags struct {
	*flags
	run    string
	sample experiment.Int
	force  bool
	on     slurm.Fan
}

// streamFlags are the settings that a key stream has.
var streamFlags = []string{"db", "use-existing", "gets", "warmup", "threads", "missing", "zipf",
	"workload", "batch-gets", "batch-order", "seed", "sample-keys",
	"table", "accesses", "scheme", "max-open-files"}

func (a *app) traceVerb() *cobra.Command {
	f := &traceFlags{flags: newFlags(experiment.Sweep)}
	f.OnePoint = true
	cmd := &cobra.Command{
		Use:   "trace --db DIR --out FILE",
		Short: "Compute the block accesses of Gets, without making the Gets",
		Long: `Trace writes the block accesses of Gets, from which simulate tells the block reads
at every cache size. It reads the filters and indexes of a database, and makes no Get:
the accesses are those that sweep would cause with the same flags.

  statelab trace --db D --gets 500k --warmup 100k --out T
  statelab trace --run R --out T                   (the key stream of a measured run)
  statelab trace --db D --out T --on slurm         (every part of the Gets is a job)
  statelab simulate T --cache 1MiB,4MiB,16MiB

Parts of a trace (--part) make the same file when they are put together (--merge).`,
	}

	flag := cmd.Flags()
	f.DeclareFlags(flag, streamFlags...)
	experiment.SubjectAs[*experiment.SweepConfig](f.Experiment).Warmup.SetDefault("100k")
	flag.Lookup("warmup").DefValue = "100k"
	flag.StringVar(&f.run, "run", "", "trace the Gets of this run folder (its database, Gets, "+
		"warm-up, threads and seed)")
	setting.Var(flag, &f.sample, shiftOf("keys"), "sample-shift", "0",
		"k: keep only one of 2^k keys, chosen by hash (good for averages; simulate needs all keys)")
	flag.StringVar(&f.out, "out", "", "trace file to write; - is standard output")
	flag.BoolVar(&f.force, "force", false, "replace the trace file if it exists")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	f.on.Flags(flag, "trace part K/N of the Gets only (example: 2/4)",
		"write the whole trace from the files of all parts, which are the arguments")
	return a.checked(cmd, func(m *mistakes, args []string) error { return a.trace(f, m, args) })
}

func (a *app) trace(f *traceFlags, m *mistakes, args []string) error {
	if !f.on.Merge {
		m.NoArguments(args)
	} else if len(args) == 0 {
		m.Add("--merge: name the files of all parts (statelab trace --part K/N --out FILE makes " +
			"one)")
	}

	f.on.Check(&m.Mistakes)
	if f.on.On() != "" && f.out == curve.Pipe {
		m.Add("--on %s: divides the work itself and writes one file: name it (example: --out T)",
			f.on.On())
	}

	if f.out == "" {
		m.Add("--out is missing: name the trace file (example: --out T)")
	} else if f.out != curve.Pipe {
		m.NewFile("--out: ", f.out, &f.force)
	} else if f.json {
		m.Add("--json: not with --out -, which writes the trace to standard output")
	}

	if f.on.Merge {
		if err := m.Err(); err != nil {
			return err
		}

		return a.writeTrace(f, func(to io.Writer) (trace.Made, error) {
			return trace.MergeFiles(to, args)
		})
	}

	if f.run != "" {
		run, err := result.ReadRun(f.run)
		if err != nil {
			m.Unread("run", "", "%v", err)
			return m.Err()
		}

		sweep.StreamOf(f.Experiment, run)
	}

	m.accessList(experiment.SubjectAs[*experiment.SweepConfig](f.Experiment).Accesses.Value())
	t := a.find(sweep.WantedBy(f.Experiment), m)
	spec := sweep.ReadSpec(f.Experiment, t, a.command(), &m.Mistakes)
	spec.Handles = int(experiment.SubjectAs[*experiment.SweepConfig](f.Experiment).Handles.Value())
	if spec.WarmupAuto {
		m.At("warmup", "auto", "a trace needs a number such as 100k, or a share of the keys such "+
			"as 0.05%%")
	}

	if spec.Engine != "" && !slices.Contains(subject.Traced(), spec.Engine) {
		m.At("db", f.DB.Value(),
			"a database of %s; only those of %s can be traced. Measure it with statelab sweep",
			spec.Engine, strings.Join(subject.Traced(), ", "))
	}

	if err := m.Err(); err != nil {
		return err
	}

	if f.on.On() != "" {
		return a.traceOnNodes(f)
	}

	p := a.progress()
	return a.writeTrace(f, func(to io.Writer) (trace.Made, error) {
		defer p.Done()
		return curve.Record(
			a.ctx,
			to,
			gets(t, spec),
			trace.Sample{Shift: f.sample.Value()},
			f.on.Part.Value(),
			func(e result.Event) { p.Report("", e) },
		)
	})
}

// traceOnNodes has nodes trace parts of the Gets. All of them must see the database.
func (a *app) traceOnNodes(f *traceFlags) error {
	const part = "part.trace"
	return a.divide(&f.on, "trace", func(parts int) [][]string {
		args := []string{"trace", "--json", "--out=" + slurm.MadePath(part),
			"--sample-shift=" + f.sample.String()}
		for _, name := range streamFlags {
			field, _ := f.ByFlag(name)
			value := field.Dest.String()
			if name == "db" || name == "accesses" {
				value = absolute(value)
			}

			if value != "" {
				args = append(args, "--"+name+"="+value)
			}
		}

		return slurm.Parted(parts, args...)
	}, func(folders []string) error {
		return a.writeTrace(f, func(to io.Writer) (trace.Made, error) {
			return trace.MergeFiles(to, slurm.Files(folders, part))
		})
	})
}

// gets are the Gets of spec from t.
func gets(t sweep.Target, spec bench.Spec) curve.TraceRequest {
	return curve.TraceRequest{
		Engine:  linked(spec.Engine),
		Version: t.Engine.Info().Version,
		Spec:    spec,
	}
}

// writeTrace writes a trace to --out and says what it holds.
func (a *app) writeTrace(f *traceFlags, record func(io.Writer) (trace.Made, error)) error {
	made, err := curve.Write(f.out, commandline.Replaces(&f.force), record)
	switch {
	case err != nil:
		return fmt.Errorf("trace %s: %w", cmp.Or(f.DB.Value(), f.out), err)
	case made == nil:
		return nil
	}

	a.progress().Warn(made.Warnings...)
	return a.print(f.json, made)
}
