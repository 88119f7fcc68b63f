package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/keyspace"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// predictFlags are the flags of predict as typed.
type predictFlags struct {
	levels, db, keys, keyBytes, valueBytes, compression  string
	valueModel, profile                                  string
	engine, cores, threads, gets, warmup, missing, cache string
	reserve, seed, seeds                                 string
	validate, out, hardware                              string
	ignoreLock, force, json                              bool
	on                                                   *fan
}

func (a *app) predictVerb() *cobra.Command {
	f := new(predictFlags)
	cmd := &cobra.Command{
		Use:   "predict --levels LOG | --db DIR | --keys N",
		Short: "Predict what a Get costs, also on a database that was never built",
		Long: `Predict draws random block accesses from a table of levels (files, blocks and bytes
of each level) and replays them through a model of Pebble's cache, for as many Gets
as a run would make. If the database is on this machine (--db), it takes the real
accesses of those Gets instead.

  statelab predict --db D --cache 0.1%,0.5%,1%
  statelab predict --levels Properties_2B.log --cores 32 --gets 10M --warmup 0.05% --cache 284MiB,2GiB
  statelab predict --keys 20B --cores 32 --gets 10M --warmup 0.05% --cache 0.1%,0.2%,1%
  statelab predict --keys 20B --hardware DISK      (DISK: statelab disk DIR --out DISK; adds the time of a Get)
  statelab predict --validate LOGS                 (compares published runs with the model)`,
	}
	flag := cmd.Flags()
	flag.StringVar(&f.levels, "levels", "", "level table: the output of pebble db properties")
	flag.StringVar(&f.db, "db", "", "database to predict for")
	flag.StringVar(&f.keys, "keys", "", "number of keys of a database that does not exist: its levels are computed for loading in random order")
	flag.StringVar(&f.keyBytes, "key-bytes", "32", "with --keys: size of a key in bytes")
	flag.StringVar(&f.valueBytes, "value-bytes", "110", "with --keys: mean size of a value in bytes")
	flag.StringVar(&f.valueModel, "value-model", keyspace.Table32,
		"with --keys: what values look like, as in load: table32 (as in the published databases), random, trie-node")
	flag.StringVar(&f.compression, "compression", "",
		"with --keys: ratio of stored to raw size of data blocks; one value, or two: for the upper levels and the last level (default: the value model's)")
	flag.StringVar(&f.profile, "profile", "bench-kvdb",
		"named set of engine options (statelab engines lists them): how much memtables reserve and, with --keys, how levels fill")
	flag.StringVar(&f.engine, "engine", "", "pebble1 or pebble2 (default: the database's own, else pebble1)")
	coresFlag(flag, &f.cores, "processors of the machine to predict for; Pebble's cache has shards for each")
	flag.StringVar(&f.threads, "threads", "1", "Gets in flight; they change the speed, not the block reads")
	flag.StringVar(&f.gets, "gets", "500k", "number of measured Gets of the predicted run")
	flag.StringVar(&f.warmup, "warmup", "0.05%", "Gets before the measured ones: a number, or a share of the keys")
	flag.StringVar(&f.missing, "missing", "0%", "share of Gets that ask for absent keys")
	flag.StringVar(&f.cache, "cache", "0.1%,0.2%,0.5%,1%,2%,3%", "cache sizes, or shares of the database, separated by commas")
	flag.StringVar(&f.reserve, "reserve", "auto",
		"part of the cache that memtables take: auto (as in an open database without writes), or a size such as 64MiB (a node that writes)")
	flag.StringVar(&f.seed, "seed", "1", "seed of all random choices")
	flag.StringVar(&f.seeds, "seeds", "3", "number of random assignments of files to cache shards to simulate; low and high are the range of their results")
	flag.StringVar(&f.validate, "validate", "", "folder of published bench_kvdb logs: predict each of their points and compare")
	flag.StringVar(&f.hardware, "hardware", "",
		"disk whose reads give the time of a Get: a folder of statelab disk, a profile as price takes it, or fio's JSON output")
	flag.StringVar(&f.out, "out", "", "new folder for the prediction: its page (report.html) and JSON; with --validate: folder for the table and the charts")
	flag.BoolVar(&f.force, "force", false, "with --validate and --out: replace files that exist")
	flag.BoolVar(&f.ignoreLock, "ignore-lock", false, "with --db: read even if another process has the database open")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	f.on = fanFlags(cmd)
	return a.checked(cmd, func(m *mistakes, args []string) error { return a.predict(f, m, args) })
}

