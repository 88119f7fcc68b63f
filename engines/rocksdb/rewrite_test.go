//go:build cgo

package rocksdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

const rewrittenKeys = 20_000

// benchWrites has RocksDB's own benchmark write to a database, with levels so small that it gets
// several of them.
func benchWrites(t *testing.T, dir string, arguments ...string) {
	t.Helper()
	fixed := []string{"--db=" + dir, "--num=" + strconv.Itoa(rewrittenKeys), "--seed=1",
		"--key_size=16", "--value_size=100", "--bloom_bits=10",
		"--compression_type=none", "--write_buffer_size=131072", "--target_file_size_base=65536",
		"--max_bytes_for_level_base=131072",
		"--max_bytes_for_level_multiplier=4"}

	if said, err := exec.Command("db_bench",
		append(fixed, arguments...)...).CombinedOutput(); err != nil {
		t.Fatalf("db_bench %s: %v (scripts/needs db_bench:rocksdb-tools installs it)\n%s",
			arguments, err, said)
	}
}

// rewriteInto rewrites a database into one at dir, and returns its levels. Some of the few tables
// may lie in a gap of the next level.
func rewriteInto(
	t *testing.T, dir string, from *db, overrides map[string]string,
) (levels []engine.Level, err error) {
	t.Helper()
	options, err := from.RewriteOptions()
	if err != nil {
		t.Fatal(err)
	}

	maps.Copy(options, overrides)
	opened, err := Engine{}.Open(t.Context(), engine.Options{
		Dir:       dir,
		Create:    true,
		Overrides: options,
	})
	if err != nil {
		t.Fatal(err)
	}

	to := opened.(*db)
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := to.Rewrite(t.Context(), from, func(int, int) {}); err != nil {
		return nil, err
	}

	for _, w := range to.Warnings() {
		if w.Code != "tables_moved" {
			t.Errorf("warning %v", w)
		}
	}

	return levelsOf(t, to), nil
}

// TestRewrite rewrites databases that RocksDB's own benchmark wrote, with keys that were
// overwritten and deleted, and with tables in level 0. RocksDB finds the same in both; places of
// tables, and with the same options the blocks that each Get asks for, are the same, too; and what
// Gets are said to ask for of tables that were taken over is what RocksDB counts. Which tables
// there are on which levels is a matter of when RocksDB compacts: what is expected follows from
// those that are there.
func TestRewrite(t *testing.T) {
	for name, options := range map[string]string{
		"static levels": "--level_compaction_dynamic_level_bytes=false",
		"dynamic levels in parts": "--level_compaction_dynamic_level_bytes=true " +
			"--partition_index_and_filters=true --metadata_block_size=512",
		"for hits": "--level_compaction_dynamic_level_bytes=true " +
			"--optimize_filters_for_hits=true",
		"for hits in small tables": "--level_compaction_dynamic_level_bytes=true " +
			"--optimize_filters_for_hits=true --target_file_size_base=4096",
		"ribbon": "--level_compaction_dynamic_level_bytes=true --use_ribbon_filter=true",
	} {
		t.Run(name, func(t *testing.T) {
			old := strings.HasPrefix(Engine{}.Info().Version, "7.")
			if testing.Short() && old != (name == "static levels" || name == "for hits") {
				t.Skip("one of both libraries has it; in the long form both do")
			}

			dir := filepath.Join(t.TempDir(), "from")
			shape := append(strings.Fields(options), "--cache_index_and_filter_blocks=true")
			// RocksDB's compactions then decide by what lies below at the time, or where tables
			// come from.
			forHits := strings.HasPrefix(name, "for hits")
			byPlace := forHits || name == "ribbon"
			if strings.Contains(name, "parts") && !old {
				byPlace = true // versions differ in where they cut parts
			}

			benchWrites(t, dir, append(shape, "--benchmarks=filluniquerandom,waitforcompaction")...)
			benchWrites(t, dir,
				append(shape, "--use_existing_db=1", "--disable_auto_compactions=true",
					"--writes=1500", "--deletes=1500",
					"--benchmarks=overwrite,flush,deleterandom,flush")...)

			from := openAt(t, engine.Options{Dir: dir, Foreign: true, ReadOnly: true})
			same, other := filepath.Join(t.TempDir(), "same"), filepath.Join(t.TempDir(), "other")
			for to, overrides := range map[string]map[string]string{
				same:  nil,
				other: {"block_size": "16384", "compression": "kSnappyCompression"},
			} {
				before := levelsOf(t, from)
				after, err := rewriteInto(t, to, from, overrides)
				if err != nil {
					t.Fatal(err)
				}

				strict := overrides == nil && !byPlace
				if len(before) < 2 || before[0].Level != 0 { // not compacted, flushed last
					t.Fatalf("levels %+v", before)
				}

				was, is := sum(before), sum(after)
				// Blocks of four times the size, but for the last one of each table.
				maxBlocks := was.DataBlocks/3 + int64(was.Files)
				if is.Keys != was.Keys || is.Files != was.Files ||
					overrides != nil && is.DataBlocks > maxBlocks ||
					strict &&
						(is.DataBlocks != was.DataBlocks || is.FilterBytes != was.FilterBytes ||
							is.IndexBlocks != was.IndexBlocks) {
					t.Errorf("%+v, rewritten %+v", was, is)
				}

				samePlaces(t, dir, to, forHits)
				sameGets(t, dir, to, strict)
			}
		})
	}
}

