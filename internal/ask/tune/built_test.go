package tune

import (
	"cmp"
	"context"
	"flag"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/goleveldb"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/tablemodel"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

var (
	provedKeys = flag.Uint64("proved-keys", 0, "keys of each database; 0: few, as the test says. "+
		"Given, all Gets ask for present keys, or all for absent ones, and some are measured")
	provedTables = flag.Int("proved-tables", 20, "with -proved-keys: databases of each engine")
)

// others are built and predicted from the first one. The short form builds the first four, the long
// one all.
var others = []tablemodel.TableOptions{
	{BlockBytes: 4 << 10, IndexBytes: 4 << 10, FilterBits: 10},
	{BlockBytes: 4 << 10, IndexBytes: 4 << 10, FilterBits: 10, LastFilters: true},
	{BlockBytes: 16 << 10, IndexBytes: 4 << 10, FilterBits: 10},
	{BlockBytes: 2 << 10, IndexBytes: 4 << 10, FilterBits: 16},
	{BlockBytes: 4 << 10, IndexBytes: 4 << 10, FilterBits: 5},
	{BlockBytes: 1 << 10, IndexBytes: 4 << 10, FilterBits: 10},
	{BlockBytes: 8 << 10, IndexBytes: 64 << 10, FilterBits: 10},
	{BlockBytes: 4 << 10, IndexBytes: 256 << 10, FilterBits: 10},
	{BlockBytes: 32 << 10, IndexBytes: 32 << 10, FilterBits: 20},
	{BlockBytes: 2 << 10, IndexBytes: 16 << 10, FilterBits: 8, LastFilters: true},
	{BlockBytes: 4 << 10, IndexBytes: 4 << 10, FilterBits: 5, ExtraBitsPerLevel: 5},
	{
		BlockBytes:        4 << 10,
		IndexBytes:        4 << 10,
		FilterBits:        8,
		ExtraBitsPerLevel: 2,
		LastFilters:       true,
	},
	{BlockBytes: 8 << 10, IndexBytes: 4 << 10, FilterBits: 10},
	{BlockBytes: 16 << 10, IndexBytes: 16 << 10, FilterBits: 14},
	{BlockBytes: 8 << 10, IndexBytes: 4 << 10, FilterBits: 10, LastFilters: true},
	{BlockBytes: 2 << 10, IndexBytes: 4 << 10, FilterBits: 10},
	{BlockBytes: 4 << 10, IndexBytes: 64 << 10, FilterBits: 10},
	{BlockBytes: 16 << 10, IndexBytes: 4 << 10, FilterBits: 16, LastFilters: true},
	{BlockBytes: 32 << 10, IndexBytes: 4 << 10, FilterBits: 10},
	{BlockBytes: 1 << 10, IndexBytes: 16 << 10, FilterBits: 12, LastFilters: true},
	{BlockBytes: 4 << 10, IndexBytes: 4 << 10, FilterBits: 16, LastFilters: true},
	{BlockBytes: 8 << 10, IndexBytes: 16 << 10, FilterBits: 5},
}

// TestPredictedIsBuilt predicts from the accesses of one database what others would read, which are
// built and whose own accesses are replayed. Two databases that are loaded with the same options
// may have other levels, which are not what is predicted: so the others are made of the tables of
// the first one.
//
//	go test -v -run PredictedIsBuilt ./internal/ask/tune
//	go test -v -timeout 1h -run PredictedIsBuilt/pebble2 ./internal/ask/tune -proved-keys 2000000
func TestPredictedIsBuilt(t *testing.T) {
	testring.Outer(t, "it builds what tune predicts")
	keys, shrink := uint64(1_000_000), int64(1)
	p := proof{
		tables:  others[:10],
		missing: []float64{0, 0.5},
		caches:  []int64{1 << 20, 2 << 20, 8 << 20},
		gets:    200_000,
	}

	if testing.Short() {
		keys, shrink, p.gets, p.tables = 250_000, 4, 40_000, others[:4]
	}

	p.enlarge(&keys, others)
	p.exact = true
	for name, e := range map[string]engine.Engine{
		"pebble1": pebble1.Engine{},
		"pebble2": pebble2.Engine{},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name == "pebble1" {
				t.Skip("as pebble2")
			}

			profile, values, p := pebbledb.BenchKVDB().Name, keyspace.Table32, p
			if *provedKeys > 0 { // those compress better in larger blocks, which makes other levels
				values = keyspace.Random
			}

			p.engine, p.options = e, func(tables tablemodel.TableOptions) map[string]string {
				options := optionsOf(tables)
				options["LBaseMaxBytes"] = unit.ExactBytes(16 << 20 / shrink)
				options["TargetFileSize"] = unit.ExactBytes(2 << 20 / shrink)
				return options
			}

			p.load = func(t *testing.T, options map[string]string) database {
				return load(t, e, profile, workload.FillSorted, values, keys, options)
			}
			p.search = func(t *testing.T, from curve.TraceRequest, levels []engine.Level) *search {
				s := &search{
					Request: &Request{
						Gets:    from,
						Levels:  levels,
						Present: p.tables[0],
						Seeds:   []uint64{5},
						Cores:   2,
						Tell:    func(result.Event) {},
					},
					kind:   pebble(name, ""),
					gets:   p.gets,
					rates:  map[rateOf]float64{},
					ratios: map[ratioOf]float64{},
				}

				if err := s.look(t.Context()); err != nil {
					t.Fatal(err)
				}

				return s
			}

			p.reserve = func(cache int64) int64 {
				return curve.MemTables(name, profile, cache, true)
			}
			p.run(t)
		})
	}
}

