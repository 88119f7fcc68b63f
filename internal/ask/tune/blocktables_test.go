//go:build cgo

package tune

import (
	"maps"
	"strconv"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/model/tablemodel"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// outside is RocksDB's own way: filters and indexes whole, beside the cache.
func outside(blockBytes int64, bits float64) tablemodel.TableOptions {
	return tablemodel.TableOptions{
		BlockBytes:           blockBytes,
		FilterBits:           bits,
		LastFilters:          true,
		MetadataOutsideCache: true,
	}
}

// parted has filters and indexes in parts, in the cache.
func parted(blockBytes, partBytes int64, bits float64) tablemodel.TableOptions {
	return tablemodel.TableOptions{
		BlockBytes:       blockBytes,
		IndexBytes:       partBytes,
		FilterBits:       bits,
		PartitionFilters: true,
		LastFilters:      true,
	}
}

// whole has filters and indexes whole, in the cache.
func whole(blockBytes int64, bits float64) tablemodel.TableOptions {
	t := outside(blockBytes, bits)
	t.MetadataOutsideCache = false
	return t
}

// forHits has no filters on the last level.
func forHits(t tablemodel.TableOptions) tablemodel.TableOptions {
	t.LastFilters = false
	return t
}

// otherTables are predicted from the first one. The short form builds the first three, the long one
// all.
func otherTables() []tablemodel.TableOptions {
	return []tablemodel.TableOptions{outside(4<<10, 10), parted(16<<10, 4<<10, 10),
		forHits(parted(4<<10, 4<<10, 10)), outside(16<<10, 10), whole(4<<10, 10),
		parted(4<<10, 4<<10, 10), parted(8<<10, 16<<10, 14), outside(1<<10, 5),
		outside(32<<10, 10), parted(2<<10, 4<<10, 20),
		outside(8<<10, 10), forHits(outside(4<<10, 10)), parted(8<<10, 4<<10, 10),
		outside(2<<10, 14), whole(16<<10, 10), parted(32<<10, 4<<10, 8),
		forHits(parted(16<<10, 4<<10, 14)), outside(4<<10, 20), parted(4<<10, 16<<10, 5),
		forHits(whole(8<<10, 10))}
}

// TestBlockTablesAreBuilt is TestPredictedIsBuilt with RocksDB and values that do not compress. The
// first database is loaded in random order.
//
//	CGO_ENABLED=1 go test -v -run BlockTablesAreBuilt ./internal/ask/tune
//	CGO_ENABLED=1 go test -v -timeout 1h -run BlockTablesAreBuilt ./internal/ask/tune \
//	  -proved-keys 2000000
func TestBlockTablesAreBuilt(t *testing.T) {
	keys, buffer, p := uint64(400_000), int64(2<<20),
		proof{
			tables:  otherTables()[:10],
			missing: []float64{0, 0.5},
			caches:  []int64{1 << 20, 3 << 20, 8 << 20},
			gets:    200_000,
		}

	if testing.Short() {
		keys, buffer, p.gets, p.tables, p.caches = 150_000, 1<<20, 60_000, otherTables()[:3],
			[]int64{512 << 10, 1536 << 10, 4 << 20}
	}

	if p.enlarge(&keys, otherTables()); *provedKeys > 0 {
		buffer = 8 << 20
	}

	e := rocksdb.Engine{}
	asked := Request{Gets: curve.TraceRequest{Spec: bench.Spec{Engine: e.Info().Name}}}
	if errs := asked.Profiled("default", nil); len(errs) > 0 {
		t.Fatal(errs)
	}

	number := func(bytes int64) string { return strconv.FormatInt(bytes, 10) }
	var run *result.Run // of inspect, of the first one
	p.engine, p.options = e, func(tables tablemodel.TableOptions) map[string]string {
		options := map[string]string{
			"write_buffer_size":                   number(buffer),
			"target_file_size_base":               number(buffer / 2),
			"max_bytes_for_level_base":            number(2 * buffer),
			"level0_stop_writes_trigger":          "4",
			"level0_slowdown_writes_trigger":      "4",
			"soft_pending_compaction_bytes_limit": "1",
			"hard_pending_compaction_bytes_limit": "1",
		}

		maps.Copy(options, asked.Kind.OptionMap(tables))
		return options
	}

	p.load = func(t *testing.T, options map[string]string) database {
		d := load(t, e, "default", workload.FillRandom, keyspace.Random, keys, options)
		run = d.run
		return d
	}

	p.search = func(t *testing.T, from curve.TraceRequest, _ []engine.Level) *search {
		a := Request{Gets: from, Seeds: []uint64{5}, Cores: 2, Tell: func(result.Event) {}}
		if err := a.Choose(t.Context(), run, ""); err != nil {
			t.Fatal(err)
		}

		if err := a.ReadStoredOptions(a.Gets.Spec.Dir); err != nil {
			t.Fatal(err)
		}

		if a.Present != p.tables[0] {
			t.Fatalf("%+v, built with %+v", a.Present, p.tables[0])
		}

		s := &search{Request: &a, kind: a.Kind, gets: p.gets}
		var err error
		if s.levels, err = tablemodel.New(a.Levels, s.kind, a.Present); err != nil {
			t.Fatal(err)
		}

		return s
	}

	p.reserve = func(int64) int64 { return 0 }
	p.run(t)
}