// samePlaces looks for the table that each table of dir became: it has the same bounds and as many
// keys, and lies as deep, or deeper where no older table has keys between its own. A table of the
// last level has no filter if filters are for hits, wherever others have come to lie.
func samePlaces(t *testing.T, dir, rewritten string, forHits bool) {
	t.Helper()
	was, is := tablesIn(t, dir), tablesIn(t, rewritten)
	depth := map[int]int{0: 0} // of levels that have tables, by their numbers
	for _, table := range was {
		if _, known := depth[table.Level]; !known {
			depth[table.Level] = len(depth)
		}
	}

	places := make([]int, len(was)) // levels of the rewritten tables
	for i, table := range was {
		at := slices.IndexFunc(is, func(r blockbased.Written) bool {
			return bytes.Equal(r.Smallest, table.Smallest) &&
				bytes.Equal(r.Largest, table.Largest) && r.Keys == table.Keys
		})

		if at < 0 {
			t.Fatalf("table %06d of level %d was not rewritten", table.File, table.Level)
		}

		places[i] = is[at].Level
		last := depth[table.Level] == len(depth)-1
		if filtered := is[at].FilterBytes > 0; filtered == (forHits && last) ||
			places[i] < depth[table.Level] {
			t.Errorf("table %06d of level %d (%d of %d) lies on level %d, with a filter: %v",
				table.File, table.Level, depth[table.Level],
				len(depth)-1, places[i], filtered)
		}

		is = slices.Delete(is, at, at+1)
	}

	for i, newer := range was {
		for j, older := range was[i+1:] {
			overlap := bytes.Compare(newer.Smallest, older.Largest) <= 0 &&
				bytes.Compare(older.Smallest, newer.Largest) <= 0
			if above := places[i] < places[i+1+j] || places[i] == 0; !overlap || above {
				continue
			}

			// Bounds say too much: a small table may lie between two neighbouring keys of an older
			// one, and then RocksDB may put it below that.
			if places[i] == places[i+1+j] || hasKeyWithin(t, dir, older, newer) {
				t.Errorf("table %06d lies on level %d, and the older table %06d with keys "+
					"between its own on level %d", newer.File, places[i],
					older.File, places[i+1+j])
			}
		}
	}
}

// hasKeyWithin tells whether a table in dir has a key within the bounds of another one.
func hasKeyWithin(t *testing.T, dir string, table, other blockbased.Written) (found bool) {
	t.Helper()
	visit := func(key, _ []byte, _ bool) error {
		found = found || bytes.Compare(other.Smallest, key) <= 0 &&
			bytes.Compare(key, other.Largest) <= 0
		return nil
	}
	if err := blockbased.EachEntry(dir, table.Facts, &blockbased.Reading{}, visit); err != nil {
		t.Fatal(err)
	}
	return found
}

// tablesIn are the tables of the default family in dir, by level; those of level 0 from the newest.
func tablesIn(t *testing.T, dir string) []blockbased.Written {
	t.Helper()
	families, err := blockbased.ReadTableProperties(dir)
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families: %v", len(families), err)
	}
	return families[0].Tables
}

