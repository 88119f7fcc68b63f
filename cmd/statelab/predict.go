package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/inspect"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/setting"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/layouts"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// predictFlags are the flags of predict.
type predictFlags struct {
	levels, db, profile, valueModel, engine experiment.Text
	keyBytes, valueBytes, cores, threads    experiment.Int
	keys, gets, seed, seeds                 experiment.Count
	compression, missing                    experiment.Float
	warmup                                  setting.Value[setting.Warmup]
	cache                                   setting.Value[setting.CacheSize]
	reserve                                 setting.Value[curve.Taken]
	options                                 setting.Options
	out, hardware                           string
	ignoreLock, json                        bool
	on                                      slurm.Fan
}

func (a *app) predictVerb() *cobra.Command {
	f := new(predictFlags)
	cmd := &cobra.Command{
		Use:   "predict --levels LOG | --db DIR | --keys N",
		Short: "Predict what a Get costs, also on a database that was never built",
		Long: `Predict tells the block reads of a Get by cache size, also for a database that
cannot be built. It draws random block accesses from a table of levels (files,
blocks and bytes of each level) and replays them through a model of the engine's
cache, for as many Gets as a run would make. If the database is on this machine
(--db), it takes the real accesses of those Gets instead.

  statelab predict --db D --cache 0.1%,0.5%,1%
  statelab predict --levels Properties_2B.log --cores 32 --gets 10M \
      --warmup 0.05% --cache 284MiB,2GiB
  statelab predict --keys 20B --cores 32 --gets 10M --warmup 0.05% \
      --cache 0.1%,0.2%,1%
  statelab predict --keys 2B --engine rocksdb --profile besu-26.3 \
      --set block_size=4096
  statelab predict --keys 20B --hardware DISK
      (DISK: statelab disk DIR --out DISK; adds the time of a Get)`,
	}

	flag := cmd.Flags()
	setting.Var(flag, &f.levels, setting.Text, "levels", "",
		"level table: the output of pebble db properties")
	setting.Var(flag, &f.db, setting.Text, "db", "", "database to predict for")
	setting.Var(flag, &f.keys, setting.Count(1, "20B"), "keys", "",
		"number of keys of a database that does not exist: its levels are computed for loading "+
			"in random order")
	f.shapeFlags(flag)
	setting.Var(flag, &f.engine, setting.Choice(subject.Predicted()...).Optional(), "engine", "",
		"pebble1, pebble2 or, with --keys or --db, rocksdb (default: the database's own, else "+
			"pebble1)")
	flag.Var(&f.options, "set", "with --keys and --engine rocksdb: an option by RocksDB's own "+
		"name, such as block_size=16384; repeat it for more")
	coresFlag(flag, &f.cores, "processors of the machine to predict for; Pebble's cache has "+
		"shards for each")
	setting.Var(flag, &f.threads, setting.Threads, "threads", "1",
		"Gets in flight; they change the speed, not the block reads")
	setting.Var(flag, &f.gets, setting.Count(1, "10M"), "gets", "500k",
		"number of measured Gets of the predicted run")
	setting.Var(flag, &f.warmup, setting.WarmupKind, "warmup", "0.05%",
		"Gets before the measured ones: a number, or a share of the keys")
	setting.Var(flag, &f.missing, setting.Share, "missing", "0%",
		"share of negative lookups: Gets of missing keys")
	setting.ListVar(flag, &f.cache, setting.Cache, "cache", "0.1%,0.2%,0.5%,1%,2%,3%",
		"cache sizes, or shares of the database, separated by commas")
	reserveFlag(flag, &f.reserve)
	setting.Var(flag, &f.seed, setting.Seed, "seed", "1", "seed of all random choices")
	setting.Var(flag, &f.seeds, setting.Count(1, "3"), "seeds", "3",
		"number of random assignments of files to cache shards to simulate; low and high are the "+
			"range of their results")
	flag.StringVar(&f.hardware, "hardware", "",
		"disk whose reads give the time of a Get: a folder of statelab disk, the time of one read "+
			"(100us), a profile as price takes it, or fio's JSON output")
	flag.StringVar(&f.out, "out", "", "new folder for the prediction: its page (report.html) and "+
		"JSON")
	flag.BoolVar(&f.ignoreLock, "ignore-lock", false, "with --db: read even if another process "+
		"has the database open")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	f.on.Flags(flag, "", "")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		return a.predict(f, flag, m, args)
	})
}

