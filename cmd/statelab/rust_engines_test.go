package main

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// withRustEngines puts the runner of shared libraries on PATH, with the engines in Rust beside it.
func withRustEngines(t *testing.T) {
	t.Helper()
	dir := filepath.Join(scratch, "rust")
	put(t, dir, []string{"statelab-run-native"})
	rustLibraries(t, dir)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestEnginesInRust: engines whose libraries lie beside their runner are engines by name.
func TestEnginesInRust(t *testing.T) {
	withRustEngines(t)
	for _, c := range []struct{ engine, option, otherwise string }{
		{"fjall", "block_bytes=16384", "block_bytes=4096"},
		{"parity-db", "uniform=true", "uniform=false"},
	} {
		t.Run(c.engine, func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "db")
			must(t, "load", "--engine", c.engine, "--db", db, "--keys", "20k", "--set", c.option)
			out := filepath.Join(t.TempDir(), "S")
			must(t, "sweep", "--db", db, "--memory", "16MiB", "--page-cache", "cold", "--missing",
				"0%,90%", "--threads", "1,8",
				"--gets", "20k", "--warmup", "0", "--out", out)
			for _, run := range runsOf(t, out, sweepOf(t, out)) {
				f, absent := run.Figures, run.Workload.MissingShare
				if share := float64(f.Missing) / 20_000; f.Found+f.Missing != 20_000 ||
					math.Abs(share-absent) > 0.02 {
					t.Errorf("%d found, %d missing, of which %v were to be", f.Found, f.Missing,
						absent)
				}

				if !f.Has(figure.BlockReadsPerGet) || f.OrZero(figure.BlockReadsPerGet) <= 0 ||
					f.OrZero(figure.BlockReadsPerGet) > 4 {
					t.Errorf("%v block reads or page faults a Get",
						f.Pointer(figure.BlockReadsPerGet))
				}

				for _, check := range run.Checks {
					if !check.OK {
						t.Errorf("check failed: %+v", check)
					}
				}
			}

			must(t, "sweep", "--db", db, "--workload", "overwrite", "--puts", "5k", "--out",
				filepath.Join(t.TempDir(), "W"))
			refused(t,
				statelab(t, "sweep", "--db", db, "--set", c.otherwise, "--gets", "1k", "--out",
					filepath.Join(t.TempDir(), "R")), exitUsage, c.otherwise[:4])
			refused(t,
				statelab(t, "load", "--engine", c.engine, "--db", db+"2", "--keys", "1k", "--set",
					"no=1"), exitUsage, `unknown option "no"`, c.option[:4])

			out = filepath.Join(t.TempDir(), "H")
			held := start(t, "sweep", "--db", db, "--rate", "10k", "--gets", "1M", "--warmup", "0",
				"--out", out)
			held.until("a second is measured", func() bool {
				ticks, err := result.ReadSeries(onlyPoint(out))
				return err == nil && len(ticks) > 0
			})

			refused(t,
				statelab(t, "sweep", "--db", db, "--gets", "1k", "--out",
					filepath.Join(t.TempDir(), "R")), exitFailed,
				db, "is in use by process "+strconv.Itoa(held.runner()))

			held.signal(syscall.SIGKILL)
			held.wait()
			must(t, "sweep", "--db", db, "--gets", "1k", "--out", filepath.Join(t.TempDir(), "R"))
		})
	}
}

// TestKilledLoadsOfEnginesInRust: what a killed load has left is gone on with.
func TestKilledLoadsOfEnginesInRust(t *testing.T) {
	withRustEngines(t)
	for _, engine := range []string{"fjall", "parity-db"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "db")
			s := start(t, "load", "--engine", engine, "--db", db, "--keys", "300k")
			s.until("keys are in files", func() bool {
				_, err := keyspace.ReadManifest(db)
				// its lock, a log and the folder statelab among them
				files, _ := filepath.Glob(filepath.Join(db, "*"))
				return err == nil && len(files) > 3
			})

			s.signal(syscall.SIGKILL)
			s.wait()
			if m, err := keyspace.ReadManifest(db); err != nil || m.Loaded >= m.Keys {
				t.Fatalf("%+v, %v: the load was over", m, err)
			}

			must(t, "load", "--db", db, "--resume")
			if f := readWorkload(t, db, "--gets", "300k", "--threads", "2", "--warmup",
				"0").Figures; f.Found != 300_000 {
				t.Errorf("%d of 300,000 Gets found their key", f.Found)
			}
		})
	}
}

// TestFormatsOfOtherVersionsOfEnginesInRust: a database that another version of the library wrote
// is refused and stays as it is.
func TestFormatsOfOtherVersionsOfEnginesInRust(t *testing.T) {
	withRustEngines(t)
	for _, c := range []struct{ engine, file, own, other, says string }{
		{"fjall", "version", "FJL\x03", "FJL\x02", "the file version is not of fjall 3"},
		{"fjall", "version", "FJL\x03", "FJL\x04", "the file version is not of fjall 3"},
		{"parity-db", "metadata", "version=9\n", "version=3\n", "Unsupported database version 3"},
		{"parity-db", "metadata", "version=9\n", "version=10\n",
			"it has format 10, and this ParityDB reads formats up to 9"},
	} {
		db := small(t, "1k", "--engine", c.engine)
		file := filepath.Join(db, c.file)
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(text), c.own) {
			t.Fatalf("%s begins %q, %v", file, text, err)
		}

		write(t, file, c.other+strings.TrimPrefix(string(text), c.own))
		before := fingerprint(t, db)
		refused(t,
			statelab(t, "sweep", "--db", db, "--gets", "1k", "--warmup", "0", "--access-gets",
				"0"), exitFailed, db,
			c.says)

		if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
			t.Errorf("the database changed:\n%s", diff)
		}
	}
}
