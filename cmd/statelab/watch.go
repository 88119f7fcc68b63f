package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/explain/promexport"
	"github.com/statelab/statelab/internal/explain/watched"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
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
		Use:   "watch [DIR] [--pid N | --name NAME]",
		Short: "Watch what a running node reads, without changing or restarting it",
		Long: `Watch attaches to a running program that uses Pebble (such as geth), goleveldb or
RocksDB, by means of the Linux kernel (eBPF). It reports what its Gets read, which
kinds of keys they ask for, and what another cache would read of the same Gets. Of a
process that maps a database of MDBX or LMDB, it reports the page faults by table.
Name the process by its number, its name, or the database that it has open. Nothing is
written to it or to its database; Ctrl-C ends with the answer so far. It needs Linux
on amd64, and root or CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
See statelab doctor.

  sudo statelab watch --name geth --seconds 60
  sudo statelab watch /var/lib/geth/geth/chaindata --out W
  sudo statelab watch --pid 4242 --trace-out T     (then statelab simulate T --cache 1GiB,8GiB)
  statelab compare W1 W2                           (before and after a change of its flags)`,
	}
	flag := cmd.Flags()
	setting.Var(flag, &f.pid, setting.Int(0, 1<<22, "4242"), "pid", "0", "number of the process")
	flag.StringVar(&f.name, "name", "", "name of the process")
	setting.Var(flag, &f.seconds, setting.Seconds(0, 30*24*3600, "60"), "seconds", "60", "how long to watch; 0: until Ctrl-C")
	setting.Var(flag, &f.sample, setting.Share, "sample", "0%",
		"share of the time in which all Gets are watched; 0%: chosen so that the process loses at most 2 % of a processor")
	setting.Var(flag, &f.cache, setting.Cache, "cache", "", "size of the process's block cache (default: from the files of its database)")
	setting.ListVar(flag, &f.whatIf, setting.Cache, "what-if", "", "cache sizes to simulate (default: half, twice and four times the present one)")
	flag.StringVar(&f.traceOut, "trace-out", "", "write the block accesses of the Gets to this file, for simulate; it contains no keys")
	flag.StringVar(&f.keep, "keep-keys", "", "write the keys of the Gets to this file, in hexadecimal, one a line")
	flag.StringVar(&f.out, "out", "", "new folder for the results: page (report.html), JSON, series and latencies")
	setting.Var(flag, &f.metrics, setting.Address.Optional(), "metrics", "",
		"serve Prometheus metrics while it watches, at :PORT for this machine only, or at HOST:PORT")
	flag.BoolVar(&f.force, "force", false, "replace the files of --trace-out and --keep-keys if they exist")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error { return a.watch(f, m, args) })
}

func (a *app) watch(f *watchFlags, m *mistakes, args []string) (err error) {
	ways := len(args)
	if f.pid.V() > 0 {
		ways++
	}
	if f.name != "" {
		ways++
	}
	if ways != 1 {
		m.add("name one process: --pid 4242, --name geth, or the database that it has open")
	}
	m.answerFolder(f.out)
	if f.traceOut != "" {
		m.newFile("--trace-out: ", f.traceOut, &f.force)
	}
	if f.keep != "" {
		m.newFile("--keep-keys: ", f.keep, &f.force)
	}
	given := int64(0)
	if f.cache.Given() {
		given = f.cache.V().Bytes
	}
	options := watch.Options{Seconds: f.seconds.V(), Share: f.sample.V()}
	for i, size := range f.whatIf.All() {
		if size.Share > 0 {
			m.add("--what-if: %s: write a size such as 4GiB", f.whatIf.Texts()[i])
		}
		options.Sizes = append(options.Sizes, size.Bytes)
	}
	if err := m.err(); err != nil {
		return err
	}
	if f.out != "" {
		tidy, wrong := output.MakeFolder(f.out)
		if wrong != nil {
			return usage("--out: %v", wrong)
		}
		defer func() { err = errors.Join(err, tidy()) }()
	}
	pid, err := f.process(args)
	if err != nil {
		return err
	}
	seen, err := a.lookAt(f, pid, args, given, options)
	if err != nil {
		return err
	}
	return a.tellWatch(f, seen)
}

// process is the number of the process that the flags name.
func (f *watchFlags) process(args []string) (pid int, err error) {
	switch {
	case f.name != "":
		return probe.Named(f.name)
	case len(args) > 0:
		return probe.With(args[0])
	}
	return f.pid.V(), nil
}

// lookAt watches a process: its page faults if it maps its database into memory, else its Gets.
func (a *app) lookAt(f *watchFlags, pid int, args []string, given int64, o watch.Options) (*watch.Seen, error) {
	dir := ""
	if len(args) > 0 {
		dir = args[0]
	}
	target, err := probe.Process(pid)
	if err != nil {
		return nil, err
	}
	mapped, err := watch.MappedBy(target, dir)
	if err != nil {
		return nil, err
	}
	if mapped != nil {
		return a.lookAtFaults(f, target, mapped, o)
	}
	if target, err = probe.Find(pid, subject.AllWatched()); err != nil {
		return nil, err
	}
	return a.look(f, target, args, given, o)
}

