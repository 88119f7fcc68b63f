package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/explain/tuned"
	"github.com/statelab/statelab/internal/model/tablemodel"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// TestCompressionIsBuilt predicts what Gets read of tables of other compressions and sizes of
// blocks, and what those take on the disk and in the cache. Then the engine rewrites the database
// into such tables.
//
//	go test -v -run CompressionIsBuilt ./internal/ask/tune
func TestCompressionIsBuilt(t *testing.T) {
	testring.Outer(t, "it builds what tune predicts")
	keys, gets := uint64(1_000_000), uint64(100_000)
	if testing.Short() {
		keys, gets = 150_000, 40_000
	}

	for name, e := range map[string]engine.Engine{
		"pebble1": pebble1.Engine{},
		"pebble2": pebble2.Engine{},
	} {
		for _, values := range []string{keyspace.TrieNode, keyspace.Table32} {
			if testing.Short() && (name == "pebble1" || values != keyspace.TrieNode) {
				continue
			}

			t.Run(name+" "+values, func(t *testing.T) {
				size := int64(keys) * 16
				shape := map[string]string{
					"LBaseMaxBytes":  fmt.Sprint(size, "B"),
					"TargetFileSize": fmt.Sprint(size/8, "B"),
					"BlockSize":      "4KiB",
				}

				profile := pebbledb.BenchKVDB().Name
				base := load(t, e, profile, workload.FillSorted, values, keys, shape)
				a := Request{
					Gets:   base.gets(gets, 0.5),
					Levels: base.levels,
					Seeds:  []uint64{5},
					Cores:  2,
					Tell:   func(result.Event) {},
				}

				if errs := a.Profiled(profile, shape); len(errs) > 0 {
					t.Fatal(errs)
				}

				proveCompressions(t, &a, int64(keys)*5, func(options map[string]string) database {
					return rewritten(t, e, base, options)
				})
			})
		}
	}
}

// proveCompressions compares what is predicted of tables of each compression with what build makes
// of them.
func proveCompressions(
	t *testing.T, a *Request, cache int64, build func(options map[string]string) database,
) {
	s := &search{
		Request: a,
		kind:    a.Kind,
		gets:    a.Gets.Spec.Gets,
		cache:   cache,
		rates:   map[rateOf]float64{},
		ratios:  map[ratioOf]float64{},
		known:   map[tablemodel.TableOptions]tuned.Config{},
	}

	s.reserve = curve.MemTables(a.Gets.Spec.Engine, a.Gets.Spec.Profile, cache, true)
	if err := errors.Join(s.look(t.Context()), s.sample(t.Context(), 1)); err != nil {
		t.Fatal(err)
	}

	small, large := s.Present, s.Present
	large.BlockBytes = 16 << 10
	all := append(s.compressed()(small), s.compressed()(large)...)
	if len(all) < 4 { // Pebble v1 takes no zstd where it is built with cgo
		t.Fatalf("%+v", all)
	}

	worst := map[string]float64{}
	for _, to := range all {
		if to == s.Present {
			continue
		}

		if err := s.predict(t.Context(), []tablemodel.TableOptions{to}); err != nil {
			t.Fatal(err)
		}

		c := s.known[to]
		built := build(c.Options)
		of := built.of
		of.Spec.Workload, of.Spec.MissingShare = workload.ReadRandom, a.Gets.Spec.MissingShare
		of.Spec.Threads, of.Spec.Gets = 1, s.gets
		of.Spec.WarmupGets, of.Spec.Seed = s.warmup(), s.Seeds[0]
		traced, _, err := curve.Traced(t.Context(), of, s.Tell)
		if err != nil {
			t.Fatal(err)
		}

		setup := s.setup
		setup.ReservedBytes = s.reserve
		there := Request{Gets: built.of}
		if err := there.Choose(t.Context(), built.run, ""); err != nil {
			t.Fatal(err)
		}

		var disk, memory int64
		for _, l := range there.Levels {
			disk, memory = disk+l.Bytes, memory+l.IndexCacheBytes+l.TopIndexCacheBytes
			if l.FilterConsulted {
				memory += l.FilterCacheBytes
			}
		}

		blocks, bytes := reads(t, traced, setup, c.Cache)
		for _, f := range []struct {
			name        string
			said, built float64
			maximum     float64
		}{
			{"block_reads_per_get", c.Reads, blocks, tracedError},
			{"bytes_read_per_get", c.Bytes, bytes, testedErrors()["bytes_read_per_get"]},
			{"disk_bytes", float64(c.Disk), float64(disk), testedErrors()["disk_bytes"]},
			{"memory_bytes", float64(c.Memory), float64(memory), testedErrors()["memory_bytes"]},
		} {
			off := f.said/f.built - 1
			t.Logf("%v: %s %.5g, built %.5g (%+.2f %%)", c.Options, f.name, f.said, f.built,
				100*off)
			if worst[f.name] = max(worst[f.name], math.Abs(off)); math.Abs(off) > f.maximum {
				t.Errorf("%v: %s is off by %.2f %%", c.Options, f.name, 100*off)
			}
		}
	}

	t.Logf("worst: %v", worst)
}

