//go:build cgo

package rocksdb_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/engines/rocksdb/familytest"
)

const (
	benchKeys  = 20_000
	benchCache = 64 << 10
)

// bench runs RocksDB's own benchmark, of Debian's version, and returns what it says.
func bench(t *testing.T, dir string, arguments ...string) string {
	t.Helper()
	said, err := benchCommand(t, dir, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("db_bench %s: %v\n%s", arguments, err, said)
	}
	return string(said)
}

func benchCommand(t *testing.T, dir string, arguments ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("db_bench")
	if err != nil {
		t.Fatalf("%v: scripts/needs db_bench:rocksdb-tools installs it", err)
	}

	fixed := []string{"--db=" + dir, "--num=" + strconv.Itoa(benchKeys),
		"--write_buffer_size=1048576", "--target_file_size_base=1048576",
		"--max_bytes_for_level_base=2097152", "--compression_type=none", "--bloom_bits=10",
		"--seed=1", "--cache_size=" + strconv.Itoa(benchCache)}

	return exec.Command(path, append(fixed, arguments...)...)
}

// benchKey is how db_bench makes key number i.
func benchKey(i, bytes int) []byte {
	key := binary.BigEndian.AppendUint64(nil, uint64(i))
	return append(key, strings.Repeat("0", bytes-len(key))...)
}

