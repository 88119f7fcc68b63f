package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/result"
)

func adviceOf(t *testing.T, text string) (a advise.Advice) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return a
}

// A cache that is too small, the recommended one, and both measured: the advice
// must come true, and the database stay as it was.
func TestAdviceComesTrue(t *testing.T) {
	testring.Outer(t, "it measures what was advised")
	for _, engine := range []string{"pebble1", "pebble2"} {
		t.Run(engine, func(t *testing.T) {
			if testing.Short() && engine == "pebble2" {
				t.Skip("the same as pebble1, for as long again")
			}

			db := database(t, engine)
			before := fingerprint(t, db)
			out := filepath.Join(t.TempDir(), "A")
			o := must(t, "advise", db, "--cache", "400KiB", "--write-rate", "0",
				"--gets-per-second", "5k", "--latency-goal", "1s",
				"--verify", "--gets", "20k", "--probe-seconds", "0", "--out", out, "--json",
				"--quiet")

			a := adviceOf(t, o.stdout)
			if a.Recommendation.Keep || a.Then.CacheBytes <= a.Now.CacheBytes ||
				a.Now.CacheBytes != 400<<10 {
				t.Errorf("from %d to %d, keep %v", a.Now.CacheBytes, a.Then.CacheBytes,
					a.Recommendation.Keep)
			}

			if len(a.Recommendation.Flags) != 1 ||
				!strings.HasPrefix(a.Recommendation.Flags[0], "--cache ") {
				t.Errorf("flags %v", a.Recommendation.Flags)
			}

			if len(a.Verified) != 2 {
				t.Fatalf("verified %+v", a.Verified)
			}

			for _, v := range a.Verified {
				if v.Measured <= 0 || math.Abs(v.ErrorPercent) > 12 {
					t.Errorf("%d: predicted %.3f, measured %.3f, error %.1f %%", v.CacheBytes,
						v.Predicted, v.Measured, v.ErrorPercent)
				}
			}

			if now, then := a.Verified[0].Measured, a.Verified[1].Measured; then > 1.1 ||
				then > now-0.2 {
				t.Errorf("measured %.3f now and %.3f then: what was promised is %.3f", now, then,
					a.Then.BlockReadsPerGet)
			}

			if kept, err := os.ReadFile(filepath.Join(out, result.AdviceFile)); err != nil ||
				string(kept) != o.stdout {
				t.Errorf("%s is not what was printed: %v", result.AdviceFile, err)
			}

			if picture, err := os.ReadFile(filepath.Join(out, advicePicture)); err != nil ||
				!bytes.HasPrefix(picture, []byte("<svg ")) {
				t.Errorf("the picture is %.40s: %v", picture, err)
			}

			if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
				t.Errorf("the database was changed:\n%s", diff)
			}

			refused(t, statelab(t, "advise", db, "--out", out), exitUsage,
				"already holds advice: choose another folder")
		})
	}
}

// TestAdviceForgetsCommands: of a database that statelab loaded, what a command opened it with says
// nothing about a node.
func TestAdviceForgetsCommands(t *testing.T) {
	testring.Outer(t, "it measures for advice")
	db := database(t, "pebble1")
	advice := func() string {
		return must(t, "advise", db, "--memory", "4MiB", "--probe-seconds", "0", "--quiet").stdout
	}
	first := advice()
	for _, cache := range []string{"300KiB", "8MiB"} {
		must(t, "sweep", "--db", db, "--cache", cache, "--gets", "100", "--warmup", "0", "--quiet")
		if diff := cmp.Diff(first, advice()); diff != "" {
			t.Errorf("after a read with a cache of %s:\n%s", cache, diff)
		}
	}

	if !strings.Contains(first, "Memtables: those of the profile bench-kvdb") ||
		strings.Contains(first, "present cache") {
		t.Errorf("it says\n%s", first)
	}
}

