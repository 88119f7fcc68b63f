package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

func (a *app) traceVerb() *cobra.Command {
	f := newFlags(experiment.Read)
	var sample, run string
	cmd := &cobra.Command{
		Use:   "trace --db DIR --out FILE",
		Short: "Work out which blocks every Get of a key stream asks for, without making the Gets",
		Long: `Trace reads a Pebble database's bounds, filters and indexes, and writes the exact
sequence of block accesses of the Gets that read would make with the same flags.
The accesses do not depend on the cache: one trace answers for all sizes.

  statelab trace --db D --gets 500k --warmup 100k --out T
  statelab trace --run R --out T                   (of a run that was measured)
  statelab simulate T --cache 1MiB,4MiB,16MiB`,
	}
	cmd.FParseErrWhitelist.UnknownFlags = true
	flag := cmd.Flags()
	flag.StringVar(&f.DB, "db", "", "directory of the database")
	flag.StringVar(&run, "run", "", "run folder whose key stream to take (database, Gets, warm-up, threads, seed)")
	flag.StringVar(&f.Gets, "gets", "500k", "Gets that count")
	flag.StringVar(&f.Warmup, "warmup", "100k", "Gets before, only to fill caches: a count, or a share of the keys")
	flag.StringVar((*string)(&f.Threads), "threads", "1", "threads whose streams take turns")
	flag.StringVar(&f.Missing, "missing", "0%", "share of Gets that ask for absent keys")
	flag.StringVar(&f.Zipf, "zipf", "0", "exponent of key popularity; 0 is uniform")
	flag.StringVar(&f.Seed, "seed", "1", "seed of all choices")
	flag.StringVar(&f.SampleKeys, "sample-keys", "200k", "keys to sample from a database that statelab did not load")
	flag.StringVar(&sample, "sample-shift", "0", "keep one of 2^k keys, chosen by hash: for means only, not for simulate")
	flag.StringVar(&f.out, "out", "", "the trace file")
	flag.BoolVar(&f.Existing, "use-existing", false, "trace a database that statelab did not load; it is never written")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m := new(mistakes)
		m.unknownFlags(cmd, a.args)
		m.noArguments(args)
		shift, err := strconv.Atoi(sample)
		if err != nil || shift < 0 || shift > 30 {
			m.add("--sample-shift %q: from 0 (all keys) to 30", sample)
		}
		if f.out == "" {
			m.add("--out: say which file: --out T")
		}
		if run != "" {
			m.streamOf(f, run)
		}
		t := a.target(f, m)
		spec := a.readSpec(f, t, m)
		spec.Threads = m.threads(string(f.Threads))
		if spec.WarmupAuto {
			m.add("--warmup auto: a trace needs a count such as 100k, or a share of the keys such as 0.05%%")
		}
		if spec.Engine != "" && spec.Engine != "pebble1" && spec.Engine != "pebble2" {
			m.add("--db %s: block accesses of %s cannot be worked out, only those of pebble1 and pebble2", f.DB, spec.Engine)
		}
		if err := m.err(); err != nil {
			return err
		}
		return a.trace(f, t, &spec, trace.Sample{Shift: shift})
	}
	return cmd
}

// streamOf takes the key stream of a run that was measured.
func (m *mistakes) streamOf(f *flags, folder string) {
	run, err := result.ReadRun(folder)
	if err != nil {
		m.add("--run: %v", err)
		return
	}
	w := run.Workload
	f.DB, f.Existing = run.Database.Dir, run.Database.Written == "foreign"
	f.Gets, f.Warmup = strconv.FormatUint(run.Figures.Gets, 10), strconv.FormatUint(w.WarmupGets, 10)
	f.Threads, f.Seed = experiment.List(strconv.Itoa(w.Threads)), strconv.FormatUint(w.Seed, 10)
	f.Missing, f.Zipf = fmt.Sprintf("%g%%", 100*w.MissingShare), fmt.Sprint(w.ZipfTheta)
}

// traced is what trace --json prints.
type traced struct {
	Schema   string       `json:"schema"`
	File     string       `json:"file"`
	Header   trace.Header `json:"header"`
	Totals   trace.Totals `json:"totals"`
	Accesses float64      `json:"block_accesses_per_get"`
	Seconds  float64      `json:"seconds"`
	Bytes    int64        `json:"bytes"`
}

func (a *app) trace(f *flags, t target, spec *bench.Spec, sample trace.Sample) error {
	began := time.Now()
	var header trace.Header
	var totals trace.Totals
	err := result.WriteFile(f.out, func(file *os.File) (err error) {
		buffered := bufio.NewWriterSize(file, 1<<20)
		if header, totals, err = a.record(buffered, t, spec, sample); err != nil {
			return err
		}
		return buffered.Flush()
	})
	if err != nil {
		return fmt.Errorf("trace %s: %w", f.DB, err)
	}
	info, err := os.Stat(f.out)
	if err != nil {
		return err
	}
	out := traced{"statelab.trace/1", f.out, header, totals, float64(totals.Accesses) / float64(max(1, totals.Gets)), time.Since(began).Seconds(), info.Size()}
	if f.json {
		return a.printJSON(out)
	}
	fmt.Fprintf(a.stdout, "%s Gets ask for %.4f blocks each, of %s different ones\n%s: %s, made in %s\n", unit.Count(totals.Gets), out.Accesses,
		unit.Count(totals.Blocks), f.out, unit.Bytes(out.Bytes), duration(out.Seconds))
	return nil
}

// record writes the trace of spec's key stream.
func (a *app) record(w io.Writer, t target, spec *bench.Spec, sample trace.Sample) (header trace.Header, totals trace.Totals, err error) {
	resolver, err := resolve.Open(spec.Dir, version1or2(spec.Engine))
	if err != nil {
		return header, totals, err
	}
	defer func() { err = errors.Join(err, resolver.Close()) }()
	header = trace.Header{Schema: trace.Schema, Engine: spec.Engine, EngineVersion: t.engine.Info().Version, Profile: spec.Profile, ReadOnly: spec.ReadOnly,
		Database: resolver.Identity(), Keys: streamWords(spec), Seed: spec.Seed, SampleShift: sample.Shift, WarmupGets: int(spec.WarmupGets)}
	keys, err := bench.KeyStream(a.ctx, t.engine, spec)
	if err != nil {
		return header, totals, err
	}
	if resolver.KeepsOpening() && sample.Shift == 0 {
		header.Opening = true
		header.WarmupGets++
	}
	out, err := trace.NewWriter(w, header)
	if err != nil {
		return header, totals, err
	}
	if header.Opening {
		if err := resolver.RecordOpening(out); err != nil {
			return header, totals, err
		}
	}
	offered, err := resolver.Record(a.ctx, keys, sample, out)
	if err != nil {
		return header, totals, err
	}
	if header.Opening {
		offered++
	}
	totals, err = out.Close(offered)
	return header, totals, err
}

func streamWords(spec *bench.Spec) string {
	return fmt.Sprintf("%s, %d threads in turn, %g absent, zipf %g", spec.Workload, spec.Threads, spec.MissingShare, spec.ZipfTheta)
}