// coresFlag is a number of processors, by default this machine's.
func coresFlag(flags *pflag.FlagSet, to *string, about string) {
	own := strconv.Itoa(runtime.NumCPU())
	flags.StringVar(to, "cores", own, about+" (default: this machine's, "+own+")")
	flags.Lookup("cores").DefValue = "" // said
}

func (a *app) predict(f *predictFlags, m *mistakes, args []string) error {
	m.noArguments(args)
	if f.validate != "" {
		m.readable("--validate: ", f.validate)
		if err := m.err(); err != nil {
			return err
		}
		return a.validate(f)
	}
	m.answerFolder(f.out)
	in, p := f.input(m)
	p.Hardware = m.hardware(f.hardware)
	reserve := m.reserve(f.reserve)
	f.checkSource(m)
	caches := f.caches(m)
	if err := m.err(); err != nil {
		return err
	}
	err := a.levels(f, &in, &p)
	if err != nil {
		return err
	}
	var total int64
	for _, l := range in.Levels {
		p.Database += l.Bytes
		total += l.Keys
	}
	p.Keys, p.Levels, p.Method = total, in.Levels, "level table"
	if f.db != "" {
		p.Method = "trace"
	}
	p.Inflection = lsm.Inflect(in.Levels, p.Database)
	var spec bench.Spec
	m.warmup(&spec, f.warmup, uint64(total))
	for _, sizeIn := range caches {
		in.CacheBytes = append(in.CacheBytes, sizeIn(p.Database))
	}
	if err := m.err(); err != nil {
		return err
	}
	in.WarmupGets = spec.WarmupGets
	p.WarmupGets = in.WarmupGets
	switch {
	case f.on.where != "":
		p.Points, err = a.predictOnNodes(f)
	case f.db != "":
		p.Points, err = a.predictHere(f, in, p, reserve)
	default:
		p.Points, err = a.predictElsewhere(in, p, reserve)
	}
	if err != nil {
		return err
	}
	return a.deliverAnswer(f.out, result.PredictionFile, f.json, p, func(started time.Time, command []string) any {
		p.Started, p.Command = started, command
		return p
	})
}

// caches are the sizes of the caches, each in bytes for a database of so many.
func (f *predictFlags) caches(m *mistakes) (sizes []func(databaseBytes int64) int64) {
	for _, text := range m.values("cache", f.cache, "1%") {
		bytes, share, err := sweep.ParseCache(text)
		if err != nil {
			m.add("--cache: %v", err)
		}
		sizes = append(sizes, func(databaseBytes int64) int64 { return bytes + int64(share*float64(databaseBytes)) })
	}
	return sizes
}

// checkSource checks where the level table comes from.
func (f *predictFlags) checkSource(m *mistakes) {
	sources := 0
	for _, given := range []string{f.levels, f.db, f.keys} {
		if given != "" {
			sources++
		}
	}
	if sources != 1 {
		m.add("give exactly one of --levels, --db and --keys (example: --keys 20B)")
	}
	if f.levels != "" {
		m.readable("--levels: ", f.levels)
	}
	f.on.check(m)
	if f.on.where != "" && f.db != "" {
		m.add("--on %s: with --db one trace of the database serves all cache sizes: predict on the machine that holds it", f.on.where)
	}
	if f.db != "" {
		m.database(f.db)
	}
	if f.keys != "" {
		f.natural(m)
	}
}

// hardware reads the profile of a disk; nil if none is named.
func (m *mistakes) hardware(path string) *result.Hardware {
	switch path {
	case "":
		return nil
	case here:
		m.add("--hardware %s: measure the disk first (statelab disk DIR --out DISK), and give --hardware DISK", here)
		return nil
	}
	h, err := result.ReadHardware(path)
	if err != nil {
		m.cannotRead("--hardware: %v", err)
		return nil
	}
	return h
}