// levelTables are predicted from the first one, as others are.
var levelTables = []tablemodel.TableOptions{
	{BlockBytes: 4 << 10, FilterBits: 10, LastFilters: true},
	{BlockBytes: 16 << 10, FilterBits: 10, LastFilters: true},
	{BlockBytes: 2 << 10, FilterBits: 14, LastFilters: true},
	{BlockBytes: 4 << 10, LastFilters: true},
	{BlockBytes: 4 << 10, FilterBits: 5, LastFilters: true},
	{BlockBytes: 1 << 10, FilterBits: 10, LastFilters: true},
	{BlockBytes: 8 << 10, FilterBits: 8, LastFilters: true},
	{BlockBytes: 32 << 10, FilterBits: 20, LastFilters: true},
	{BlockBytes: 64 << 10, FilterBits: 16, LastFilters: true},
	{BlockBytes: 2 << 10, LastFilters: true},
}

// TestLevelTablesAreBuilt is TestPredictedIsBuilt with goleveldb. The first database has the same
// levels each time.
//
//	go test -v -run LevelTablesAreBuilt ./internal/ask/tune
//	go test -v -timeout 1h -run LevelTablesAreBuilt ./internal/ask/tune -proved-keys 1000000
func TestLevelTablesAreBuilt(t *testing.T) {
	testring.Outer(t, "it builds what tune predicts")
	keys, p := uint64(400_000),
		proof{
			tables:  levelTables,
			missing: []float64{0, 0.5},
			caches:  []int64{1 << 20, 3 << 20, 8 << 20},
			gets:    200_000,
			exact:   true,
		}

	if testing.Short() {
		keys, p.gets, p.tables, p.caches = 100_000, 60_000, levelTables[:4],
			[]int64{512 << 10, 1536 << 10, 4 << 20}
	}

	p.enlarge(&keys, levelTables)
	e := goleveldb.Engine{}
	kind, _, errs := e.Tables(engine.Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}

	var run *result.Run // of inspect, of the first one
	p.engine, p.options = e, func(tables tablemodel.TableOptions) map[string]string {
		options := kind.OptionMap(tables)
		if tables == p.tables[0] { // the others have its tables
			maps.Copy(options, map[string]string{
				"WriteBuffer":         "64MiB",
				"CompactionL0Trigger": "1000000",
				"CompactionTotalSize": "1024GiB",
			})
		}

		return options
	}

	p.load = func(t *testing.T, options map[string]string) database {
		d := load(t, e, "default", workload.FillRandom, keyspace.TrieNode, keys, options)
		underNewer(t, d.of.Spec.Dir)
		d = inspected(t, e, d.of.Spec)
		run = d.run
		return d
	}

	p.search = func(t *testing.T, from curve.TraceRequest, _ []engine.Level) *search {
		a := Request{Gets: from, Seeds: []uint64{5}, Cores: 2, Tell: func(result.Event) {}}
		if err := a.Choose(t.Context(), run, ""); err != nil {
			t.Fatal(err)
		}

		if errs := a.Profiled("default", p.options(p.tables[0])); len(errs) > 0 ||
			a.Present != p.tables[0] {
			t.Fatalf("%+v, built with %+v: %v", a.Present, p.tables[0], errs)
		}

		s := &search{Request: &a, kind: a.Kind, gets: p.gets, ratios: map[ratioOf]float64{}}
		if err := s.look(t.Context()); err != nil {
			t.Fatal(err)
		}

		return s
	}

	p.reserve = func(int64) int64 { return 0 }
	p.run(t)
}

