package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Kills and Ctrl-C: what is measured stays, and --resume goes on.

// startSlowSweep starts three points of two seconds each: the rate decides how
// long a point takes, not the machine.
func startSlowSweep(t *testing.T, out string) *session {
	t.Helper()
	return start(t, "sweep", "--db", small(t, "20k"), "--cache", "1MiB,2MiB,3MiB", "--rate", "10k",
		"--gets", "20k", "--warmup", "0", "--access-gets", "0",
		"--out", out)
}

// secondPointRuns waits until one point is finished and another has measured for
// a second, and returns the folder of the one and the runner of the other.
func (s *session) secondPointRuns(out string) (finished string, runner int) {
	s.t.Helper()
	s.until("a second point is being measured", func() bool {
		folders, err := filepath.Glob(filepath.Join(out, result.PointsDir, "*"))
		if err != nil {
			s.t.Fatal(err)
		}

		measuring := false
		for _, dir := range folders {
			if _, err := result.ReadRun(dir); err == nil {
				finished = dir
			} else if ticks, err := result.ReadSeries(dir); err == nil && len(ticks) > 0 {
				measuring = true
			}
		}

		runner = s.runner()
		return finished != "" && measuring && runner != 0
	})

	return finished, runner
}

func (s *session) until(what string, reached func() bool) {
	s.t.Helper()
	const afterTheEnd = time.Minute // of statelab: what it has left behind may still come about
	var ended time.Time
	for began := time.Now(); !reached(); time.Sleep(5 * time.Millisecond) {
		if state, _ := processState(s.command.Process.Pid); state == "Z" && ended.IsZero() {
			ended = time.Now()
		}

		if time.Since(began) > tooLong || !ended.IsZero() && time.Since(ended) > afterTheEnd {
			s.signal(syscall.SIGKILL)
			s.t.Fatalf("waited too long until %s\n%v", what, s.wait())
		}
	}
}

// runner is the child of a running statelab, 0 if it has none.
func (s *session) runner() int {
	s.t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		s.t.Fatal(err)
	}

	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			s.t.Fatal(err)
		}

		if state, parent := processState(pid); parent == s.command.Process.Pid && state != "Z" {
			return pid
		}
	}

	return 0
}

// processState is "" for a process that is gone.
func processState(pid int) (state string, parent int) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", 0
	}

	// the name may hold anything
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	parent, err = strconv.Atoi(fields[1])
	if err != nil {
		return "", 0
	}

	return fields[0], parent
}

// resumes expects --resume to complete the sweep without measuring again what is
// finished.
func resumes(t *testing.T, out, finished string) {
	t.Helper()
	before := readRun(t, finished)
	must(t, "sweep", "--resume", "--out", out)
	s := readSweep(t, out)
	if s.Status != result.OK || len(s.Points) != 3 {
		t.Errorf("after --resume: %s, %d points, %s", s.Status, len(s.Points), s.Error)
	}

	for _, p := range s.Points {
		if p.Status != result.OK || p.Figures.Gets != 20_000 {
			t.Errorf("after --resume: point %v is %s with %d Gets", p.Axes, p.Status,
				p.Figures.Gets)
		}
	}

	if after := readRun(t, finished); !after.Started.Equal(before.Started) {
		t.Errorf("%s was measured again", finished)
	}

	if _, err := os.Stat(filepath.Join(out, result.ReportFile)); err != nil {
		t.Error(err)
	}
}

func TestKilledRunnerIsAResult(t *testing.T) {
	t.Parallel() // it waits more than it works
	out := filepath.Join(t.TempDir(), "S")
	s := startSlowSweep(t, out)
	finished, runner := s.secondPointRuns(out)
	if err := syscall.Kill(runner, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	refused(t, s.wait(), exitFailed, "killed by signal 9", "1 of 3 runs failed")
	sweep := readSweep(t, out)
	if sweep.Status != result.Failed || len(sweep.Points) != 3 {
		t.Fatalf("%s, %d points", sweep.Status, len(sweep.Points))
	}

	failed := 0
	for _, p := range sweep.Points {
		if p.Status == result.OK {
			continue
		}

		failed++
		if !strings.HasPrefix(p.Error, "killed by signal 9 (killed) in phase measure at op ") {
			t.Errorf("the point says: %s", p.Error)
		}
	}

	if failed != 1 {
		t.Errorf("%d points failed", failed)
	}

	resumes(t, out, finished)
}

func TestKilledStatelabTakesItsRunnerAlong(t *testing.T) {
	t.Parallel() // it waits more than it works
	out := filepath.Join(t.TempDir(), "S")
	s := startSlowSweep(t, out)
	finished, runner := s.secondPointRuns(out)
	s.signal(syscall.SIGKILL)
	s.wait()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if state, _ := processState(runner); state == "" || state == "Z" {
			break
		}

		if time.Since(began) > tooLong {
			t.Fatalf("runner %d outlives statelab", runner)
		}
	}

	resumes(t, out, finished)
}

func TestInterruptedSweepResumes(t *testing.T) {
	t.Parallel() // it waits more than it works
	out := filepath.Join(t.TempDir(), "S")
	s := startSlowSweep(t, out)
	finished, _ := s.secondPointRuns(out)
	s.signal(syscall.SIGINT)
	refused(t, s.wait(), exitFailed, "interrupted with 1 of 3 runs finished",
		"statelab sweep --resume --out "+out)
	if sweep := readSweep(t, out); sweep.Status != result.Interrupted || len(sweep.Points) != 1 {
		t.Errorf("%s, %d points", sweep.Status, len(sweep.Points))
	}

	resumes(t, out, finished)
}