// ticker is one of the statistics that db_bench prints.
func ticker(t *testing.T, said, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(?: .*)? COUNT : (\d+)(?: |$)`).
		FindStringSubmatch(said)
	if found == nil {
		t.Fatalf("db_bench tells no %s:\n%s", name, said)
	}

	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}

	return n
}

// TestOwnersOptions: databases that RocksDB's own benchmark wrote have all their keys, and a Get
// reads as many data blocks as the benchmark's Gets, which are given the same options again.
func TestOwnersOptions(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "logs")
	for _, c := range []struct {
		name       string
		keyBytes   int
		benchmarks string
		options    []string
	}{
		{"filters of prefixes", 32, "filluniquerandom",
			[]string{"--prefix_size=8", "--whole_key_filtering=false"}},
		{"logs elsewhere", 16, "filluniquerandom", []string{"--wal_dir=" + logs}},
		{"nine levels", 16, "filluniquerandom", []string{"--num_levels=9"}},
		{"merges", 16, "filluniquerandom,mergerandom",
			[]string{"--merge_operator=uint64add", "--value_size=8"}},
		{"mapped", 16, "filluniquerandom",
			[]string{"--mmap_read=1", "--compression_type=none"}},
		{"no block cache", 16, "filluniquerandom", []string{"--cache_size=-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			options := append(c.options, "--key_size="+strconv.Itoa(c.keyBytes))
			bench(t, dir, append(options, "--benchmarks="+c.benchmarks+",waitforcompaction")...)
			before := checksum(t, dir)

			db := open(t, engine.Options{Dir: dir, CacheBytes: benchCache})
			got := ownersReads(t, db, c.keyBytes)
			isBenchKey := func(key []byte) error {
				if n := binary.BigEndian.Uint64(key); n >= benchKeys ||
					string(key) != string(benchKey(int(n), c.keyBytes)) {
					return fmt.Errorf("the sampled key %x is none of db_bench's", key)
				}
				return nil
			}
			sampler := db.(engine.KeySampler)
			if err := sampler.SampleKeys(t.Context(), 1000, 1, isBenchKey); err != nil {
				t.Error(err)
			}

			if checksum(t, dir) != before {
				t.Error("a file of the database changed")
			}

			said := bench(t, dir,
				append(options, "--benchmarks=readrandom", "--use_existing_db=true",
					"--readonly=true", "--seed=7", "--statistics",
					"--reads="+strconv.Itoa(2*benchKeys))...)

			if !strings.Contains(said, fmt.Sprintf("(%d of %[1]d found)", 2*benchKeys)) {
				t.Fatalf("db_bench does not find its own keys:\n%s", said)
			}

			want := ticker(t, said, "rocksdb.block.cache.data.miss") / (2 * benchKeys)
			if want == 0 { // without a cache; with the few that opening the tables read
				want = ticker(t, said, "rocksdb.read.block.get.micros") / (2 * benchKeys)
			}
			t.Logf("%.4f data blocks per Get, db_bench: %.4f", got, want)
			if math.Abs(got/want-1) > 0.02 {
				t.Errorf("%.4f data blocks per Get, db_bench: %.4f: more than 2 %% apart", got,
					want)
			}
		})
	}
}

// ownersOption is one option of a database's owner, as db_bench names it.
type ownersOption struct {
	name  string
	flags []string
	// refused options make tables that are not block-based, or orders only their program knows.
	refused bool
	// told options are named in a warning instead of being obeyed.
	told bool
}

// ownersOptions are at least ten of each class (optionsfile) but those that are refused.
func ownersOptions() []ownersOption {
	with := func(flags ...string) ownersOption {
		return ownersOption{name: strings.Join(flags, " "), flags: flags}
	}
	refused := func(flags ...string) ownersOption {
		o := with(flags...)
		o.refused = true
		return o
	}
	told := func(flags ...string) ownersOption {
		o := with(flags...)
		o.told = true
		return o
	}

	return []ownersOption{
		// of the tables, or applied when they are read
		with("--block_size=1024"),
		with("--block_size=16384"),
		with("--block_restart_interval=1"),
		with("--index_block_restart_interval=16"),
		with("--index_shortening_mode=2"),
		with("--use_data_block_hash_index=true"),
		with("--bloom_bits=4"),
		with("--bloom_bits=-1"),
		with("--use_ribbon_filter=true"),
		with("--cache_index_and_filter_blocks=true"),
		with("--cache_index_and_filter_blocks=true",
			"--pin_l0_filter_and_index_blocks_in_cache=true"),
		with("--cache_index_and_filter_blocks=true", "--partition_index_and_filters=true",
			"--metadata_block_size=1024", "--cache_high_pri_pool_ratio=0.5"),
		with("--partition_index=true", "--cache_index_and_filter_blocks=true",
			"--pin_top_level_index_and_filter=true"),
		with("--partition_index_and_filters=true", "--cache_high_pri_pool_ratio=0.5"),
		with("--index_with_first_key=true"),
		with("--use_hash_search=true", "--prefix_size=8"),
		with("--read_amp_bytes_per_bit=8"),
		with("--compression_type=snappy"),
		with("--compression_type=zstd"),
		with("--compression_type=lz4"),
		with("--format_version=2"),
		with("--format_version=4"),
		with("--checksum_type=1"),
		with("--block_align=true"),
		with("--enable_index_compression=false"),
		with("--optimize_filters_for_hits=true"),
		// simulated
		with("--open_files=20"),
		with("--open_files=12", "--table_cache_numshardbits=1"),
		with("--cache_numshardbits=0"),
		with("--cache_numshardbits=2"),
		with("--cache_high_pri_pool_ratio=0.5", "--cache_index_and_filter_blocks=true"),
		with("--cache_type=hyper_clock_cache"),
		with("--mmap_read=true"),
		with("--cache_size=-1"),
		with("--cache_size=-1", "--partition_index_and_filters=true"),
		// without effect on what a Get reads from the tables that are there
		with("--level_compaction_dynamic_level_bytes=true"),
		with("--num_levels=4"),
		with("--max_bytes_for_level_multiplier=4"),
		with("--max_background_jobs=4"),
		with("--bytes_per_sync=65536"),
		with("--level0_file_num_compaction_trigger=8"),
		with("--use_fsync=true"),
		with("--compaction_readahead_size=65536"),
		with("--max_write_buffer_number=4"),
		with("--wal_bytes_per_sync=65536"),
		with("--memtable_bloom_size_ratio=0.1"),
		with("--use_direct_reads=true"),
		// not obeyed
		told("--row_cache_size=1048576"),
		told("--partition_index_and_filters=true", "--cache_high_pri_pool_ratio=0"),
		told("--cache_index_and_filter_blocks=true", "--partition_index_and_filters=true",
			"--metadata_block_size=1024", "--cache_high_pri_pool_ratio=0"),
		// refused
		refused("--use_plain_table=true", "--mmap_read=true", "--prefix_size=8"),
		refused("--use_cuckoo_table=true", "--mmap_read=true"),
	}
}

// TestOwnersOptionsOneByOne sets options of a database one by one. With each, a Get reads as many
// blocks as RocksDB's own benchmark says, or the database is refused, or a warning names it.
func TestOwnersOptionsOneByOne(t *testing.T) {
	options := ownersOptions()
	if testing.Short() {
		options = slices.DeleteFunc(options, func(o ownersOption) bool {
			return !o.refused && !o.told && !slices.Contains(o.flags, "--block_align=true") &&
				!slices.Contains(o.flags, "--partition_index_and_filters=true")
		})
	}

	const keyBytes = 16
	for _, o := range options {
		t.Run(o.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			flags := append(slices.Clone(o.flags), "--key_size=16")
			bench(t, dir, append(flags, "--benchmarks=filluniquerandom,waitforcompaction")...)

			db, err := rocksdb.Engine{}.Open(t.Context(), engine.Options{
				Dir: dir, CacheBytes: benchCache, Foreign: true, ReadOnly: true})
			if o.refused {
				if err == nil {
					t.Errorf("it was opened: %v", db.Close())
				}

				t.Log(err)
				return
			}

			if err != nil {
				t.Fatal(err)
			}

			got, warned := ownersReads(t, db, keyBytes), fmt.Sprint(db.Warnings())
			if err := db.Close(); err != nil {
				t.Error(err)
			}

			said := bench(t, dir, append(flags, "--benchmarks=readrandom",
				"--use_existing_db=true", "--readonly=true", "--seed=7", "--statistics",
				"--reads="+strconv.Itoa(2*benchKeys))...)
			want := 0.0
			for _, kind := range []string{"data", "index", "filter"} {
				want += ticker(t, said, "rocksdb.block.cache."+kind+".miss") / (2 * benchKeys)
			}

			if want == 0 { // without a cache; with the few that opening the tables read
				want = ticker(t, said, "rocksdb.read.block.get.micros") / (2 * benchKeys)
			}

			t.Logf("%.4f blocks per Get, db_bench: %.4f", got, want)
			if math.Abs(got/want-1) > 0.02 && !o.told {
				t.Errorf("%.4f blocks per Get, db_bench: %.4f: more than 2 %% apart", got, want)
			}

			if o.told && !strings.Contains(warned, "unobeyed_options") {
				t.Errorf("no warning names it: %s", warned)
			}
		})
	}
}

// ownersReads asks for every key once and returns the block reads of a Get.
func ownersReads(t *testing.T, db engine.DB, keyBytes int) float64 {
	t.Helper()
	reader, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	before := db.Counters()
	var value []byte
	for _, i := range rand.New(rand.NewPCG(7, 7)).Perm(benchKeys) {
		var found bool
		if value, found, err = reader.Get(benchKey(i, keyBytes), value); err != nil || !found {
			t.Fatalf("key %d: found %v, %v", i, found, err)
		}
	}

	reads := db.Counters().Sub(before).Reads.Total().Count
	if err := reader.Close(); err != nil {
		t.Error(err)
	}

	return float64(reads) / benchKeys
}

// TestKeysWithTimes: of keys that end with a time, the newest value is read, one by one and in
// batches.
func TestKeysWithTimes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if err := familytest.WriteTimes(dir, benchKeys); err != nil {
		t.Fatal(err)
	}

	db := open(t, engine.Options{Dir: dir, CacheBytes: benchCache})
	keys := make([][]byte, 0, 2000)
	if err := db.(engine.KeySampler).SampleKeys(t.Context(), cap(keys), 1, func(key []byte) error {
		keys = append(keys, key)
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	reader, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	answers := make([]engine.Answer, len(keys))
	if many, is := reader.(engine.ManyGetter); is {
		if err := many.GetMany(keys, true, answers); err != nil {
			t.Error(err)
		}
	}

	for i, key := range keys {
		value, found, err := reader.Get(key, nil)
		if want := string(key) + "2"; err != nil || !found ||
			!strings.HasPrefix(string(value), want) {
			t.Fatalf("%s: %.20q, found %v, %v; want %q", key, value, found, err, want)
		}

		if a := answers[i]; canGetMany(reader) && (!a.Found || string(a.Value) != string(value)) {
			t.Fatalf("%s of a batch: %.20q, found %v", key, a.Value, a.Found)
		}
	}

	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

func canGetMany(r engine.Reader) bool {
	_, is := r.(engine.ManyGetter)
	return is
}

// TestReversedOrder: keys of a family in which the last one comes first are sampled and found, one
// by one and in batches.
func TestReversedOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := rocksdb.Engine{}.Open(t.Context(), engine.Options{Dir: dir, Create: true,
		Overrides: map[string]string{
			"comparator":            "rocksdb.ReverseBytewiseComparator",
			"write_buffer_size":     "1048576",
			"target_file_size_base": "262144",
		}})
	if err != nil {
		t.Fatal(err)
	}

	w, err := db.Writer()
	if err != nil {
		t.Fatal(err)
	}

	for i := range benchKeys {
		if err := w.Put(familytest.Key(uint64(i)), familytest.Key(uint64(i))); err != nil {
			t.Fatal(err)
		}
	}

	if err := errors.Join(w.Commit(), w.Close(), db.Settle(t.Context(), nil),
		db.Close()); err != nil {
		t.Fatal(err)
	}

	read := open(t, engine.Options{Dir: dir, CacheBytes: benchCache})
	low := 0
	var keys [][]byte
	if err := read.(engine.KeySampler).SampleKeys(t.Context(), 2000, 1, func(key []byte) error {
		if key[0] < 128 {
			low++
		}
		keys = append(keys, key)
		return nil
	}); err != nil || low < 800 || low > 1200 {
		t.Errorf("%d of 2000 sampled keys are in the lower half of the keys, %v", low, err)
	}

	reader, err := read.Reader()
	if err != nil {
		t.Fatal(err)
	}

	if many, is := reader.(engine.ManyGetter); is {
		answers := make([]engine.Answer, len(keys))
		if err := many.GetMany(keys, true, answers); err != nil {
			t.Error(err)
		}

		for i, a := range answers {
			if !a.Found || string(a.Value) != string(keys[i]) {
				t.Fatalf("key %d of a batch: found %v, value %x", i, a.Found, a.Value)
			}
		}
	}

	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

// TestOptionsThatCannotBeObeyed: what keeps a database from being read as its owner reads it is
// named, with a way out that works.
func TestOptionsThatCannotBeObeyed(t *testing.T) {
	refused := func(t *testing.T, dir string, code engine.Code, names, remedy string) {
		t.Helper()
		db, err := rocksdb.Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
		if err == nil {
			t.Fatal("it was opened", db.Close())
		}

		f, is := errors.AsType[*engine.Failure](err)
		if !is || f.Code != code || !strings.Contains(err.Error(), names) ||
			!strings.Contains(f.Remedy, remedy) {
			t.Errorf("%#v: %v; want the code %s, the name %s and the remedy %s", f, err, code,
				names, remedy)
		}
	}

	t.Run("comparator", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "db")
		bench(t, dir, "--use_uint64_comparator=1", "--key_size=8", "--benchmarks=fillrandom")
		refused(t, dir, engine.CodeUnsupported, "rocksdb.Uint64Comparator", "RocksDB's own order")
	})

	t.Run("tables without blocks", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "db")
		bench(t, dir, "--use_plain_table=1", "--mmap_read=1", "--prefix_size=8",
			"--benchmarks=fillrandom")
		refused(t, dir, engine.CodeUnsupported, "PlainTable", "block-based tables")
	})

	t.Run("logs that are not here", func(t *testing.T) {
		dir, logs := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "logs")
		bench(t, dir, "--wal_dir="+logs, "--benchmarks=filluniquerandom", "--key_size=16")
		moved := logs + "-moved"
		if err := os.Rename(logs, moved); err != nil {
			t.Fatal(err)
		}

		refused(t, dir, engine.CodeNotDatabase, logs, "ln -s "+dir+"/* FURTHER/* NEW/")
		ownersReads(t,
			open(t, engine.Options{Dir: dir, Overrides: map[string]string{"wal_dir": moved}}), 16)
	})

	t.Run("a copy names the original's logs", func(t *testing.T) {
		original := filepath.Join(t.TempDir(), "db")
		bench(t, original, "--wal_dir="+original, "--benchmarks=filluniquerandom", "--key_size=16")
		dir := original + "-copy"
		if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
			t.Fatal(err)
		}

		bench(t, original, "--wal_dir="+original, "--use_existing_db=1",
			"--benchmarks=deleterandom,compact", "--key_size=16")
		ownersReads(t, open(t, engine.Options{Dir: dir}), 16)
	})

	t.Run("tables in further folders", func(t *testing.T) {
		dir, further := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "further")
		if err := familytest.WritePaths(dir, further, benchKeys); err != nil {
			t.Fatal(err)
		}

		refused(t, dir, engine.CodeNotDatabase, "db_paths", "ln -s "+dir+"/* FURTHER/* NEW/")
		together := t.TempDir()
		for _, from := range []string{dir, further} {
			entries, err := os.ReadDir(from)
			if err != nil {
				t.Fatal(err)
			}

			for _, e := range entries {
				if err := os.Symlink(filepath.Join(from, e.Name()),
					filepath.Join(together, e.Name())); err != nil {
					t.Fatal(err)
				}
			}
		}

		allFound(t, together, 1)
	})

	t.Run("merges by the owner's code", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "db")
		if err := familytest.WriteMerged(dir, benchKeys); err != nil {
			t.Fatal(err)
		}

		db := allFound(t, dir, 100)
		warnings := fmt.Sprint(db.Warnings())
		if !strings.Contains(warnings, "familytest.Last") {
			t.Errorf("no warning names the merge operator: %s", warnings)
		}

		reader, err := db.Reader()
		if err != nil {
			t.Fatal(err)
		}

		_, _, err = reader.Get(familytest.PlainKey(100), nil)
		if f, is := errors.AsType[*engine.Failure](err); !is || f.Code != engine.CodeUnsupported ||
			f.Remedy == "" {
			t.Errorf("a key with merges: %v, want a failure with a way out", err)
		}

		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	})
}

// allFound opens a database of familytest's and asks for its keys, but for every skip-th if skip is
// beyond 1.
func allFound(t *testing.T, dir string, skip int) engine.DB {
	t.Helper()
	db := open(t, engine.Options{Dir: dir})
	reader, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	for i := range benchKeys {
		if skip > 1 && i%skip == 0 {
			continue
		}

		if _, found, err := reader.Get(familytest.PlainKey(i), nil); err != nil || !found {
			t.Fatalf("key %d: found %v, %v", i, found, err)
		}
	}

	if err := reader.Close(); err != nil {
		t.Error(err)
	}

	return db
}

// TestLogAnswersGets: what db_bench left in the log is told, and no longer once it is in tables.
func TestLogAnswersGets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	told := func() bool {
		for _, w := range open(t, engine.Options{Dir: dir}).Warnings() {
			if w.Code == "unflushed_log" {
				return true
			}
		}

		return false
	}

	bench(t, dir, "--benchmarks=filluniquerandom,waitforcompaction", "--key_size=16")
	if !told() {
		t.Error("the last keys are in the log alone, and no warning says so")
	}

	bench(t, dir, "--benchmarks=flush", "--use_existing_db=true", "--key_size=16")
	if told() {
		t.Error("nothing is in the log, and a warning suspects it")
	}
}

// TestBlobFiles: a Get of a value in a blob file reads it there, once; what the files take is told.
func TestBlobFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	bench(t, dir, "--benchmarks=filluniquerandom,flush,waitforcompaction", "--key_size=16",
		"--value_size=1000", "--enable_blob_files=true", "--min_blob_size=500")
	files, err := filepath.Glob(filepath.Join(dir, "*.blob"))
	if err != nil || len(files) == 0 {
		t.Fatalf("blob files %v, %v", files, err)
	}

	var bytes int64
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}

	db := open(t, engine.Options{Dir: dir, CacheBytes: benchCache})
	shape, err := db.Shape()
	if err != nil || shape.Values == nil || shape.Values.Files != len(files) ||
		shape.Values.Bytes != bytes {
		t.Errorf("values %+v, %v; there are %d files of %d bytes", shape.Values, err, len(files),
			bytes)
	}

	before := db.Counters()
	ownersReads(t, db, 16)
	c := db.Counters().Sub(before)
	opening := int64(2 * len(files)) // the head and the foot of each
	const again = 1                  // a value that is larger than the buffer is asked for twice
	if reads := c.Reads.Type(engine.Value); reads.Count != benchKeys+opening+again ||
		reads.Bytes < benchKeys*1000 {
		t.Errorf("%d reads of values, %d bytes, for %d Gets and %d files", reads.Count,
			reads.Bytes, benchKeys, len(files))
	}

	if c.Gets == nil || *c.Gets != benchKeys+again {
		t.Errorf("RocksDB counts %v Gets, want %d: %+v", c.Gets, benchKeys+again, c)
	}
}