// input reads the flags that do not depend on the level table.
func (f *predictFlags) input(m *mistakes) (predict.Input, enginereport.Prediction) {
	cores := m.upTo("cores", f.cores, 4096, "32")
	m.threads(f.threads)
	if f.engine != "" {
		m.oneOf("engine", f.engine, subject.Pebbles()...)
	}
	if f.warmup == "auto" {
		m.add("--warmup auto: a prediction needs a number such as 100k, or a share of the keys such as 0.05%%")
	}
	in := predict.Input{Cores: cores, Gets: m.atLeastOne("gets", f.gets, "10M"), AbsentShare: m.share("missing", f.missing)}
	seed, seeds := m.seed(f.seed), m.atLeastOne("seeds", f.seeds, "3")
	if seeds > 100 {
		m.add("--seeds %s: must be from 1 to 100", f.seeds)
		seeds = 1
	}
	for n := range seeds {
		in.Seeds = append(in.Seeds, seed+n)
	}
	return in, enginereport.Prediction{Schema: enginereport.PredictionSchema, Cores: cores, Gets: in.Gets, Missing: in.AbsentShare}
}

// predictElsewhere predicts from the level table alone.
func (a *app) predictElsewhere(in predict.Input, p enginereport.Prediction, reserve reserveOf) ([]result.PredictedPoint, error) {
	var out []result.PredictedPoint
	all := in.CacheBytes
	progress := a.progress()
	defer progress.done()
	for i, size := range all {
		progress.tell("", result.Event{Phase: "predicting", Done: uint64(i), Total: uint64(len(all)), Unit: "cache sizes"})
		var err error
		if in.ReservedBytes, err = reserve(p.Engine, p.Profile, size, false); err != nil {
			return nil, err
		}
		in.CacheBytes = []int64{size}
		points, err := predict.Run(a.ctx, in)
		if err != nil {
			return nil, fmt.Errorf("predict: %w", err)
		}
		out = append(out, points[0].PredictedPoint)
	}
	return out, nil
}

// predictHere works the curve out from the filters and indexes of a database that
// is on this machine: nothing about its shape is assumed.
func (a *app) predictHere(f *predictFlags, in predict.Input, p enginereport.Prediction, reserve reserveOf) ([]result.PredictedPoint, error) {
	m := new(mistakes)
	g := newFlags(experiment.Sweep)
	g.DB, g.Engine, g.Existing, g.onlyLooks, g.IgnoreLock = f.db, experiment.List(f.engine), true, true, f.ignoreLock
	g.Gets, g.Warmup, g.Missing, g.Seed, g.AccessGets = f.gets, strconv.FormatUint(in.WarmupGets, 10), f.missing, f.seed, "0"
	t := a.target(g, m)
	spec := a.readSpec(g, t, m)
	spec.Threads = m.threads(f.threads)
	if err := m.err(); err != nil {
		return nil, err
	}
	return a.curveOf(t, spec, in.Cores, reserve, in.CacheBytes)
}

// levels finds the level table.
func (a *app) levels(f *predictFlags, in *predict.Input, p *enginereport.Prediction) error {
	p.Engine, p.Profile = cmp.Or(f.engine, subject.DefaultEngine()), f.profile
	switch {
	case f.levels != "":
		var err error
		if in.Levels, err = levelTable(f.levels); err != nil {
			return err
		}
		p.Source = f.levels
	case f.db != "":
		run, err := a.inspectDatabase(f.db, "", f.ignoreLock, engine.Part{})
		if err != nil {
			return err
		}
		in.Levels, p.Source, p.Engine = run.Database.Levels, f.db, cmp.Or(f.engine, run.Engine.Name)
		in.Version = version1or2(p.Engine)
		return nil // sizes in the cache are measured, the charge included
	default:
		spec := f.natural(new(mistakes)) // they were told
		in.Levels, p.Source = lsm.Natural(spec), "computed levels of "+f.keys+" keys loaded in random order, values "+f.valueModel
		if f.valueModel == keyspace.Table32 {
			a.progress().say("values as in the published databases (table32); for a database of statelab load add --value-model random")
		}
	}
	in.Version = version1or2(p.Engine)
	in.Levels = lsm.WithCharge(in.Levels, in.Version.BlockCharge())
	return nil
}

// levelTable reads the output of pebble db properties.
func levelTable(path string) ([]engine.Level, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	levels, err := lsm.ParseProperties(file)
	if err != nil {
		return nil, cmp.Or(dbformat.File(path), fmt.Errorf("%s: %w", path, err))
	}
	return levels, nil
}

