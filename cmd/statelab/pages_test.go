package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// The page cache modes, told apart by the kernel's account of the process.

func readPages(t *testing.T, mode string) (outcome, *result.Run) {
	t.Helper()
	out, gets := filepath.Join(t.TempDir(), "R"), "10k"
	if mode != "warm" { // each read of the device costs the kernel more than a Get
		gets = "4k"
	}

	o := must(t, "sweep", "--db", database(t, "pebble1"), "--page-cache", mode, "--cache",
		"512KiB", "--threads", "4", "--warmup", "1k", "--gets", gets,
		"--access-gets", "0", "--out", out)
	return o, readRun(t, out)
}

func TestDirectBlockReadsAreDeviceReads(t *testing.T) {
	if err := host.DirectSupported(scratch); err != nil {
		t.Skip(err)
	}

	o, run := readPages(t, "direct")
	f := run.Figures
	if !f.Has(figure.Agreement) || f.OrZero(figure.Agreement) < 0.98 ||
		f.OrZero(figure.Agreement) > 1.02 {
		t.Errorf("agreement %v, want 0.98 to 1.02\n%v", f.Pointer(figure.Agreement), o)
	}

	// The kernel's own account: whole sectors, at least as much as the blocks.
	measured := measuredPhase(t, run)
	asked := f.OrZero(figure.BlockReadBytesPerGet) * float64(f.Gets)
	if got := float64(measured.Process.ReadBytes); got < asked || got > 3*asked {
		t.Errorf("%.0f bytes came from the device for %.0f bytes of blocks", got, asked)
	}

	if strings.Contains(o.stderr, "not disk I/O") {
		t.Error(o)
	}
}

func TestWarmBlockReadsAreNotDiskIO(t *testing.T) {
	o, run := readPages(t, "warm")
	// The kernel may read back a few of the program's own pages meanwhile, 8 MiB at a time.
	if bytes, asked := run.Figures.OrZero(figure.DeviceReadBytesPerGet),
		run.Figures.OrZero(figure.BlockReadBytesPerGet); bytes > asked/4 {
		t.Errorf("%.0f of %.0f bytes a Get came from the device", bytes, asked)
	}

	if run.Figures.OrZero(figure.BlockReadsPerGet) < 1 {
		t.Errorf("%.2f block reads per Get: nothing was read",
			run.Figures.OrZero(figure.BlockReadsPerGet))
	}

	if !strings.Contains(o.stderr, "not disk I/O") {
		t.Errorf("no warning\n%v", o)
	}
}

func TestColdRunReadsTheDeviceOrSaysThatItDidNot(t *testing.T) {
	if memory, err := host.InMemory(scratch); err != nil {
		t.Fatal(err)
	} else if memory {
		refused(t, statelab(t, "sweep", "--db", database(t, "pebble1"), "--page-cache", "cold",
			"--cache", "512KiB", "--gets", "1k", "--out", filepath.Join(t.TempDir(), "R")),
			exitFailed, "in memory, from which no read is cold")
		return
	}

	o, run := readPages(t, "cold")
	fromDevice := run.Figures.Pointer(figure.DeviceReadBytesPerGet)
	if (fromDevice == nil || *fromDevice == 0) && !warned(run, "not_cold") {
		t.Errorf("nothing came from the device, and no warning\n%v", o)
	}
}

func TestStrictMakesAWarningFatal(t *testing.T) {
	o := statelab(t, "sweep", "--db", database(t, "pebble1"), "--page-cache", "warm", "--cache",
		"512KiB", "--warmup", "0", "--gets", "5k",
		"--access-gets", "0", "--strict", "--out", filepath.Join(t.TempDir(), "R"))
	refused(t, o, exitStrict, "not disk I/O", "--strict: ")
}

func warned(run *result.Run, code string) bool {
	for _, w := range run.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

func measuredPhase(t *testing.T, run *result.Run) result.Phase {
	t.Helper()
	for _, p := range run.Phases {
		if p.Name == "measure" {
			return p
		}
	}
	t.Fatalf("no phase is called measure: %+v", run.Phases)
	return result.Phase{}
}