// underNewer brings all keys of a database to level 1, and writes some of them again, in tables of
// level 0. Compactions of goleveldb's own would make other levels each time.
func underNewer(t *testing.T, dir string) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}

	db, err := leveldb.OpenFile(dir, &opt.Options{
		WriteBuffer:            4 << 20,
		CompactionTableSize:    512 << 10,
		CompactionL0Trigger:    1_000_000,
		CompactionTotalSize:    1 << 40,
		DisableSeeksCompaction: true,
		Filter:                 filter.NewBloomFilter(10),
	})

	check(err)
	check(db.CompactRange(util.Range{}))
	all, n := db.NewIterator(nil, nil), uint32(0)
	for all.Next() {
		if n++; n*2654435761>>29 == 0 { // one of eight
			check(db.Put(all.Key(), all.Value(), nil))
		}
	}

	check(all.Error())
	all.Release()
	flushed, err := db.OpenTransaction()
	check(err)
	flushed.Discard()
	check(db.Close())
}

// proof builds databases with other tables and compares what they read with what was predicted from
// the first one.
type proof struct {
	tables  []tablemodel.TableOptions
	missing []float64 // shares of the Gets
	caches  []int64
	gets    uint64
	exact   bool // the first one is predicted as it is
	engine  engine.Engine
	options func(tablemodel.TableOptions) map[string]string
	load    func(t *testing.T, options map[string]string) database // the first one
	search  func(t *testing.T, from curve.TraceRequest, levels []engine.Level) *search
	reserve func(cache int64) int64 // of memtables
}

// enlarge makes it the long form if that is asked for.
func (p *proof) enlarge(keys *uint64, all []tablemodel.TableOptions) {
	if *provedKeys == 0 {
		return
	}
	*keys, p.tables, p.missing = *provedKeys, all[:min(*provedTables, len(all))], []float64{0, 1}
	onePercent := int64(*keys) * 150 / 100
	p.caches, p.gets = []int64{onePercent, 3 * onePercent, 6 * onePercent}, 200_000
}

// point is where a configuration is predicted and built.
type point struct {
	missing float64
	cache   int64
}

// compared is what a configuration was predicted to read a Get, and what it read.
type compared struct{ said, built float64 }

// off is the share by which a prediction is off. A thousandth of a read, which is luck where next
// to nothing is read, is at most one percent.
func (c compared) off() float64 { return (c.said - c.built) / max(c.built, 0.1) }