// shapeFlags are those of a database that does not exist.
func (f *predictFlags) shapeFlags(flag *pflag.FlagSet) {
	setting.Var(flag, &f.keyBytes, setting.Whole(1, 1024, "32"), "key-bytes", "32",
		"with --keys: size of a key in bytes")
	setting.Var(flag, &f.valueBytes, setting.Whole(0, 1<<20, "110"), "value-bytes", "110",
		"with --keys: mean size of a value in bytes")
	setting.Var(flag, &f.valueModel,
		setting.Choice(keyspace.Random, keyspace.Table32, keyspace.TrieNode), "value-model",
		keyspace.Table32,
		"with --keys: what values look like, as in load: table32 (as in the published "+
			"databases), random, trie-node")

	setting.ListVar(flag, &f.compression, storedRatio, "compression", "",
		"with --keys: ratio of stored to raw size of data blocks; one value, or two: for the "+
			"upper levels and the last level (default: the value model's)")
	setting.Var(flag, &f.profile, setting.Text, "profile", "",
		"named set of engine options (statelab engines lists them): how much memtables reserve "+
			"and, with --keys, how levels fill (default: the engine's first)")
}

// storedRatio is what compression leaves of a block.
var storedRatio = setting.Float("ratio", 1e-9, 1.1,
	"above 0 and at most 1.1 (example: 0.935,0.775)")

// coresFlag is a number of processors, by default this machine's.
func coresFlag(flags *pflag.FlagSet, to *experiment.Int, about string) {
	own := strconv.Itoa(runtime.NumCPU())
	// said
	setting.Var(flags, to, setting.Int(1, 4096, "32"), "cores", own,
		about+" (default: this machine's, "+own+")").DefValue = ""
}

func (a *app) predict(f *predictFlags, flags *pflag.FlagSet, m *mistakes, args []string) error {
	m.NoArguments(args)
	m.Results(f.out)
	in, p := f.input(m)
	p.Hardware = layouts.HardwareOf(f.hardware, &m.Mistakes)
	reserve := f.reserve.Value().ReserveBytes
	f.checkSource(m)
	if !f.cache.IsSet() {
		m.Add("--cache is empty (example: 1%%)")
	}

	if err := m.Err(); err != nil {
		return err
	}

	if p.Hardware != nil {
		a.progress().Warn(p.Hardware.Warnings()...)
	}

	values, err := a.levels(f, &in, &p)
	if err != nil {
		return err
	}

	var total int64
	if values != nil {
		p.Database = values.Bytes
	}

	for _, l := range in.Levels {
		p.Database += l.Bytes
		total += l.Keys
	}

	p.Keys, p.Levels, p.Method = total, in.Levels, "level table"
	if f.db.IsSet() {
		p.Method = "trace"
	}

	p.Inflection = lsm.Inflect(in.Levels, values, p.Database)
	for _, size := range f.cache.All() {
		in.CacheBytes = append(in.CacheBytes, size.BytesFor(p.Database))
	}

	in.WarmupGets = f.warmup.Value().GetsFor(uint64(total))
	p.WarmupGets = in.WarmupGets
	switch {
	case f.on.On() != "":
		p.Points, err = a.predictOnNodes(f, flags)
	case f.db.IsSet():
		p.Points, err = a.predictHere(f, in, reserve)
	default:
		shown := a.progress()
		p.Points, err = curve.OfLevels(a.ctx, in, p.Engine, p.Profile, reserve, func(
			e result.Event,
		) {
			shown.Report("", e)
		})
		shown.Done()
	}

	if err != nil {
		return err
	}

	return a.deliverAnswer(f.out, result.PredictionFile, f.json, p, func(
		started time.Time, command []string,
	) any {
		p.Started, p.Command = started, command
		p.Statelab, p.Commit = host.OwnBuild()
		return p
	})
}

// checkSource checks where the level table comes from.
func (f *predictFlags) checkSource(m *mistakes) {
	sources := 0
	for _, given := range []bool{f.levels.IsSet(), f.db.IsSet(), f.keys.IsSet()} {
		if given {
			sources++
		}
	}

	if sources != 1 {
		m.Add("give exactly one of --levels, --db and --keys (example: --keys 20B)")
	}

	if f.levels.IsSet() {
		m.Readable("levels", f.levels.Value())
	}

	f.on.Check(&m.Mistakes)
	if f.on.On() != "" && f.db.IsSet() {
		m.Add("--on %s: with --db one trace of the database serves all cache sizes: predict on "+
			"the machine that holds it", f.on.On())
	}

	if f.db.IsSet() {
		m.Present("db", f.db.Value(), engine.CodeNoDatabase)
	}

	e, _ := subject.EngineOf(f.engine.Value())
	if e.BlockTables && f.levels.IsSet() {
		m.At("engine", f.engine.Value(), "a level table is one of Pebble's: give --keys or --db")
	}

	for _, option := range f.options.All() {
		if !e.BlockTables || !f.keys.IsSet() {
			m.At("set", option.Name, "only with --keys and --engine rocksdb")
		} else if len(option.Values) != 1 {
			m.At("set", option.Name, "must have one value: predict for one after the other")
		}
	}

	if f.keys.IsSet() {
		f.imagined(m, nil)
	}
}

