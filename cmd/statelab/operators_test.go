package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

// benchDatabase is a database of small tables that Debian's db_bench wrote with arguments.
func benchDatabase(t *testing.T, arguments ...string) string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "D")
	arguments = append([]string{"--db=" + db, "--num=100000", "--key_size=32", "--value_size=100",
		"--write_buffer_size=524288", "--target_file_size_base=131072",
		"--max_bytes_for_level_base=1048576", "--compression_type=none", "--bloom_bits=10",
		"--seed=1", "--disable_wal=true"}, arguments...)
	if text, err := exec.Command("db_bench", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("db_bench %s: %v (scripts/needs db_bench:rocksdb-tools installs it)\n%s",
			arguments, err, text)
	}

	return db
}

// universalDatabase is a database of another program with universal compaction, settled. It is not
// db_bench's, whose waitforcompaction never ends where RocksDB calls a compaction due and starts
// none, as it does when it has as many sorted runs as its trigger and cannot merge any of them.
func universalDatabase(t *testing.T) string {
	t.Helper()
	db := small(t, "100k", "--engine", "rocksdb",
		"--set", "compaction_style=kCompactionStyleUniversal",
		"--set", "write_buffer_size=524288", "--set", "target_file_size_base=131072")
	if err := os.RemoveAll(filepath.Join(db, "statelab")); err != nil {
		t.Fatal(err)
	}
	return db
}

// rocksGets is a program in C with RocksDB.
func rocksGets(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "rocksgets")
	if text, err := exec.Command("cc", "-O1", "-o", program, "testdata/rocksgets.c", "-ldl").
		CombinedOutput(); err != nil {
		t.Fatalf("cc (make ci installs it): %v\n%s", err, text)
	}
	return program
}

// TestOptionsOfOperators: options of a database's owner that decide what a Get reads are obeyed, or
// are named in the answer with what to set instead.
func TestOptionsOfOperators(t *testing.T) {
	withCRunners(t)
	const filled = "--benchmarks=fillrandom"
	const settled = "--benchmarks=fillrandom,waitforcompaction"
	advise := []string{"advise", "DB", "--probe-seconds", "0"}
	inspect := []string{"inspect", "DB", "--strict"}
	asNode := []string{"inspect", "DB", "--as", "node"}

	for _, c := range []struct {
		name    string
		bench   []string // arguments of db_bench; nil: universalDatabase
		command []string
		says    []string // patterns
		not     string   // another; "": none
	}{
		{
			"few open files", []string{settled, "--open_files=64", "--cache_size=33554432"},
			advise,
			[]string{`Because of max_open_files=64, not all of \d+ tables stay open`,
				`max_open_files: -1, or at least \d+`, `No larger block cache saves`}, "",
		},
		{
			"no block cache", []string{filled, "--cache_size=-1"}, advise,
			[]string{`no_block_cache=true, there is no block cache`, `no_block_cache: false`}, "",
		},
		{
			"mapped tables", []string{filled, "--mmap_read=true"}, advise,
			[]string{`allow_mmap_reads=true, the block cache holds no blocks that are not ` +
				`compressed`, `allow_mmap_reads: false`}, "",
		},
		{
			"universal compaction", nil, asNode,
			[]string{`no difference found`}, `let compactions finish`,
		},
		{
			"FIFO compaction", []string{filled, "--compaction_style=2", "--num_levels=1",
				"--fifo_compaction_allow_compaction=false",
				"--fifo_compaction_max_table_files_size_mb=1000",
				"--level0_slowdown_writes_trigger=100000", "--level0_stop_writes_trigger=100000"},
			asNode, []string{`no difference found`}, `let compactions finish`,
		},
		{
			"ribbon filters", []string{settled, "--use_ribbon_filter=true"}, inspect, nil,
			`out of date|of other sizes`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var db string
			if c.bench == nil {
				db = universalDatabase(t)
			} else {
				db = benchDatabase(t, c.bench...)
			}

			args := strings.Split(strings.ReplaceAll(strings.Join(c.command, "\n"), "DB", db), "\n")
			o := must(t, args...)
			text := strings.Join(strings.Fields(o.stdout), " ")

			for _, pattern := range c.says {
				if !regexp.MustCompile(pattern).MatchString(text) {
					t.Errorf("it does not say %q: %v", pattern, o)
				}
			}

			if c.not != "" && regexp.MustCompile(c.not).MatchString(text+o.stderr) {
				t.Errorf("it says %q: %v", c.not, o)
			}
		})
	}
}

// TestFiltersOfOldVersions: RocksDB before 7.0 wrote filters for each data block, which later ones
// do not ask. All who are asked about such a database say so, and count no filter.
func TestFiltersOfOldVersions(t *testing.T) {
	withCRunners(t)
	testring.Program(t, "mvn")
	testring.Program(t, "unzip")
	library := filepath.Join(t.TempDir(), "librocksdb.so")
	if text, err := exec.Command("../../engines/rocksdb/fetch.sh", library, "6.29.5").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	db := filepath.Join(t.TempDir(), "db")
	if text, err := exec.Command(rocksGets(t), library, "write", db, "0", "1000000").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	says := func(o outcome) {
		t.Helper()
		if !strings.Contains(o.stderr, "accounts (") ||
			!strings.Contains(o.stderr, "have block-based filters") {
			t.Error(o)
		}
	}

	inspected := must(t, "inspect", db)
	says(inspected)
	levels := regexp.MustCompile(`(?m)^ +L\d.*$`).FindAllString(inspected.stdout, -1)
	for _, level := range levels {
		if !strings.HasSuffix(level, " 0 B") {
			t.Errorf("a level has filters: %s", level)
		}
	}

	likeANode := must(t, "inspect", db, "--as", "node")
	says(likeANode)
	if !regexp.MustCompile(`(?m) 0% .* accounts$`).MatchString(likeANode.stdout) {
		t.Error(likeANode)
	}

	folder := filepath.Join(t.TempDir(), "S")
	says(must(t, "sweep", "--db", db, "--use-existing", "--table", "accounts", "--cache", "64KiB",
		"--gets", "2k", "--warmup", "2k", "--access-gets", "0", "--out", folder))
}