func sum(levels []engine.Level) (all engine.Level) {
	for _, l := range levels {
		all.Keys, all.Files, all.DataBlocks = all.Keys+l.Keys, all.Files+l.Files,
			all.DataBlocks+l.DataBlocks
		all.FilterBytes, all.IndexBlocks = all.FilterBytes+l.FilterBytes,
			all.IndexBlocks+l.IndexBlocks
	}
	return all
}

func levelsOf(t *testing.T, d *db) []engine.Level {
	t.Helper()
	shape, err := d.Shape()
	if err != nil {
		t.Fatal(err)
	}
	return shape.Levels
}

// sameGets makes the same Gets of both databases, with -short of every fourth key. sameBlocks: each
// asks for as many blocks.
func sameGets(t *testing.T, dir, rewritten string, sameBlocks bool) {
	t.Helper()
	type answer struct {
		found  bool
		value  []byte
		blocks int
	}

	var first []answer
	there, step := 0, 1
	if testing.Short() {
		step = 4
	}

	for _, dir := range []string{dir, rewritten} {
		// so that each access is a read
		d := openAt(t, engine.Options{Dir: dir, Foreign: true, ReadOnly: true, CacheBytes: 1})
		resolver, err := blockbased.Open(dir, "", nil)
		if err != nil {
			t.Fatal(err)
		}

		r, walk, keys, traced := reading(t, d), resolver.Walk(), resolver.CacheKeys(),
			filepath.Join(t.TempDir(), "accesses")
		stop, err := d.traceAccesses(traced)
		if err != nil {
			t.Fatal("tracer:", err)
		}

		before := d.Counters()
		var all []answer
		var accesses []access
		for i := 0; i < rewrittenKeys*11/10; i += step {
			// as db_bench makes it
			key := append(binary.BigEndian.AppendUint64(nil, uint64(i)), "00000000"...)
			value, found, err := r.Get(key, make([]byte, 0, 128))
			numbers, foundToo, err2 := walk.Get(key, false, nil)
			if err != nil || err2 != nil || found != foundToo {
				t.Fatalf("key %d: found %v and %v: %v, %v", i, found, foundToo, err, err2)
			}

			if found {
				there++
			}

			all = append(all, answer{found, value, len(numbers)})
			for _, number := range numbers {
				b, err := resolver.Block(number)
				if err != nil {
					t.Fatal(err)
				}
				accesses = append(accesses, accessTo(&b, keys))
			}
		}

		if stop != nil { // the library has a tracer
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			compareTraces(t, accesses, readTrace(t, traced))
		}

		if reads := d.Counters().Sub(before).Reads.Total().Count; reads != int64(len(accesses)) {
			t.Errorf("%d accesses, RocksDB reads %d blocks", len(accesses), reads)
		}

		if err := resolver.Close(); err != nil {
			t.Fatal(err)
		}

		for i, a := range first {
			if b := all[i]; a.found != b.found || !bytes.Equal(a.value, b.value) ||
				sameBlocks && a.blocks != b.blocks {
				t.Fatalf("key %d: %v, rewritten %v", i, a, b)
			}
		}

		first = all
	}

	if all := 2 * rewrittenKeys / step; there < all/2 || there == all {
		t.Errorf("%d of %d keys are there", there/2, all/2)
	}
}

// TestRewriteRefuses tables whose entries need more than a value.
func TestRewriteRefuses(t *testing.T) {
	for name, arguments := range map[string]string{
		"blobs": "--benchmarks=filluniquerandom,flush --enable_blob_files=true --min_blob_size=0",
		"merges": "--benchmarks=mergerandom,flush --merge_operator=put " +
			"--disable_auto_compactions=true",
		"ranges": "--benchmarks=filluniquerandom,flush --writes_per_range_tombstone=1000 " +
			"--max_num_range_tombstones=5 --disable_auto_compactions=true",
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "from")
			benchWrites(t, dir, strings.Fields(arguments)...)
			from := openAt(t, engine.Options{Dir: dir, Foreign: true, ReadOnly: true})
			_, err := rewriteInto(t, filepath.Join(t.TempDir(), "to"), from, nil)
			if engine.CodeOf(err) != engine.CodeUnsupported {
				t.Errorf("%v", err)
			}
		})
	}

	from := openAt(t, engine.Options{Dir: filepath.Join(t.TempDir(), "empty"), Create: true})
	if _, err := rewriteInto(t, filepath.Join(t.TempDir(), "to"), from, nil); err != nil {
		t.Error(fmt.Errorf("an empty database: %w", err))
	}
}
