//go:build linux && amd64

package main

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
)

// TestRocksDBsOwnTraces: a program with RocksDB has it trace its block cache and its files.
// Imported, both have as many accesses and misses as RocksDB's counters say, and a simulation of
// the same cache reads what the program has read.
func TestRocksDBsOwnTraces(t *testing.T) {
	t.Parallel()
	library, dir := rocksLibrary(t), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	program := rocksGets(t)
	if text, err := exec.Command(program, library, "write", in("db"), "0", "1000000").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	const gets, cacheBytes, cache = "20000", "716800", "700KiB"
	command := exec.Command(program, library, "read", in("db"), gets, cacheBytes)
	command.Env, command.Stdin, command.Stderr = append(os.Environ(), "TRACES="+in("t")),
		strings.NewReader("\n"), os.Stderr
	told, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}

	counted := tickersOf(t, string(told))
	misses, hits := counted["rocksdb.block.cache.miss"], counted["rocksdb.block.cache.hit"]
	var blocks, files curve.Written
	for form, into := range map[string]*curve.Written{"blocks": &blocks, "io": &files} {
		from := map[string]string{"blocks": "rocksdb-block-trace", "io": "rocksdb-io-trace"}[form]
		must(t, "accesses", "import", "--from", from, in("t."+form), "--out", in(form))
		if err := json.Unmarshal([]byte(must(t, "accesses", "info", "--from", from, in("t."+form),
			"--json").stdout), into); err != nil {
			t.Fatal(err)
		}
	}

	if blocks.Totals.Accesses != uint64(misses+hits) || misses == 0 {
		t.Errorf("%d accesses, RocksDB counts %d hits and %d misses", blocks.Totals.Accesses, hits,
			misses)
	}

	if files.Totals.Accesses != uint64(misses) {
		t.Errorf("%d reads of files, RocksDB counts %d misses", files.Totals.Accesses, misses)
	}

	var simulated enginereport.Simulation
	if err := json.Unmarshal([]byte(must(t, "simulate", in("blocks"), "--cache", cache, "--json").
		stdout), &simulated); err != nil {
		t.Fatal(err)
	}

	reads := simulated.Points[0].ReadsPerGet * float64(simulated.Gets)
	// what opening has brought into the cache is read once more
	if math.Abs(reads/float64(misses)-1) > .01 {
		t.Errorf("%.0f reads are simulated, RocksDB counts %d misses", reads, misses)
	}

	t.Logf("%d Gets, %d accesses, %d misses, %.0f simulated", blocks.Totals.Gets,
		blocks.Totals.Accesses, misses, reads)
	whole, err := os.ReadFile(in("t.blocks"))
	if err != nil {
		t.Fatal(err)
	}

	// inside the last record: what ends between two is whole
	write(t, in("cut"), string(whole[:len(whole)-5]))
	refused(t,
		statelab(t, "accesses", "import", "--from", "rocksdb-block-trace", in("cut"), "--out",
			in("T")), exitFailed, ": record ", "ends early")
	refused(t,
		statelab(t, "accesses", "build", "--from", "rocksdb-block-trace", in("t.blocks"), "--db",
			in("D")), exitUsage, "simulate")
	if _, err := os.Stat(in("T")); err == nil {
		t.Error(engine.CodeDamaged, "a damaged trace was imported")
	}
}

// TestTunedOfAnotherProgram: RocksDB's own benchmark wrote the database. What is recommended is
// measured in databases into which its tables are rewritten, and lies in the range that was
// printed: 5 % around what was predicted (docs/tuning.md has the errors that were found).
func TestTunedOfAnotherProgram(t *testing.T) {
	withCRunners(t)
	db := filepath.Join(t.TempDir(), "D")
	if text, err := exec.Command("db_bench", "--db="+db, "--num=150000", "--seed=1",
		"--key_size=16", "--value_size=100", "--bloom_bits=10",
		"--compression_type=none", "--write_buffer_size=1048576",
		"--target_file_size_base=1048576", "--max_bytes_for_level_base=2097152",
		"--cache_index_and_filter_blocks=true", "--benchmarks=filluniquerandom,waitforcompaction").
		CombinedOutput(); err != nil {
		t.Fatalf("db_bench: %v (scripts/needs db_bench:rocksdb-tools installs it)\n%s", err, text)
	}

	before := fingerprint(t, db)
	out := filepath.Join(t.TempDir(), "T")
	found := tuningOf(t,
		must(t, "tune", "--db", db, "--memory", "2MiB", "--missing", "30%", "--seeds", "1",
			"--gets", "30k", "--timeout", "1s",
			"--verify", "--out", out, "--json", "--quiet").stdout)

	if len(found.Verified) < 2 {
		t.Errorf("verified %+v", found.Verified)
	}

	const printed = 0.05
	for _, p := range found.Verified {
		if math.Abs(p.Off()) > printed {
			t.Errorf("%v: predicted %.4f, measured %.4f", p.Options, p.Predicted, p.Measured)
		}
	}

	if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
		t.Errorf("the database was changed:\n%s", diff)
	}
}
