package main

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
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

	var exact, sample enginereport.Simulation
	for out, args := range map[*enginereport.Simulation][]string{
		&exact: {"simulate", file, "--policy", "lru", "--cache", "4MiB", "--json"},
		&sample: {"simulate", file, "--policy", "lru", "--cache", "4MiB", "--json",
			"--sample-shift", "1"},
	} {
		if err := json.Unmarshal([]byte(must(t, args...).stdout), out); err != nil {
			t.Fatal(err)
		}
	}

	e, s := exact.Points[0], sample.Points[0]
	off, sampled := s.Error.Number()
	if e.Error.IsKnown() || !sampled || s.ReadsPerGet < e.ReadsPerGet-off ||
		s.ReadsPerGet > e.ReadsPerGet+off {
		t.Errorf("%.4f block reads per Get, of half the blocks %.4f +- %.4f", e.ReadsPerGet,
			s.ReadsPerGet, off)
	}

	refused(t, statelab(t, append(flags, "-", "--json")...), exitUsage, "standard output")
	refused(t, statelab(t, "simulate", file, "--sample-shift", "1", "--export", file+"x"),
		exitUsage, "--sample-shift")
	refused(t, statelab(t, "simulate", file, "--sample-shift", "x"), exitUsage, "--sample-shift")
}

// TestAnswersHavePages: what is computed without a run is kept with --out, with a page that
// starts with the answer and can be made again from the folder.
func TestAnswersHavePages(t *testing.T) {
	t.Parallel()
	db, dir := small(t, "50k"), t.TempDir()
	file := filepath.Join(dir, "T")
	must(t, "trace", "--db", db, "--gets", "2k", "--warmup", "1k", "--out", file)
	memory, err := host.InMemory(dir) // where no disk can be probed
	if err != nil {
		t.Fatal(err)
	}

	for answer, args := range map[string][]string{
		"Block reads per Get in steady state, by cache: ": {"predict", "--db", db, "--cache",
			"256KiB,1MiB", "--gets", "2k"},
		"Fewest block reads per Get, by cache: ": {"simulate", file, "--policy",
			"lru,s3fifo", "--cache", "256KiB,1MiB"},
		" is large enough: ": {"advise", db, "--cache", "64MiB",
			"--probe-seconds", "0", "--write-rate", "0"},
		" reads/s of 4 KiB with ": {"disk", db, "--seconds", "0.05",
			"--repeats", "1", "--in-flight", "1,2", "--with", "none"},
	} {
		if args[0] == "disk" && memory {
			continue
		}

		out := filepath.Join(dir, args[0])
		printed := must(t, append(args, "--out", out, "--quiet")...)
		page, err := os.ReadFile(filepath.Join(out, result.ReportFile))
		if err != nil || !strings.Contains(string(page), answer) ||
			!strings.Contains(printed.stdout, "report: "+filepath.Join(out, result.ReportFile)) {
			t.Errorf("%s: no %q in the page, or it is not named: %v\n%v", args[0], answer, err,
				printed)
		}

		must(t, "report", out)
		if again, err := os.ReadFile(filepath.Join(out, result.ReportFile)); err != nil ||
			string(again) != string(page) {
			t.Errorf("%s: report draws another page: %v", args[0], err)
		}

		refused(t, statelab(t, append(args, "--out", out)...), exitUsage, "already holds")
	}
}

// TestSortedBatchesReadWhatTheSimulationSays: sorting a batch lets its keys share
// blocks. Pebble v1 and a simulation of its cache agree on how many.
func TestSortedBatchesReadWhatTheSimulationSays(t *testing.T) {
	t.Parallel()
	db := small(t, "50k")
	reads := map[string]float64{}
	for _, order := range []string{"random", "sorted"} {
		out, file := filepath.Join(t.TempDir(), order), filepath.Join(t.TempDir(), "T")
		must(t, "sweep", "--db", db, "--workload", "multireadrandom", "--batch-gets", "512",
			"--batch-order", order, "--cache", "600KiB", "--gets", "20k",
			"--warmup", "5k", "--access-gets", "0", "--out", out)
		run, err := result.ReadRun(filepath.Join(out, "points", "000"))
		if err != nil {
			t.Fatal(err)
		}

		reads[order] = run.Figures.OrZero(figure.BlockReadsPerGet)
		must(t, "trace", "--run", filepath.Join(out, "points", "000"), "--out", file)
		var s enginereport.Simulation
		if err := json.Unmarshal([]byte(must(t, "simulate", file, "--cache", "600KiB", "--json").
			stdout), &s); err != nil {
			t.Fatal(err)
		}

		if simulated := s.Points[0].ReadsPerGet; math.Abs(simulated/reads[order]-1) > .02 {
			t.Errorf("%s: %.4f block reads per Get, the simulation says %.4f", order, reads[order],
				simulated)
		}
	}

	if reads["sorted"] > .95*reads["random"] {
		t.Errorf("%.4f block reads per Get in sorted batches, %.4f in random ones",
			reads["sorted"], reads["random"])
	}
}
