package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
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
var streamFlags = []string{"db", "use-existing", "gets", "warmup", "threads", "missing", "zipf", "workload", "batch-gets", "batch-order", "seed", "sample-keys",
	"table", "accesses", "scheme"}

func (a *app) traceVerb() *cobra.Command {
	f := &traceFlags{flags: newFlags(experiment.Sweep)}
	f.OnePoint = true
	cmd := &cobra.Command{
		Use:   "trace --db DIR --out FILE",
		Short: "Compute the block accesses of Gets, without making the Gets",
		Long: `Trace reads the filters and indexes of a Pebble database and writes the exact
sequence of block accesses that sweep would cause with the same flags. The accesses
do not depend on the cache, so one trace serves for all cache sizes.

  statelab trace --db D --gets 500k --warmup 100k --out T
  statelab trace --run R --out T                   (the key stream of a measured run)
  statelab trace --db D --out T --on slurm         (every part of the Gets is a job)
  statelab simulate T --cache 1MiB,4MiB,16MiB

Parts of a trace (--part) make the same file when they are put together (--merge).`,
	}
	flag := cmd.Flags()
	f.Some(flag, streamFlags...)
	experiment.Of[*experiment.Swept](f.Experiment).Warmup.Fall("100k")
	flag.Lookup("warmup").DefValue = "100k"
	flag.StringVar(&f.run, "run", "", "trace the Gets of this run folder (its database, Gets, warm-up, threads and seed)")
	setting.Var(flag, &f.sample, shiftOf("keys"), "sample-shift", "0", "k: keep only one of 2^k keys, chosen by hash (good for averages; simulate needs all keys)")
	flag.StringVar(&f.out, "out", "", "trace file to write; - is standard output")
	flag.BoolVar(&f.force, "force", false, "replace the trace file if it exists")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	f.on.Flags(flag, "trace part K/N of the Gets only (example: 2/4)", "write the whole trace from the files of all parts, which are the arguments")
	return a.checked(cmd, func(m *mistakes, args []string) error { return a.trace(f, m, args) })
}

func (a *app) trace(f *traceFlags, m *mistakes, args []string) error {
	if !f.on.Merge {
		m.noArguments(args)
	} else if len(args) == 0 {
		m.add("--merge: name the files of all parts (statelab trace --part K/N --out FILE makes one)")
	}
	f.on.Check(&m.Mistakes)
	if f.on.On() != "" && f.out == pipe {
		m.add("--on %s: divides the work itself and writes one file: name it (example: --out T)", f.on.On())
	}
	if f.out == "" {
		m.add("--out is missing: name the trace file (example: --out T)")
	} else if f.out != pipe {
		m.newFile("--out: ", f.out, &f.force)
	} else if f.json {
		m.add("--json: not with --out -, which writes the trace to standard output")
	}
	if f.on.Merge {
		if err := m.err(); err != nil {
			return err
		}
		return a.writeTrace(f, func(to io.Writer) (trace.Made, error) { return trace.MergeFiles(to, args) })
	}
	if f.run != "" && !m.streamOf(f.flags, f.run) {
		return m.err()
	}
	m.accessList(experiment.Of[*experiment.Swept](f.Experiment).Accesses.V())
	t := a.find(sweep.WantedBy(f.Experiment), m)
	spec := sweep.ReadSpec(f.Experiment, t, a.command(), &m.Mistakes)
	if spec.WarmupAuto {
		m.At("warmup", "auto", "a trace needs a number such as 100k, or a share of the keys such as 0.05%%")
	}
	if spec.Engine != "" && !subject.IsPebble(spec.Engine) {
		m.At("db", f.DB.V(), "a database of %s; only %s can be traced", spec.Engine, strings.Join(subject.Pebbles(), " and "))
	}
	if err := m.err(); err != nil {
		return err
	}
	if f.on.On() != "" {
		return a.traceOnNodes(f)
	}
	p := a.progress()
	return a.writeTrace(f, func(to io.Writer) (trace.Made, error) {
		defer p.Done()
		return curve.Record(a.ctx, to, gets(t, spec), trace.Sample{Shift: f.sample.V()}, f.on.Part.V(), func(e result.Event) { p.Tell("", e) })
	})
}

