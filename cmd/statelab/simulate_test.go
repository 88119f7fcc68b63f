package main

import (
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/result"
)

// TestTraceThroughAPipe: a trace that never touches the disk gives the same
// figures as one in a file, and a sample of it says how far it may be off.
func TestTraceThroughAPipe(t *testing.T) {
	t.Parallel()
	db, file := small(t, "50k"), filepath.Join(t.TempDir(), "T")
	flags := []string{"trace", "--db", db, "--gets", "20k", "--warmup", "5k", "--out"}
	must(t, append(flags, file)...)
	want := must(t, "simulate", file, "--cache", "400KiB,2MiB", "--json").stdout
	have := exec.Command(binary, "simulate", "-", "--cache", "400KiB,2MiB", "--json")
	writes := exec.Command(binary, append(flags, "-")...)
	pipe, err := writes.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	have.Stdin = pipe
	if err := writes.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := have.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := writes.Wait(); err != nil {
		t.Fatal(err)
	}
	if string(text) != want {
		t.Errorf("through a pipe:\n%s\nfrom a file:\n%s", text, want)
	}

	var exact, sample simulation
	for out, args := range map[*simulation][]string{
		&exact:  {"simulate", file, "--policy", "lru", "--cache", "4MiB", "--json"},
		&sample: {"simulate", file, "--policy", "lru", "--cache", "4MiB", "--json", "--sample-shift", "1"},
	} {
		if err := json.Unmarshal([]byte(must(t, args...).stdout), out); err != nil {
			t.Fatal(err)
		}
	}
	e, s := exact.Points[0], sample.Points[0]
	if e.Error != 0 || s.Error == 0 || s.ReadsPerGet < e.ReadsPerGet-s.Error || s.ReadsPerGet > e.ReadsPerGet+s.Error {
		t.Errorf("%.4f block reads per Get, of half the blocks %.4f +- %.4f", e.ReadsPerGet, s.ReadsPerGet, s.Error)
	}
	refused(t, statelab(t, append(flags, "-", "--json")...), exitUsage, "standard output")
	refused(t, statelab(t, "simulate", file, "--sample-shift", "1", "--export", file+"x"), exitUsage, "--sample-shift")
	refused(t, statelab(t, "simulate", file, "--sample-shift", "x"), exitUsage, "--sample-shift")
}

// TestSortedBatchesReadWhatTheSimulationSays: sorting a batch lets its keys share
// blocks. Pebble v1 and a simulation of its cache agree on how many.
func TestSortedBatchesReadWhatTheSimulationSays(t *testing.T) {
	t.Parallel()
	db := small(t, "50k")
	reads := map[string]float64{}
	for _, order := range []string{"random", "sorted"} {
		out, file := filepath.Join(t.TempDir(), order), filepath.Join(t.TempDir(), "T")
		must(t, "read", "--db", db, "--workload", "multireadrandom", "--batch-gets", "512", "--batch-order", order, "--cache", "600KiB", "--gets", "20k",
			"--warmup", "5k", "--access-gets", "0", "--out", out)
		run, err := result.ReadRun(filepath.Join(out, "points", "000"))
		if err != nil {
			t.Fatal(err)
		}
		reads[order] = *run.Figures.BlockReadsPerGet
		must(t, "trace", "--run", filepath.Join(out, "points", "000"), "--out", file)
		var s simulation
		if err := json.Unmarshal([]byte(must(t, "simulate", file, "--cache", "600KiB", "--json").stdout), &s); err != nil {
			t.Fatal(err)
		}
		if simulated := s.Points[0].ReadsPerGet; math.Abs(simulated/reads[order]-1) > .02 {
			t.Errorf("%s: %.4f block reads per Get, the simulation says %.4f", order, reads[order], simulated)
		}
	}
	if reads["sorted"] > .95*reads["random"] {
		t.Errorf("%.4f block reads per Get in sorted batches, %.4f in random ones", reads["sorted"], reads["random"])
	}
}