// TestTimeIsMeasured predicts what Gets of tables of several options cost a processor, in an order
// that is compared with what they cost when the tables are built and read from the page cache. Time
// depends on what else runs, so that it is tested only if that is asked for.
//
//	go test -v -run TimeIsMeasured ./internal/ask/tune -proved-keys 1000000
func TestTimeIsMeasured(t *testing.T) {
	if *provedKeys == 0 {
		t.Skip("it measures time")
	}

	e, profile := pebble2.Engine{}, pebbledb.BenchKVDB().Name
	base := load(t, e, profile, workload.FillSorted, keyspace.TrieNode, *provedKeys, nil)
	a := Request{
		Gets:   base.gets(200_000, 0.3),
		Levels: base.levels,
		Seeds:  []uint64{5},
		Cores:  2,
		Tell:   func(result.Event) {},
		Goal:   Time,
	}

	a.Run = func(ctx context.Context, spec *bench.Spec) (*result.Run, error) {
		return bench.Run(ctx, e, spec, a.Tell)
	}
	if errs := a.Profiled(profile, nil); len(errs) > 0 {
		t.Fatal(errs)
	}

	cache := int64(*provedKeys) * 5
	s := &search{
		Request: &a,
		kind:    a.Kind,
		gets:    200_000,
		cache:   cache,
		absent:  0.3,
		rates:   map[rateOf]float64{},
		ratios:  map[ratioOf]float64{},
		known:   map[tablemodel.TableOptions]tuned.Config{},
		reserve: curve.MemTables("pebble2", profile, cache, true),
	}

	if err := errors.Join(s.look(t.Context()), s.sample(t.Context(), 1)); err != nil {
		t.Fatal(err)
	}

	costs, err := s.measureCosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	t.Logf("%+v", costs)
	type point struct{ said, measured float64 }
	var points []point
	for _, change := range []func(*tablemodel.TableOptions){
		func(*tablemodel.TableOptions) {},
		func(t *tablemodel.TableOptions) { t.Compression = "none" },
		func(t *tablemodel.TableOptions) { t.Compression = "zstd" },
		func(t *tablemodel.TableOptions) { t.BlockBytes = 1 << 10 },
		func(t *tablemodel.TableOptions) { t.BlockBytes = 16 << 10 },
		func(t *tablemodel.TableOptions) { t.BlockBytes, t.Compression = 32<<10, "none" },
		func(t *tablemodel.TableOptions) { t.BlockBytes, t.Compression = 32<<10, "zstd" },
		func(t *tablemodel.TableOptions) { t.LastFilters = true },
		func(t *tablemodel.TableOptions) { t.FilterBits = 5 },
		func(t *tablemodel.TableOptions) {
			t.BlockBytes, t.Compression, t.LastFilters = 16<<10, "zstd", true
		},
	} {
		to := s.Present
		change(&to)
		if err := s.predict(t.Context(), []tablemodel.TableOptions{to}); err != nil {
			t.Fatal(err)
		}

		c := s.known[to]
		built := load(t, e, profile, workload.FillSorted, keyspace.TrieNode, *provedKeys, c.Options)
		spec := built.gets(s.gets, 0.3).Spec
		spec.Verb, spec.Out, spec.ReadOnly, spec.CacheBytes, spec.WarmupGets = bench.Read,
			t.TempDir(), true, cache, s.warmup()
		run, err := a.Run(t.Context(), &spec)
		if err != nil || run.Status != result.OK {
			t.Fatal(err, run)
		}

		points = append(points, point{c.CPU.OrZero(),
			run.Figures.OrZero(figure.CPUTimePerGet) / 1e3})
		t.Logf("%v: %.4f blocks, %.4f measured; %.2f us, measured %.2f us", c.Options, c.Reads,
			run.Figures.OrZero(figure.BlockReadsPerGet), c.CPU.OrZero(),
			run.Figures.OrZero(figure.CPUTimePerGet)/1e3)
	}

	pairs, wrong, worst := 0, 0, 0.0
	for i, a := range points {
		for _, b := range points[:i] {
			if pairs++; (a.said < b.said) != (a.measured < b.measured) {
				wrong, worst = wrong+1, max(worst, math.Abs(a.said/b.said-1))
			}
		}
	}

	t.Logf("%d of %d pairs in another order than measured; they were predicted to differ by up "+
		"to %.1f %%", wrong, pairs, 100*worst)
	if worst > testedErrors()["cpu_us_per_get"] {
		t.Error("times that differ by more than is said were in another order")
	}
}