// TestFiltersOfOperators: a program that has lost its filter policy is told so in one sentence by
// advise and by inspect --as, with block reads that RocksDB has when the policy is set again.
func TestFiltersOfOperators(t *testing.T) {
	withCRunners(t)
	const cache, random = "1MiB", "70k"
	// Nothing merges the tables, so that a Get passes many.
	asTheyAre := []string{"--write_buffer_size=2097152", "--disable_auto_compactions=true",
		"--level0_slowdown_writes_trigger=100000", "--level0_stop_writes_trigger=100000"}
	lost := benchDatabase(t, append(asTheyAre, "--benchmarks=fillrandom")...)
	kept := filepath.Join(t.TempDir(), "K")
	if err := os.CopyFS(kept, os.DirFS(lost)); err != nil {
		t.Fatal(err)
	}

	bench := exec.Command("db_bench", append(asTheyAre, "--db="+lost, "--use_existing_db=true",
		"--bloom_bits=-1", "--benchmarks=readrandom", "--reads=1", "--num=100000",
		"--key_size=32")...)
	if text, err := bench.CombinedOutput(); err != nil {
		t.Fatalf("db_bench: %v\n%s", err, text)
	}

	o := must(t, "advise", lost, "--probe-seconds", "0", "--cache", cache)
	text := strings.Join(strings.Fields(o.stdout), " ")
	sentence := regexp.MustCompile(`(\d+) of (\d+) tables of column family default have filters, ` +
		`which no Get consults, because the options name no filter policy: set ` +
		`filter_policy=bloomfilter:10:false in the options of its tables: ([0-9.]+) -> ([0-9.]+) ` +
		`block reads per Get with a cache of 1\.00 MiB\.`).FindStringSubmatch(text)
	if sentence == nil || sentence[1] != sentence[2] {
		t.Fatalf("nothing of the filters: %v", o)
	}

	with := must(t, "inspect", lost, "--as", "node", "--cache", cache).stdout
	if says := strings.Join(strings.Fields(with), " "); !strings.Contains(says, sentence[0]) {
		t.Errorf("inspect says %s\nand advise %s", says, sentence[0])
	}

	client := must(t, "inspect", lost, "--as", "besu-26.3", "--table", "default").stdout
	if says := strings.Join(strings.Fields(client), " "); !strings.Contains(says,
		sentence[0][:strings.Index(sentence[0], ": set ")]) {
		t.Error(says)
	}

	for i, db := range []string{lost, kept} {
		var swept struct {
			Points []struct {
				Figures struct {
					Reads float64 `json:"block_reads_per_get"`
				}
			}
		}

		if err := json.Unmarshal([]byte(must(t, "sweep", "--db", db, "--use-existing", "--cache",
			cache, "--gets", "40k", "--warmup", "40k", "--sample-keys", random, "--access-gets",
			"0", "--json").stdout), &swept); err != nil {
			t.Fatal(err)
		}

		said, err := strconv.ParseFloat(sentence[3+i], 64)
		if err != nil {
			t.Fatal(err)
		}

		measured := swept.Points[0].Figures.Reads
		t.Logf("%s: %.4f block reads per Get measured, %v were predicted", db, measured, said)
		if math.Abs(said/measured-1) > 0.02 {
			t.Errorf("%s: %v block reads per Get measured, %v were predicted", db, measured, said)
		}
	}

	if o := must(t, "advise", kept, "--probe-seconds", "0"); strings.Contains(o.stdout,
		"no Get consults") {
		t.Errorf("filters that are consulted: %v", o)
	}
}

// TestFewDescriptors measures a database of more tables than the process may open.
func TestFewDescriptors(t *testing.T) {
	withCRunners(t)
	// Nothing merges the tables, so that there are as many as memtables were full.
	db := benchDatabase(t, "--benchmarks=fillrandom", "--write_buffer_size=65536",
		"--disable_auto_compactions=true", "--level0_slowdown_writes_trigger=100000",
		"--level0_stop_writes_trigger=100000")
	tables, err := filepath.Glob(filepath.Join(db, "*.sst"))
	const limit = 100
	if err != nil || len(tables) <= limit {
		t.Fatalf("%d tables: %v", len(tables), err)
	}

	command := exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d && exec \"$@\"", limit), "sh",
		binary, "sweep", "--db", db, "--use-existing", "--cache", "1MiB", "--gets", "500",
		"--warmup", "500", "--sample-keys", "1000", "--access-gets", "0",
		"--out", filepath.Join(t.TempDir(), "S"))
	text, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "raise the limit (ulimit -n)") {
		t.Errorf("%v: %s", err, text)
	}
}
