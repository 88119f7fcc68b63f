package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/tune"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/explain/tuned"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// tuneFlags are the flags of tune.
type tuneFlags struct {
	predictFlags
	memory            experiment.Size
	accesses, scheme  experiment.Text
	trace             experiment.Text
	table             experiment.Text
	goal              experiment.Text
	timeout, readTime setting.Value[time.Duration]
	verify            bool
}

func (a *app) tuneVerb() *cobra.Command {
	f := new(tuneFlags)
	cmd := &cobra.Command{
		Use:   "tune --db DIR | --keys N",
		Short: "Find the table options with which Gets read the fewest blocks",
		Long: `Tune predicts block reads under other table options of Pebble, RocksDB and
goleveldb, in the same memory: block sizes, filter bits per key, compression
and, for RocksDB, where filters and indexes are kept. It traces the Gets of a
database, computes their block accesses in other tables, and replays these
through a model of the cache. --verify writes such tables and measures them.

  statelab tune --db D --memory 64MiB
  statelab tune --db D --memory 64MiB --missing 50% --verify --out T
  statelab tune --db CHAINDATA --memory 2GiB --accesses list.slal --scheme path
  statelab tune --keys 20B --memory 8GiB      (a database that was never built)`,
	}

	flag := cmd.Flags()
	setting.Var(flag, &f.db, setting.Text, "db", "", "database to tune; it is only read")
	setting.Var(flag, &f.keys, setting.Count(1, "20B"), "keys", "", "number of keys of a "+
		"database that does not exist, loaded in random order")
	f.shapeFlags(flag)
	setting.Var(flag, &f.engine, setting.Choice(subject.Predicted()...).Optional(), "engine", "",
		"with --keys: pebble1, pebble2 or rocksdb (default: pebble1)")
	setting.Var(flag, &f.table, setting.Text, "table", "", "column family to tune for, of a "+
		"database with several (default: the largest)")
	setting.Var(flag, &f.memory, setting.Memory, "memory", "", "memory for the database, such as "+
		"2GiB: cache and open tables")
	setting.Var(flag, &f.missing, setting.Share, "missing", "0%",
		"share of negative lookups: Gets of missing keys")
	setting.Var(flag, &f.accesses, setting.Text, "accesses", "", "access list (statelab "+
		"accesses): tune for the Gets of its blocks instead of random ones")
	setting.Var(flag, &f.scheme, setting.Choice(accesses.KeySchemes()...), "scheme", "flat",
		"with --accesses: keys that the client uses: flat (geth's snapshot), path or hash (its "+
			"tries)")
	setting.Var(flag, &f.gets, setting.Count(1000, "200k").Optional(), "gets", "",
		"random Gets of a sample, after those that fill the cache (default: 200k)")
	setting.Var(flag, &f.trace, setting.Text, "trace", "", "trace (statelab watch --trace-out, "+
		"statelab trace): tune for its Gets instead of random ones")
	setting.Var(flag, &f.goal, setting.Choice(tune.Reads, tune.Bytes, tune.Time), "goal",
		tune.Reads,
		"objective to minimize per Get: reads (blocks), bytes (read), or time (of the processor "+
			"and of device reads)")

	setting.Var(flag, &f.readTime, setting.Duration("100us").Optional(), "read-time", "",
		"with --goal time: latency of one device read, as statelab disk measures it (default: "+
			"100us)")
	setting.Var(flag, &f.timeout, setting.Duration("5m"), "timeout", "5m", "longest time to search")
	setting.Alias(flag, "within", "timeout")
	coresFlag(flag, &f.cores, "processors of the machine; Pebble's cache has shards for each")
	setting.Var(flag, &f.seed, setting.Seed, "seed", "1", "seed of all random choices")
	setting.Var(flag, &f.seeds, setting.Count(1, "3"), "seeds", "3",
		"number of independent samples of Gets")
	flag.BoolVar(&f.verify, "verify", false, "measure the present and the best three "+
		"configurations, in databases into which the tables are rewritten")
	flag.StringVar(&f.out, "out", "", "new folder for the answer: its page (report.html), JSON, "+
		"and the runs of --verify")
	flag.BoolVar(&f.ignoreLock, "ignore-lock", false, "with --db: read even if another process "+
		"has the database open")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error { return a.tune(f, m, args) })
}

