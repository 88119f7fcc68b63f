package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// stepped is a verb whose plan has steps.
type stepped struct {
	verb  string
	args  func(t *testing.T) []string
	steps int
	// figures are those that have to repeat, whatever happened on the way.
	figures func(t *testing.T, out string) string
}

func steppedVerbs(t *testing.T) []stepped {
	set := changes(t, 40)
	reads := func(cache string) func(t *testing.T) []string {
		return func(t *testing.T) []string { // a database is one process's at a time
			return []string{"--db", small(t, "20k"), "--cache", cache, "--rate", "10k", "--gets",
				"6k", "--warmup", "0", "--access-gets", "0"}
		}
	}

	fixed := func(args ...string) func(t *testing.T) []string {
		return func(*testing.T) []string { return args }
	}
	return []stepped{
		{experiment.Sweep, reads("1MiB"), 1, sweepFigures},
		{experiment.Sweep, reads("512KiB,1MiB"), 2, sweepFigures},
		{experiment.Replay,
			fixed("--tree", "replaytest", "--changes", set, "--set", "CommitMillis=10",
				"--repeats", "2"), 2,
			func(t *testing.T, out string) string {
				f := readReplay(t, out).Trees[0].Figures
				return fmt.Sprint(f.Root.Combined, f.LastVersion)
			}},
		{experiment.Layouts,
			fixed("--layout", "flat-pebble,pagetrie", "--accounts", "5k", "--reads", "2k",
				"--update-blocks", "2"), 2,
			steppedLayouts},
	}
}

func steppedLayouts(t *testing.T, out string) (text string) {
	l, err := result.ReadLayouts(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range l.Rows {
		text += fmt.Sprintln(row.Layout, row.Status, row.Root, row.Slots)
	}
	return text
}

func sweepFigures(t *testing.T, out string) (text string) {
	for _, p := range readSweep(t, out).Points {
		text += fmt.Sprintln(p.Axes, p.Status, p.Figures.Gets,
			p.Figures.OrZero(figure.BlockReadsPerGet))
	}
	return text
}

// finishedSteps counts the steps that have all their runs, and those begun.
func finishedSteps(t *testing.T, out string) (finished, begun int) {
	folders, err := filepath.Glob(filepath.Join(out, result.PointsDir, "*"))
	if err != nil {
		t.Fatal(err)
	}

	for _, dir := range folders {
		for _, last := range []string{"", "lookup"} {
			if run, err := result.ReadRun(filepath.Join(dir, last)); err == nil &&
				run.Status == result.OK {
				finished++
			}
		}
	}

	return finished, len(folders)
}

// summaryStatus is the status in a folder's summary, "" where there is none.
func summaryStatus(t *testing.T, out string) string {
	for _, name := range []string{result.SweepFile, result.ReplayFile, result.LayoutsFile} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			continue
		}

		var summary struct{ Status string }
		if err := json.Unmarshal(text, &summary); err != nil {
			t.Errorf("%s: %v", name, err)
		}

		return summary.Status
	}

	return ""
}

// drawn is a seed: another one each time, and with -short always the same.
func drawn(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if testing.Short() {
		seed = 1
	}
	t.Logf("seed %d", seed)
	return seed
}

// TestOutcomesAreHonest: for every verb with steps and every step, the last one
// included, whoever is interrupted or killed: exit 0 and status ok if and only if every
// step has a run that is ok; then --resume ends with the figures of a run that was left
// alone.
func TestOutcomesAreHonest(t *testing.T) {
	testring.Outer(t, "it runs every measuring command with every failure")
	seed := drawn(t)
	random := rand.New(rand.NewPCG(seed, 0))
	fates := []string{"SIGINT", "kill statelab", "kill its runner", "SIGTERM", "SIGHUP"}
	if testing.Short() {
		fates = fates[:3] // the other signals are handled as the first is
	}

	for _, v := range steppedVerbs(t) {
		alone := filepath.Join(t.TempDir(), "alone")
		must(t, append([]string{v.verb, "--out", alone}, v.args(t)...)...)
		want := v.figures(t, alone)
		for step := 1; step <= v.steps; step++ {
			if testing.Short() && step < v.steps {
				continue
			}

			for _, fate := range fates {
				wait := time.Duration(random.IntN(150)) * time.Millisecond
				t.Run(fmt.Sprintf("%s step %d %s", v.verb, step, fate), func(t *testing.T) {
					t.Parallel() // it waits more than it works
					v.meets(t, step, fate, wait, want)
				})
			}
		}
	}
}

