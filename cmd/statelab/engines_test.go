package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Engines beside each other, those in runners of their own among them.

// withCRunners puts the runners of the C engines on PATH.
func withCRunners(t *testing.T) {
	t.Helper()
	testring.Outer(t, "it needs the engines in C, C++ and Rust")
	dir := filepath.Join(scratch, "runners")
	for _, known := range newTables().Engines.Outside {
		put(t, dir, []string{known.Runner})
	}

	rocksLibrary(t)
	rustLibraries(t, dir)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// rocksLibrary is RocksDB's, beside the runners that withCRunners puts on PATH.
func rocksLibrary(t *testing.T) string {
	t.Helper()
	testring.Outer(t, "it needs RocksDB's library")
	library := filepath.Join(scratch, "runners", "lib", "librocksdb.so")
	if text, err := exec.Command("../../engines/rocksdb/fetch.sh", fetched(t, library)).
		CombinedOutput(); err != nil {
		t.Fatalf("fetch RocksDB: %v\n%s", err, text)
	}
	return library
}

// fetched is library, linked to the one that make has fetched if there is one.
func fetched(t *testing.T, library string) string {
	t.Helper()
	made, err := filepath.Abs("../../bin/lib/librocksdb.so")
	if err != nil {
		t.Fatal(err)
	}

	if err := os.MkdirAll(filepath.Dir(library), 0o755); err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(made); err == nil {
		if err := os.Symlink(made, library); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}

	return library
}

// rustLibraries links what make rust has made of engines to a folder of runners. Without them their
// engines are missing, and say so.
func rustLibraries(t *testing.T, dir string) {
	t.Helper()
	programs := absolute("../../bin")
	if given := os.Getenv(madePrograms); given != "" {
		programs = given
	}

	made, err := filepath.Glob(filepath.Join(programs, "lib", "*_engine.so"))
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "lib"), 0o755)
	}

	for _, library := range made {
		if linked := os.Symlink(library,
			filepath.Join(dir, "lib",
				filepath.Base(library))); linked != nil && !os.IsExist(linked) {
			err = linked
		}
	}

	if err != nil {
		t.Fatal(err)
	}
}

func runsOf(t *testing.T, folder string, s *result.Sweep) (runs []*result.Run) {
	t.Helper()
	for _, p := range s.Points {
		run, err := result.ReadRun(filepath.Join(folder, p.Run))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}

	return runs
}