func (a *app) tune(f *tuneFlags, m *mistakes, args []string) (err error) {
	m.NoArguments(args)
	_, unread := os.Stat(filepath.Join(f.out, tune.KeptFile))
	goesOn := f.out != "" && unread == nil
	if !goesOn {
		m.Results(f.out)
	}

	m.accessList(f.accesses.Value())
	if f.db.IsSet() == f.keys.IsSet() {
		m.Add("give one of --db and --keys (example: --keys 20B)")
	}

	if !f.memory.IsSet() {
		m.Add("--memory is missing: how much may the database take? (example: --memory 2GiB)")
	}

	if f.accesses.IsSet() && f.keys.IsSet() {
		m.Add("--accesses: a database that does not exist has no keys to look up: name one with " +
			"--db")
	}

	if f.trace.IsSet() &&
		(f.keys.IsSet() || f.accesses.IsSet() || f.missing.Value() > 0 || f.verify) {
		m.Add("--trace: it has no keys, and its Gets are what they are: not with --keys, " +
			"--accesses, --missing or --verify")
	}

	if f.readTime.IsSet() && f.goal.Value() != tune.Time {
		m.Add("--read-time: only with --goal time")
	}

	if f.seeds.Value() > 20 {
		m.Add("--seeds %s: must be from 1 to 20", &f.seeds)
	}

	if f.gets.IsSet() && (f.trace.IsSet() || f.accesses.IsSet()) {
		m.Add("--gets: only of random Gets, not with --trace or --accesses")
	}

	if f.gets.Value() > curve.MaxGets/2 { // with as many that fill the cache
		m.Add("--gets %s: must be from 1k to 2M", &f.gets)
	}

	if f.keys.IsSet() {
		f.imagined(m, nil)
	}

	if err := m.Err(); err != nil {
		return err
	}

	asked := tune.Request{
		MemoryBytes: f.memory.Value(),
		Goal:        f.goal.Value(),
		Cores:       f.cores.Value(),
		Within:      f.timeout.Value(),
		Trace:       f.trace.Value(),
		ReadTime:    100 * time.Microsecond,
		Run: func(ctx context.Context, spec *bench.Spec) (*result.Run, error) {
			return a.ran(ctx, spec, func(result.Event) {})
		},
	}

	if f.readTime.IsSet() {
		asked.ReadTime = f.readTime.Value()
	}

	if err := a.makeOut(f.out, func(out string) (func() error, error) {
		return tune.Folder(out, goesOn)
	}); err != nil {
		return err
	}

	if f.out != "" {
		asked.Keep = filepath.Join(absolute(f.out), tune.KeptFile)
	}

	for n := range f.seeds.Value() {
		asked.Seeds = append(asked.Seeds, f.seed.Value()+n)
	}

	if err := a.tuned(f, &asked); err != nil {
		return err
	}

	asked.Gets.Spec.Gets = 200_000
	if f.gets.IsSet() {
		asked.Gets.Spec.Gets = f.gets.Value()
	}

	p := a.progress()
	asked.Tell = func(e result.Event) { p.Report("", e) }
	found, err := asked.Tune(a.ctx)
	p.Done()
	if err = a.orInterrupted(err); errors.Is(err, errInterrupted) && asked.Keep != "" {
		return engine.Fail(engine.CodeInterrupted, "%w", err).WithRemedy("the same command " +
			"continues from the predictions so far")
	}

	if err != nil {
		return err
	}

	if f.db.IsSet() {
		found.Rewrite = asked.Rewriting()
		if !f.trace.IsSet() {
			found.Verdict = watch.Unwatched(f.db.Value())
		}
	}

	if f.verify {
		if err := a.verifyTuned(f, &asked, found); err != nil {
			return err
		}
		found.SetAnswer()
	}

	switch {
	case f.out == "" && f.json:
		return a.printJSON(found)
	case f.out == "":
		return a.show(found.Document())
	}

	dir := absolute(f.out)
	if err := errors.Join(output.WriteJSON(filepath.Join(dir, tuned.File), found),
		os.Remove(asked.Keep)); err != nil {
		return err
	}

	return a.explain(f.json, "", dir)
}

