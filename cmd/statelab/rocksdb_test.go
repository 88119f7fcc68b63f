package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPredictedCurvesOfRocksDB: what a sweep predicts is what RocksDB reads: with the profile that
// the database was loaded with, with another one, whose options replace those of its OPTIONS file,
// and with another kind of cache.
func TestPredictedCurvesOfRocksDB(t *testing.T) {
	withCRunners(t)
	db := filepath.Join(t.TempDir(), "db")
	must(t, "load", "--engine", "rocksdb", "--profile", "default", "--db", db, "--keys", "30k")
	for _, more := range [][]string{
		{"--profile", "default"},
		{"--profile", "monolithic"},
		{"--profile", "monolithic", "--set", "cache-kind=hyper-clock"},
	} {
		text := must(t,
			append([]string{"sweep", "--db", db, "--use-existing", "--cache", "600KiB,2MiB",
				"--gets", "5k", "--warmup", "5k", "--json"},
				more...)...).stdout

		var swept struct {
			Points []struct {
				Figures struct {
					Reads float64 `json:"block_reads_per_get"`
				}
			}
			Predicted []struct {
				Reads    float64            `json:"block_reads_per_get"`
				HitRates map[string]float64 `json:"hit_rate"`
			}
		}

		if err := json.Unmarshal([]byte(text), &swept); err != nil {
			t.Fatal(err)
		}

		if len(swept.Predicted) != 2 || len(swept.Points) != 2 {
			t.Fatalf("%v: %d points and %d predicted", more, len(swept.Points),
				len(swept.Predicted))
		}

		for i, p := range swept.Predicted {
			if got := swept.Points[i].Figures.Reads; got == 0 || math.Abs(p.Reads/got-1) > 0.005 {
				t.Errorf("%v: %g reads per Get predicted, %g measured", more, p.Reads, got)
			}

			if _, asked := p.HitRates["filter"]; asked != (more[1] == "monolithic") {
				t.Errorf("%v: hit rates %v", more, p.HitRates)
			}
		}
	}
}

// TestRocksDBWithoutItsRunner: advise and inspect read a database of RocksDB themselves where its
// runner is not installed, and say the same.
func TestRocksDBWithoutItsRunner(t *testing.T) {
	withCRunners(t)
	db := filepath.Join(t.TempDir(), "db")
	must(t, "load", "--engine", "rocksdb", "--db", db, "--keys", "30k", "--quiet")
	asked := [][]string{
		{"advise", db, "--memory", "8MiB"},
		{"advise", db, "--cache", "1MiB", "--json"},
		{"inspect", db},
		{"inspect", db, "--as", "node"},
	}

	var with []outcome
	for _, args := range asked {
		with = append(with, statelab(t, args...))
	}

	t.Setenv("PATH", "/usr/bin:/bin")
	for i, args := range asked {
		without := statelab(t, args...)
		if with[i].stdout == "" {
			t.Errorf("%v: %v", args, with[i])
		}
		if diff := cmp.Diff(with[i].stdout, without.stdout); diff != "" {
			t.Errorf("%v: with the runner (-), without (+):\n%s%s", args, diff, without.stderr)
		}
	}
}
