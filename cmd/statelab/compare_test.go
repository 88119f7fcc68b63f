package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/explain/compare"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Caches on both sides of IP2 are told apart by one run each: one thread and equal seeds
// make block reads exact. A cache of the same size reads the same.
func TestCompareRun(t *testing.T) {
	db := database(t, "pebble1")
	first := filepath.Join(t.TempDir(), "first")
	must(t, "sweep", "--db", db, "--cache", "1%", "--gets", "1k", "--warmup", "1k",
		"--access-gets", "100", "--out", first)
	run, err := result.ReadRun(filepath.Join(first, "points", "000"))
	if err != nil {
		t.Fatal(err)
	}

	ip2 := run.Inflection.IP2.CacheBytes
	judge := func(a, b int64) (c compare.Comparison, out string) {
		out = filepath.Join(t.TempDir(), "C")
		done := must(t, "compare", "--run", fmt.Sprintf("cache=%dB", a),
			fmt.Sprintf("cache=%dB", b), "--db", db, "--gets", "5k", "--warmup", "5k",
			"--access-gets", "100", "--threads", "1", "--repeats", "5", "--fail-if",
			"block_reads_per_get > 0%", "--out", out, "--json")

		if err := json.Unmarshal([]byte(done.stdout), &c); err != nil {
			t.Fatal(err)
		}

		return c, out
	}

	c, out := judge(ip2*8/10, ip2*13/10)
	f := c.Pairs[0].Figures[0]
	if c.Pairs[0].Runs != [2]int{1, 1} || f.Name != "block_reads_per_get" ||
		f.Verdict != difference.Changed || f.Better == nil || !*f.Better {
		t.Errorf("%+v", c.Pairs[0])
	}

	if c, _ := judge(ip2*8/10, ip2*8/10); c.Pairs[0].Figures[0].Verdict != difference.Same ||
		len(c.Pairs[0].Differs) > 0 {
		t.Errorf("%+v", c.Pairs[0])
	}

	a, b := filepath.Join(out, "a"), filepath.Join(out, "b")
	if text := must(t, "compare", a, b).stdout; !strings.Contains(text,
		"fewer block reads per Get (exact count, 1 run each;") {
		t.Error(text)
	}

	worse := statelab(t, "compare", b, a, "--fail-if", "block_reads_per_get > +2%")
	if worse.exit != exitFailed ||
		!strings.Contains(worse.stderr, "statelab: --fail-if: block_reads_per_get > +2%: ") {
		t.Errorf("%+v", worse)
	}

	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"compare", first, a}, exitFailed, "were measured under different conditions: " +
			"gets (1000 and 5000)"},
		{[]string{"compare", a}, exitUsage, "name at least two folders"},
		{[]string{"compare", a, b, "--gets", "5k"}, exitUsage, "--gets: only with --run"},
		{[]string{"compare", "--run", "cache"}, exitUsage, "--run needs two settings in quotes"},
		{[]string{"compare", "--run", "cache", "cache=1%", "--db", db}, exitUsage,
			`"cache" is not NAME=VALUE`},
		{[]string{"compare", a, b, "--fail-if", "speed > 2%"}, exitUsage, `unknown figure "speed"`},
	} {
		if got := statelab(t, c.args...); got.exit != c.code ||
			!strings.Contains(got.stderr, c.want) {
			t.Errorf("%v: exit %d, %s", c.args, got.exit, got.stderr)
		}
	}
}

// TestAnExtraReadPerGetIsFound: the same engine with a lookup that really reads one page more,
// on one database. One run on each side is enough, at the block and at the device.
func TestAnExtraReadPerGetIsFound(t *testing.T) {
	dir := t.TempDir()
	onPath(t, "statelab-run-native")
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, source := range map[string]string{
		"before.so": "../../examples/native-c/engine.c",
		"after.so":  "testdata/extra_read_engine.c",
	} {
		native(t, "cc", "-O2", "-std=gnu11", "-shared", "-fPIC", "-I../../native", "-o", at(name),
			source, "-lpthread")
	}

	must(t, "load", "--db", at("db"), "--engine", "native", "--set", "library="+at("before.so"),
		"--keys", "50k")
	for _, side := range []string{"before", "after"} {
		must(t, "sweep", "--db", at("db"), "--engine", "native", "--set",
			"library="+at(side+".so"), "--cache", "1MiB", "--gets", "5k", "--warmup", "5k",
			"--threads", "1", "--access-gets", "0", "--out", at(side))
	}

	reads := func(side string) int {
		return int(math.Round(5000 * readRun(t, at(side)).Figures.OrZero(figure.BlockReadsPerGet)))
	}
	if before, after := reads("before"), reads("after"); after != before+5000 {
		t.Errorf("%d block reads of 5,000 Gets became %d", before, after)
	}

	o := statelab(t, "compare", at("before"), at("after"), "--fail-if", "block_reads_per_get > +2%")
	if o.exit != exitFailed || !o.says("more block reads per Get (exact count, 1 run each") {
		t.Errorf("%v", o)
	}
}

// TestCompareRunLoads: two engines are compared over several loads of each, from one list of seeds,
// and the intervals say what they come from; a given database is one load.
func TestCompareRunLoads(t *testing.T) {
	testring.Outer(t, "it loads six databases and measures twelve runs of them")
	out := filepath.Join(t.TempDir(), "C")
	done := must(t, "compare", "--run", "engine=pebble1", "engine=pebble2", "--loads", "3",
		"--repeats", "6", "--keys", "20k", "--cache", "1MiB", "--gets", "1k", "--warmup", "1k",
		"--access-gets", "100", "--fail-if", "block_reads_per_get > +1000%", "--out", out, "--json")

	var c compare.Comparison
	if err := json.Unmarshal([]byte(done.stdout), &c); err != nil {
		t.Fatal(err)
	}

	p, f := c.Pairs[0], c.Pairs[0].Figures[0]
	if p.Loads != [2]int{3, 3} || p.Runs[0] != p.Runs[1] || p.Runs[0]%3 != 0 ||
		f.Name != figure.BlockReadsPerGet.Key || f.Method != compare.ByLoads || f.Parts == nil ||
		!f.Parts.Known || !(f.Low < f.Change && f.Change < f.High) {
		t.Errorf("%+v", p)
	}

	seeds := [2]map[uint64]bool{{}, {}}
	for side, name := range []string{"a", "b"} {
		for i := range p.Runs[side] {
			run, err := result.ReadRun(filepath.Join(out, name, "points", fmt.Sprintf("000-%d", i)))
			if err != nil {
				t.Fatal(err)
			}
			seeds[side][run.Workload.LoadSeed] = true
		}
	}

	if len(seeds[0]) != 3 || !maps.Equal(seeds[0], seeds[1]) {
		t.Errorf("loaded from %v", seeds)
	}

	db := filepath.Join(out, "databases", "pebble1-bench-kvdb-20000")
	refused := statelab(t, "sweep", "--loads", "2", "--db", db, "--out", filepath.Join(out, "S"))
	if refused.exit != exitUsage || !strings.Contains(refused.stderr,
		"a database that is given is one load") {
		t.Errorf("%+v", refused)
	}
}