func (v stepped) meets(t *testing.T, step int, fate string, wait time.Duration, want string) {
	out := filepath.Join(t.TempDir(), "out")
	s := start(t, append([]string{v.verb, "--out", out}, v.args(t)...)...)
	s.until("the step has begun", func() bool {
		finished, begun := finishedSteps(t, out)
		return finished >= step-1 && begun >= step && s.runner() != 0 || processGone(s)
	})

	time.Sleep(wait)
	switch runner := s.runner(); fate {
	case "SIGINT":
		s.signal(syscall.SIGINT)
	case "SIGTERM":
		s.signal(syscall.SIGTERM)
	case "SIGHUP":
		s.signal(syscall.SIGHUP)
	case "kill statelab":
		s.signal(syscall.SIGKILL)
	case "kill its runner":
		if runner == 0 {
			break // it was faster
		}
		if err := syscall.Kill(runner, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
	}

	o := s.wait()
	finished, _ := finishedSteps(t, out)
	if done := finished == v.steps; (o.exit == exitDone) != done && fate != "kill statelab" ||
		summaryStatus(t, out) == result.OK && !done {
		t.Errorf("%d of %d steps are finished, the summary says %q: %v", finished, v.steps,
			summaryStatus(t, out), o)
	}

	must(t, v.verb, "--resume", "--out", out)
	if diff := cmp.Diff(want, v.figures(t, out)); diff != "" {
		t.Errorf("after --resume: %s", diff)
	}

	if finished, _ := finishedSteps(t, out); finished != v.steps ||
		summaryStatus(t, out) != result.OK {
		t.Errorf("after --resume: %d of %d steps, %s", finished, v.steps, summaryStatus(t, out))
	}
}

// TestFlagsAndFileMeasureTheSame: what --print-experiment prints does what the flags
// do, for every verb that measures.
func TestFlagsAndFileMeasureTheSame(t *testing.T) {
	testring.Outer(t, "it measures everything twice")
	db := database(t, "pebble1")
	set := changes(t, 10)
	for _, c := range []struct {
		args    []string
		figures func(t *testing.T, out string) string
	}{
		{[]string{experiment.Sweep, "--db", db, "--cache", "1%", "--gets", "5k", "--warmup", "1k"},
			sweepFigures},
		{[]string{experiment.Sweep, "--db", db, "--cache", "1%,2MiB", "--gets", "5k", "--warmup",
			"1k", "--set", "MaxOpenFiles=50,1000"}, sweepFigures},
		{
			[]string{experiment.Replay, "--tree", "null", "--changes", set, "--versions", "5"},
			func(t *testing.T, out string) string {
				return fmt.Sprint(readReplay(t, out).Trees[0].Figures.Replay.Leaves)
			},
		},
		{
			[]string{experiment.Layouts, "--layout", "flat-pebble", "--accounts", "1k", "--reads",
				"1k", "--update-blocks", "2"},
			func(t *testing.T, out string) string {
				l, err := result.ReadLayouts(out)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(l.Rows[0].Slots, l.Workload)
			},
		},
		{
			[]string{experiment.Disk, ".", "--in-flight", "1,2", "--seconds", "0.05", "--repeats",
				"1", "--with", "none"},
			func(t *testing.T, out string) string {
				d, err := result.ReadDisk(out)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(len(d.Points), d.Seconds, d.Repeats)
			},
		},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			dir := t.TempDir()
			byFlags, byFile, file := filepath.Join(dir, "A"), filepath.Join(dir, "B"),
				filepath.Join(dir, "e.yaml")
			printed := must(t, append(c.args, "--print-experiment")...).stdout
			if err := os.WriteFile(file, []byte(printed), 0o644); err != nil {
				t.Fatal(err)
			}

			if again := must(t, "run", file, "--print-experiment").stdout; again != printed {
				t.Errorf("the file means\n%s\nwhich is printed as\n%s", printed, again)
			}

			must(t, append(c.args, "--out", byFlags)...)
			must(t, "run", file, "--out", byFile)
			if diff := cmp.Diff(c.figures(t, byFlags), c.figures(t, byFile)); diff != "" {
				t.Error(diff)
			}

			if _, err := os.Stat(filepath.Join(byFile, experiment.File)); err != nil {
				t.Error(err)
			}
		})
	}

	t.Run(experiment.Load, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "e.yaml")
		args := []string{"load", "--db", filepath.Join(dir, "A"), "--keys", "2k", "--value-model",
			"table32", "--seed", "7"}
		printed := strings.Replace(must(t, append(args, "--print-experiment")...).stdout,
			filepath.Join(dir, "A"), filepath.Join(dir, "B"), 1)
		if err := os.WriteFile(file, []byte(printed), 0o644); err != nil {
			t.Fatal(err)
		}

		must(t, args...)
		must(t, "run", file)
		a, b := readManifest(t, filepath.Join(dir, "A")), readManifest(t, filepath.Join(dir, "B"))
		if diff := cmp.Diff(a, b); diff != "" {
			t.Error(diff)
		}
	})
}

func TestExperimentFilesNameEveryMistake(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e.yaml")
	if err := os.WriteFile(file,
		[]byte("measure: read\ndatabase:\n  dir: "+database(t, "pebble1")+
			"\nworkload:\n  gets: 0\n  workload: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	refused(t, statelab(t, "run", file), exitUsage, file+
		":6:3: workload.workload: there is no such field")
	if err := os.WriteFile(file,
		[]byte("measure: read\ndatabase:\n  dir: "+database(t, "pebble1")+
			"\nworkload:\n  gets: 0\n  zipf: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	refused(t, statelab(t, "run", file), exitUsage, "5:9: workload.gets", "6:9: workload.zipf")
	refused(t, statelab(t, "run", file, "--where", "moon"), exitUsage, "--where")
	if err := os.WriteFile(file,
		[]byte("measure: load\ndatabase:\n  dir: "+filepath.Join(t.TempDir(), "db")+"\n"),
		0o644); err != nil {
		t.Fatal(err)
	}

	for _, args := range [][]string{{"--print-matrix"}, {"--point", "0"}} {
		refused(t, statelab(t, append([]string{"run", file}, args...)...), exitUsage,
			"cannot be started one by one")
	}

	refused(t, statelab(t, "sweep", "--resume", "--out", t.TempDir()), exitUsage,
		"no interrupted experiment")
	refused(t, statelab(t, "sweep", "--resume", "--gets", "5"), exitUsage,
		"--gets: not with --resume")
}

func readManifest(t *testing.T, db string) *keyspace.Manifest {
	t.Helper()
	m, err := keyspace.ReadManifest(db)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
