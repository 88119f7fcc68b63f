//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
)

// What is seen of a cold run on a mapped database is exactly what the kernel counts of the process, and no less
// than what the run counted while it measured: all of them on pages of its one table.
func TestWatchCountsThePageFaultsThatTheKernelCounts(t *testing.T) {
	watching(t)
	withCRunners(t)
	for name, of := range map[string][2]string{"mdbx": {"mdbx.dat", "noreadahead"}, "lmdb": {"data.mdb", "readahead"}} {
		file, profile := of[0], of[1]
		t.Run(name, func(t *testing.T) {
			db := small(t, "60k", "--engine", name)
			runner, err := exec.LookPath("statelab-run-" + name)
			if err != nil {
				t.Fatal(err)
			}
			target := waitingRunner(t, []string{runner})
			process, err := probe.Process(target.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			of, err := watch.FileMapped(filepath.Join(db, file))
			if err != nil {
				t.Fatal(err)
			}
			p, err := probe.OpenFaults(process, of.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close() // after the test has its answer
			before := countedOf(t, process)
			if err := p.Attach(); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				target.run(protocol.EngineSpec{Engine: name, Dir: db, Profile: profile, Threads: 1, Seed: 7, Gets: 2000, WarmupRule: "a count", MissingShare: 0.3,
					PageCache: protocol.Cold})
				if err := target.Wait(); err != nil {
					t.Error(err)
				}
			}()
			seen, err := watch.Faults(context.Background(), process, p, of, watch.Options{Tell: func(result.Event) {}})
			<-done
			if err != nil {
				t.Fatal(err)
			}
			usage := target.ProcessState.SysUsage().(*syscall.Rusage)
			const sector = 512
			compareFaults(t, &seen.Watch, readRun(t, target.out), counted{uint64(usage.Majflt) - before.major, uint64(usage.Minflt) - before.minor,
				uint64(usage.Inblock)*sector - before.readBytes})
			storedFaults(t, seen)
		})
	}
}

// countedOf is what the kernel has counted of a process so far.
func countedOf(t *testing.T, p *probe.Target) (c counted) {
	t.Helper()
	var err error
	if c.major, c.minor, err = p.Faulted(); err != nil {
		t.Fatal(err)
	}
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(io), "\nread_bytes: ")
	if _, err := fmt.Sscan(after, &c.readBytes); err != nil {
		t.Fatal(err)
	}
	return c
}

// counted is what the kernel counts of a process.
type counted struct{ major, minor, readBytes uint64 }

func compareFaults(t *testing.T, w *result.Watch, run *result.Run, kernel counted) {
	t.Helper()
	sum := counted{major: w.Elsewhere.Major, minor: w.Elsewhere.Minor, readBytes: w.Device.ReadBytes}
	var bytes uint64
	for _, f := range w.Faults {
		sum.major, sum.minor, bytes = sum.major+f.Major, sum.minor+f.Minor, bytes+f.DeviceBytes
		if known := f.Table == "(main)" && (f.Type == "branch" || f.Type == "leaf") || f.Table == "(head of the file)"; !known || f.Unknown {
			t.Errorf("faults on pages of the only table are told as %+v", f)
		}
	}
	if sum != kernel || w.Lost != (result.WatchLost{}) {
		t.Errorf("page faults and bytes from the device: %+v; the kernel counted %+v; lost %+v", sum, kernel, w.Lost)
	}
	measured, tally := uint64(*run.Figures.BlockReadsPerGet*float64(run.Figures.Gets)+0.5), w.BlockReads[engine.Page.String()]
	if all := uint64(tally.Count) + w.Elsewhere.Major; measured < 10 || measured > all || all != kernel.major {
		t.Errorf("major page faults: %+v; the run counted %d while it measured", tally, measured)
	}
	if bytes == 0 || bytes > w.Device.ReadBytes {
		t.Errorf("read from the device: %d bytes by page faults, %d in all", bytes, w.Device.ReadBytes)
	}
}

// storedFaults stores a watch of page faults: it is reported and packed as any run.
func storedFaults(t *testing.T, seen *watch.Seen) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a")
	if err := errors.Join(os.Mkdir(dir, 0o755), seen.Write(dir, []string{"statelab", "watch"})); err != nil {
		t.Fatal(err)
	}
	if text := must(t, "report", dir).stdout; !strings.Contains(text, "major page faults") || !strings.Contains(text, "(main)") {
		t.Error(text)
	}
	pack := filepath.Join(t.TempDir(), "w.zip")
	must(t, "pack", "create", dir, "--out", pack)
	if o := statelab(t, "pack", "verify", pack); o.exit != 0 {
		t.Error(o)
	}
}
