//go:build linux && amd64

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// What is seen of a cold run on a mapped database is exactly what the kernel counts of the process,
// and no less than what the run counted while it measured: all of them on pages of its one table.
func TestWatchCountsThePageFaultsThatTheKernelCounts(t *testing.T) {
	watching(t)
	withCRunners(t)
	for name, file := range map[string]string{"mdbx": "mdbx.dat", "lmdb": "data.mdb"} {
		t.Run(name, func(t *testing.T) {
			db := small(t, "60k", "--engine", name)
			if !deviceTold(t, db) {
				t.Skip("nothing can be cold here")
			}

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

			p, before := atRest(
				t,
				func() counted { return countedOf(t, process) },
				func() (*probe.FaultProbe, error) {
					p, err := probe.OpenFaults(process, of.Path)
					if err == nil {
						err = p.Attach()
					}
					return p, err
				},
			)

			defer p.Close() // after the test has its answer
			done := make(chan struct{})
			go func() {
				defer close(done)
				target.run(protocol.EngineSpec{
					Engine:       name,
					Dir:          db,
					Profile:      "noreadahead",
					Threads:      1,
					Seed:         7,
					Gets:         2000,
					WarmupRule:   "a count",
					MissingShare: 0.3,
					PageCache:    protocol.Cold,
				})

				if err := target.Wait(); err != nil {
					t.Error(err)
				}
			}()

			seen, err := watch.Faults(context.Background(), process, p, of,
				watch.Options{Tell: func(result.Event) {}})

			<-done
			if err != nil {
				t.Fatal(err)
			}

			run, usage := readRun(t, target.out), target.ProcessState.SysUsage().(*syscall.Rusage)
			compareFaults(t, &seen.Watch, run, uint64(usage.Majflt)-before.major,
				uint64(usage.Minflt)-before.minor)
			compareDevice(t, &seen.Watch, run, before, target.ProcessState, db, runner)
			storedFaults(t, seen)
		})
	}
}

// countedOf is what the kernel has counted of a process so far.
func countedOf(t *testing.T, p *probe.Target) counted {
	t.Helper()
	process, err := procfs.NewProc(p.PID)
	if err != nil {
		t.Fatal(err)
	}

	stat, err := process.Stat()
	io, wrong := process.IO()
	if err := errors.Join(err, wrong); err != nil {
		t.Fatal(err)
	}

	return counted{uint64(stat.MajFlt), uint64(stat.MinFlt), io.ReadBytes}
}

// counted is what the kernel counts of a process.
type counted struct{ major, minor, readBytes uint64 }

// compareDevice compares what the process has read from the disk with what the kernel has counted
// of it, and with what the run counted while it measured. paths are the database, and what else the
// process reads.
func compareDevice(
	t *testing.T, w *result.Watch, run *result.Run, before counted, state *os.ProcessState,
	paths ...string,
) {
	t.Helper()
	if w.Device == nil {
		t.Fatalf("the disk: %v", w.Why)
	}

	const sector = 512
	all := uint64(state.SysUsage().(*syscall.Rusage).Inblock)*sector - before.readBytes
	measured := uint64(run.Figures.OrZero(figure.DeviceReadBytesPerGet)*float64(run.Figures.Gets) +
		0.5)
	// The program, its libraries, and what was swapped out may come from another disk.
	swaps, err := os.ReadFile("/proc/swaps")
	exact, disk := err == nil && strings.Count(string(swaps), "\n") < 2, uint64(0)
	for i, path := range append(paths, "/usr/lib", "/etc") {
		var stat syscall.Stat_t
		if err := syscall.Stat(path, &stat); err != nil {
			t.Fatal(err)
		}

		if i == 0 {
			disk = stat.Dev
		}

		exact = exact && stat.Dev == disk
	}

	if seen := w.Device.ReadBytes; seen > all || exact && seen < all || seen < measured ||
		measured == 0 {
		t.Errorf("read from the disk: %+v; the kernel counted %d bytes, and the run %d while it "+
			"measured", *w.Device, all, measured)
	}

	if per := w.Device.BlockReadsPerGet.Pointer(); per != nil && (*per == 0 ||
		*per > w.OrZero(figure.BlockReadsPerGet)) {
		t.Errorf("block reads per Get from the disk: %v of %v", *per,
			w.OrZero(figure.BlockReadsPerGet))
	}
}