// A node's database: what it runs is in its OPTIONS file, and only read.
func TestAdviceForANode(t *testing.T) {
	testring.Outer(t, "it measures a node for advice")
	for _, engine := range []string{"pebble1", "pebble2"} {
		t.Run(engine, func(t *testing.T) {
			db := newForeign(t, engine)
			before := fingerprint(t, db)
			o := must(t, "advise", db, "--probe-seconds", "0.05", "--quiet")
			if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
				t.Errorf("the database was changed:\n%s", diff)
			}

			first, _, _ := strings.Cut(o.stdout, "\n")
			if !o.says("8.00 MiB") || !o.says("The node's cache is known from: OPTIONS-") ||
				!strings.Contains(first, "cache") {
				t.Errorf("8 MiB is the library's default\n%v", o)
			}

			for _, words := range []string{"--cache.database", "Options.Cache = pebble.NewCache(",
				"file handles", "IP1", "Disk: random", "never consulted"} {
				doubted := words == "Disk: random" &&
					strings.Contains(strings.Join(strings.Fields(o.stdout), " "),
						"Whether the disk is the limit cannot be told")
				if !o.says(words) && !doubted {
					t.Errorf("does not say %q\n%v", words, o)
				}
			}

			for _, line := range strings.Split(o.stdout, "\n") {
				if len([]rune(line)) > 80 {
					t.Errorf("wider than 80: %s", line)
				}
			}

			// 60,000 keys of 48 bytes: a cache of 16 MiB holds them all.
			if a := must(t, "advise", db, "--probe-seconds", "0", "--cache", "16MiB",
				"--quiet"); !strings.HasPrefix(a.stdout,
				"The cache of 16.0 MiB given with --cache is large enough: the whole database") {
				t.Error(a)
			}

			refused(t,
				statelab(t, "advise", db, "--probe-seconds", "0", "--memory", "100KiB", "--quiet"),
				exitUsage, "too little for geth", "at least --memory")
		})
	}
}

func TestAdviceOnAHeldDatabase(t *testing.T) {
	testring.Outer(t, "as TestHeldDatabase, with a curve")
	db := newForeign(t, "pebble2")
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), holderOf+"=pebble2:"+db)
	owner.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	words, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}

	defer func() {
		if err := owner.Process.Kill(); err != nil {
			t.Error(err)
		}
		owner.Wait() // its error is the kill
	}()

	held := make([]byte, len("held\n"))
	if _, err := words.Read(held); err != nil || string(held) != "held\n" {
		t.Fatalf("the owner says %q, %v", held, err)
	}

	refused(t, statelab(t, "advise", db), exitFailed, "is in use by process", "--ignore-lock")
	before := fingerprint(t, db)
	// What limits the owner is not in its files, and every command that reads them says so alike.
	ask := fmt.Sprintf("this command sees none of its Gets: sudo statelab watch --pid %d does",
		owner.Process.Pid)
	for _, args := range [][]string{
		{"advise", db, "--ignore-lock", "--probe-seconds", "0"},
		{"tune", "--db", db, "--ignore-lock", "--memory", "4MiB", "--gets", "2k", "--timeout",
			"1s"},
		{"inspect", db, "--ignore-lock", "--as", "node"},
		{"doctor", "--db", db},
		{"disk", db, "--in-flight", "1", "--seconds", "0.05", "--repeats", "1", "--fio", "none"},
	} {
		o := must(t, args...)
		if !strings.Contains(strings.Join(strings.Fields(o.stdout), " "), ask) {
			t.Errorf("%s does not say %q:\n%v", args[0], ask, o)
		}
	}
	if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
		t.Errorf("the database was changed:\n%s", diff)
	}
}

