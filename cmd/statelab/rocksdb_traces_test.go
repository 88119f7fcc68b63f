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

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
)

// TestRocksDBsOwnTraces: a program with RocksDB has it trace its block cache and its files. Imported, both have as many accesses
// and misses as RocksDB's counters say, and a simulation of the same cache reads what the program has read.
func TestRocksDBsOwnTraces(t *testing.T) {
	t.Parallel()
	library, dir := rocksLibrary(t), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	program := in("rocksgets")
	if text, err := exec.Command("cc", "-O1", "-o", program, "testdata/rocksgets.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("cc (make test installs it): %v\n%s", err, text)
	}
	if text, err := exec.Command(program, library, "write", in("db"), "0", "1000000").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	const gets, cacheBytes, cache = "20000", "716800", "700KiB"
	command := exec.Command(program, library, "read", in("db"), gets, cacheBytes)
	command.Env, command.Stdin, command.Stderr = append(os.Environ(), "TRACES="+in("t")), strings.NewReader("\n"), os.Stderr
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
		if err := json.Unmarshal([]byte(must(t, "accesses", "info", "--from", from, in("t."+form), "--json").stdout), into); err != nil {
			t.Fatal(err)
		}
	}
	if blocks.Totals.Accesses != uint64(misses+hits) || misses == 0 {
		t.Errorf("%d accesses, RocksDB counts %d hits and %d misses", blocks.Totals.Accesses, hits, misses)
	}
	if files.Totals.Accesses != uint64(misses) {
		t.Errorf("%d reads of files, RocksDB counts %d misses", files.Totals.Accesses, misses)
	}
	var simulated enginereport.Simulation
	if err := json.Unmarshal([]byte(must(t, "simulate", in("blocks"), "--cache", cache, "--json").stdout), &simulated); err != nil {
		t.Fatal(err)
	}
	reads := simulated.Points[0].ReadsPerGet * float64(simulated.Gets)
	if math.Abs(reads/float64(misses)-1) > .01 { // what opening has brought into the cache is read once more
		t.Errorf("%.0f reads are simulated, RocksDB counts %d misses", reads, misses)
	}
	t.Logf("%d Gets, %d accesses, %d misses, %.0f simulated", blocks.Totals.Gets, blocks.Totals.Accesses, misses, reads)
	whole, err := os.ReadFile(in("t.blocks"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, in("cut"), string(whole[:len(whole)/2]))
	refused(t, statelab(t, "accesses", "import", "--from", "rocksdb-block-trace", in("cut"), "--out", in("T")), exitFailed, ": record ", "ends early")
	refused(t, statelab(t, "accesses", "build", "--from", "rocksdb-block-trace", in("t.blocks"), "--db", in("D")), exitUsage, "simulate")
	if _, err := os.Stat(in("T")); err == nil {
		t.Error(engine.CodeDamaged, "a damaged trace was imported")
	}
}