func (p *proof) run(t *testing.T) {
	base := p.load(t, p.options(p.tables[0]))
	said, stored, searches := map[tablemodel.TableOptions]map[point]float64{},
		map[tablemodel.TableOptions]map[point]float64{}, map[float64]*search{}
	for _, missing := range p.missing {
		s := p.search(t, base.gets(p.gets, missing), base.levels)
		if err := s.sample(t.Context(), 1); err != nil {
			t.Fatal(err)
		}

		searches[missing] = s
		for _, tables := range p.tables {
			if said[tables] == nil {
				said[tables], stored[tables] = map[point]float64{}, map[point]float64{}
			}

			const places = 3 // of the blocks, as tune has with its seeds
			for luck := range uint64(places) {
				accesses := s.samples[0].Rewrite(tables, luck+1)
				for _, cache := range p.caches {
					at := point{missing, cache}
					blocks, bytes := reads(t, accesses, p.setup(s, cache), cache)
					said[tables][at], stored[tables][at] = said[tables][at]+blocks/places,
						stored[tables][at]+bytes/places
				}
			}
		}
	}

	all, within, worst, worstBytes, maximum := map[point][]compared{}, [4]int{}, 0.0, 0.0,
		searches[p.missing[0]].kind.Error
	if *provedKeys > 0 {
		maximum = 0.03
	}

	for i, tables := range p.tables {
		built := base
		if i > 0 {
			built = rewritten(t, p.engine, base, p.options(tables))
		}

		moved := int64(0) // a table may come to lie in a gap of the next level
		for i, l := range built.levels {
			if at := i + len(base.levels) - len(built.levels); at >= 0 {
				moved += max(l.Keys-base.levels[at].Keys, 0)
			}
			t.Logf("%+v: L%d has %d keys in %d tables, %d parts of indexes", tables, l.Level,
				l.Keys, l.Files, l.IndexBlocks)
		}

		if 50*uint64(moved) > base.of.Spec.Keys {
			t.Errorf("%+v: levels %+v, of the first one %+v", tables, built.levels, base.levels)
		}

		for _, missing := range p.missing {
			s := searches[missing]
			of := built.gets(p.gets, missing)
			of.Spec.WarmupGets, of.Spec.Seed = s.warmup(), s.Seeds[0]
			traced, _, err := curve.Traced(t.Context(), of, s.Tell)
			if err != nil {
				t.Fatal(err)
			}

			for n, cache := range p.caches {
				at := point{missing, cache}
				s.cache, s.reserve = cache, p.reserve(cache)
				if of.Spec.WarmupGets != s.warmup() {
					t.Fatal("caches of other sizes have other traces")
				}

				c, bytes, how := compared{said: said[tables][at]},
					compared{said: stored[tables][at]}, "built"
				c.built, bytes.built = reads(t, traced, p.setup(s, cache), cache)
				if *provedKeys > 0 && n == 1 {
					c.built, how = measured(t, of, cache), "measured"
				}

				judged := s.fits(tables)
				t.Logf("%+v, %.0f %% absent, cache %d KiB: predicted %.4f, %s %.4f (%+.2f %%; "+
					"bytes %+.2f %%), judged %v", tables, 100*missing, cache>>10, c.said, how,
					c.built, 100*c.off(), 100*bytes.off(), judged)
				if p.exact && i == 0 && how == "built" && math.Abs(c.off()) > 1e-9 {
					t.Errorf("the database itself: off by %.2f %%", 100*c.off())
				}

				if !judged {
					continue
				}

				all[at], worstBytes = append(all[at], c), max(worstBytes, math.Abs(bytes.off()))
				off := math.Abs(c.off())
				if worst = max(worst, off); off > maximum ||
					how == "built" && math.Abs(bytes.off()) > testedErrors()["bytes_read_per_get"] {
					t.Errorf("%+v, %.0f %% absent, cache %d KiB: off by %.2f %%", tables,
						100*missing, cache>>10, 100*c.off())
				}

				if i > 0 {
					within[min(3, int(100*off))]++
				}
			}
		}

		if i > 0 {
			if err := os.RemoveAll(built.of.Spec.Dir); err != nil {
				t.Fatal(err)
			}
		}
	}

	sum := within[0] + within[1] + within[2] + within[3]
	t.Logf("of %d off by less than 1 %%, 2 %%, 3 %%, and more: %v; worst: %.2f %%; of bytes: "+
		"%.2f %%", sum, within, 100*worst, 100*worstBytes)
	if *provedKeys > 0 && 10*within[0] < 9*sum {
		t.Error("less than nine of ten are within 1 %")
	}

	for at, configurations := range all {
		ordered(t, at, configurations)
	}
}