func sweepOf(t *testing.T, folder string) *result.Sweep {
	t.Helper()
	s, err := result.ReadSweep(folder)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEveryEngineInOneSweep: the same keys, the same budget, one table.
func TestEveryEngineInOneSweep(t *testing.T) {
	withCRunners(t)
	const budget = 64 << 20
	out := filepath.Join(t.TempDir(), "T")
	o := must(t, "sweep", "--engine", "pebble1,pebble2,rocksdb,mdbx,lmdb,goleveldb,bbolt,badger",
		"--keys", "30k", "--threads", "1,4",
		"--memory", "64MiB", "--page-cache", "cold", "--gets", "4k", "--warmup", "4k",
		"--access-gets", "500", "--out", out, "--quiet")

	s := sweepOf(t, out)
	if len(s.Points) != 16 || s.Status != result.OK {
		t.Fatalf("%s, %d points\n%s", s.Status, len(s.Points), o)
	}

	for _, run := range runsOf(t, out, s) {
		name, f := run.Engine.Name, run.Figures
		if f.Gets != 4000 || f.Found != 4000 || f.FailedGets != 0 {
			t.Errorf("%s: %d Gets, %d found, %d failed", name, f.Gets, f.Found, f.FailedGets)
		}

		if run.Engine.Durability == "" || run.Engine.Profile == "" {
			t.Errorf("%s: durability %q, profile %q", name, run.Engine.Durability,
				run.Engine.Profile)
		}

		if run.Memory == nil || run.Memory.BudgetBytes != budget {
			t.Errorf("%s: memory %+v", name, run.Memory)
			continue
		}

		spent := int64(0)
		for _, share := range run.Memory.Shares {
			spent += share.Bytes
		}

		if spent < budget/2 || spent > budget+budget/100 {
			t.Errorf("%s spends %d of a budget of %d: %+v", name, spent, budget, run.Memory.Shares)
		}

		if !f.Has(figure.BlockReadsPerGet) {
			t.Errorf("%s: block reads are not known: %v", name, run.Absent)
		}

		for _, w := range run.Warnings {
			if w.Code == "check_failed" || w.Code == "memory_grows" {
				t.Errorf("%s: %s", name, w.Text)
			}
		}
	}
}

// TestThreeLayoutsOfRocksDB: one read is not one read; what it brings depends on
// where the metadata is kept. Under O_DIRECT its tickers must be the device's reads.
func TestThreeLayoutsOfRocksDB(t *testing.T) {
	withCRunners(t)
	out := filepath.Join(t.TempDir(), "R")
	must(t, "sweep", "--engine", "rocksdb:default,rocksdb:monolithic,rocksdb:partitioned",
		"--keys", "200k", "--cache", "128KiB", "--page-cache", "direct",
		"--gets", "3k", "--warmup", "1k", "--out", out, "--quiet")
	bytes := map[string]float64{}
	for _, run := range runsOf(t, out, sweepOf(t, out)) {
		f := run.Figures
		if !f.Has(figure.Agreement) || f.OrZero(figure.Agreement) < 0.98 ||
			f.OrZero(figure.Agreement) > 1.02 {
			t.Errorf("%s: agreement %v", run.Engine.Profile, f.Pointer(figure.Agreement))
		}

		bytes[run.Engine.Profile] = f.OrZero(figure.BlockReadBytesPerGet)
	}

	if !(bytes["monolithic"] > 10*bytes["partitioned"] &&
		bytes["partitioned"] >= bytes["default"]) {
		t.Errorf("bytes per Get: %v", bytes)
	}
}

// TestHandles: with fewer handles than tables, a Get opens tables again.
func TestHandles(t *testing.T) {
	testring.Outer(t, "it measures with few open files")
	dir := t.TempDir()
	db, out := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	must(t, "load", "--db", db, "--keys", "200k", "--set", "TargetFileSize=32KiB", "--quiet")
	o := must(t, "sweep", "--db", db, "--max-open-files", "64,100000", "--cache", "8MiB",
		"--gets", "10k", "--warmup", "5k", "--access-gets", "0", "--out", out, "--quiet")
	runs := runsOf(t, out, sweepOf(t, out))
	few, many := runs[0].Figures, runs[1].Figures
	if runs[0].Database.Files < 200 {
		t.Fatalf("only %d files\n%s", runs[0].Database.Files, o)
	}

	if !few.Has(figure.TableOpensPerGet) || few.OrZero(figure.TableOpensPerGet) < 0.1 ||
		!many.Has(figure.TableOpensPerGet) || many.OrZero(figure.TableOpensPerGet) > 0.05 {
		t.Errorf("tables opened per Get: %v with 64 handles, %v with 100,000",
			few.Pointer(figure.TableOpensPerGet), many.Pointer(figure.TableOpensPerGet))
	}
}

// TestALibraryOfOnesOwn: the example engine in C through the verbs.
func TestALibraryOfOnesOwn(t *testing.T) {
	testring.Outer(t, "it needs a C compiler")
	withCRunners(t)
	dir := t.TempDir()
	if text, err := exec.Command("make", "-C", "../../examples/native-c",
		"OUT="+filepath.Join(dir, "libexample.so")).CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, text)
	}

	libraries, err := filepath.Glob(filepath.Join(dir, "*.so"))
	if err != nil || len(libraries) != 1 {
		t.Fatalf("libraries %v, %v", libraries, err)
	}

	db := filepath.Join(dir, "D")
	must(t, "load", "--engine", "native", "--set", "library="+libraries[0], "--keys", "20k",
		"--db", db, "--quiet")
	out := filepath.Join(dir, "R")
	// the library is known from the load
	must(t, "sweep", "--db", db, "--gets", "5k", "--cache", "1MiB", "--out", out)
	run := readRun(t, out)
	if run.Figures.Found != 5000 || run.Engine.Options["library"] != libraries[0] ||
		!run.Figures.Has(figure.BlockReadsPerGet) {
		t.Errorf("found %d, options %v", run.Figures.Found, run.Engine.Options)
	}
}