// TestAdviceOfAnotherDatabasesTrace: a trace of another database of the same engine is refused.
func TestAdviceOfAnotherDatabasesTrace(t *testing.T) {
	testring.Outer(t, "it loads two databases")
	dir := t.TempDir()
	trace := filepath.Join(dir, "T")
	// B is flushed once, and has written fewer files than A.
	for name, keys := range map[string]string{"A": "60k", "B": "4k"} {
		must(t, "load", "--engine", "pebble2", "--keys", keys, "--set", "MemTableSize=1MiB",
			"--db", filepath.Join(dir, name), "--quiet")
	}

	must(t, "trace", "--db", filepath.Join(dir, "A"), "--warmup", "5k", "--gets", "5k", "--out",
		trace, "--quiet")
	advised := func(name string) outcome {
		return statelab(t, "advise", filepath.Join(dir, name), "--trace", trace, "--cache", "1MiB",
			"--write-rate", "0", "--probe-seconds", "0", "--quiet")
	}

	if own := advised("A"); own.exit != 0 {
		t.Error(own)
	}

	refused(t, advised("B"), exitUsage, "it is not of "+filepath.Join(dir, "B"))
}

// TestAdviceForAGrownState: what is predicted of a database that grows to twice its keys is what a
// load of as many has.
func TestAdviceForAGrownState(t *testing.T) {
	testring.Outer(t, "it loads two databases")
	dir := t.TempDir()
	for _, keys := range []string{"150k", "300k"} {
		must(t, "load", "--engine", "pebble2", "--keys", keys, "--set", "LBaseMaxBytes=2MiB",
			"--set", "MemTableSize=1MiB", "--set", "TargetFileSize=512KiB",
			"--db", filepath.Join(dir, keys), "--quiet")
	}

	advised := func(keys, cache string, more ...string) advise.Advice {
		return adviceOf(t, must(t, append([]string{"advise", filepath.Join(dir, keys), "--cache",
			cache, "--write-rate", "0", "--probe-seconds", "0", "--json", "--quiet"},
			more...)...).stdout)
	}

	// The model's error (docs/prediction.md), and L0, which a load leaves as it happens to be.
	const near = 0.15
	apart := func(what, cache string, predicted, loaded float64) {
		t.Helper()
		t.Logf("%s with %s: predicted %.4g, of a load %.4g", what, cache, predicted, loaded)
		if math.Abs(predicted-loaded) > near*loaded {
			t.Errorf("%s with %s: predicted %.4g, a load has %.4g", what, cache, predicted, loaded)
		}
	}

	for _, cache := range []string{"2MiB", "16MiB"} {
		small := advised("150k", cache, "--state-growth", "2x")
		g, large := small.Growth, advised("300k", cache)
		if g == nil || g.Now != small.Now.Place || g.Factor != 2 ||
			!strings.Contains(small.Answer, "If its state grows to 2x") {
			t.Fatalf("%+v: %s", g, small.Answer)
		}

		apart("bytes", cache, float64(g.Bytes), float64(large.Database.Bytes))
		apart("block reads per Get", cache, g.Then.BlockReadsPerGet, large.Now.BlockReadsPerGet)
		if g.Then.BlockReadsPerGet < g.Now.BlockReadsPerGet || g.Same == nil ||
			g.Same.CacheBytes < g.Now.CacheBytes {
			t.Errorf("a larger database reads less: %+v", g)
		}
	}
}

// TestYearlyGrowth: a share for each year until a date is as many times the present state.
func TestYearlyGrowth(t *testing.T) {
	now := time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		growth, at string
		factor     float64
		words      string
		wrong      string
	}{
		{"2x", "", 2, "to 2x", ""},
		{"30%", "2029", 1.69, "by 30% a year until January 2029, to 1.7x", ""},
		{"30%", "", 0, "", "a share is that of a year"},
		{"2x", "2029", 0, "", "only with a yearly growth"},
		{"30%", "2026-11", 0, "", "must lie ahead"},
		{"900%", "2031", 0, "", "at most 100 times is predicted"},
	} {
		f, m := new(adviseFlags), new(mistakes)
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		setting.Var(flags, &f.growth, setting.GrowthRate.Optional(), "state-growth", "", "")
		setting.Var(flags, &f.at, setting.Month.Optional(), "at", "", "")
		if err := flags.Parse([]string{"--state-growth", c.growth, "--at", c.at}); err != nil {
			t.Fatal(err)
		}

		got, err := f.grown(now, m), m.Err()
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || math.Abs(got.Factor-c.factor) > 0.01 || got.String() != c.words:
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}
