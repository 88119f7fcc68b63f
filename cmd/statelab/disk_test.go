package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// TestDisk: Little's law holds for what the prober measures, and the folder holds what was printed.
func TestDisk(t *testing.T) {
	t.Setenv("PATH", "") // without fio
	measureDisk(t, "0.1", false)
}

// fio and the prober see the same disk: their figures are of one size, and Little's law holds for
// both.
func TestDiskAgreesWithFio(t *testing.T) {
	testring.Outer(t, "both read the disk for seconds")
	testring.Program(t, "fio")
	measureDisk(t, "0.4", true)
}

func measureDisk(t *testing.T, seconds string, fio bool) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "disk")
	if err := host.DirectSupported(dir); err != nil {
		t.Skip(err)
	}

	args := []string{"disk", dir, "--in-flight", "1,8", "--seconds", seconds, "--repeats", "3",
		"--json", "--quiet", "--out", out}
	if fio {
		args = append(args, "--with", "fio")
	}

	var printed result.Disk
	if err := json.Unmarshal([]byte(must(t, args...).stdout), &printed); err != nil {
		t.Fatal(err)
	}

	stored, err := result.ReadDisk(out)
	if err != nil {
		t.Fatal(err)
	}

	if len(stored.Points) != 2 || stored.Points[1].InFlight != 8 ||
		stored.Points[1] != printed.Points[1] || stored.Schema != schema.Disk {
		t.Errorf("stored %+v, printed %+v", stored.Points, printed.Points)
	}

	for _, p := range append(stored.Points, stored.Fio...) {
		if busy := p.ReadsPerSecond * p.MeanNanos / 1e9; busy <= 0 ||
			busy > 1.3*float64(p.InFlight) {
			t.Errorf("%d in flight: %.0f reads/s of %.0f ns are %.2f in flight", p.InFlight,
				p.ReadsPerSecond, p.MeanNanos, busy)
		}

		if p.Spread.Low > p.ReadsPerSecond || p.Spread.High < p.ReadsPerSecond {
			t.Errorf("%+v: the median is outside its range", p)
		}
	}

	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	if !fio {
		if stored.Fio != nil || stored.FioAbsent != "fio is not on PATH" {
			t.Errorf("no fio here, but %+v, %q", stored.Fio, stored.FioAbsent)
		}
		return
	}

	if !strings.HasPrefix(stored.FioVersion, "fio-") {
		t.Errorf("fio's version is %q", stored.FioVersion)
	}

	if testing.Short() {
		return // the two are measured one after another: on a busy machine their ratio says nothing
	}

	for i, p := range stored.Points {
		if q := p.ReadsPerSecond / stored.Fio[i].ReadsPerSecond; q < 0.4 || q > 2.5 {
			t.Errorf("%d in flight: ours %.0f reads/s, fio's %.0f", p.InFlight, p.ReadsPerSecond,
				stored.Fio[i].ReadsPerSecond)
		}
	}
}

// A sweep keeps the limit that it is given, draws it, and refuses a folder
// without one before it measures.
func TestSweepUnderACeiling(t *testing.T) {
	disk, out := t.TempDir(), filepath.Join(t.TempDir(), "S")
	given := &result.Disk{Dir: "/data", BlockBytes: 4096, Repeats: 3,
		Points: []result.DiskPoint{{
			InFlight:       1,
			ReadsPerSecond: 1e4,
			MeanNanos:      1e5,
			P99Nanos:       2e5,
			Spread:         result.Range{Low: 9e3, High: 11e3},
		}}}

	if err := result.WriteDisk(disk, given); err != nil {
		t.Fatal(err)
	}

	db := small(t, "20k")
	must(t, "sweep", "--db", db, "--threads", "1,2", "--gets", "2k", "--warmup", "0",
		"--access-gets", "0", "--disk", disk, "--quiet", "--out", out)
	kept, err := result.ReadDisk(out)
	if err != nil || len(kept.Points) != 1 || kept.Points[0] != given.Points[0] {
		t.Errorf("kept %+v, %v", kept, err)
	}

	page, err := os.ReadFile(filepath.Join(out, result.ReportFile))
	if err != nil || !strings.Contains(string(page), "own limit") {
		t.Errorf("the page does not show the disk's limit: %v", err)
	}

	refused := statelab(t, "sweep", "--db", db, "--threads", "1,2", "--disk", t.TempDir(), "--out",
		filepath.Join(t.TempDir(), "T"))
	if refused.exit != exitUsage || !strings.Contains(refused.stderr, "--disk: ") {
		t.Errorf("exit %d: %s", refused.exit, refused.stderr)
	}
}

// A dry run reads nothing, whether it was asked for by flags or of a file.
func TestDiskSaysWhatItWouldTake(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "e.yaml")
	args := []string{"disk", dir, "--seconds", "3600", "--in-flight", "1,2", "--repeats", "1",
		"--with", "none"}
	experiment := must(t, append(args, "--print-experiment")...).stdout
	if err := os.WriteFile(file, []byte(experiment), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, args := range [][]string{append(args, "--dry-run"), {"run", file, "--dry-run"}} {
		if text := must(t, args...).stdout; !strings.HasPrefix(text,
			"1 run, about 2 h: 256 MiB of disk (0 B at the end)") {
			t.Errorf("%v: %s", args, text)
		}
	}
}

func TestInterruptedDiskSaysSo(t *testing.T) {
	dir := t.TempDir()
	if err := host.DirectSupported(dir); err != nil {
		t.Skip(err)
	}

	out := filepath.Join(t.TempDir(), "disk")
	s := start(t, "disk", dir, "--seconds", "60", "--with", "none", "--out", out)
	s.until("there is something to read", func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) > 0
	})

	s.signal(syscall.SIGINT)
	refused(t, s.wait(), exitFailed, "interrupted")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