// TestCostsAreNotNegative: what two measurements say of a block and its bytes, also where one was
// disturbed.
func TestCostsAreNotNegative(t *testing.T) {
	for _, c := range []struct{ small, large, each, perByte float64 }{
		{small: 5000, large: 33_000, each: 1000, perByte: 0.9765625},
		{small: 1000, large: 33_000, each: 0, perByte: 1000. / 4096}, // the large ones were slow
		{small: 5000, large: 4000, each: 5000, perByte: 0},           // the small ones were
		{small: 0, large: 4000, each: 0, perByte: 0},
	} {
		each, perByte := costPerByte(4096, c.small, 32_768, c.large)
		if each != c.each || perByte != c.perByte {
			t.Errorf("%+v: each %v, per byte %v", c, each, perByte)
		}
	}
}

// TestPassesAreCounted compares write amplification with the engine's own count of a load in random
// order.
func TestPassesAreCounted(t *testing.T) {
	for name, e := range map[string]engine.Engine{
		"pebble1": pebble1.Engine{},
		"pebble2": pebble2.Engine{},
	} {
		for _, base := range []int{1, 4, 16} {
			if testing.Short() && base != 4 || !testring.All() && name == "pebble1" {
				continue
			}

			comparePasses(t, e, pebbledb.BenchKVDB().Name,
				map[string]string{
					"LBaseMaxBytes":  fmt.Sprint(base, "MiB"),
					"MemTableSize":   fmt.Sprint(base, "MiB"),
					"TargetFileSize": "1MiB",
				}, name)
		}
	}
}

func comparePasses(
	t *testing.T, e engine.Engine, profile string, options map[string]string, name string,
) {
	built := load(t, e, profile, workload.FillRandom, keyspace.TrieNode, 300_000, options)
	a := Request{
		Gets:  built.gets(1000, 0),
		Seeds: []uint64{5},
		Cores: 2,
		Tell:  func(result.Event) {},
	}

	if err := a.Choose(t.Context(), built.run, ""); err != nil {
		t.Fatal(err)
	}

	if errs := a.Profiled(profile, options); len(errs) > 0 {
		t.Fatal(errs)
	}

	s := &search{
		Request: &a,
		kind:    a.Kind,
		gets:    1000,
		ratios:  map[ratioOf]float64{},
		rates:   map[rateOf]float64{},
	}

	if err := errors.Join(s.look(t.Context()), s.sample(t.Context(), 1)); err != nil {
		t.Fatal(err)
	}

	said, counted := s.described(s.Present).Writes.OrZero(),
		built.loaded.Figures.OrZero(figure.WriteAmplification)
	t.Logf("%s, %v: %.2f, counted %.2f (%+.1f %%)", name, options, said, counted,
		100*(said/counted-1))
	const maximum = 0.4 // how far compactions fall behind depends on the machine
	if math.Abs(said/counted-1) > maximum {
		t.Errorf("%s, %v: %.2f, counted %.2f", name, options, said, counted)
	}
}
