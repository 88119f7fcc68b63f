package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/explain/watched"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// watchFlags are the flags of watch as typed.
type watchFlags struct {
	pid                       experiment.Int
	seconds                   experiment.Float
	sample                    experiment.Float
	cache                     setting.Value[setting.CacheSize]
	whatIf                    setting.Value[setting.CacheSize]
	name, out, traceOut, keep string
	metrics                   experiment.Text
	force, json               bool
}

func (a *app) watchVerb() *cobra.Command {
	f := new(watchFlags)
	cmd := &cobra.Command{
		Use:   "watch DIR | --pid N | --name NAME",
		Short: "Watch what a running node reads, without changing or restarting it",
		Long: `Watch attaches to a running program that uses Pebble (such as geth), goleveldb or
RocksDB, by means of the Linux kernel (eBPF). It reports what its Gets read, which
kinds of keys they ask for, and what another cache would read of the same Gets. Of a
process that maps a database of MDBX or LMDB, it reports the page faults by table, and
of Erigon the Gets, too.
Name the process by its number, its name, or the database that it has open. Nothing is
written to it or to its database; Ctrl-C ends with the answer so far. It needs Linux
on amd64 (arm64: untried), and root or CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and
CAP_DAC_READ_SEARCH. See statelab doctor.

  sudo statelab watch --name geth --seconds 60
  sudo statelab watch /var/lib/geth/geth/chaindata --out W
  sudo statelab watch --pid 4242 --trace-out T     (then statelab simulate T --cache 1GiB,8GiB)
  statelab compare W1 W2                           (before and after a change of its flags)`,
	}

	flag := cmd.Flags()
	setting.Var(flag, &f.pid, setting.Int(0, 1<<22, "4242"), "pid", "0", "number of the process")
	flag.StringVar(&f.name, "name", "", "name of the process")
	setting.Var(flag, &f.seconds, setting.Seconds(0, 30*24*3600, "60"), "seconds", "60",
		"how long to watch; 0: until Ctrl-C")
	setting.Var(flag, &f.sample, setting.Share, "sample", "0%",
		"share of the time in which all Gets are watched; 0%: automatic, with an overhead of at "+
			"most 2 % of one processor")
	setting.Var(flag, &f.cache, setting.Cache, "cache", "", "size of the process's block cache "+
		"(default: from the files of its database)")
	setting.ListVar(flag, &f.whatIf, setting.Cache, "what-if", "", "cache sizes to simulate "+
		"(default: half the present one, and twice to four times, or more if that is what "+
		"holds all blocks)")
	flag.StringVar(&f.traceOut, "trace-out", "", "write the block accesses of the Gets to this "+
		"file, for simulate; it contains no keys")
	flag.StringVar(&f.keep, "keep-keys", "", "write the keys of the Gets to this file, in "+
		"hexadecimal, one per line")
	flag.StringVar(&f.out, "out", "", "new folder for the results: page (report.html), JSON, "+
		"series and latencies")
	setting.Var(flag, &f.metrics, setting.Address.Optional(), "metrics", "",
		"serve Prometheus metrics while it watches, at :PORT for this machine only, or at "+
			"HOST:PORT")
	flag.BoolVar(&f.force, "force", false, "replace the files of --trace-out and --keep-keys if "+
		"they exist")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		return a.watch(f, flag, m, args)
	})
}

func (a *app) watch(f *watchFlags, flags *pflag.FlagSet, m *mistakes, args []string) (err error) {
	ways := len(args)
	if f.pid.Value() > 0 {
		ways++
	}

	if f.name != "" {
		ways++
	}

	if ways != 1 {
		m.Add("name one process: --pid 4242, --name geth, or the database that it has open")
	}

	m.Results(f.out)
	m.NewFileIf("trace-out", f.traceOut, &f.force)
	m.NewFileIf("keep-keys", f.keep, &f.force)
	p := a.progress()
	defer p.Done()
	w := watch.Wanted{
		PID:        f.pid.Value(),
		Name:       f.name,
		Dir:        strings.Join(args, ""),
		CacheBytes: f.cache.Value().Bytes,
		OfGets: commandline.Typed(flags, "sample", "cache", "what-if", "trace-out",
			"keep-keys"),
		Options: watch.Options{
			Seconds: f.seconds.Value(),
			Share:   f.sample.Value(),
			Tell:    func(e result.Event) { p.Report("", e) },
		},
	}
	if f.metrics.IsSet() {
		w.Counts = func(counts result.WatchCounts) { a.live.Watched.Observe(counts) }
	}

	for i, size := range f.whatIf.All() {
		if size.Share > 0 {
			m.Add("--what-if: %s: write a size such as 4GiB", f.whatIf.Texts()[i])
		}
		w.Sizes = append(w.Sizes, size.Bytes)
	}

	if err := m.Err(); err != nil {
		return err
	}

	if err := a.makeOut(f.out, output.MakeFolder); err != nil {
		return err
	}

	stop := func() {}
	defer func() { stop() }()
	w.Attached = func(faults bool) (tick func(result.Tick), err error) {
		stop, err = a.serveMetrics(&f.metrics, watch.Phase, p)
		line := watched.Second
		if faults {
			line = watched.FaultSecond
		}

		return func(tick result.Tick) {
			if f.seconds.Value() == 0 || tick.Seconds < f.seconds.Value() {
				p.Printf("%s", line(tick))
			}

			if a.live != nil {
				a.live.Observe(result.Event{Phase: watch.Phase, Tick: &tick})
			}
		}, err
	}

	seen, err := watch.Process(a.ctx, w)
	if err != nil {
		return err
	}

	p.Done()
	// An answer that took long to see is told even if a file cannot be written.
	answer := watched.Watched{Watch: &seen.Watch, Series: seen.Ticks}
	seen.Watch.Schema, seen.Watch.Command = schema.Watch, a.command()
	seen.Watch.Answer, seen.Watch.Bottleneck = answer.Answer(),
		string(answer.Verdict().Bottleneck)
	err = a.delivered(
		f.out,
		f.json,
		answer,
		func(dir string) error { return seen.Write(dir, a.command()) },
	)

	return errors.Join(err, f.writeFiles(seen))
}

// writeFiles writes the trace and the keys, if they were asked for.
func (f *watchFlags) writeFiles(seen *watch.Seen) error {
	var errs []error
	switch {
	case f.traceOut == "":
	case seen.Trace == nil:
		errs = append(errs, fmt.Errorf("--trace-out: there is no trace: %s",
			cmp.Or(seen.Watch.Set.Absent()[figure.BlockAccessesPerGet.Key], "no Get was seen")))
	default:
		errs = append(errs, seen.WriteTrace(f.traceOut, commandline.Replaces(&f.force)))
	}

	if f.keep != "" {
		errs = append(errs, seen.WriteKeys(f.keep, commandline.Replaces(&f.force)))
	}

	return errors.Join(errs...)
}