func version1or2(engine string) cachesim.PebbleVersion {
	e, _ := subject.EngineOf(engine)
	return cmp.Or(e.Cache, cachesim.PebbleV1)
}

// natural describes the database that --keys imagines.
func (f *predictFlags) natural(m *mistakes) lsm.NaturalSpec {
	spec := lsm.BenchKVDB(m.atLeastOne("keys", f.keys, "20B"))
	spec.KeyBytes, spec.ValueBytes = int(m.atLeastOne("key-bytes", f.keyBytes, "32")), int(m.count("value-bytes", f.valueBytes))
	if ratios, err := lsm.ValueCompression(f.valueModel); err != nil {
		m.add("--value-model: %v", err)
	} else {
		spec.Compression = ratios
	}
	if values, err := keyspace.NewValues(f.valueModel, 0, 1); err == nil && f.valueModel == keyspace.TrieNode { // has sizes of its own
		spec.ValueBytes = int(values.MeanBytes())
	}
	if s, errs := pebbledb.Resolve(pebbleProfiles(), engine.Options{Profile: f.profile}); len(errs) > 0 {
		m.addAll("--profile: ", errs)
	} else {
		spec = profiled(spec, s)
	}
	var ratios []string // none: the value model's
	if f.compression != "" {
		ratios = m.values("compression", f.compression, "0.935,0.775")
	}
	for level := range spec.Compression {
		if len(ratios) == 0 {
			break
		}
		text := ratios[0]
		if level == len(spec.Compression)-1 {
			text = ratios[len(ratios)-1]
		}
		ratio, err := strconv.ParseFloat(text, 64)
		if err != nil || !(ratio > 0 && ratio <= 1.1) || len(ratios) > 2 {
			m.add("--compression %q: must be one or two ratios of stored to raw size, above 0 and at most 1.1 (example: 0.935,0.775)", f.compression)
			break
		}
		spec.Compression[level] = ratio
	}
	if spec.KeyBytes > 1<<10 || spec.ValueBytes > 1<<20 {
		m.add("--key-bytes %s, --value-bytes %s: must be at most 1024 and 1048576", f.keyBytes, f.valueBytes)
	}
	return spec
}

// profiled gives a load the options of a profile. What the profile does not set is
// Pebble's own default.
func profiled(spec lsm.NaturalSpec, s pebbledb.Settings) lsm.NaturalSpec {
	spec.LBaseMaxBytes = cmp.Or(s.LBaseMaxBytes, spec.LBaseMaxBytes)
	for i, level := range s.Levels {
		spec.TargetFileBytes[i] = cmp.Or(level.TargetFileSize, 2<<20<<i)
		if i > 0 && level.FilterBitsPerKey == 0 && !level.NoFilter {
			spec.FilterLevels[i] = false
		}
	}
	if s.Levels[0].FilterBitsPerKey == 0 {
		spec.FilterBitsPerKey = 0
	}
	spec.BlockBytes = cmp.Or(s.Levels[0].BlockSize, spec.BlockBytes)
	return spec
}

// inspectDatabase runs inspect on a database, statelab's or another's, or on a part of it.
func (a *app) inspectDatabase(dir, engineName string, ignoreLock bool, part engine.Part) (*result.Run, error) {
	m := new(mistakes)
	f := newFlags(experiment.Sweep)
	f.DB, f.Engine, f.Existing, f.onlyLooks, f.IgnoreLock = dir, experiment.List(engineName), true, true, ignoreLock
	t := a.target(f, m)
	if err := m.err(); err != nil {
		return nil, err
	}
	out, err := os.MkdirTemp("", "statelab-inspect-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	spec := bench.Spec{Schema: bench.SpecSchema, Verb: bench.Inspect, Out: out, Command: a.command(), Engine: t.engine.Info().Name, Dir: absolute(dir),
		Profile: cmp.Or(string(f.Profile), t.engine.Info().Profiles[0].Name), ReadOnly: true, Foreign: t.foreign,
		IgnoreLock: ignoreLock, PageCache: bench.AsIs, Part: part}
	if t.manifest != nil {
		spec.Overrides = t.manifest.Overrides
	}
	p := a.progress()
	run, err := a.Do(a.ctx, sweep.JobOf(&spec), func(e result.Event) { p.tell("", e) })
	p.done()
	if err == nil && run.Status != result.OK {
		err = run.Failure(run.Error)
	}
	return run, err
}
