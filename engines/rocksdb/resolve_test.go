//go:build cgo

package rocksdb

import (
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// optionSets are the option sets whose Gets are resolved: every kind of index and of filter,
// metadata in and outside of the cache, pinned and not, and every compression.
func optionSets() map[string]map[string]string {
	sets := map[string]map[string]string{}
	add := func(name string, more ...string) {
		set := map[string]string{}
		for _, option := range more {
			name, value, _ := strings.Cut(option, "=")
			set[name] = value
		}

		sets[name] = set
	}

	const (
		in    = "cache_index_and_filter_blocks=true"
		out   = "cache_index_and_filter_blocks=false"
		parts = "index_type=kTwoLevelIndexSearch"
		pf    = "partition_filters=true"
		small = "metadata_block_size=512"
		top   = "pin_top_level_index_and_filter=true"
		noTop = "pin_top_level_index_and_filter=false"
		l0    = "pin_l0_filter_and_index_blocks_in_cache=true"
		first = "index_type=kBinarySearchWithFirstKey"
	)

	add("outside", out)
	add("outside, no filter", out, "filter_policy=nullptr")
	add("outside, partitions", out, parts, pf, small)
	add("outside, partitions, L0 pinned", out, parts, pf, small, l0)
	add("inside", in)
	add("inside, no filter", in, "filter_policy=nullptr")
	add("inside, L0 pinned", in, l0)
	add("inside, all pinned", in, "metadata_cache_options={unpartitioned_pinning=kAll;"+
		"partition_pinning=kAll;top_level_index_pinning=kAll;}")

	add("inside, partitions, top pinned", in, parts, pf, small, top)
	add("inside, partitions, nothing pinned", in, parts, pf, small, noTop)
	add("inside, partitions, L0 pinned", in, parts, pf, small, noTop, l0)
	add("inside, partitioned index, whole filter", in, parts, small, noTop)
	add("inside, ribbon", in, "filter_policy=ribbonfilter:9.9:0")
	add("inside, ribbon in partitions", in, parts, pf, small, "filter_policy=ribbonfilter:10:-1")
	add("inside, old bloom", in, "format_version=4", "checksum=kCRC32c")
	add("inside, format 2", in, "format_version=2", "checksum=kxxHash",
		"compression=kZlibCompression")
	add("inside, format 3, xxHash64", in, "format_version=3", "checksum=kxxHash64",
		"compression=kLZ4Compression")
	add("inside, format 5, partitions", in, parts, pf, small, "format_version=5", "checksum=kXXH3")
	add("inside, newest format", in, "format_version=7", "compression=kZSTD")
	add("inside, first keys", in, first, noTop)
	add("inside, first keys, unshortened", in, first, "index_shortening=kNoShortening")
	add("inside, hash index of blocks", in, "data_block_index_type=kDataBlockBinaryAndHash")
	add("inside, no filters on the last level", in, "optimize_filters_for_hits=true")
	add("inside, prefixes", in, "prefix_extractor=fixed:3", "whole_key_filtering=false")
	add("inside, hash index", in, "index_type=kHashSearch", "prefix_extractor=fixed:1",
		"filter_policy=nullptr")
	add("inside, hash index of longer prefixes", in, "index_type=kHashSearch",
		"prefix_extractor=capped:2", "block_size=1024")
	add(
		"inside, dictionaries",
		in,
		"compression=kZSTD",
		"compression_opts={max_dict_bytes=2048;zstd_max_train_bytes=16384;}",
	)

	add("inside, raw dictionaries", in, "compression=kLZ4Compression",
		"compression_opts={max_dict_bytes=4096;}")
	add("inside, not compressed, large blocks", in, "compression=kNoCompression",
		"block_size=16384", "index_block_restart_interval=8")
	return sets
}

// resolvedGets is how many Gets of each option set are compared: make slow asks for more.
var resolvedGets = flag.Int("resolved-gets", 5_000, "Gets of each option set")

// TestResolvedGetsOfDebian is TestResolvedGets, TestResolvedRanges, TestSimulatedReads and
// TestRewrite with the library of Debian's tools. With -short it takes a sixth of the option sets,
// and TestResolvedGets a third, others.
func TestResolvedGetsOfDebian(t *testing.T) {
	tool, err := exec.LookPath("db_bench")
	if err != nil {
		t.Fatalf("%v: scripts/needs db_bench:rocksdb-tools installs it", err)
	}

	needs, err := exec.Command("ldd", tool).Output()
	if err != nil {
		t.Fatal(err)
	}

	library := regexp.MustCompile(`librocksdb\.so\S* => (\S+)`).FindSubmatch(needs)
	if library == nil {
		t.Fatalf("%s has no library of RocksDB's:\n%s", tool, needs)
	}

	const tests = "^(TestResolvedGets|TestResolvedRanges|TestSimulatedReads|TestRewrite)$"
	again := exec.Command(os.Args[0], "-test.run="+tests,
		fmt.Sprintf("-resolved-gets=%d", *resolvedGets),
		fmt.Sprintf("-test.short=%t", testing.Short()))
	again.Env = append(os.Environ(), LibraryVariable+"="+string(library[1]))
	if said, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestResolvedGets compares the blocks that Gets are said to ask for with RocksDB's own counters,
// and where the library has a tracer of its block cache, with what it writes: each access, in
// order, by type, table and place in the table.
func TestResolvedGets(t *testing.T) {
	const n = 12_000
	old := strings.HasPrefix(Engine{}.Info().Version, "7.")
	sets := optionSets()
	for i, name := range slices.Sorted(maps.Keys(sets)) {
		set := sets[name]
		here := i%3 == 0
		if old {
			here = i%6 == 1
		}

		if testing.Short() && !here && set["format_version"] != "7" {
			continue
		}

		if old && set["format_version"] == "7" {
			set["format_version"] = "5"
		}

		t.Run(name, func(t *testing.T) {
			shape := map[string]string{
				"write_buffer_size":        "131072",
				"target_file_size_base":    "65536",
				"max_bytes_for_level_base": "262144",
				"disable_auto_compactions": "false",
			}

			maps.Copy(shape, set)
			o := engine.Options{
				Dir:        filepath.Join(t.TempDir(), "db"),
				Create:     true,
				CacheBytes: 1 << 20,
				Overrides:  shape,
			}

			t.Run("write", func(t *testing.T) { written(t, openAt(t, o), n) })
			o.Create, o.Overrides["disable_auto_compactions"] = false, "true"
			t.Run("flush the log", func(t *testing.T) { openAt(t, o) })
			d := openAt(t, o)
			resolver, err := blockbased.Open(o.Dir, "", nil)
			if err != nil {
				t.Fatal(err)
			}

			defer resolver.Close()
			traced := filepath.Join(t.TempDir(), "accesses")
			stop, err := d.traceAccesses(traced)
			if err != nil || (stop == nil) != old {
				t.Fatal("tracer:", err)
			}

			var accesses []access
			keys := resolver.CacheKeys()
			said := getsAgree(t, d, resolver, n, rand.NewPCG(1, 2), func(b *cachesim.Block) {
				accesses = append(accesses, accessTo(b, keys))
			})

			if stop != nil {
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				compareTraces(t, accesses, readTrace(t, traced))
			}

			batchesAgree(t, d, resolver, n+n/4)
			shapeOf, err := d.Shape()
			if err != nil {
				t.Fatal(err)
			}

			t.Log(said, fmt.Sprintf("%d levels, %d files", len(shapeOf.Levels), shapeOf.Files))
		})
	}
}

// getsAgree compares the blocks that random Gets are said to ask for with RocksDB's own counters.
// Keys 0 to n-1 are in the database, and a fifth of those that are asked for is not. each hears of
// every access, in order. It returns how many there were, by type of block.
func getsAgree(
	t *testing.T, d *db, resolver *blockbased.Resolver, n uint64, source rand.Source,
	each func(*cachesim.Block),
) (said map[string]int64) {
	t.Helper()
	r, walk, rng := reading(t, d), resolver.Walk(), rand.New(source)
	var want [engine.NumBlockTypes]int64
	var numbers []uint32
	before, dst := d.Counters(), make([]byte, 0, 128)
	for range *resolvedGets {
		i := rng.Uint64N(n + n/4)
		key := keyOf(i)
		_, found, err := r.Get(key, dst)
		if err != nil {
			t.Fatal(err)
		}

		var foundToo bool
		if numbers, foundToo, err = walk.Get(key, found, numbers); err != nil || found != foundToo {
			t.Fatalf("key %d: found %v and %v: %v", i, found, foundToo, err)
		}

		for _, number := range numbers {
			b, err := resolver.Block(number)
			if err != nil {
				t.Fatal(err)
			}

			want[b.Type]++
			each(&b)
		}
	}

	said = byKind(want)
	if counted := byKind(*d.Counters().Sub(before).Accesses); !maps.Equal(said, counted) {
		t.Errorf("%v, RocksDB counts %v", said, counted)
	}

	return said
}

// TestResolvedFewFiles: shapes of few files, which small databases and those without compactions
// have: nothing but a memtable, and level 0 alone with files that overlap. A filter of one file can
// pass a key that is in an older one.
func TestResolvedFewFiles(t *testing.T) {
	for _, files := range []int{0, 1, 2, 6} {
		for name, set := range map[string]map[string]string{
			"whole filters": {"cache_index_and_filter_blocks": "true"},
			"partitions": {"cache_index_and_filter_blocks": "true", "partition_filters": "true",
				"index_type": "kTwoLevelIndexSearch", "metadata_block_size": "512"},
		} {
			t.Run(fmt.Sprintf("%d files, %s", files, name), func(t *testing.T) {
				fewFiles(t, files, set)
			})
		}
	}
}

// fewFiles makes a database of so many files in level 0 and compares its Gets with RocksDB's
// counters.
func fewFiles(t *testing.T, files int, set map[string]string) {
	const n = 12_000
	options := map[string]string{
		"disable_auto_compactions": "true",
		"write_buffer_size":        "67108864",
	}

	maps.Copy(options, set)
	o := engine.Options{
		Dir:        filepath.Join(t.TempDir(), "db"),
		Create:     true,
		CacheBytes: 1 << 20,
		Overrides:  options,
	}

	// Each opening writes what the log has into a file.
	for part := range max(1, files) {
		t.Run("write", func(t *testing.T) { putPart(t, openAt(t, o), n, part, max(1, files)) })
		o.Create = false
		if files > 0 {
			t.Run("flush the log", func(t *testing.T) { openAt(t, o) })
		}
	}

	d := openAt(t, o)
	shape, err := d.Shape()
	if err != nil {
		t.Fatal(err)
	}

	if files > 0 && shape.Levels[0].Files != files {
		t.Fatalf("%d files in level 0, want %d", shape.Levels[0].Files, files)
	}

	resolver, err := blockbased.Open(o.Dir, "", nil)
	if err != nil {
		t.Fatal(err)
	}

	defer resolver.Close()
	getsAgree(t, d, resolver, n, rand.NewPCG(3, 4), func(*cachesim.Block) {})
	batchesAgree(t, d, resolver, n+n/4)
}

// putPart puts the keys of one of so many parts, all over the key space.
func putPart(t *testing.T, d *db, n uint64, part, parts int) {
	t.Helper()
	w, err := d.Writer()
	if err != nil {
		t.Fatal(err)
	}

	for i := range n {
		if i%uint64(parts) == uint64(part) {
			if err := w.Put(keyOf(i), make([]byte, 50)); err != nil {
				t.Fatal(err)
			}
		}
	}

	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// access is one to a block, as RocksDB's tracer of its block cache writes it.
type access struct {
	kind byte // 7: index, 8: filter, 9: data, 10: dictionary
	file uint64
	key  string // in the block cache: tells where in the file
}

func accessTo(b *cachesim.Block, keys map[uint64][2]uint64) access {
	kinds := map[engine.BlockType]byte{
		engine.Index:       7,
		engine.SingleIndex: 7,
		engine.TopIndex:    7,
		engine.Filter:      8,
		engine.Data:        9,
		engine.Meta:        10,
	}

	key := binary.LittleEndian.AppendUint64(nil, keys[b.File][0])
	return access{kinds[b.Type], b.File,
		string(binary.LittleEndian.AppendUint64(key, keys[b.File][1]^b.Offset>>2))}
}

// readTrace reads the accesses of Gets: records of a time, a type and a length. (Source:
// trace_replay/block_cache_tracer.cc.)
func readTrace(t *testing.T, path string) (accesses []access) {
	t.Helper()
	const headBytes, userGet = 8 + 1 + 4, 1
	rest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	for len(rest) > headBytes {
		kind, end := rest[8], headBytes+int(binary.LittleEndian.Uint32(rest[9:]))
		payload := rest[headBytes:end]
		rest = rest[end:]
		if kind < 7 {
			continue // the head of the file
		}

		sized := func() []byte {
			n, width := binary.Uvarint(payload)
			b := payload[width : width+int(n)]
			payload = payload[width+int(n):]
			return b
		}

		key := sized()
		payload = payload[16:] // size, column family
		sized()
		if file, caller := binary.LittleEndian.Uint64(payload[4:]), payload[12]; caller == userGet {
			accesses = append(accesses, access{kind, file, string(key)})
		}
	}

	return accesses
}

func compareTraces(t *testing.T, said, traced []access) {
	t.Helper()
	if len(traced) == 0 || len(said) != len(traced) {
		t.Errorf("%d accesses, RocksDB traced %d", len(said), len(traced))
	}

	for i := range min(len(said), len(traced)) {
		if said[i] != traced[i] {
			t.Fatalf("access %d: %v, RocksDB traced %v", i, said[i], traced[i])
		}
	}
}

// written fills a database with n keys and leaves some newer entries, and deletions, in its log.
func written(t *testing.T, d *db, n uint64) {
	fill(t, d, n)
	w, err := d.Writer()
	if err != nil {
		t.Fatal(err)
	}

	for i := uint64(0); i < n; i += 7 {
		if i%2 == 0 {
			err = w.Put(keyOf(i), make([]byte, 50))
		} else {
			err = w.Delete(keyOf(i))
		}

		if err != nil {
			t.Fatal(err)
		}
	}

	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