func compareFaults(t *testing.T, w *result.Watch, run *result.Run, major, minor uint64) {
	t.Helper()
	sum, bytes := result.WatchElsewhere{Major: w.Elsewhere.Major, Minor: w.Elsewhere.Minor},
		uint64(0)
	for _, f := range w.Faults {
		sum.Major, sum.Minor, bytes = sum.Major+f.Major, sum.Minor+f.Minor, bytes+f.DeviceBytes
		// Libmdbx looks at pages behind the last one, too, which are in memory and of no table.
		if known := f.Table == "(main)" && (f.Type == "branch" || f.Type == "leaf") ||
			f.Table == "(head of the file)"; !known && f.Major > 0 {
			t.Errorf("faults on pages of the only table are told as %+v", f)
		}
	}

	// Minor faults that the kernel makes itself, to read or write memory for a system call, are
	// counted, but are no events.
	const own = 200
	if sum.Major != major || sum.Minor > minor || sum.Minor+own < minor ||
		w.Lost != (result.WatchLost{}) {
		t.Errorf("page faults: %+v; the kernel counted %d major and %d minor ones; lost %+v", sum,
			major, minor, w.Lost)
	}

	measured, tally := uint64(run.Figures.OrZero(figure.BlockReadsPerGet)*float64(run.Figures.Gets)+
		0.5),
		w.BlockReads[engine.Page.String()]
	if all := uint64(tally.Count) + w.Elsewhere.Major; measured < 500 || measured > all ||
		all != major {
		t.Errorf("major page faults: %+v; the run counted %d while it measured", tally, measured)
	}

	if bytes == 0 || bytes > w.Device.ReadBytes {
		t.Errorf("read from the disk: %d bytes by page faults, %d in all", bytes,
			w.Device.ReadBytes)
	}
}

// storedFaults stores a watch of page faults: it is reported and packed as any run.
func storedFaults(t *testing.T, seen *watch.Seen) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a")
	if err := errors.Join(os.Mkdir(dir, 0o755),
		seen.Write(dir, []string{"statelab", "watch"})); err != nil {
		t.Fatal(err)
	}

	if text := must(t, "report", dir).stdout; !strings.Contains(text, "major page faults") ||
		!strings.Contains(text, "(main)") {
		t.Error(text)
	}

	pack := filepath.Join(t.TempDir(), "w.zip")
	must(t, "pack", "create", dir, "--out", pack)
	if o := statelab(t, "pack", "verify", pack); o.exit != 0 {
		t.Error(o)
	}
}

// A database is found where only the process sees it, after it was moved, and after it was deleted;
// each way in which it cannot be watched is one sentence with the way out.
func TestWatchFindsTheMappedDatabase(t *testing.T) {
	watching(t)
	otherMounts(t)
	withCRunners(t)
	runner, err := exec.LookPath("statelab-run-lmdb")
	if err != nil {
		t.Fatal(err)
	}

	db, inside := small(t, "3k", "--engine", "lmdb"), filepath.Join(t.TempDir(), "inside")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}

	// A container: the process alone has its folder there.
	target := waitingRunner(t, elsewhere(db, inside, []string{runner}))
	target.run(protocol.EngineSpec{
		Engine:     "lmdb",
		Dir:        inside,
		Profile:    "readahead",
		Threads:    1,
		Seed:       7,
		Gets:       1 << 40,
		WarmupRule: "a count",
	})

	pid := target.Process.Pid
	began, of := time.Now(), (*watch.MappedFile)(nil)
	for ; of == nil; time.Sleep(20 * time.Millisecond) {
		process, err := probe.Process(pid)
		if err == nil {
			of, err = watch.MappedBy(process, "")
		}

		if time.Since(began) > time.Minute {
			t.Fatalf("the runner does not map its database: %v", err)
		}
	}

	look := func(arguments ...string) outcome {
		return statelab(t,
			append([]string{"watch", "--pid", fmt.Sprint(pid), "--seconds", "0.2"},
				arguments...)...)
	}

	seen := func(what, dir string) {
		t.Helper()
		var w result.Watch
		o := look("--json")
		if err := json.Unmarshal([]byte(o.stdout), &w); err != nil {
			t.Fatalf("%s: %v: %v", what, err, o)
		}

		if w.Process.Database != dir || w.Process.Engine != "lmdb" || w.Faults == nil ||
			w.Why["gets"] == "" {
			t.Errorf("%s: %+v, absent: %v", what, w.Process, w.Why)
		}
	}

	seen("in a container", inside)
	if o := statelab(t, "watch", db, "--json", "--seconds", "0.2"); o.exit != 0 ||
		!o.says(strconv.Quote(inside)) {
		t.Errorf("by the path that it has here: %v", o)
	}

	refused(t, look("--cache", "1GiB", "--trace-out", filepath.Join(t.TempDir(), "T")), exitUsage,
		"--cache: ", "--trace-out: ", "leave the flag out")
	hidden := exec.Command("unshare", "--mount", "sh", "-c",
		`umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null; exec "$@"`, "sh",
		binary, "watch", "--pid", fmt.Sprint(pid))
	if text, err := hidden.CombinedOutput(); err == nil ||
		!strings.Contains(string(text), "mount -t tracefs none /sys/kernel/tracing") {
		t.Errorf("without tracepoints: %v\n%s", err, text)
	}

	moved := filepath.Join(filepath.Dir(db), "moved")
	if err := os.Rename(db, moved); err != nil {
		t.Fatal(err)
	}

	seen("after it was moved", inside)
	if err := os.Remove(filepath.Join(moved, "data.mdb")); err != nil {
		t.Fatal(err)
	}

	seen("after it was deleted", inside)
	// This process maps two.
	other := small(t, "3k", "--engine", "lmdb")
	for _, dir := range []string{other, small(t, "3k", "--engine", "mdbx")} {
		files, err := filepath.Glob(filepath.Join(dir, "*d*.[md]*")) // data.mdb, mdbx.dat
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}

		for _, path := range files {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}

			defer file.Close() // only read
			memory, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ,
				syscall.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}

			defer func() { _ = syscall.Munmap(memory) }() // at the end of the test
		}
	}

	own, err := probe.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}

	if of, err := watch.MappedBy(own, ""); engine.CodeOf(err) != engine.CodeUsage {
		t.Errorf("two databases: %+v, %v", of, err)
	}

	if of, err := watch.MappedBy(own, other); err != nil || of == nil || of.Dir != other ||
		of.Layout.Engine != "lmdb" {
		t.Errorf("one of two: %+v, %v", of, err)
	}
}