// ordered checks that the three with the best predictions are the best three in this order, or
// within one percent of them.
func ordered(t *testing.T, at point, all []compared) {
	best := slices.SortedFunc(slices.Values(all), func(a, b compared) int {
		return cmp.Compare(a.built, b.built)
	})
	slices.SortFunc(all, func(a, b compared) int { return cmp.Compare(a.said, b.said) })
	for i := range min(3, len(all)) {
		if tied := (compared{all[i].built, best[i].built}); *provedKeys > 0 && tied.off() > 0.01 {
			t.Errorf("%+v: number %d by prediction reads %.4f, that by measurement %.4f", at, i+1,
				all[i].built, best[i].built)
		}
	}
}

func (p *proof) setup(s *search, cache int64) cachesim.Setup {
	setup := s.setup
	setup.ReservedBytes = p.reserve(cache)
	return setup
}

// measured are the block reads of the Gets in the engine itself.
func measured(t *testing.T, of curve.TraceRequest, cache int64) float64 {
	spec := of.Spec
	spec.Verb, spec.Out, spec.ReadOnly, spec.CacheBytes = bench.Read, t.TempDir(), true, cache
	run := done(t, of.Engine, spec)
	if !run.Figures.Has(figure.BlockReadsPerGet) {
		t.Fatal(run)
	}
	return run.Figures.OrZero(figure.BlockReadsPerGet)
}

// reads are blocks and stored bytes that a Get reads.
func reads(
	t *testing.T, accesses *cachesim.Trace, setup cachesim.Setup, cache int64,
) (blocks, bytes float64) {
	points, err := cachesim.Curve(t.Context(), accesses, setup, []int64{cache})
	if err != nil {
		t.Fatal(err)
	}
	return points[0].BlockReadsPerGet(), float64(points[0].DiskBytesRead) / float64(points[0].Gets)
}

type database struct {
	of     curve.TraceRequest
	levels []engine.Level
	run    *result.Run // of inspect
	loaded *result.Run
}

// gets are random Gets of the database.
func (d database) gets(n uint64, missing float64) curve.TraceRequest {
	of := d.of
	of.Spec.Workload, of.Spec.Threads, of.Spec.Gets, of.Spec.MissingShare = workload.ReadRandom, 1,
		n, missing
	return of
}

// load builds a database.
func load(
	t *testing.T, e engine.Engine, profile, fill, values string, keys uint64,
	options map[string]string,
) database {
	t.Helper()
	spec := bench.Spec{Schema: schema.EngineSpec, Verb: bench.Load, Out: t.TempDir(),
		Engine: e.Info().Name, Dir: t.TempDir(),
		Profile:    profile,
		CacheBytes: 16 << 20, Overrides: options, PageCache: bench.AsIs, Workload: fill, Keys: keys,
		KeyBytes: 32, ValueBytes: 110, KeyHash: keyspace.Mix, ValueModel: values, BatchKeys: 100,
		Seed: 1, Threads: 1}

	loaded := done(t, e, spec)
	d := inspected(t, e, spec)
	d.loaded = loaded
	return d
}

// rewritten is d with tables that are written with these options, on the same levels.
func rewritten(t *testing.T, e engine.Engine, d database, options map[string]string) database {
	t.Helper()
	spec := d.of.Spec
	spec.Verb, spec.From, spec.Out, spec.Dir, spec.Overrides, spec.ReadOnly = bench.Rewrite,
		spec.Dir, t.TempDir(), t.TempDir(), options, false
	done(t, e, spec)
	return inspected(t, e, spec)
}

// done carries out spec.
func done(t *testing.T, e engine.Engine, spec bench.Spec) *result.Run {
	t.Helper()
	run, err := bench.Run(context.Background(), e, &spec, func(result.Event) {})
	if err != nil || run.Status != result.OK {
		t.Fatal(err, run)
	}
	return run
}

// inspected is the database that spec made.
func inspected(t *testing.T, e engine.Engine, spec bench.Spec) database {
	t.Helper()
	spec.Verb, spec.Out, spec.ReadOnly = bench.Inspect, t.TempDir(), true
	looked := done(t, e, spec)
	return database{
		of:     curve.TraceRequest{Engine: e, Version: e.Info().Version, Spec: spec},
		levels: looked.Database.Levels,
		run:    looked,
	}
}
