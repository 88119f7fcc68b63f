package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// TestPebbleWithCgo measures both versions of Pebble in both builds: the same blocks are read,
// memory budgets hold, and every answer names the build where it matters.
func TestPebbleWithCgo(t *testing.T) {
	onPath(t, "statelab-run-pebble")
	program := map[string]string{
		engine.PureGo:  runners.NeverCgo,
		engine.WithCgo: runners.AlwaysCgo,
	}
	as := func(build string, args ...string) outcome {
		t.Helper()
		t.Setenv(runners.CgoVariable, program[build])
		return statelab(t, args...)
	}

	ok := func(o outcome) outcome {
		t.Helper()
		if o.exit != exitDone {
			t.Fatal(o)
		}
		return o
	}

	for _, name := range []string{"pebble1", "pebble2"} {
		at := t.TempDir()
		db := filepath.Join(at, "db")
		ok(as(engine.WithCgo, "load", "--engine", name, "--db", db, "--keys", "60k", "--quiet"))
		load, err := result.ReadRun(filepath.Join(db, engine.OwnFolder, "load"))
		if err != nil || load.Build() != engine.WithCgo {
			t.Fatalf("%s: loaded by %q, %v", name, load.Build(), err)
		}

		runs := map[string]*result.Run{}
		for _, build := range []string{engine.PureGo, engine.WithCgo} {
			out := filepath.Join(at, build)
			ok(as(build, "sweep", "--db", db, "--cache", "2MiB", "--threads", "1", "--gets", "20k",
				"--warmup", "5k", "--page-cache", "asis",
				"--out", out, "--quiet"))
			found, err := filepath.Glob(filepath.Join(out, result.PointsDir, "*"))
			if err != nil || len(found) == 0 {
				found = []string{out}
			}

			if runs[build], err = result.ReadRun(found[0]); err != nil {
				t.Fatal(err)
			}

			if got := runs[build].Engine.Options[engine.BuildOption]; got != build ||
				runs[build].Host.Cgo != (build == engine.WithCgo) {
				t.Errorf("%s: the run says %q, cgo %v: want %s", name, got, runs[build].Host.Cgo,
					build)
			}
		}

		pure, cgo := runs[engine.PureGo], runs[engine.WithCgo]
		if pure.Figures.OrZero(figure.BlockReadsPerGet) == 0 || pure.Figures.Gets != 20_000 {
			t.Errorf("%s: %v reads, %d Gets", name, pure.Figures.OrZero(figure.BlockReadsPerGet),
				pure.Figures.Gets)
		}

		for _, figures := range [][2]map[string]float64{
			{pure.Figures.BlockReadsPerGetByType, cgo.Figures.BlockReadsPerGetByType},
			{pure.Figures.BlockReadsPerGetByLevel, cgo.Figures.BlockReadsPerGetByLevel},
			{pure.Figures.BlockAccessesPerGetByType, cgo.Figures.BlockAccessesPerGetByType},
		} {
			if len(figures[0]) == 0 || !maps.Equal(figures[0], figures[1]) {
				t.Errorf("%s: the builds read other blocks: %s", name,
					cmp.Diff(figures[0], figures[1]))
			}
		}

		o := ok(as(engine.PureGo, "compare", filepath.Join(at, engine.PureGo),
			filepath.Join(at, engine.WithCgo)))
		if !o.says("build") || !o.says("pure Go") || !o.says("cgo") {
			t.Errorf("compare does not name the builds: %v", o)
		}

		// What reads keys of a client's database in this process does so whichever build is
		// measured.
		foreign := filepath.Join(at, "foreign")
		if err := errors.Join(os.CopyFS(foreign, os.DirFS(db)),
			os.RemoveAll(filepath.Join(foreign, engine.OwnFolder))); err != nil {
			t.Fatal(err)
		}

		traces := map[string][]byte{}
		for build, file := range map[string]string{
			engine.PureGo:  "pure.trace",
			engine.WithCgo: "cgo.trace",
		} {
			ok(as(build, "trace", "--db", foreign, "--use-existing", "--gets", "2k", "--warmup",
				"1k", "--sample-keys", "2k", "--out", filepath.Join(at, file)))
			if traces[build], err = os.ReadFile(filepath.Join(at, file)); err != nil {
				t.Fatal(err)
			}

			o := ok(as(build, "advise", foreign, "--probe-seconds", "0"))
			if strings.Contains(o.stderr, "cannot be traced") {
				t.Errorf("%s: advise does without a trace: %v", build, o)
			}
		}

		if !bytes.Equal(traces[engine.PureGo], traces[engine.WithCgo]) {
			t.Errorf("%s: the builds trace other Gets", name)
		}

		// A sweep with a budget, resumed in the other build.
		out := filepath.Join(at, "sweep")
		sweep := []string{"sweep", "--db", db, "--memory", "48MiB,64MiB", "--page-cache", "cold",
			"--threads", "1", "--gets", "5k", "--warmup", "5k",
			"--out", out, "--quiet"}
		ok(as(engine.PureGo, sweep...))
		if s := sweepOf(t, out); slices.ContainsFunc(s.Warnings, isMixed) {
			t.Errorf("%s: mixed: %v", name, s.Warnings)
		}

		before := runsOf(t, out, sweepOf(t, out))
		if err := os.Remove(filepath.Join(out, sweepOf(t, out).Points[1].Run,
			result.RunFile)); err != nil {
			t.Fatal(err)
		}

		ok(as(engine.WithCgo, "sweep", "--out", out, "--quiet", "--resume"))
		s := sweepOf(t, out)
		if !slices.ContainsFunc(s.Warnings, isMixed) {
			t.Errorf("%s: nothing says that the sweep mixes builds: %v", name, s.Warnings)
		}

		after := runsOf(t, out, s)
		if after[0].Build() != engine.PureGo || after[1].Build() != engine.WithCgo {
			t.Fatalf("%s: %s, %s", name, after[0].Build(), after[1].Build())
		}

		a, b := before[1].Memory, after[1].Memory
		if a.HeldBy != b.HeldBy || (a.PageCacheBytes == nil) != (b.PageCacheBytes == nil) ||
			a.PageCacheBytes != nil && *a.PageCacheBytes != *b.PageCacheBytes {
			t.Errorf("%s: another page cache with cgo: %s", name, cmp.Diff(a, b))
		}

		if cmp.Diff(a.Shares, b.Shares) != "" {
			t.Errorf("%s: the budget is spent in another way with cgo: %s", name,
				cmp.Diff(a.Shares, b.Shares))
		}
	}

	for build, say := range map[string]string{
		engine.PureGo:  "this program, in pure Go, as STATELAB_CGO=0 asks",
		engine.WithCgo: "statelab-run-pebble, with cgo",
	} {
		if o := ok(as(build, "engines")); !o.says(say) {
			t.Errorf("no %q in %v", say, o)
		}
	}

	refused(t,
		as(engine.WithCgo, "load", "--engine", "pebble1", "--db", filepath.Join(t.TempDir(), "db"),
			"--keys", "1k", "--set", "Compression=zstd"),
		exitUsage, "zstd", "STATELAB_CGO=0")

	t.Setenv("PATH", "/usr/bin")
	refused(t,
		as(engine.WithCgo, "load", "--engine", "pebble1", "--db", filepath.Join(t.TempDir(), "db"),
			"--keys", "1k"), exitUsage, "statelab-run-pebble")
	t.Setenv(runners.CgoVariable, "yes")
	refused(t,
		statelab(t, "load", "--engine", "pebble1", "--db", filepath.Join(t.TempDir(), "db"),
			"--keys", "1k"), exitUsage, "STATELAB_CGO=yes", "must be 0")
}

func isMixed(w engine.Warning) bool { return w.Code == "mixed_builds" }
