package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/evidence"
	"github.com/statelab/statelab/internal/ask/inspect"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/explain/paper"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// adviseFlags are the flags of advise as typed.
type adviseFlags struct {
	memory                                              experiment.Size
	cache                                               setting.Value[setting.CacheSize]
	gets, writeRate, missing, nodeSeconds, probeSeconds experiment.Float
	latency                                             setting.Value[time.Duration]
	cores                                               experiment.Int
	verifyGets, sampleKeys, seed                        experiment.Count
	out                                                 string
	profile, accesses, scheme, table, trace             experiment.Text
	growth                                              setting.Value[setting.Growth]
	at                                                  setting.Value[time.Time]
	nodeMetrics                                         []string
	verify, ignoreLock, json                            bool
}

// advicePicture is in an --out folder, besides its summary and its page.
const advicePicture = "advice.svg"

func (a *app) adviseVerb() *cobra.Command {
	f := new(adviseFlags)
	cmd := &cobra.Command{
		Use:   "advise DIR | FILE",
		Short: "Recommend a node's cache size and its flags; is the disk the limit?",
		Long: `Advise reads a database of Pebble or RocksDB without changing it, predicts what
a Get costs at any cache size, probes the disk (Pebble) and recommends settings.

  statelab advise CHAINDATA
  statelab advise CHAINDATA --memory 8GiB --gets-per-second 5k
  statelab advise CHAINDATA --ignore-lock \
      --node-metrics http://127.0.0.1:6060/debug/metrics/prometheus  (geth runs)
  statelab advise CHAINDATA --verify --out A  (also measures both caches)
  statelab advise CHAINDATA --accesses list.slal --scheme path  (Gets of blocks)
  statelab advise CHAINDATA --trace T         (for the Gets that a watch saw)
  statelab advise Properties.log --cores 16   (output of pebble db properties)
  statelab advise BESU/database --table '\x08' --memory 4GiB  (a column family)

The settings of the node are read from the OPTIONS file of its database, and from
the running node; --cache overrides the present cache size. A database that
statelab loaded has none, and is compared with --cache alone. While a node writes
(assumed unless --write-rate 0), its memtables are charged to the block cache.`,
	}

	flag := cmd.Flags()
	setting.Var(flag, &f.profile, setting.Text, "profile", "geth-1.17-v1",
		"with a level table: engine options of the node that it comes from; statelab engines "+
			"lists them")
	setting.Var(flag, &f.memory, setting.Memory, "memory", "",
		"memory for the database, such as 8GiB: cache, memtables, open tables, page cache; for "+
			"geth also its other caches")
	setting.Var(flag, &f.table, setting.Text, "table", "",
		"kind of keys (statelab inspect lists them) or column family of RocksDB that Gets look "+
			"up, or a mix: a=70,b=30 (default: all; of RocksDB the largest)")
	setting.Var(flag, &f.cache, setting.Cache, "cache", "",
		"present cache of the node, to compare with; not a limit, which is --memory (default: "+
			"from its OPTIONS file)")
	setting.Var(flag, &f.gets, setting.Rate.Optional(), "gets-per-second", "",
		"lookups that the node makes per second")
	flag.StringSliceVar(&f.nodeMetrics, "node-metrics", nil,
		"instead of --gets-per-second: geth's Prometheus metrics, as an address that is read "+
			"twice, or as two saved files FIRST,SECOND")
	setting.Var(flag, &f.nodeSeconds, setting.Number, "node-seconds", "30",
		"with --node-metrics: seconds between the two readings")
	setting.Var(flag, &f.latency, setting.Duration("1ms").Optional(), "latency-goal", "",
		"longest acceptable device time of a Get, such as 1ms")
	setting.Var(flag, &f.writeRate, setting.Rate.Optional(), "write-rate", "",
		"write rate of the node in keys per second; 0: idle (default: write-saturated)")
	setting.Var(flag, &f.missing, setting.Share, "missing", "0%",
		"share of negative lookups: Gets of missing keys")
	setting.Var(flag, &f.accesses, setting.Text, "accesses", "",
		"access list (statelab accesses): recommend a cache for the Gets of its blocks instead "+
			"of random ones")
	setting.Var(flag, &f.trace, setting.Text, "trace", "", "trace (statelab watch --trace-out): "+
		"recommend a cache for its Gets instead of random ones")
	setting.Var(flag, &f.scheme, setting.Choice(accesses.KeySchemes()...), "scheme", "flat",
		"with --accesses: keys that the client uses: flat (geth's snapshot), path or hash (its "+
			"tries)")
	setting.Var(flag, &f.growth, setting.GrowthRate.Optional(), "state-growth", "",
		"predict the database if its state grows to so many times the present one, such as 2x, or "+
			"with --at by a share each year, such as 30%")
	setting.Var(flag, &f.at, setting.Month.Optional(), "at", "",
		"with a yearly --state-growth: until when, such as 2029")
	coresFlag(flag, &f.cores,
		"processors of the node's machine; Pebble's cache has shards for each")
	setting.Var(flag, &f.probeSeconds, setting.Seconds(0, maxProbeSeconds, "1"), "probe-seconds",
		"1",
		"duration of the disk probe for each number of reads in flight; 0: no probe")
	flag.BoolVar(&f.verify, "verify", false, "measure the present and the recommended cache, and "+
		"compare with the prediction")
	setting.Var(flag, &f.verifyGets, setting.Count(1, "500k"), "gets", "200k",
		"with --verify: number of measured Gets")
	setting.Var(flag, &f.sampleKeys, setting.Count(1, "200k"), "sample-keys", "200k",
		"with --verify: number of keys to sample from a database that statelab did not load")
	setting.Var(flag, &f.seed, setting.Seed, "seed", "1", "seed of all random choices")
	flag.StringVar(&f.out, "out", "", "new folder for the advice: its page (report.html), JSON, "+
		"a picture, and the runs of --verify")
	flag.BoolVar(&f.ignoreLock, "ignore-lock", false,
		"read even if another process has the database open")
	flag.Bool("use-existing", true, "read a database that statelab did not load; always on, "+
		"since nothing is written")
	flag.Lookup("use-existing").Hidden = true // accepted, since other verbs need it
	flag.BoolVar(&f.json, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error { return a.advise(f, m, args) })
}

