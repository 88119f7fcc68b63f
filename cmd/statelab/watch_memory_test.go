//go:build linux && amd64

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/explain/watched"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// mappedCase is a process that maps its database, under a limit of its memory.
type mappedCase struct {
	engine, profile string
	keys            string
	zipf            float64
	gets            uint64
}

// TestWatchPredictsOtherMemory: what a process that maps its database would read with another
// limit of its memory is what it reads when it has that limit. The verdict names the memory.
func TestWatchPredictsOtherMemory(t *testing.T) {
	watching(t)
	withCRunners(t)
	const limit = 24 << 20
	cases := []mappedCase{
		{engine: "mdbx", profile: "noreadahead", keys: "200k", gets: 100_000},
		{engine: "lmdb", profile: "noreadahead", keys: "400k", zipf: 0.9, gets: 200_000},
	}

	if testing.Short() {
		cases = cases[:1]
	}

	for _, c := range cases {
		t.Run(c.engine, func(t *testing.T) {
			db := small(t, c.keys, "--engine", c.engine)
			now, seen := c.limited(t, db, limit, true)
			o := seen.OtherMemory
			if o == nil {
				t.Fatalf("nothing is predicted in %.1f s with %.4f page reads per Get: %s",
					seen.Seconds, now, seen.Why["other_memory"])
			}

			w := watched.Watched{Watch: seen}
			t.Log(w.Answer())
			if v := w.Verdict(); v.Bottleneck != advice.SmallMemory || v.Memory == nil {
				t.Errorf("the verdict is %q: %s", v.Bottleneck, v.Sentence)
			}

			for _, size := range o.Sizes {
				if size.Bytes == limit/2 || size.Bytes == 3*limit {
					continue // less than the runner needs, or all that the database has
				}

				then, _ := c.limited(t, db, size.Bytes, false)
				predicted := func(pages float64) float64 { return now * pages / o.PagesPerSecond }
				got, low, high := predicted(size.PagesPerSecond), predicted(size.Low),
					predicted(size.High)
				t.Logf("%d MiB: %.4f predicted (%.4f to %.4f), %.4f page reads per Get (%+.1f%%); "+
					"now %.4f", size.Bytes>>20, got, low, high, then, 100*(got/then-1), now)

				// Pages that are read for the first time are no longer there in the long run.
				const off, first = 0.1, 0.02
				if then < low*(1-off)-first || then > high*(1+off)+first {
					t.Errorf("%d MiB: %.4f predicted, %.4f read", size.Bytes>>20, got, then)
				}
			}
		})
	}
}

// limited runs Gets under a limit of memory, in bytes. It returns the page reads per Get once the
// page cache is full and, if it is watched, what was seen.
func (c mappedCase) limited(
	t *testing.T, db string, limit int64, seeing bool,
) (reads float64, seen *result.Watch) {
	t.Helper()
	group := newMemoryGroup(t, limit)
	if group == nil {
		t.Skip("groups of memory cannot be made here")
	}

	runner, err := exec.LookPath("statelab-run-" + c.engine)
	if err != nil {
		t.Fatal(err)
	}

	target := waitingRunner(t, []string{runner})
	if err := group.enter(target.Process.Pid); err != nil {
		t.Fatal(err)
	}

	if text, err := exec.Command("sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	dropped := timesDropped(t)
	run := func() {
		target.run(protocol.EngineSpec{
			Engine:     c.engine,
			Dir:        db,
			Profile:    c.profile,
			Threads:    1,
			Seed:       7,
			Gets:       c.gets,
			WarmupGets: c.gets / 2,
			WarmupRule: "a count",
			ZipfTheta:  c.zipf,
		})
	}

	if seeing {
		file := map[string]string{"mdbx": "mdbx.dat", "lmdb": "data.mdb"}[c.engine]
		seen = c.watch(t, filepath.Join(db, file), target.Process.Pid, run, target)
	} else {
		run()
		if err := target.Wait(); err != nil {
			t.Fatal(err)
		}
	}

	if timesDropped(t) > dropped {
		t.Skip("something else dropped the page cache of this machine meanwhile")
	}

	r := readRun(t, target.out)
	if r.Status != result.OK {
		t.Fatalf("the run: %s", r.Error)
	}

	return r.Figures.OrZero(figure.BlockReadsPerGet), seen
}

// timesDropped is how often the page cache of this machine was dropped.
func timesDropped(t *testing.T) (times int) {
	t.Helper()
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(string(text)) {
		if count, is := strings.CutPrefix(line, "drop_pagecache "); is {
			if times, err = strconv.Atoi(strings.TrimSpace(count)); err != nil {
				t.Fatal(err)
			}
		}
	}

	return times
}

// watch watches a run from its first Get to its last.
func (c mappedCase) watch(
	t *testing.T, path string, pid int, run func(), target *waiting,
) *result.Watch {
	t.Helper()
	process, err := probe.Process(pid)
	if err != nil {
		t.Fatal(err)
	}

	of, err := watch.FileMapped(path)
	if err != nil {
		t.Fatal(err)
	}

	p, err := probe.OpenFaults(process, of.Path)
	if err == nil {
		defer p.Close() // after the test has its answer
		err = p.Attach()
	}

	if err != nil {
		t.Fatal(err)
	}

	done := make(chan error, 1)
	go func() {
		run()
		done <- target.Wait()
	}()

	seen, err := watch.Faults(t.Context(), process, p, of,
		watch.Options{Tell: func(result.Event) {}})
	if waited := <-done; waited != nil || err != nil {
		t.Fatal(err, waited)
	}

	return &seen.Watch
}