// tuned fills in what is known of the database.
func (a *app) tuned(f *tuneFlags, asked *tune.Request) error {
	if f.keys.IsSet() {
		name := cmp.Or(f.engine.Value(), subject.DefaultEngine())
		profile := f.named(name)
		var in predict.Input
		f.imagined(new(mistakes), &in) // they were told
		asked.OnlyLevels, asked.Source, asked.Levels = true,
			f.keys.String()+" keys loaded in random order", in.Levels
		if in.Blocks == nil {
			asked.Levels = lsm.WithCharge(in.Levels, subject.PebbleVersion(name).BlockCharge())
		}

		asked.Gets.Spec = bench.Spec{
			Engine:       name,
			Profile:      profile,
			MissingShare: f.missing.Value(),
		}

		asked.Manifest = &keyspace.Manifest{
			Keys:       f.keys.Value(),
			KeyBytes:   int(f.keyBytes.Value()),
			KeyOrder:   keyspace.Hashed,
			KeyHash:    keyspace.Mix,
			ValueModel: f.valueModel.Value(),
			ValueBytes: int(f.valueBytes.Value()),
		}

		for _, l := range asked.Levels {
			asked.Tables += l.Files
		}

		return errors.Join(asked.Profiled(profile, nil)...)
	}

	e, s := sweep.Looking(f.db.Value(), f.ignoreLock)
	s.Missing, s.Accesses, s.KeyScheme = f.missing, f.accesses, f.scheme
	m := new(mistakes)
	t := a.find(sweep.WantedBy(e), m)
	spec := sweep.ReadSpec(e, t, a.command(), &m.Mistakes)
	if can := subject.Traced(); t.Engine != nil && !slices.Contains(can, spec.Engine) {
		m.Add("--db: a database of %s; tune supports %s. Measure it with statelab sweep",
			spec.Engine, strings.Join(can, ", "))
	}

	if err := m.Err(); err != nil {
		return err
	}

	run, err := a.inspectDatabase(f.db.Value(), "", f.ignoreLock, engine.Part{})
	if err != nil {
		return err
	}

	asked.Gets, asked.Source = gets(t, spec), f.db.Value()
	if err := asked.Choose(a.ctx, run, f.table.Value()); err != nil {
		return err
	}

	asked.OnlyLevels = !f.accesses.IsSet() && !f.trace.IsSet() && !curve.Traceable(asked.Levels)
	if t.Manifest == nil {
		return asked.ReadStoredOptions(f.db.Value())
	}

	return errors.Join(asked.Profiled(spec.Profile, spec.Overrides)...)
}

// verifyTuned builds the present and the best configurations and measures them, with the Gets that
// were predicted.
func (a *app) verifyTuned(f *tuneFlags, asked *tune.Request, found *tuned.Tuning) error {
	out := outFolder(f.out, "tune")
	const best = 3
	all := append([]tuned.Config{found.Present, found.Best}, found.Front...)
	built := map[string]bool{}
	for _, c := range all {
		options := tuned.OptionList(found.OptionsOf(c))
		if built[options] || len(built) > best {
			continue
		}

		built[options] = true
		g := flags{out: filepath.Join(out, tune.VerifyFolder, fmt.Sprint(len(built)))}
		var err error
		if g.Experiment, err = a.measuring(f, asked, found, c, g.out+".db"); err != nil {
			return fmt.Errorf("verify: %w", err)
		}

		m := new(mistakes)
		s := a.sweepOf(&g, m)
		if err := m.Err(); err != nil {
			return err
		}

		s.Name, s.Databases = options, filepath.Join(g.out, "databases")
		how, err := a.prepare(&g, s.Base.PageCache == bench.Direct, func(
			how plan.Plan, on estimate.Machine,
		) ([]estimate.Step, error) {
			return a.sweepSteps(s, how, on)
		})
		if err != nil {
			return err
		}

		work := sweep.New(s, how, a)
		p := a.progress()
		so, err := plan.Run(a.ctx, how, work, steps(p, "building and measuring: "))
		p.Done()
		if err == nil && so.Status != result.OK {
			err = so.Failure(so.Error)
		}

		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}

		measured := work.Result.Points[0].Figures.Pointer(figure.BlockReadsPerGet)
		if measured == nil {
			return fmt.Errorf("verify %s: block reads were not counted", options)
		}

		found.Verified = append(found.Verified, tuned.Verification{
			Options:   found.OptionsOf(c),
			Predicted: c.Reads,
			Measured:  *measured,
			Folder:    g.out,
		})
	}

	return nil
}

