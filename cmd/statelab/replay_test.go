package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/result"
)

// Replay end to end: real processes, with a tree that fails on demand in a runner
// of its own beside the binary.

// changes makes a small set of one busy store and an empty one.
func changes(t *testing.T, versions int) string {
	t.Helper()
	beside(t, "statelab-run-replaytest")
	path := filepath.Join(t.TempDir(), "set.slcs")
	must(t, "changeset", "generate", "--profile", "bank", "--versions", fmt.Sprint(versions),
		"--scale", "0.002", "--empty-store", "--out", path)
	return path
}

func readReplay(t *testing.T, out string) *result.ReplayOf {
	t.Helper()
	r, err := result.ReadReplay(out)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReplayOfTheNullTree(t *testing.T) {
	set, out := changes(t, 50), filepath.Join(t.TempDir(), "R")
	o := must(t, "replay", "--tree", "null", "--changes", set, "--out", out, "--repeats", "2",
		"--json")
	var printed result.ReplayOf
	if err := json.Unmarshal([]byte(o.stdout), &printed); err != nil {
		t.Fatal(err, o)
	}

	r := readReplay(t, out)
	if len(r.Trees) != 1 || len(r.Trees[0].Runs) != 2 ||
		r.Trees[0].Figures.Leaves != printed.Trees[0].Figures.Leaves ||
		r.Trees[0].Figures.Versions != 50 {
		t.Errorf("%+v", r.Trees)
	}

	if len(r.Counters) != 1 || r.Counters[0].Verdict != result.Identical || len(r.Roots) != 0 {
		t.Errorf("counters %+v, roots %+v", r.Counters, r.Roots)
	}

	page, err := os.ReadFile(filepath.Join(out, result.ReportFile))
	if err != nil ||
		strings.Contains(string(page), "http://") && !strings.Contains(string(page), "www.w3.org") {
		t.Errorf("the page loads something: %v", err)
	}
}

func TestReplayComparesRootsOfTrees(t *testing.T) {
	set, out := changes(t, 50), filepath.Join(t.TempDir(), "R")
	o := must(t, "replay", "--tree", "replaytest,null", "--changes", set, "--out", out,
		"--repeats", "2", "--gets", "2000")
	for _, says := range []string{"identical at all 50 versions compared", "Statelab's own work:",
		"a kill loses nothing"} {
		if !o.says(says) {
			t.Errorf("stdout lacks %q\n%v", says, o)
		}
	}

	different := filepath.Join(t.TempDir(), "D")
	refused(t,
		statelab(t, "replay", "--tree", "replaytest,replaytest-impostor", "--changes", set,
			"--out", different), exitFailed, "trees disagree on roots")
	r := readReplay(t, different)
	v := r.Roots[0]
	if r.Status != result.Failed || v.Verdict != result.Different || v.FirstDifference != 20 ||
		v.LastAgreement != 19 || len(v.ByRoot) != 2 ||
		len(v.DifferingStores) != 2 {
		t.Errorf("%s: %+v", r.Status, v)
	}
}

func TestReplayOfATreeThatHangsLiesOrDies(t *testing.T) {
	set := changes(t, 50)
	for _, c := range []struct{ fault, limit, says string }{
		// a busy machine delays sound commits too: there is none before
		{"HangAt=1", "1s", "Commit at version 1 did not return within 1s"},
		{"WrongVersionAt=13", "1m", "the commit returned version 12, not 13"},
		{"PanicAt=13", "1m", "the runner died with exit code 2 in phase replay: panic: a branch " +
			"without leaves"},
	} {
		out := filepath.Join(t.TempDir(), "R")
		o := statelab(t, "replay", "--tree", "null,replaytest", "--changes", set, "--out", out,
			"--set", c.fault, "--commit-limit", c.limit)
		if o.exit != exitUsage { // null has no such option
			t.Errorf("options of a tree that has none: %v", o)
		}

		o = statelab(t, "replay", "--tree", "replaytest", "--changes", set, "--out", out, "--set",
			c.fault, "--commit-limit", c.limit)
		refused(t, o, exitFailed, "failed: replaytest")
		if r := readReplay(t, out); r.Status != result.Failed ||
			!strings.Contains(r.Trees[0].Error, c.says) {
			t.Errorf("%s: %q, want %q", c.fault, r.Trees[0].Error, c.says)
		}

		if strings.HasPrefix(c.fault, "Hang") {
			stacks, err := os.ReadFile(
				filepath.Join(out, "points", "replaytest", result.StacksFile),
			)
			if err != nil || !strings.Contains(string(stacks), "replaytest.hang") {
				t.Errorf("stacks: %v\n%s", err, stacks)
			}
		}
	}
}

// TestReplayGoesOnAfterKills: the runner is killed again and again, at moments
// nobody chose, and the roots are those of a replay that was left alone.
func TestReplayGoesOnAfterKills(t *testing.T) {
	t.Parallel() // it waits more than it works
	set := changes(t, 200)
	whole := filepath.Join(t.TempDir(), "W")
	must(t, "replay", "--tree", "replaytest", "--changes", set, "--out", whole)
	want := readReplay(t, whole).Trees[0].Figures
	seed := drawn(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, lazy := range []string{"0", "15"} {
		out := filepath.Join(t.TempDir(), "R")
		args := []string{"replay", "--tree", "replaytest", "--changes", set, "--out", out, "--set",
			"CommitMillis=10", "--set", "Lazy=" + lazy, "--gets", "1000"}
		kills, lost := 0, int64(0)
		for range 4 {
			s := start(t, args...)
			args = []string{"replay", "--resume", "--out", out}
			s.until("the tree has committed", func() bool {
				text, err := os.ReadFile(filepath.Join(out, "points", "replaytest",
					result.AcknowledgedFile))
				return err == nil && len(text) > 0 && s.runner() != 0 || processGone(s)
			})

			time.Sleep(time.Duration(100+random.IntN(400)) * time.Millisecond)
			if runner := s.runner(); runner != 0 {
				if err := syscall.Kill(runner, syscall.SIGKILL); err == nil {
					kills++
				} else if err != syscall.ESRCH { // it was faster
					t.Fatal(err)
				}
			}

			o := s.wait()
			if o.exit != exitFailed {
				break // it was faster
			}

			run := readRun(t, filepath.Join(out, "points", "replaytest"))
			if run.Status != result.Failed || !strings.Contains(run.Error, "killed by signal 9") {
				t.Errorf("%s: %s", run.Status, run.Error)
			}
		}

		must(t, args...)
		got := readReplay(t, out).Trees[0].Figures
		if got.LostVersions != nil {
			lost = *got.LostVersions
		}

		if kills == 0 || got.Root.Combined != want.Root.Combined || got.LastVersion != 200 ||
			got.ResumedAt == nil || got.Gets != 1000 {
			t.Errorf("after %d kills: %+v, want root %s", kills, got.Replay, want.Root.Combined)
		}

		if lazy == "0" && lost != 0 || lazy != "0" && (lost < 1 || lost > 15) {
			t.Errorf("Lazy=%s: %d versions were lost", lazy, lost)
		}
	}
}

func processGone(s *session) bool {
	state, _ := processState(s.command.Process.Pid)
	return state == "" || state == "Z"
}

func TestReplayServesMetrics(t *testing.T) {
	t.Parallel()
	set, address := changes(t, 200), freeAddress(t)
	s := start(t, "replay", "--tree", "replaytest", "--changes", set, "--out",
		filepath.Join(t.TempDir(), "R"), "--set", "CommitMillis=20", "--metrics",
		address)
	s.until("a tick is served", func() bool {
		answer, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return processGone(s)
		}

		text, err := io.ReadAll(answer.Body)
		if closeErr := answer.Body.Close(); err != nil || closeErr != nil {
			t.Error(err, closeErr)
		}

		return strings.Contains(string(text), `statelab_replay_leaves_total{tree="replaytest"}`) ||
			processGone(s)
	})

	if processGone(s) {
		t.Error("it ended before a tick was served")
	}

	if o := s.wait(); o.exit != exitDone {
		t.Error(o)
	}
}

func TestReplayNamesEveryMistake(t *testing.T) {
	refused(t,
		statelab(t, "replay", "--tree", "iavl9,null", "--changes", "nowhere.slcs", "--repeats",
			"0", "--commit-limit", "soon"), exitUsage,
		`--tree: unknown tree "iavl9" (known: null, iavl0, `, "a runner named statelab-run-iavl9",
		"--changes: open change set", "--repeats",
		"--commit-limit \"soon\"")
}

// What a folder of results names is no place to delete: a changed summary cannot point outside.
func TestTamperedReplayDeletesNothing(t *testing.T) {
	home := t.TempDir()
	out, others := filepath.Join(home, "R"), filepath.Join(home, "others")
	must(t, "replay", "--tree", "null", "--changes", changes(t, 5), "--repeats", "2", "--out", out)
	if err := os.MkdirAll(others, 0o755); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(others, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(out, result.ReplayFile)
	summary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	tampered := strings.ReplaceAll(string(summary), "points/null-", "../others/")
	if tampered == string(summary) {
		t.Fatalf("the summary names no run: %s", summary)
	}

	if err := os.WriteFile(path, []byte(tampered), 0o644); err != nil {
		t.Fatal(err)
	}

	// there is something to go on with
	if err := os.RemoveAll(filepath.Join(out, "points", "null-1")); err != nil {
		t.Fatal(err)
	}

	must(t, "replay", "--resume", "--out", out)
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}