// TestARunnerThatIsNotHere: the list still names the engine, and the way to it.
func TestARunnerThatIsNotHere(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	var rows []runners.EngineRow
	if err := json.Unmarshal([]byte(must(t, "engines", "--json").stdout), &rows); err != nil {
		t.Fatal(err)
	}

	for _, row := range rows {
		if row.Available == strings.Contains(row.Missing, "in statelab's source") {
			t.Errorf("%s: available %v, missing %q", row.Name, row.Available, row.Missing)
		}

		if row.Licence == "" || row.Capabilities == nil {
			t.Errorf("%+v", row)
		}
	}

	refused(t, statelab(t, "load", "--engine", "rocksdb", "--db", "D", "--keys", "1k"), exitUsage,
		"--engine: found no runner for rocksdb (statelab-run-rocksdb)", "make runners")
	// Who did not type --engine is not told of it: the database names the engine.
	db := t.TempDir()
	for name, text := range map[string]string{"CURRENT": "MANIFEST-000005\n", "IDENTITY": "",
		"MANIFEST-000005": "\x00", "OPTIONS-000007": "[Version]\n  rocksdb_version=9.11.2\n"} {
		if err := os.WriteFile(filepath.Join(db, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for _, args := range [][]string{
		{"trace", "--db", db, "--use-existing", "--out", "T"},
		{"tune", "--db", db, "--memory", "1GiB"},
	} {
		o := statelab(t, args...)
		refused(t, o, exitUsage, "found no runner for rocksdb (statelab-run-rocksdb)")
		if strings.Contains(o.stderr, "--engine") {
			t.Error(o)
		}
	}
	refused(t,
		statelab(t, "sweep", "--engine", "pebble1,mdbx,pebble1:nothing", "--keys", "1k", "--out",
			"S"), exitUsage, "statelab-run-mdbx", "nothing")
	refused(t,
		statelab(t, "sweep", "--engine", "pebble1,mdbx,pebble9,mdbx:default,lmdb", "--keys", "1k",
			"--out", "S"), exitUsage,
		`--engine: unknown engine "pebble9" (known: pebble1, `,
		"--engine: found no runner for mdbx (statelab-run-mdbx), lmdb (statelab-run-lmdb) next "+
			"to statelab or on PATH: make runners")

	refused(t,
		statelab(t, "layouts", "--layout", "flat-pebble,geth-path,flat-mdbx,geth-flat", "--out",
			"L"), exitUsage,
		"--layout: found no runner for geth-path (statelab-run-geth), geth-flat "+
			"(statelab-run-geth) next to statelab or on PATH: make trees",
		"--layout: found no runner for flat-mdbx (statelab-run-flatmdbx) next to statelab or on "+
			"PATH: make runners")
}

// TestNullMeasuresTheHarness: it keeps nothing, so it needs no database and its
// answers are not checked.
func TestNullMeasuresTheHarness(t *testing.T) {
	for name, args := range map[string][]string{
		"without a database": nil,
		"after a load": {"--db", small(t, "10k", "--engine", "null"), "--missing",
			"20%"},
		"of another engine's keys": {"--db", small(t, "10k")},
	} {
		out := filepath.Join(t.TempDir(), "R")
		must(t,
			append([]string{"sweep", "--engine", "null", "--gets", "20k", "--warmup", "0", "--out",
				out, "--quiet"}, args...)...)
		run := runsOf(t, out, sweepOf(t, out))[0]
		if run.Status != result.OK || run.Figures.Found != 20_000 ||
			!run.Figures.Has(figure.HarnessTimePerGet) {
			t.Errorf("%s: %s, %d found", name, run.Status, run.Figures.Found)
		}
	}

	db := small(t, "10k")
	for _, workload := range []string{"overwrite", "readwhilewriting"} {
		before := fingerprint(t, db)
		refused(t,
			statelab(t, "sweep", "--engine", "null", "--db", db, "--workload", workload,
				"--warmup", "0"), exitFailed, "keeps nothing")
		if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
			t.Errorf("%s changed the database:\n%s", workload, diff)
		}
	}
}

// TestBudgets: what cannot be held to is refused before anything is measured.
func TestBudgets(t *testing.T) {
	refused(t, statelab(t, "sweep", "--keys", "1k", "--memory", "64MiB", "--cache", "8MiB"),
		exitUsage, "--memory and --cache")
	refused(t, statelab(t, "sweep", "--keys", "1k", "--memory", "lots"), exitUsage,
		"examples: 512MiB")
	refused(t, statelab(t, "sweep", "--engine", "mem", "--keys", "1k", "--memory", "64MiB"),
		exitUsage, "mem does not support a memory budget")
	testring.Outer(t, "it measures an engine in a budget of memory (what is refused has been "+
		"tested)")
	db := database(t, "pebble1")
	direct := filepath.Join(t.TempDir(), "R")
	must(t, "sweep", "--db", db, "--memory", "4MiB", "--page-cache", "direct", "--gets", "5k",
		"--out", direct)
	run := readRun(t, direct)
	if run.Cache.Effective != 4<<20 || run.Memory == nil || run.Memory.PageCacheBytes == nil ||
		*run.Memory.PageCacheBytes != 0 {
		t.Errorf("cache %d, memory %+v", run.Cache.Effective, run.Memory)
	}
}