func TestInterruptedReadKeepsWhatItMeasured(t *testing.T) {
	t.Parallel() // it waits more than it works
	out := filepath.Join(t.TempDir(), "R")
	s := start(t, "sweep", "--db", small(t, "20k"), "--rate", "10k", "--gets", "1M", "--warmup",
		"0", "--out", out)
	s.until("a second is measured", func() bool {
		ticks, err := result.ReadSeries(onlyPoint(out))
		return err == nil && len(ticks) > 0
	})

	s.signal(syscall.SIGINT)
	refused(t, s.wait(), exitFailed, "interrupted: keeping what is measured",
		"statelab sweep --resume --out "+out)
	if sweep := readSweep(t, out); sweep.Status != result.Interrupted {
		t.Errorf("the only point was cut short: %s", sweep.Status)
	}

	run := readRun(t, out)
	if run.Status != result.Interrupted || run.Figures.Gets < 5000 ||
		!run.Figures.Has(figure.BlockReadsPerGet) {
		t.Errorf("%s, figures %+v", run.Status, run.Figures)
	}

	checkLatencies(t, onlyPoint(out), "", run.Figures.Gets, run.Figures.ServiceNanos)
}

// TestKilledLoadResumes kills a load before and after its first checkpoint.
func TestKilledLoadResumes(t *testing.T) {
	testring.Outer(t, "it kills and resumes many loads")
	for _, c := range []struct {
		name     string
		memtable string // a small one makes a load take seconds
		ready    func(*keyspace.Manifest) bool
	}{
		{"at once", "4MiB", func(m *keyspace.Manifest) bool { return true }},
		{"half way", "64KiB", func(m *keyspace.Manifest) bool { return m.Loaded > 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "db")
			s := start(t, "load", "--db", db, "--keys", "200k", "--set", "MemTableSize="+c.memtable)
			s.until("the manifest tells of keys", func() bool {
				m, err := keyspace.ReadManifest(db)
				// the last file of a new database
				made, _ := filepath.Glob(filepath.Join(db, "OPTIONS-*"))
				return err == nil && c.ready(m) && len(made) > 0
			})

			s.signal(syscall.SIGKILL)
			s.wait()
			m, err := keyspace.ReadManifest(db)
			if err != nil || m.Loaded >= m.Keys {
				t.Fatalf("%+v, %v: the load was over", m, err)
			}

			refused(t, statelab(t, "sweep", "--db", db, "--out", filepath.Join(t.TempDir(), "R")),
				exitFailed, "incomplete", "statelab load --resume --db "+db)
			refused(t, statelab(t, "load", "--db", db, "--keys", "200k"), exitUsage,
				"unfinished load", "--resume")
			must(t, "load", "--db", db, "--resume")
			if m, err = keyspace.ReadManifest(db); err != nil || m.Loaded != 200_000 || !m.Settled {
				t.Errorf("after --resume: %+v, %v", m, err)
			}

			load := readRun(t, filepath.Join(db, engine.OwnFolder, "load"))
			if keys := keysIn(load.Database); keys < 200_000 {
				t.Errorf("the levels hold %d keys", keys)
			}

			if f := readWorkload(t, db, "--gets", "200k", "--threads", "2", "--warmup",
				"0").Figures; f.Found != 200_000 {
				t.Errorf("%d of 200000 Gets found their key", f.Found)
			}
		})
	}
}

func keysIn(d result.Database) (keys int64) {
	for _, level := range d.Levels {
		keys += level.Keys
	}
	return keys
}

// TestTerminateIsAnInterrupt: service managers send SIGTERM.
func TestTerminateIsAnInterrupt(t *testing.T) {
	t.Parallel() // it waits more than it works
	db := filepath.Join(t.TempDir(), "db")
	s := start(t, "load", "--db", db, "--keys", "100k", "--set", "MemTableSize=64KiB")
	s.until("the load runs", func() bool {
		_, err := keyspace.ReadManifest(db)
		return err == nil
	})

	s.signal(syscall.SIGTERM)
	o := s.wait()
	refused(t, o, exitFailed, "interrupted")
	if _, err := keyspace.ReadManifest(db); errors.Is(err, keyspace.ErrNoManifest) {
		t.Error("the manifest is gone")
	}

	must(t, "load", "--db", db, "--resume")
}

// A sorted build that is killed while it writes tables goes on from them.
func TestKilledSortedLoadResumes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	s := start(t, "load", "--db", dir, "--keys", "2M", "--workload", "fillsorted", "--key-hash",
		"keccak256")
	var tables []string
	s.until("tables are written", func() bool {
		var err error
		if tables, err = filepath.Glob(filepath.Join(dir, "sorted-build", "*.table")); err != nil {
			t.Fatal(err)
		}
		return len(tables) > 1
	})

	s.signal(syscall.SIGKILL)
	s.wait()
	if m, err := keyspace.ReadManifest(dir); err != nil || m.Loaded != 0 {
		t.Fatalf("the killed load: %+v, %v", m, err)
	}

	must(t, "load", "--resume", "--db", dir)
	if m, err := keyspace.ReadManifest(dir); err != nil || m.Loaded != 2_000_000 {
		t.Fatalf("the resumed load: %+v, %v", m, err)
	}

	run, err := result.ReadRun(filepath.Join(dir, engine.OwnFolder, "load"))
	if err != nil {
		t.Fatal(err)
	}

	keys := int64(0)
	for _, l := range run.Database.Levels {
		keys += l.Keys
	}

	if keys != 2_000_000 {
		t.Errorf("the levels hold %d keys", keys)
	}

	for _, left := range []string{"sorted-build", filepath.Join(engine.OwnFolder, "key-order*")} {
		if found, err := filepath.Glob(filepath.Join(dir, left)); err != nil || len(found) > 0 {
			t.Errorf("left behind: %v, %v", found, err)
		}
	}
}