// measuring is how a configuration is measured: in the database itself, which is only read, if its
// tables have these options; else in one in dir into which they are rewritten, on the same levels.
// A database that does not exist is loaded.
func (a *app) measuring(
	f *tuneFlags, asked *tune.Request, found *tuned.Tuning, c tuned.Config, dir string,
) (*experiment.Experiment, error) {
	spec, cacheBytes := &asked.Gets.Spec, c.Cache
	how := fmt.Sprintf("profile=%s missing=%s gets=%d warmup=%d seed=%s repeats=1", spec.Profile,
		&f.missing, found.Gets, found.WarmupGets, &f.seed)
	info := a.engine(spec.Engine, new(mistakes)).Info()
	if c.OpenFiles > 0 {
		how += fmt.Sprintf(" max-open-files=%d", c.OpenFiles)
	}

	same := true
	for name, value := range c.Options {
		if stored := f.db.IsSet() && info.AppliesAtWrite(name); !stored {
			how += " set=" + name + "=" + value
		} else if value != found.Present.Options[name] {
			same = false
		}
	}

	// also where the database was loaded to be read with it
	if c.Options[tune.LastFiltersOption] == "" && subject.Descriptor(spec.Engine).SkipsLastFilters {
		how += " set=" + tune.LastFiltersOption + "=false"
	}

	// reading alone, memtables take less of the cache than was predicted for a program that writes
	if f.db.IsSet() {
		taken := func(readOnly bool) int64 {
			return curve.MemTables(spec.Engine, spec.Profile, c.Cache, readOnly)
		}
		cacheBytes += taken(true) - taken(false)
	} else {
		how += fmt.Sprintf(" engine=%s keys=%s key-bytes=%s value-bytes=%s value-model=%s",
			spec.Engine, &f.keys, &f.keyBytes, &f.valueBytes, &f.valueModel)
	}

	e, err := experiment.New(experiment.Sweep).WithSettings(fmt.Sprintf("%s cache=%dB", how,
		cacheBytes))
	if err != nil || !f.db.IsSet() {
		return e, err
	}

	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	s.Existing.SetValues(true)
	s.ReadOnly.SetValues(true)
	s.Accesses, s.KeyScheme = f.accesses, f.scheme
	if !same {
		e.DB.SetValues(dir)
		return e, a.rewrite(asked, c, dir)
	}

	e.DB.SetValues(spec.Dir)
	s.IgnoreLock.SetValues(spec.IgnoreLock)
	if table := spec.Overrides[tune.TableOption]; table != "" {
		s.Table.SetValues(table)
	}

	return e, nil
}

// rewrite makes a database in dir out of the tables of the one that was tuned.
func (a *app) rewrite(asked *tune.Request, c tuned.Config, dir string) error {
	spec := &asked.Gets.Spec
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}

	if free, err := host.FreeBytes(filepath.Dir(dir)); err == nil && free < 2*c.Disk {
		return engine.Fail(engine.CodeUsage, "a database of %s needs twice as much free space "+
			"while it is written, and %s are free",
			unit.Bytes(c.Disk), unit.Bytes(free))
	}

	to := &bench.Spec{
		Verb:       bench.Rewrite,
		Engine:     spec.Engine,
		Dir:        dir,
		Profile:    spec.Profile,
		Overrides:  c.Options,
		From:       spec.Dir,
		IgnoreLock: spec.IgnoreLock,
	}

	if asked.Manifest == nil {
		to.FromOverrides = spec.Overrides
	}

	run, err := a.once(to)
	if err == nil {
		a.progress().Warn(run.Warnings...)
	}

	return err
}