// lookAtFaults watches the page faults of a process on the database that it maps.
func (a *app) lookAtFaults(f *watchFlags, t *probe.Target, of *watch.MappedFile, o watch.Options) (seen *watch.Seen, err error) {
	var m mistakes
	for _, flag := range []struct {
		name  string
		given bool
	}{{"--sample", f.sample.V() > 0}, {"--cache", f.cache.Given()}, {"--what-if", f.whatIf.Given()}, {"--trace-out", f.traceOut != ""},
		{"--keep-keys", f.keep != ""}} {
		if flag.given {
			m.add("%s: %s maps its database into memory, so that page faults are seen instead of Gets: leave the flag out", flag.name, t)
		}
	}
	if err := m.err(); err != nil {
		return nil, err
	}
	p := a.progress()
	defer p.Done()
	attached, err := probe.OpenFaults(t, of.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, attached.Close()) }()
	if err := attached.Attach(); err != nil {
		return nil, err
	}
	stop, err := a.telling(f, p, &o, watched.FaultSecond)
	if err != nil {
		return nil, err
	}
	defer stop()
	return watch.Faults(a.ctx, t, attached, of, o)
}

// telling tells of each second while it is watched, on the terminal and to Prometheus.
func (a *app) telling(f *watchFlags, p *console.Progress, o *watch.Options, line func(result.Tick) string) (stop func(), err error) {
	stop = func() {}
	if f.metrics.Given() {
		a.live = promexport.NewLive("watch")
		var address string
		if stop, address, err = a.live.Serve(f.metrics.V()); err != nil {
			return nil, err
		}
		p.Say("metrics: http://%s/metrics", address)
	}
	o.Tell = func(e result.Event) { p.Tell("", e) }
	o.Tick = func(tick result.Tick) {
		if f.seconds.V() == 0 || tick.Seconds < f.seconds.V() {
			p.Say("%s", line(tick))
		}
		if a.live != nil {
			a.live.Observe(result.Event{Phase: watch.Phase, Tick: &tick})
		}
	}
	return stop, nil
}

// look attaches to the process and watches it.
func (a *app) look(f *watchFlags, t *probe.Target, args []string, given int64, o watch.Options) (seen *watch.Seen, err error) {
	p := a.progress()
	defer p.Done()
	tell := func(e result.Event) { p.Tell("", e) }
	dir := ""
	several := len(t.Engines()) > 1
	find := func() error {
		if len(args) == 0 {
			dir, err = watch.Database(a.ctx, t, tell)
		} else if dir, err = filepath.EvalSymlinks(absolute(args[0])); err == nil {
			dir = cmp.Or(t.Opened(dir), dir)
		}
		return err
	}
	// Which of several engines it is, its database tells. A process with one is watched before it opens its database; once it has, it
	// is left alone until all is ready.
	early := len(args) == 0 && !several && len(t.Databases()) == 0
	if !early {
		if err := find(); err != nil {
			return nil, err
		}
	}
	if several {
		of, err := dbformat.Recognise(dir)
		if err != nil {
			return nil, err
		}
		if err := t.Choose(of.Engine); err != nil {
			return nil, err
		}
	}
	attached, err := probe.Open(t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, attached.Close()) }()
	if early {
		if err := attached.Attach(); err != nil {
			return nil, err
		}
		if err := find(); err != nil {
			return nil, err
		}
	}
	stop, err := a.telling(f, p, &o, watched.Second)
	if err != nil {
		return nil, err
	}
	defer stop()
	seen, err = watch.Traffic(a.ctx, t, attached, dir, watch.LayoutOf(t.Engine.Engine, dir), watch.CacheOf(t, dir, given), o)
	return seen, err
}

// tellWatch stores what was seen, and prints it.
func (a *app) tellWatch(f *watchFlags, seen *watch.Seen) error {
	// An answer that took long to see is told even if a file cannot be written.
	return errors.Join(a.tellSeen(f, seen), f.writeFiles(seen))
}

// writeFiles writes the trace and the keys, if they were asked for.
func (f *watchFlags) writeFiles(seen *watch.Seen) error {
	var errs []error
	switch {
	case f.traceOut == "":
	case seen.Trace == nil:
		errs = append(errs, fmt.Errorf("--trace-out: there is no trace: %s", cmp.Or(seen.Watch.Why["block_accesses_per_get"], "no Get was seen")))
	default:
		errs = append(errs, seen.WriteTrace(f.traceOut, replaces(&f.force)))
	}
	if f.keep != "" {
		errs = append(errs, seen.WriteKeys(f.keep, replaces(&f.force)))
	}
	return errors.Join(errs...)
}

func (a *app) tellSeen(f *watchFlags, seen *watch.Seen) error {
	if f.out == "" {
		seen.Watch.Schema, seen.Watch.Command = result.WatchSchema, a.command()
		answer := watched.Watched{Watch: &seen.Watch, Series: seen.Ticks}
		if f.json {
			return a.printJSON(answer.JSON())
		}
		return answer.Text(a.stdout)
	}
	dir := absolute(f.out)
	if err := seen.Write(dir, a.command()); err != nil {
		return err
	}
	return a.explain(f.json, "", dir)
}

// watchFinding tells in doctor whether other processes can be watched. No measurement depends on it.
func watchFinding() host.Finding {
	f := host.Finding{Name: "statelab watch", State: "other processes can be watched", Verdict: host.OK}
	if wrong := failure.Of(probe.Possible()); wrong != nil {
		f.State = "other processes cannot be watched: " + wrong.Error()
		if wrong.Remedy != "" {
			f.State += " (" + wrong.Remedy + ")"
		}
	}
	return f
}
