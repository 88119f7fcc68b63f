package main

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/model/fidelity"
)

// withFamilies is a database that RocksDB wrote: the families default (empty), accounts,
// storage (the same keys, without filters) and code.
func withFamilies(t *testing.T) string {
	t.Helper()
	withCRunners(t)
	dir := filepath.Join(t.TempDir(), "db")
	command := exec.Command("go", "run", "./testdata/rocksfamilies", dir, "60000")
	command.Env = append(os.Environ(), "CGO_ENABLED=1", "STATELAB_ROCKSDB_LIBRARY="+absolute("../../bin/lib/librocksdb.so"))
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("write the database: %v\n%s", err, text)
	}
	return dir
}

func judged(t *testing.T, args ...string) comparison {
	t.Helper()
	var found comparison
	if err := json.Unmarshal([]byte(must(t, append([]string{"fidelity", "--json"}, args...)...).stdout), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestFamilies goes the way of a user: inspect lists the families, fidelity flags the one
// without filters, and runs of it and of its twin differ by what fidelity predicts.
func TestFamilies(t *testing.T) {
	db := withFamilies(t)
	before := fingerprint(t, db)
	var seen inspection
	if err := json.Unmarshal([]byte(must(t, "inspect", db, "--json").stdout), &seen); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, table := range seen.Database.Tables {
		names = append(names, table.Name)
		if (table.Keys > 0) != (len(table.Levels) > 0) {
			t.Errorf("%s: %d keys in %d levels", table.Name, table.Keys, len(table.Levels))
		}
	}
	if slices.Sort(names); strings.Join(names, " ") != "accounts code default storage" || len(seen.Warnings) > 0 {
		t.Errorf("families %v, warnings %v", names, seen.Warnings)
	}
	if text := must(t, "inspect", db).stdout; !strings.Contains(text, "storage, ") || !strings.Contains(text, "--table NAME") {
		t.Errorf("inspect says\n%s", text)
	}

	const cache = "64KiB"
	found := judged(t, db, "--cache", cache)
	extra := 0.0
	for _, table := range found.Tables {
		flagged := slices.ContainsFunc(table.Differences, func(d fidelity.Difference) bool { return d.Kind == fidelity.Filters })
		if flagged != (table.Name == "storage") {
			t.Errorf("%s: %+v", table.Name, table.Differences)
		}
		if flagged {
			extra = table.Differences[0].Extra
		}
	}
	reads := func(table string) float64 {
		out := filepath.Join(t.TempDir(), "R")
		must(t, "read", "--db", db, "--use-existing", "--table", table, "--cache", cache, "--gets", "300k", "--warmup", "1k", "--sample-keys", "300k",
			"--threads", "1", "--access-gets", "0", "--out", out)
		return *readSweep(t, out).Points[0].Figures.BlockReadsPerGet
	}
	measured := reads("storage") - reads("accounts")
	t.Logf("without filters %.4f block reads per Get more predicted, %.4f measured", extra, measured)
	if math.Abs(extra/measured-1) > 0.01 {
		t.Errorf("without filters %.4f block reads per Get more predicted, %.4f measured: more than 1 %% apart", extra, measured)
	}

	var advice rocksAdvice
	if err := json.Unmarshal([]byte(must(t, "advise", db, "--table", "accounts=20,storage=80", "--memory", "4MiB", "--json").stdout), &advice); err != nil {
		t.Fatal(err)
	}
	if len(advice.Tables) != 2 || advice.Tables[1].Share != 0.8 || advice.Then.CacheBytes+advice.OutsideBytes != 4<<20 ||
		!strings.Contains(advice.Flags[0], "NewLRUCache(") || !(advice.Then.BlockReadsPerGet < advice.Curve[0].BlockReadsPerGet) {
		t.Errorf("advice %+v", advice)
	}
	refused(t, statelab(t, "advise", db, "--verify"), exitUsage, "--verify: not for databases of RocksDB")
	refused(t, statelab(t, "fidelity", db, "--strict"), exitStrict, "--strict: ")
	refused(t, statelab(t, "fidelity", db, "--table", "slots"), exitUsage, "no such table (tables: ", "storage")
	refused(t, statelab(t, "read", "--db", db, "--use-existing", "--gets", "1k", "--warmup", "0"), exitFailed, "choose one with --table", "accounts")
	if same := judged(t, db, db); len(slices.DeleteFunc(same.Tables, func(v fidelity.Verdict) bool { return len(v.Differences) == 0 })) > 0 {
		t.Errorf("a database differs from itself: %+v", same.Tables)
	}
	if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
		t.Errorf("the database was changed:\n%s", diff)
	}
}

// TestFidelityOfPebble: tables without filters are told, and cost more in a small cache.
func TestFidelityOfPebble(t *testing.T) {
	bare, whole := filepath.Join(t.TempDir(), "bare"), filepath.Join(t.TempDir(), "whole")
	small := []string{"--keys", "200k", "--set", "LBaseMaxBytes=1MiB", "--set", "MemTableSize=1MiB"}
	must(t, append([]string{"load", "--db", bare, "--set", "FilterLevels=none"}, small...)...)
	must(t, append([]string{"load", "--db", whole}, small...)...)
	runs := 0 // of the database that was judged last; compactions may have left a single one, which needs no filter
	of := func(args ...string) *fidelity.Difference {
		v := judged(t, append(args, "--cache", "1MiB")...).Tables[0]
		runs = v.SortedRuns
		i := slices.IndexFunc(v.Differences, func(d fidelity.Difference) bool { return d.Kind == fidelity.Filters })
		if i < 0 {
			return nil
		}
		return &v.Differences[i]
	}
	if d := of(whole); d != nil {
		t.Errorf("all levels have filters: %+v", d)
	}
	for _, args := range [][]string{{bare}, {bare, whole}} {
		if d := of(args...); (d != nil) != (runs > 1) || d != nil && !(d.Extra > 0) {
			t.Errorf("%v: %+v in %d sorted runs, want the missing filters and their cost", args, d, runs)
		}
	}
	refused(t, statelab(t, "fidelity", filepath.Join(t.TempDir(), "none")), exitUsage, "no such file")
	refused(t, statelab(t, "fidelity"), exitUsage, "name one database, or two")
}