// Gets of Erigon's wrapper of MDBX, of another version than fixtures/erigon has, are seen beside
// page faults: of the one table, as many absent as are asked for, with the pages that they go
// through, which a trace has, too.
func TestWatchSeesGetsOfAMappedDatabase(t *testing.T) {
	watching(t)
	withCRunners(t)
	runner, err := exec.LookPath("statelab-run-mdbx")
	if err != nil {
		t.Fatal(err)
	}

	const absent = 0.3
	db := small(t, "60k", "--engine", "mdbx")
	target := waitingRunner(t, []string{runner})
	target.run(protocol.EngineSpec{
		Engine:       "mdbx",
		Dir:          db,
		Profile:      "readahead",
		Threads:      1,
		Seed:         7,
		Gets:         1 << 40,
		WarmupRule:   "a count",
		MissingShare: absent,
	})

	began := time.Now()
	for of := (*watch.MappedFile)(nil); of == nil; time.Sleep(20 * time.Millisecond) {
		process, err := probe.Process(target.Process.Pid)
		if err == nil {
			of, err = watch.MappedBy(process, "")
		}

		if time.Since(began) > time.Minute {
			t.Fatalf("the runner does not map its database: %v", err)
		}
	}

	pid, trace := fmt.Sprint(target.Process.Pid), filepath.Join(t.TempDir(), "T")
	refused(t, statelab(t, "watch", "--pid", pid, "--cache", "1GiB"), exitUsage, "--cache: ",
		"--trace-out FILE")
	var w result.Watch
	dir, pack := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "w.zip")
	o := must(t, "watch", "--pid", pid, "--seconds", "2", "--sample", "50%", "--json",
		"--trace-out", trace, "--out", dir)
	if err := json.Unmarshal([]byte(o.stdout), &w); err != nil {
		t.Fatal(err)
	}

	if w.Faults == nil || w.Gets < 100 || w.Failed > 0 || len(w.TableGets) != 1 ||
		w.Missing+w.Found != w.Gets || w.Why["gets"] != "" || !w.Has(figure.GetsPerSecond) {
		t.Fatalf("%d Gets, %d absent, %d failed, of %+v; absent %v", w.Gets, w.Missing, w.Failed,
			w.TableGets, w.Why)
	}

	deviation := math.Sqrt(absent * (1 - absent) / float64(w.Gets))
	if of := w.TableGets[0]; of.Table != "(main)" || math.Abs(of.Absent-absent) > 6*deviation ||
		of.PagesPerGet == nil || *of.PagesPerGet != math.Trunc(*of.PagesPerGet) ||
		*of.PagesPerGet < 2 || w.Resolved != w.Gets {
		t.Errorf("%+v, of %d Gets, %d of whose pages are known", of, w.Gets, w.Resolved)
	}

	if text := must(t, "report", dir).stdout; !strings.Contains(text, "Gets by table") {
		t.Error(text)
	}

	must(t, "pack", "create", dir, "--out", pack)
	must(t, "pack", "verify", pack)
	if text := must(t, "simulate", trace, "--cache", "1MiB,1GiB").stdout; !strings.Contains(text,
		"Gets of mdbx") {
		t.Error(text)
	}
}
