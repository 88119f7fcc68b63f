//go:build cgo

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/cengine"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// TestFaultsOfALibraryAreResults runs a real engine that goes wrong in its Gets, in
// the real runner: each fault must be named in the result, with where it happened.
func TestFaultsOfALibraryAreResults(t *testing.T) {
	runner, library := buildRunner(t), buildFaulty(t)
	db := filepath.Join(t.TempDir(), "db")
	if run := measure(t, runner, loadSpec(t, db, library), time.Minute); run.Status != result.OK {
		t.Fatalf("the sound load %s: %s", run.Status, run.Error)
	}

	for _, c := range []struct {
		fault, after string
		says         []string
	}{
		{"wrong", "100", []string{"measure: thread 0: get key ", "wrong answer: "}},
		{"lose", "100",
			[]string{"measure: thread 0: get key ", "a key that was written is missing"}},
		{"fail", "100",
			[]string{"measure: thread 0: get key ",
				"faulty: read block 17 of table: Input/output error"}},
		{"hang", "8000", []string{"hung: silent for 3s, killed in phase measure at op "}},
		{"crash", "8000",
			[]string{"killed by signal 11 (segmentation fault) in phase measure at op ",
				"SIGSEGV"}},
		{"abort", "8000",
			[]string{"killed by signal 6 (aborted) in phase measure at op ", "SIGABRT"}},
	} {
		t.Run(c.fault, func(t *testing.T) {
			patience := time.Minute
			if c.fault == "hang" {
				patience = 3 * time.Second
			}

			run := measure(t, runner, readSpec(t, db, library, c.fault, c.after), patience)
			if run.Status != result.Failed {
				t.Errorf("status %s", run.Status)
			}

			for _, part := range c.says {
				if !strings.Contains(run.Error, part) {
					t.Errorf("the result says %q, which lacks %q", run.Error, part)
				}
			}

			t.Log(run.Error)
		})
	}

	t.Run("leak", func(t *testing.T) {
		run := measure(t, runner, readSpec(t, db, library, "leak", "0"), time.Minute)
		named := slices.ContainsFunc(run.Warnings, func(w engine.Warning) bool {
			return w.Code == "memory_grows"
		})
		if run.Status != result.OK || !named {
			t.Errorf("%s %s, warnings %v", run.Status, run.Error, run.Warnings)
		}
	})

	t.Run("none", func(t *testing.T) { // the counters of a library reach the figures
		run := measure(t, runner, readSpec(t, db, library, "none", "0"), time.Minute)
		reads := run.Figures.Value(figure.BlockReadsPerGet)
		if run.Status != result.OK || reads.OrZero() < 0.5 {
			t.Fatalf("%s: %s, %v block reads per Get", run.Status, run.Error, reads)
		}

		if o := run.Engine.Options; o["library"] != library || o["library_name"] != "faulty" ||
			o["library_version"] != "1" {
			t.Errorf("the run does not name its library: %v", o)
		}

		for _, w := range run.Warnings {
			if w.Code == "memory_grows" {
				t.Error(w.Text)
			}
		}

		for _, c := range run.Checks {
			if !c.OK {
				t.Errorf("check failed: %+v", c)
			}
		}
	})
}

func measure(t *testing.T, runner string, spec *bench.Spec, patience time.Duration) *result.Run {
	t.Helper()
	run, err := runners.Runner{Path: runner, Patience: patience}.Do(
		t.Context(),
		runners.Job{Spec: spec, Blank: func() *result.Run { return bench.Blank(spec, "") }},
		func(result.Event) {},
	)
	if err != nil {
		t.Fatal(err)
	}

	return run
}

const keys = 20_000

func loadSpec(t *testing.T, db, library string) *bench.Spec {
	return &bench.Spec{
		Schema:     schema.EngineSpec,
		Verb:       bench.Load,
		Out:        t.TempDir(),
		Engine:     "native",
		Dir:        db,
		Overrides:  map[string]string{cengine.LibraryOption: library},
		PageCache:  bench.AsIs,
		Workload:   workload.FillRandom,
		Threads:    1,
		Seed:       1,
		BatchKeys:  100,
		Keys:       keys,
		KeyBytes:   32,
		KeyHash:    "mix",
		ValueModel: "random",
		ValueBytes: 110,
	}
}

func readSpec(t *testing.T, db, library, fault, after string) *bench.Spec {
	return &bench.Spec{
		Schema:     schema.EngineSpec,
		Verb:       bench.Read,
		Out:        t.TempDir(),
		Engine:     "native",
		Dir:        db,
		ReadOnly:   true,
		CacheBytes: 1 << 20,
		Overrides: map[string]string{
			cengine.LibraryOption: library,
			"fault":               fault,
			"after":               after,
		},
		PageCache: bench.AsIs,
		Workload:  workload.ReadRandom,
		Threads:   1,
		Seed:      1,
		Gets:      100_000,
	}
}

func buildRunner(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "statelab-run-native")
	build(t, "go", "build", "-o", path, ".")
	return path
}

func buildFaulty(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libfaulty.so")
	build(t, "cc", "-O2", "-std=gnu11", "-shared", "-fPIC", "-I../../native", "-o", path,
		"../../engines/cengine/testdata/faulty.c")
	return path
}

func build(t *testing.T, name string, args ...string) {
	t.Helper()
	command := exec.Command(name, args...)
	command.Env = append(os.Environ(), "CGO_ENABLED=1")
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v (apt-get install gcc)\n%s", name, err, text)
	}
}