func (a *app) advise(f *adviseFlags, m *mistakes, args []string) (err error) {
	r, err := a.adviceAsked(f, m, args)
	if err != nil {
		return err
	}

	if e, _ := subject.EngineOf(r.Gets.Spec.Engine); e.ReadsOptions {
		return a.adviseRocksDB(r, f)
	}

	if err := a.makeOut(f.out, output.MakeFolder); err != nil {
		return err
	}

	p := a.progress()
	defer p.Done()
	r.Say, r.Tell = p.Printf, func(e result.Event) { p.Report("", e) }
	if f.verify {
		r.By, r.Command, r.Runs = a, a.command(), outFolder(f.out, "advise")
		r.Step = steps(p, "measuring: ")
	}

	run, err := a.looked(r, f)
	if err != nil {
		return err
	}

	node, err := watch.Node(a.ctx, f.nodeMetrics, f.nodeSeconds.Value(), r.Tell)
	if err != nil {
		return a.orInterrupted(err)
	}

	advice, err := r.Advise(a.ctx, run, node)
	if err != nil {
		return a.orInterrupted(err)
	}

	return a.deliver(f, advice, p)
}

// adviseRocksDB recommends a block cache.
func (a *app) adviseRocksDB(r evidence.Request, f *adviseFlags) error {
	for flag, given := range map[string]bool{
		"verify":          f.verify,
		"accesses":        f.accesses.IsSet(),
		"out":             f.out != "",
		"node-metrics":    len(f.nodeMetrics) > 0,
		"gets-per-second": f.gets.IsSet(),
		"latency-goal":    f.latency.IsSet(),
		"write-rate":      f.writeRate.IsSet(),
	} {
		if given {
			return usage("--%s: not for databases of RocksDB", flag)
		}
	}

	run, err := a.inspectDatabase(r.Dir, "", f.ignoreLock, engine.Part{})
	if err != nil {
		return err
	}

	client := inspect.RocksClient(run)
	node := watch.NodeOf(r.Dir, client)
	configured := int64(0)
	if node != nil {
		configured = advice.NodeCache(client, node.Config)
	}

	var out *advise.RocksAdvice
	if r.Trace != "" {
		present := r.CacheBytes + int64(r.CacheShare*float64(inspect.Bytes(run.Database)))
		out, err = inspect.AdviseRocksDBTrace(a.ctx, r.Gets, run, r.Trace, r.Limits.MemoryBytes,
			present, configured, r.Growth, r.Seed)
	} else {
		wish := inspect.Wish{
			CacheBytes: r.CacheBytes,
			CacheShare: r.CacheShare,
			Missing:    r.Missing,
			Seed:       r.Seed,
		}
		out, err = inspect.AdviseRocksDB(a.ctx, r.Dir, run, f.table.Value(),
			r.Limits.MemoryBytes, configured, wish, a.progress().Printf)
		if err == nil && r.Growth.Factor > 0 {
			err = inspect.GrowRocksDB(a.ctx, out, run, r.Growth, r.Missing, r.Seed, func(done int) {
				a.progress().Report("", result.Event{Phase: "predicting growth",
					Done: uint64(done), Unit: "points"})
			})
		}
	}

	if err != nil {
		return err
	}

	if r.Trace == "" && run.Database.Written == "foreign" {
		out.Verdict = advice.Unwatched(node)
	}

	if node != nil {
		out.Flags = []string{advice.SetRocksDB(client, node.Config, out.Then.CacheBytes)}
		for _, text := range node.Config.Warnings {
			run.Warnings = append(run.Warnings, engine.Warning{Code: "node_config", Text: text})
		}
	}

	a.progress().Warn(inspect.OfAllTables(run.Warnings)...)
	return a.print(f.json, out)
}