// traceOnNodes has nodes trace parts of the Gets. All of them must see the database.
func (a *app) traceOnNodes(f *traceFlags) error {
	const part = "part.trace"
	return a.divide(&f.on, "trace", func(parts int) [][]string {
		args := []string{"trace", "--json", "--out=" + slurm.Made(part), "--sample-shift=" + f.sample.String()}
		for _, name := range streamFlags {
			field, _ := f.ByFlag(name)
			value := field.To.String()
			if name == "db" || name == "accesses" {
				value = absolute(value)
			}
			if value != "" {
				args = append(args, "--"+name+"="+value)
			}
		}
		return slurm.Parted(parts, args...)
	}, func(folders []string) error {
		return a.writeTrace(f, func(to io.Writer) (trace.Made, error) { return trace.MergeFiles(to, slurm.Files(folders, part)) })
	})
}

// gets are the Gets of spec from t.
func gets(t target, spec bench.Spec) curve.Of {
	return curve.Of{Engine: linked(spec.Engine), Version: t.Engine.Info().Version, Spec: spec}
}

// streamOf takes the key stream of a run that was measured.
func (m *mistakes) streamOf(f *flags, folder string) bool {
	run, err := result.ReadRun(folder)
	if err != nil {
		m.Unread("run", "", "%v", err)
		return false
	}
	w, s := run.Workload, experiment.Of[*experiment.Swept](f.Experiment)
	f.DB.Let(run.Database.Dir)
	s.Existing.Let(run.Database.Written == "foreign")
	s.Gets.Let(run.Figures.Gets)
	s.Warmup.Let(setting.Warmup{Gets: w.WarmupGets})
	s.Threads.Let(w.Threads)
	f.Seed.Let(w.Seed)
	if s.Existing.V() && w.Keys > 0 {
		s.SampleKeys.Let(w.Keys)
	}
	if table := run.Engine.Options["table"]; table != "" {
		s.Table.Let(table)
	}
	if w.BatchGets > 0 {
		s.Workload.Let(workload.MultiReadRandom)
		s.BatchGets.Let(uint64(w.BatchGets))
		s.BatchOrder.Let(experiment.RandomOrder)
		if w.BatchSorted {
			s.BatchOrder.Let(experiment.SortedOrder)
		}
	}
	s.Missing.Let(w.MissingShare)
	s.Zipf.Let(w.ZipfTheta)
	return true
}

// traced is what trace --json prints.
type traced struct {
	Schema   string       `json:"schema"`
	File     string       `json:"file"`
	Header   trace.Header `json:"header"`
	Totals   trace.Totals `json:"totals"`
	Accesses float64      `json:"block_accesses_per_get"`
	PerGet   trace.PerGet `json:"accesses_of_gets"`
	Seconds  float64      `json:"seconds"`
	Bytes    int64        `json:"bytes"`
}

// writeTrace writes a trace to --out and says what it holds.
func (a *app) writeTrace(f *traceFlags, record func(io.Writer) (trace.Made, error)) error {
	began := time.Now()
	var made trace.Made
	write := func(to io.Writer) (err error) {
		buffered := bufio.NewWriterSize(to, 1<<20)
		if made, err = record(buffered); err != nil {
			return err
		}
		return buffered.Flush()
	}
	var err error
	if f.out == pipe {
		err = write(os.Stdout) // a.stdout takes control characters out
	} else {
		err = output.Write(f.out, replaces(&f.force), func(file *os.File) error { return write(file) })
	}
	if err != nil {
		return fmt.Errorf("trace %s: %w", cmp.Or(f.DB.V(), f.out), err)
	}
	if f.out == pipe {
		return nil
	}
	info, err := os.Stat(f.out)
	if err != nil {
		return err
	}
	header, totals := made.Header, made.Totals
	out := traced{"statelab.trace/1", f.out, header, totals, float64(totals.Accesses) / float64(max(1, totals.Gets)), made.PerGet,
		time.Since(began).Seconds(), info.Size()}
	if f.json {
		return a.printJSON(out)
	}
	gets := unit.Count(totals.Gets) + " Gets of this part"
	if warmup := uint64(header.WarmupGets); header.Part.Of == 0 && warmup <= totals.Gets {
		gets = unit.Count(warmup) + " warm-up Gets and " + unit.Count(totals.Gets-warmup) + " measured Gets"
	}
	fmt.Fprintf(a.stdout, "%s access %s blocks each on average (at most %d);\n%s distinct blocks. Blocks that are read to open tables are included.\n",
		gets, unit.Significant(out.Accesses, 3), made.PerGet.Most, unit.Count(totals.Blocks))
	fmt.Fprintf(a.stdout, "%s: %s, made in %s\n", f.out, unit.Bytes(out.Bytes), duration(out.Seconds))
	return nil
}
