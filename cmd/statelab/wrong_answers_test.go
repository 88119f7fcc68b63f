package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/plan/runners"
)

var lies = flag.Int("lies", 4, "lies told to each verb (make damage: 100)")

// TestOneLieIsCaught: an engine that answers one Get of a run wrongly fails the run, in
// every verb that makes Gets, wherever in the run the Get is. A lie that no Get of the
// run meets is not seen: of lies at a rate p, a run of n checked Gets misses all with
// probability (1-p)^n.
func TestOneLieIsCaught(t *testing.T) {
	onPath(t, "statelab-run-native", "statelab-run-states")
	sources, err := filepath.Glob("../../examples/native-c/*.c")
	if err != nil {
		t.Fatal(err)
	}

	library := func(source string, more ...string) string {
		path := filepath.Join(t.TempDir(), "liar.so")
		native(t, "cc",
			append([]string{"-O2", "-shared", "-fPIC", "-I../../native",
				"-I../../examples/native-c", "-o", path, source}, more...)...)
		return path
	}

	var rest []string
	for _, s := range sources {
		if filepath.Base(s) != "engine.c" {
			rest = append(rest, s)
		}
	}

	engine := library("testdata/lying_engine.c", append(rest, "-lpthread")...)
	state := library("testdata/lying_state.c")
	db := filepath.Join(t.TempDir(), "db")
	must(t, "load", "--db", db, "--engine", "native", "--set", "library="+engine, "--keys", "20k")
	reads := []string{"--engine", "native", "--gets", "20k", "--warmup", "2k", "--access-gets",
		"0", "--set", "library=" + engine}
	disk := filepath.Join(t.TempDir(), "disk.json")
	write(t, disk,
		`{"schema": "statelab.hardware/1", "name": "nvme", "points": [
			{"in_flight": 1, "reads_per_second": 12500, "mean_ns": 80000}]}`)
	for _, c := range []struct {
		name  string
		kinds []string
		gets  int64 // among which the lie is; the first of them are of the warm-up
		own   bool  // the run needs a database of its own
		args  []string
	}{
		{"read", []string{"flip", "shorter", "other", "missing"}, 22_000, false,
			append([]string{"sweep"}, reads...)},
		{"read absent", []string{"invent", "missing"}, 20_000, false,
			append([]string{"sweep", "--missing", "30%"}, reads...)},
		{"sweep", []string{"flip", "missing"}, 22_000, false,
			append([]string{"sweep", "--cache", "1MiB,2MiB", "--threads", "1,2", "--disk", "none"},
				reads...)},
		{"multireadrandom", []string{"flip", "missing"}, 22_000, false,
			append([]string{"sweep", "--workload", "multireadrandom"}, reads...)},
		{"readwhilewriting", []string{"stale", "flip", "missing"}, 15_000, true,
			append([]string{"sweep", "--workload", "readwhilewriting"}, reads...)},
		{
			"layouts",
			[]string{"flip", "missing"},
			2_000,
			false,
			[]string{"layouts", "--layout", "liar", "--accounts", "1k",
				"--accounts-per-block", "500", "--updates", "50",
				"--update-blocks", "2", "--reads", "1k"},
		},
		{
			"price",
			[]string{"flip", "missing"},
			2_000,
			false,
			[]string{"price", "--layout", "liar", "--accounts", "1k", "--contract-slots", "100",
				"--at", "2k",
				"--contract-at", "100", "--accounts-per-block", "500", "--updates", "50",
				"--update-blocks", "2", "--reads", "1k", "--hardware", disk},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := 0
			// some find no Get to be told at
			for n := 0; told < max(*lies, len(c.kinds)) && n < 10**lies; n++ {
				random := rand.New(rand.NewPCG(uint64(n), 3))
				lie := fmt.Sprintf("%s:%d", c.kinds[n%len(c.kinds)], random.Int64N(c.gets))
				dir := t.TempDir()
				args := append(c.args, "--out", filepath.Join(dir, "out"))
				if c.name != "layouts" && c.name != "price" {
					mine := db
					if c.own {
						mine = filepath.Join(dir, "db")
						copyTree(t, db, mine)
					}

					args = append(args, "--db", mine)
				}

				it := filepath.Join(dir, "told")
				o := startIn(t, t.TempDir(),
					[]string{"STATELAB_LIE=" + lie, "STATELAB_LIE_TOLD=" + it,
						runners.StateLibrary + "=" + state}, args...).wait()
				if _, err := os.Stat(it); err != nil {
					if o.exit != exitDone {
						t.Fatalf("%s was not told: %v", lie, o)
					}
					continue
				}

				told++
				if o.exit != exitFailed ||
					!o.says("wrong answer") && !strings.Contains(o.stderr, "wrong answer") &&
						!strings.Contains(o.stderr, "lost update") {
					t.Errorf("%s is not caught: %v", lie, o)
				}
			}

			t.Logf("%d lies told", told)
			if told == 0 {
				t.Error("no lie was told")
			}
		})
	}
}

// native runs a tool of those who build libraries.
func native(t *testing.T, name string, args ...string) {
	t.Helper()
	command := exec.Command(name, args...)
	command.Env = append(os.Environ(), "CGO_ENABLED=1")
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, text)
	}
}
