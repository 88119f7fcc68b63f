package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/resolve"
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
	sample, run, typedPart string
	part                   engine.Part
	force, merge           bool
	on                     *fan
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
sequence of block accesses that read would cause with the same flags. The accesses
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
	flag.StringVar(&f.sample, "sample-shift", "0", "k: keep only one of 2^k keys, chosen by hash (good for averages; simulate needs all keys)")
	flag.StringVar(&f.out, "out", "", "trace file to write; - is standard output")
	flag.BoolVar(&f.force, "force", false, "replace the trace file if it exists")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	flag.StringVar(&f.typedPart, "part", "", "trace part K/N of the Gets only (example: 2/4)")
	flag.BoolVar(&f.merge, "merge", false, "write the whole trace from the files of all parts, which are the arguments")
	f.on = fanFlags(cmd)
	return a.checked(cmd, func(m *mistakes, args []string) error { return a.trace(f, m, args) })
}

func (a *app) trace(f *traceFlags, m *mistakes, args []string) error {
	if !f.merge {
		m.noArguments(args)
	} else if len(args) == 0 {
		m.add("--merge: name the files of all parts (statelab trace --part K/N --out FILE makes one)")
	}
	f.part = m.part(f.typedPart)
	f.on.check(m)
	if f.on.where != "" && (f.out == pipe || f.typedPart != "") {
		m.add("--on %s: divides the work itself and writes one file: remove --part, and name a file (example: --out T)", f.on.where)
	}
	shift := parse(m, "sample-shift", f.sample, shiftOf("keys"))
	if f.out == "" {
		m.add("--out is missing: name the trace file (example: --out T)")
	} else if f.out != pipe {
		m.newFile("--out: ", f.out, &f.force)
	} else if f.json {
		m.add("--json: not with --out -, which writes the trace to standard output")
	}
	if f.merge {
		if err := m.err(); err != nil {
			return err
		}
		return a.writeTrace(f, func(to io.Writer) (trace.Header, trace.Totals, trace.PerGet, error) { return mergeTraces(to, args) })
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
	if f.on.where != "" {
		return a.traceOnNodes(f)
	}
	p := a.progress()
	return a.writeTrace(f, func(to io.Writer) (trace.Header, trace.Totals, trace.PerGet, error) {
		defer p.done()
		return a.record(to, t, &spec, trace.Sample{Shift: shift}, f.part, func(e result.Event) { p.tell("", e) })
	})
}

// traceOnNodes has nodes trace parts of the Gets. All of them must see the database.
func (a *app) traceOnNodes(f *traceFlags) error {
	command := func(parts int) (commands [][]string) {
		for i := range parts {
			args := []string{"trace", "--json", fmt.Sprintf("--part=%d/%d", i+1, parts), "--out=" + filepath.Join(slurm.Work, madeDir, tracePart),
				"--sample-shift=" + f.sample}
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
			commands = append(commands, args)
		}
		return commands
	}
	return a.divide(f.on, "trace", command, func(folders []string) error {
		var files []string
		for _, folder := range folders {
			files = append(files, filepath.Join(folder, tracePart))
		}
		return a.writeTrace(f, func(to io.Writer) (trace.Header, trace.Totals, trace.PerGet, error) { return mergeTraces(to, files) })
	})
}

// tracePart is the file that a node makes.
const tracePart = "part.trace"

func mergeTraces(to io.Writer, paths []string) (header trace.Header, totals trace.Totals, perGet trace.PerGet, err error) {
	var parts []io.Reader
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return header, totals, perGet, err
		}
		defer file.Close()
		parts = append(parts, bufio.NewReaderSize(file, 1<<20))
	}
	return trace.Merge(to, parts)
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
func (a *app) writeTrace(f *traceFlags, record func(io.Writer) (trace.Header, trace.Totals, trace.PerGet, error)) error {
	began := time.Now()
	var header trace.Header
	var totals trace.Totals
	var perGet trace.PerGet
	write := func(to io.Writer) (err error) {
		buffered := bufio.NewWriterSize(to, 1<<20)
		if header, totals, perGet, err = record(buffered); err != nil {
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
	out := traced{"statelab.trace/1", f.out, header, totals, float64(totals.Accesses) / float64(max(1, totals.Gets)), perGet,
		time.Since(began).Seconds(), info.Size()}
	if f.json {
		return a.printJSON(out)
	}
	gets := unit.Count(totals.Gets) + " Gets of this part"
	if warmup := uint64(header.WarmupGets); header.Part.Of == 0 && warmup <= totals.Gets {
		gets = unit.Count(warmup) + " warm-up Gets and " + unit.Count(totals.Gets-warmup) + " measured Gets"
	}
	fmt.Fprintf(a.stdout, "%s access %s blocks each on average (at most %d);\n%s distinct blocks. Blocks that are read to open tables are included.\n"+
		"%s: %s, made in %s\n", gets, unit.Significant(out.Accesses, 3), perGet.Most, unit.Count(totals.Blocks), f.out, unit.Bytes(out.Bytes), duration(out.Seconds))
	return nil
}

// record writes the trace of spec's key stream, or of a part of it.
func (a *app) record(
	w io.Writer, t target, spec *bench.Spec, sample trace.Sample, part engine.Part, tell result.Tell,
) (header trace.Header, totals trace.Totals, perGet trace.PerGet, err error) {
	resolver, err := resolve.Open(spec.Dir, version1or2(spec.Engine))
	if err != nil {
		return header, totals, perGet, err
	}
	defer func() { err = errors.Join(err, resolver.Close()) }()
	s, errs := pebbledb.Resolve(pebbleProfiles(), engine.Options{Profile: spec.Profile, Overrides: spec.Overrides, Foreign: spec.Foreign})
	if len(errs) > 0 {
		return header, totals, perGet, errors.Join(errs...)
	}
	if !s.AsksFilters() {
		resolver.PassOverFilters()
	}
	header = trace.Header{Schema: trace.Schema, Engine: spec.Engine, EngineVersion: t.Engine.Info().Version, Profile: spec.Profile, ReadOnly: spec.ReadOnly,
		Database: resolver.Identity(), Keys: streamWords(spec), Seed: spec.Seed, SampleShift: sample.Shift, WarmupGets: int(spec.WarmupGets), Part: part}
	keys, err := bench.KeyStream(a.ctx, linked(spec.Engine), spec)
	if err != nil {
		return header, totals, perGet, err
	}
	if resolver.KeepsOpening() && sample.Shift == 0 {
		header.Opening = true
		header.WarmupGets++
	}
	out, err := trace.NewWriter(w, header)
	if err != nil {
		return header, totals, perGet, err
	}
	opens := header.Opening && part.Number <= 1
	if opens {
		if err := resolver.RecordOpening(out); err != nil {
			return header, totals, perGet, err
		}
	}
	from, to := uint64(0), spec.WarmupGets+spec.Gets
	if part.Of > 0 {
		from, to = shareOf(to, part.Number-1, part.Of), shareOf(to, part.Number, part.Of)
	}
	for range from {
		keys() // of the parts before
	}
	asked := uint64(0)
	offered, err := resolver.Record(a.ctx, func() ([]byte, bool, bool) {
		if part.Of > 0 && asked == to-from {
			return nil, false, false
		}
		if asked++; asked%10_000 == 0 {
			tell(result.Event{Phase: "tracing", Done: asked, Total: to - from, Unit: "Gets"})
		}
		return keys()
	}, to-from, sample, out)
	if err != nil {
		return header, totals, perGet, err
	}
	if opens {
		offered++
	}
	totals, err = out.Close(offered)
	return header, totals, out.PerGet(), err
}

// shareOf is where the parts up to part end, of n Gets in as many parts as of.
func shareOf(n uint64, part, of int) uint64 {
	return n/uint64(of)*uint64(part) + n%uint64(of)*uint64(part)/uint64(of)
}

func streamWords(spec *bench.Spec) string {
	threads := "1 thread"
	if spec.Threads > 1 {
		threads = fmt.Sprintf("%d threads in turn", spec.Threads)
	}
	if spec.AccessList != "" {
		return fmt.Sprintf("access list %s, %s keys, %s", filepath.Base(spec.AccessList), spec.KeyScheme, threads)
	}
	words := string(spec.Workload) + ", " + threads
	if spec.MissingShare > 0 {
		words += fmt.Sprintf(", %g %% of keys absent", 100*spec.MissingShare)
	}
	if spec.ZipfTheta > 0 {
		words += fmt.Sprintf(", Zipf exponent %g", spec.ZipfTheta)
	}
	if table := spec.Overrides["table"]; table != "" {
		words += ", of " + table
	}
	if spec.BatchGets > 0 {
		words += fmt.Sprintf(", batches of %d Gets", spec.BatchGets)
		if spec.BatchSorted {
			words += ", sorted"
		}
	}
	return words
}
