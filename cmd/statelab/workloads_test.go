package main

import (
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func readWorkload(t *testing.T, db string, args ...string) *result.Run {
	t.Helper()
	out := filepath.Join(t.TempDir(), "R")
	must(t, append([]string{"sweep", "--db", db, "--access-gets", "0", "--out", out}, args...)...)
	return readRun(t, out)
}

// TestReadMissing: with bench_kvdb's options no Get asks the filters of the last
// level, so that an absent key costs the read of the data block it would be in.
func TestReadMissing(t *testing.T) {
	// small: L5 and L6 are filled
	db := small(t, "200k", "--set", "MemTableSize=4MiB", "--set", "LBaseMaxBytes=8MiB")
	run := readWorkload(t, db, "--workload", "readmissing", "--cache", "1MiB", "--warmup", "20k",
		"--gets", "20k")
	f := run.Figures
	if f.Missing != 20_000 || f.Found != 0 {
		t.Errorf("%d missing, %d found of 20000 absent keys", f.Missing, f.Found)
	}

	if run.Inflection.Regime != 3 {
		t.Errorf("phase %d", run.Inflection.Regime)
	}

	if f.OrZero(figure.BlockReadsPerGet) < 0.9 || f.OrZero(figure.BlockReadsPerGet) > 1.05 {
		t.Errorf("%.3f block reads per Get, by type %v", f.OrZero(figure.BlockReadsPerGet),
			f.BlockReadsPerGetByType)
	}
}

func TestMissingShareMixesAbsentKeysIn(t *testing.T) {
	f := readWorkload(t, database(t, "pebble1"), "--missing", "30%", "--cache", "4MiB", "--warmup",
		"0", "--gets", "20k").Figures
	if share := float64(f.Missing) / float64(f.Gets); share < 0.28 || share > 0.32 {
		t.Errorf("%.3f of the Gets found nothing", share)
	}
}

// TestOverwriteLeavesADatabaseThatChecks: reads accept the values of every
// version, and no other.
func TestOverwriteLeavesADatabaseThatChecks(t *testing.T) {
	db := small(t, "40k")
	run := readWorkload(t, db, "--workload", "overwrite", "--puts", "60k", "--cache", "4MiB")
	f := run.Figures
	if f.Puts != 60_000 || f.OrZero(figure.PutsPerSecond) <= 0 || f.PutNanos == nil {
		t.Errorf("%d puts, %.0f a second, commits %+v", f.Puts, f.OrZero(figure.PutsPerSecond),
			f.PutNanos)
	}

	if !f.Has(figure.WriteAmplification) || f.OrZero(figure.WriteAmplification) <= 1 {
		t.Errorf("write amplification %v: log, flush and compaction all write",
			f.Pointer(figure.WriteAmplification))
	}

	m, err := keyspace.ReadManifest(db)
	if err != nil || m.MaxVersion != 1 {
		t.Fatalf("manifest %+v, %v: an overwrite makes version 1", m, err)
	}

	after := readWorkload(t, db, "--gets", "30k", "--warmup", "0").Figures
	if after.Found != 30_000 {
		t.Errorf("%d of 30000 keys found after the overwrite", after.Found)
	}

	// A manifest that knows of no second version must not accept its values.
	m.MaxVersion = 0
	if err := keyspace.WriteManifest(db, m); err != nil {
		t.Fatal(err)
	}

	refused(t,
		statelab(t, "sweep", "--db", db, "--gets", "30k", "--warmup", "0", "--out",
			filepath.Join(t.TempDir(), "R")),
		exitFailed, "wrong answer", "get key ")
}

func TestReadWhileWriting(t *testing.T) {
	db := small(t, "40k")
	run := readWorkload(t, db, "--workload", "readwhilewriting", "--rate", "20k", "--gets", "40k",
		"--write-rate", "40k", "--warmup", "0", "--cache", "4MiB",
		"--set", "MemTableSize=1MiB")
	f := run.Figures
	if f.Found != 40_000 || f.FailedGets != 0 {
		t.Errorf("%d of 40000 found, %d failed", f.Found, f.FailedGets)
	}

	if f.Puts < 10_000 || !f.Has(figure.WriteAmplification) ||
		f.OrZero(figure.WriteAmplification) <= 1 {
		t.Errorf("%d puts, write amplification %v", f.Puts, f.Pointer(figure.WriteAmplification))
	}

	if after := readWorkload(t, db, "--gets", "30k", "--warmup",
		"0").Figures; after.Found != 30_000 {
		t.Errorf("%d of 30000 keys found afterwards", after.Found)
	}
}

// TestOpenLoopStoresBothTimes: a response is never faster than its service.
func TestOpenLoopStoresBothTimes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "R")
	must(t, "sweep", "--db", database(t, "pebble1"), "--rate", "20k", "--threads", "4", "--gets",
		"30k", "--warmup", "0", "--access-gets", "0", "--out", out)
	f := readRun(t, out).Figures
	if f.ResponseNanos == nil {
		t.Fatal("no response times")
	}

	s, r := f.ServiceNanos, f.ResponseNanos
	for _, pair := range [][2]int64{
		{s.P50, r.P50},
		{s.P90, r.P90},
		{s.P99, r.P99},
		{s.Max, r.Max},
		{int64(s.Mean), int64(r.Mean)},
	} {
		if pair[1] < pair[0] {
			t.Errorf("service %+v, response %+v", s, r)
			break
		}
	}

	// The last Get is due after 1.5 s. If it was late, its response took as much longer.
	if late := f.Seconds - 1.5; late < -0.1 || late > float64(r.Max)/1e9+1 {
		t.Errorf("30k Gets at 20k a second took %.2f s, and none longer than %.2f s", f.Seconds,
			float64(r.Max)/1e9)
	}

	checkLatencies(t, onlyPoint(out), "", 30_000, s)
	checkLatencies(t, onlyPoint(out), "response", 30_000, r)
}