// input reads the flags that do not depend on the level table.
func (f *predictFlags) input(m *mistakes) (predict.Input, enginereport.Prediction) {
	if f.warmup.Value().Auto {
		m.Add("--warmup auto: a prediction needs a number such as 100k, or a share of the keys " +
			"such as 0.05%%")
	}

	in := predict.Input{
		Cores:       f.cores.Value(),
		Gets:        f.gets.Value(),
		AbsentShare: f.missing.Value(),
	}

	seeds := f.seeds.Value()
	if seeds > 100 {
		m.Add("--seeds %s: must be from 1 to 100", &f.seeds)
		seeds = 1
	}

	for n := range seeds {
		in.Seeds = append(in.Seeds, f.seed.Value()+n)
	}

	return in, enginereport.Prediction{Schema: schema.Prediction, Cores: in.Cores, Gets: in.Gets,
		Missing: in.AbsentShare}
}

// predictOnNodes has the cache sizes predicted by nodes: each is one command.
func (a *app) predictOnNodes(
	f *predictFlags, flags *pflag.FlagSet,
) (points []result.PredictedPoint, err error) {
	command := func(int) [][]string {
		return slurm.Each("predict", "cache", f.cache.Texts(), flags, []string{"levels"}, "out",
			"hardware")
	}

	err = a.divide(&f.on, "predict", command, func(folders []string) error {
		for _, path := range slurm.Files(folders, slurm.AnswerFile) {
			p, err := output.ReadJSON(path, schema.Prediction,
				func(p *enginereport.Prediction) string { return p.Schema })
			if err != nil {
				return fmt.Errorf("read a node's prediction: %w", err)
			}

			points = append(points, p.Points...)
		}

		return nil
	})

	return points, err
}

// predictHere works the curve out from the filters and indexes of a database that
// is on this machine: nothing about its shape is assumed.
func (a *app) predictHere(
	f *predictFlags, in predict.Input, reserve curve.Reserve,
) ([]result.PredictedPoint, error) {
	m := new(mistakes)
	t := a.find(sweep.Wanted{
		Dir:      f.db.Value(),
		Engine:   f.engine.Value(),
		Existing: true,
		ReadOnly: true,
	}, m)

	e := experiment.New(experiment.Sweep)
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	e.Seed, s.Gets, s.Missing, s.Threads = f.seed, f.gets, f.missing, f.threads
	s.IgnoreLock.SetValues(f.ignoreLock)
	s.Warmup.SetValues(setting.Warmup{Gets: in.WarmupGets})
	spec := sweep.ReadSpec(e, t, a.command(), &m.Mistakes)
	if err := m.Err(); err != nil {
		return nil, err
	}

	return curve.Predict(a.ctx, gets(t, spec), in.Cores, reserve, in.CacheBytes, nil)
}

// levels finds the level table, and what is outside the tables.
func (a *app) levels(
	f *predictFlags, in *predict.Input, p *enginereport.Prediction,
) (values *engine.Values, err error) {
	p.Engine = cmp.Or(f.engine.Value(), subject.DefaultEngine())
	p.Profile = f.named(p.Engine)
	switch {
	case f.levels.IsSet():
		if in.Levels, err = inspect.LevelTable(f.levels.Value()); err != nil {
			return nil, err
		}
		p.Source = f.levels.Value()
	case f.db.IsSet():
		run, err := a.inspectDatabase(f.db.Value(), "", f.ignoreLock, engine.Part{})
		if err != nil {
			return nil, err
		}

		if !slices.Contains(subject.Traced(), run.Engine.Name) {
			return nil, usage("--db %s: a database of %s; only those of %s can be traced. "+
				"Measure it with statelab sweep --memory", f.db.Value(), run.Engine.Name,
				strings.Join(subject.Traced(), ", "))
		}

		in.Levels, p.Source, p.Engine = run.Database.Levels, f.db.Value(),
			cmp.Or(f.engine.Value(), run.Engine.Name)
		in.Version, p.Profile = subject.PebbleVersion(p.Engine), run.Engine.Profile
		return run.Database.Values, nil // sizes in the cache are measured, the charge included
	default:
		f.imagined(new(mistakes), in) // they were told
		p.Source = "computed levels of " + f.keys.String() +
			" keys loaded in random order, values " + f.valueModel.Value()
		if f.valueModel.Value() == keyspace.Table32 {
			a.progress().Printf("values as in the published databases (table32); for a database " +
				"of statelab load add --value-model random")
		}
	}

	if in.Blocks == nil {
		in.Version = subject.PebbleVersion(p.Engine)
		in.Levels = lsm.WithCharge(in.Levels, in.Version.BlockCharge())
	}

	return nil, nil
}