// looked is what advise sees of a database: inspect's run, or a level table alone.
func (a *app) looked(r evidence.Request, f *adviseFlags) (*result.Run, error) {
	if r.Table {
		return inspect.RunOfTable(r.Dir, f.profile.Value())
	}
	return a.inspectDatabase(r.Dir, "", f.ignoreLock, engine.Part{})
}

// orInterrupted is err, or that the user stopped the work that failed.
func (a *app) orInterrupted(err error) error {
	if a.ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// adviceAsked reads the flags, all mistakes at once.
func (a *app) adviceAsked(
	f *adviseFlags, m *mistakes, args []string,
) (r evidence.Request, err error) {
	if len(args) != 1 {
		m.Add("name one database (example: statelab advise CHAINDATA)")
	}

	r.Missing, r.Seed, r.Out = f.missing.Value(), f.seed.Value(), f.out
	if f.verify && runtime.GOOS != "linux" {
		m.Add("--verify: %v", errNeedsLinux("it", runtime.GOOS))
	}

	r.Limits.MemoryBytes, r.CacheBytes, r.CacheShare = f.memory.Value(), f.cache.Value().Bytes,
		f.cache.Value().Share
	if r.Limits.GetsPerSecond = f.gets.Value(); f.gets.IsSet() && r.Limits.GetsPerSecond == 0 {
		m.At("gets-per-second", "0", "must be at least 1 (example: 5k)")
	}

	if len(f.nodeMetrics) > 0 && f.gets.IsSet() {
		m.Add("--gets-per-second and --node-metrics both say how many Gets there are: give one")
	} else {
		watch.CheckNode(f.nodeMetrics, f.nodeSeconds.Value(), &m.Mistakes)
	}

	if r.Trace = f.trace.Value(); r.Trace != "" &&
		(f.verify || f.accesses.IsSet() || f.table.IsSet()) {
		m.Add("--trace: it has no keys, and its Gets are what they are: not with --verify, " +
			"--accesses or --table")
	}

	r.Growth = f.grown(time.Now(), m)
	if r.Limits.LatencyGoal = f.latency.Value(); f.latency.IsSet() && r.Limits.LatencyGoal <= 0 {
		m.At("latency-goal", f.latency.String(), "must be a duration (example: 1ms)")
	}

	if f.writeRate.IsSet() {
		r.KeysWritten = new(f.writeRate.Value())
	}

	r.Cores, r.ProbeSeconds = f.cores.Value(), f.probeSeconds.Value()
	if len(args) == 1 {
		r.Dir = args[0]
		if info, err := os.Stat(r.Dir); err == nil && info.Mode().IsRegular() {
			r.Table, r.Gets.Spec.Profile, r.ProbeSeconds = true, f.profile.Value(), 0
			f.checkTable(m)
		} else {
			r.Gets = a.adviceTarget(f, r.Dir, m)
			r.Running = func(client clients.Client) *advice.RunningNode {
				return watch.NodeOf(r.Dir, client)
			}
		}
	}

	of, _ := subject.EngineOf(r.Gets.Spec.Engine)
	if f.growth.IsSet() && (f.accesses.IsSet() ||
		(r.Trace != "" || f.table.IsSet()) && !of.ReadsOptions) {
		m.Add("--state-growth: it predicts Gets of random keys of the whole database: not with " +
			"--trace, --accesses or --table")
	}

	m.Results(f.out)
	return r, m.Err()
}

// grown is how many times its present size the state becomes; 0: that is not asked for.
func (f *adviseFlags) grown(now time.Time, m *mistakes) advise.Grown {
	g := f.growth.Value()
	switch {
	case g.Yearly == 0 && f.at.IsSet():
		m.Add("--at: only with a yearly growth (example: --state-growth 30%% --at 2029)")
	case g.Yearly > 0 && !f.at.IsSet():
		m.Add("--state-growth %s: a share is that of a year; add --at, until when (example: --at "+
			"2029)", &f.growth)
	case g.Yearly > 0:
		const hoursOfAYear = 365.2425 * 24
		until := f.at.Value()
		factor := math.Pow(1+g.Yearly, until.Sub(now).Hours()/hoursOfAYear)
		if until.Before(now) {
			m.At("at", f.at.String(), "it must lie ahead")
		} else if factor > setting.MostGrowth {
			m.At("at", f.at.String(), "the state would be %.0f times as large: at most %d times "+
				"is predicted", factor, setting.MostGrowth)
		}

		return advise.Grown{
			Factor: factor,
			Words:  fmt.Sprintf("by %s a year until %s", &f.growth, until.Format("January 2006")),
		}
	}

	return advise.Grown{Factor: g.Factor}
}

// checkTable checks what is asked of a level table without its database.
func (f *adviseFlags) checkTable(m *mistakes) {
	if _, err := evidence.ProfileSettings(f.profile.Value(), nil); err != nil {
		m.Add("--profile: %v", err)
	}

	if f.verify {
		m.Add("--verify: a level table cannot be measured: name the database")
	}

	if f.accesses.IsSet() || f.table.IsSet() || f.trace.IsSet() {
		m.Add("--accesses, --table and --trace: a level table has no keys to look up: name the " +
			"database")
	}
}

// maxProbeSeconds bounds what a node's disk is made to suffer.
const maxProbeSeconds = 60

// adviceTarget is the database and how --verify reads it: without a write, as
// all that advise does.
func (a *app) adviceTarget(f *adviseFlags, dir string, m *mistakes) curve.TraceRequest {
	e, s := sweep.Looking(dir, f.ignoreLock)
	e.Seed, s.Gets, s.Missing, s.SampleKeys = f.seed, f.verifyGets, f.missing, f.sampleKeys
	s.Accesses, s.KeyScheme, s.Table = f.accesses, f.scheme, f.table
	m.accessList(f.accesses.Value())
	if !m.Present("", dir, engine.CodeNoDatabase) { // an argument: its place is no --db
		return curve.TraceRequest{}
	}

	// A database that its engine maps is refused for that, not for a runner that is missing.
	if of, err := dbformat.Recognise(dir); err == nil && subject.IsMapped(of.Engine) {
		m.Add("%s: a database of %s; advise supports Pebble and RocksDB. %s", dir, of.Engine,
			advice.NoCacheFlag(dbformat.Client(dir, of, nil), true))
		return curve.TraceRequest{}
	}

	if name := a.readsFiles(dir); name != "" {
		return curve.TraceRequest{Spec: bench.Spec{Engine: name, Dir: absolute(dir)}}
	}

	t := a.find(sweep.WantedBy(e), m)
	spec := sweep.ReadSpec(e, t, a.command(), &m.Mistakes)
	spec.AccessGets = 0
	if of, _ := subject.EngineOf(spec.Engine); t.Engine != nil && of.Cache == 0 &&
		!of.ReadsOptions {
		m.Add("%s: a database of %s; advise supports Pebble and RocksDB. %s", dir, spec.Engine,
			advice.NoCacheFlag(dbformat.Client(dir, dbformat.Found{Engine: spec.Engine}, nil),
				t.Engine.Info().Has(engine.HasNoCache)))
	}

	if t.Engine == nil {
		return curve.TraceRequest{Spec: spec}
	}

	return gets(t, spec)
}

// deliver prints the advice and fills the --out folder.
func (a *app) deliver(f *adviseFlags, advice advise.Advice, p *console.Progress) error {
	p.Printf("")
	return a.delivered(f.out, f.json, advice, func(dir string) error {
		advice.Started, advice.Command = time.Now().UTC(), a.command()
		if err := output.WriteJSON(filepath.Join(dir, result.AdviceFile), advice); err != nil {
			return err
		}

		caption, err := paper.Caption(advice, dir)
		if err != nil {
			return err
		}

		return output.Write(filepath.Join(dir, advicePicture), nil, func(f *os.File) error {
			return paper.Picture(f, advice, caption)
		})
	})
}