// named is the profile, by default an engine's first.
func (f *predictFlags) named(engineName string) string {
	return cmp.Or(f.profile.Value(), curve.FirstProfile(engineName))
}

// imagined gives in the levels of the database that --keys imagines.
func (f *predictFlags) imagined(m *mistakes, in *predict.Input) {
	ratios := f.compression.All()
	if len(ratios) > 2 {
		m.Add("--compression %s: must be one or two ratios (example: 0.935,0.775)", &f.compression)
	}

	name := cmp.Or(f.engine.Value(), subject.DefaultEngine())
	of := curve.SyntheticDB{
		Keys:        f.keys.Value(),
		KeyBytes:    f.keyBytes.Value(),
		ValueBytes:  f.valueBytes.Value(),
		ValueModel:  f.valueModel.Value(),
		Profile:     f.named(name),
		Compression: ratios,
	}

	if in == nil {
		in = new(predict.Input)
	}

	m.All(of.Levels(name, f.options.Fixed(), in))
}

// inspectDatabase runs inspect on a database, statelab's or another's, or on a part of it.
func (a *app) inspectDatabase(
	dir, engineName string, ignoreLock bool, part engine.Part,
) (*result.Run, error) {
	m := new(mistakes)
	if !m.Present("", dir, engine.CodeNoDatabase) { // an argument: its place is no --db
		return nil, m.Err()
	}

	if name := a.readsFiles(dir); name != "" && (engineName == "" || engineName == name) {
		return inspect.OfFiles(dir, name)
	}

	t := a.find(sweep.Wanted{Dir: dir, Engine: engineName, Existing: true, ReadOnly: true}, m)
	if err := m.Err(); err != nil {
		return nil, err
	}

	spec := bench.Spec{
		Verb:       bench.Inspect,
		Engine:     t.Engine.Info().Name,
		Dir:        absolute(dir),
		Profile:    cmp.Or(t.Profile, t.Engine.Info().Profiles[0].Name),
		ReadOnly:   true,
		Foreign:    t.Foreign,
		IgnoreLock: ignoreLock,
		Part:       part,
	}

	if t.Manifest != nil {
		spec.Overrides = t.Manifest.Overrides
	}

	return a.once(&spec)
}

// readsFiles names the engine of a database whose files this program reads itself, because the
// runner of that engine is not here; "": of any other.
func (a *app) readsFiles(dir string) string {
	of, err := dbformat.Recognise(dir)
	if e, _ := subject.EngineOf(of.Engine); err != nil || !e.BlockTables {
		return ""
	}

	_, err = a.tables.Engines.Find(of.Engine)
	if !errors.As(err, new(*runners.NotInstalledError)) {
		return ""
	}

	return of.Engine
}

// once carries out a spec whose run folder nobody looks at.
func (a *app) once(spec *bench.Spec) (*result.Run, error) {
	out, err := os.MkdirTemp("", "statelab-"+spec.Verb+"-")
	if err != nil {
		return nil, err
	}

	defer os.RemoveAll(out)
	spec.Schema, spec.Out, spec.Command, spec.PageCache = schema.EngineSpec, out, a.command(),
		bench.AsIs
	p := a.progress()
	defer p.Done()
	return a.ran(a.ctx, spec, func(e result.Event) { p.Report("", e) })
}

// ran is a point that was measured, or why it was not.
func (a *app) ran(
	ctx context.Context, spec *bench.Spec, tell result.EventFunc,
) (*result.Run, error) {
	run, err := a.Do(ctx, sweep.JobOf(spec), tell)
	if err == nil && run.Status != result.OK {
		err = run.Failure(run.Error)
	}
	return run, err
}
