//go:build linux

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
)

// Doctor examines the machine for measurements on a database in dir: it writes
// and deletes two small files there and watches the neighbours for half a
// second. What stops it from looking is itself a finding.
func Doctor(ctx context.Context, dir string) []Finding {
	clock := measure.NewClock()
	cpu := processor()
	deviceName, readAheadKB := "", 0
	device, deviceErr := DeviceOf(dir)
	if deviceErr == nil {
		deviceName = device.Name
		readAheadKB, deviceErr = device.ReadAheadKB()
	}

	free, freeErr := FreeBytes(dir)
	watch := StartWatch(dir)
	select {
	case <-ctx.Done():
	case <-time.After(500 * time.Millisecond):
	}

	machine, _ := watch.Stop()

	return []Finding{
		judgePageCache(tryEvict(ctx, dir),
			unix.Access("/proc/sys/vm/drop_caches", unix.W_OK) == nil),
		judgeDirect(DirectSupported(dir)),
		judgeRoot(os.Geteuid() == 0),
		judgeLoop(loopTools()),
		judgeReadAhead(deviceName, readAheadKB, deviceErr),
		judgeFDLimit(fdLimit()),
		judgeFreeSpace(free, freeErr),
		judgeMemoryLimit(memoryLimit(), memoryBytes()),
		judgeTHP(chosen(firstLine("/sys/kernel/mm/transparent_hugepage/enabled"))),
		judgeGovernor(governor()),
		judgeClock(clock.Kind(), clock.WhyNotTSC(), clock.CostNanos()),
		judgeVirtualisation(virtualised(cpu)),
		judgeCPUNeighbours(machine),
		judgeDiskNeighbours(machine),
	}
}

func loopTools() error {
	_, err := mkfsPath()
	return errors.Join(loopDevices(), err)
}

// tryEvict makes a cold file and has the kernel confirm it.
func tryEvict(ctx context.Context, dir string) (err error) {
	own, err := os.MkdirTemp(dir, ".statelab-evict-*")
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	if err := os.WriteFile(filepath.Join(own, "page"), make([]byte, 1<<16), 0o600); err != nil {
		return err
	}

	if _, err := Evict(ctx, own); err != nil {
		return err
	}

	resident, total, err := Resident(own)
	if err == nil && resident > 0 {
		err = fmt.Errorf("%d of %d bytes stayed", resident, total)
	}

	return err
}

// The judges below are pure: a reading in, a finding out.

// judged is a finding: what is, and where that is not as it should be what it spoils, and
// the way out.
func judged(name, state string, v Verdict, spoils, remedy string) Finding {
	f := Finding{Name: name, State: state, Verdict: v}
	if v != OK {
		f.Spoils, f.Remedy = spoils, remedy
	}
	return f
}

// graded is how much a finding matters, the worst first.
func graded(problem, doubt bool) Verdict {
	switch {
	case problem:
		return Problem
	case doubt:
		return Doubt
	}
	return OK
}

// stateOf is what a reading found, or why there is none.
func stateOf(err error, found string) string {
	if err != nil {
		return err.Error()
	}
	return found
}

func judgePageCache(evictErr error, canDropAll bool) Finding {
	state := "files can be evicted, and the kernel confirms it"
	switch {
	case evictErr != nil:
		state = "no proof of a cold cache: " + evictErr.Error()
	case canDropAll:
		state += "; so can the whole cache"
	}

	return judged("page cache", state, graded(evictErr != nil, false),
		"cold figures: reads may come from memory",
		"use --page-cache direct, or a directory of your own on a disk")
}

func judgeDirect(err error) Finding {
	return judged("O_DIRECT", stateOf(err, "reads reach the device"), graded(err != nil, false),
		"device reads per Get: block reads are served from memory",
		"put the database on ext4 or xfs on a disk")
}

func judgeRoot(root bool) Finding {
	return judged("root", map[bool]string{true: "yes", false: "no"}[root], graded(false, !root),
		"device reads: without a private volume only bytes are counted, not requests",
		"run as root, or use --page-cache direct, where a block read is a device read")
}

func judgeLoop(err error) Finding {
	return judged("loop devices", stateOf(err, "a private volume can be made"),
		graded(false, err != nil),
		"device reads: without a private volume the neighbours' are counted as well",
		"run as root with loop devices and e2fsprogs, in a container with --privileged")
}

// Linux's own default.
const ordinaryReadAheadKB = 128

func judgeReadAhead(device string, kilobytes int, err error) Finding {
	if err != nil {
		return judged("readahead", "unknown: "+err.Error(), Doubt,
			"bytes per Get of engines that map their files", "put the database on a disk")
	}

	return judged("readahead", fmt.Sprintf("%s: %d KiB", device, kilobytes),
		graded(false, kilobytes > ordinaryReadAheadKB),
		fmt.Sprintf("buffered and mapped reads: a page touched can fetch up to %d KiB", kilobytes),
		fmt.Sprintf(
			"set %d in /sys/class/block/%s/queue/read_ahead_kb, or use --page-cache direct",
			ordinaryReadAheadKB,
			device,
		))
}

func judgeFDLimit(limit uint64) Finding {
	return judged("open files", unit.Count(limit)+" allowed", graded(limit < 1024, limit < 8192),
		"block reads: tables closed for lack of handles are opened again, at a few reads each",
		"ulimit -n 65536")
}

func judgeFreeSpace(free int64, err error) Finding {
	return judged("free space", stateOf(err, unit.Bytes(free)),
		graded(err != nil || free < 1<<30, free < 10<<30),
		"loads: compactions need as much again as they rewrite",
		"use another --db directory, or fewer --keys")
}

func judgeMemoryLimit(limit, memory int64) Finding {
	state, limited := "none below the machine's "+unit.Bytes(memory), limit != 0 && limit < memory
	if limited {
		state = fmt.Sprintf("%s of the machine's %s", unit.Bytes(limit), unit.Bytes(memory))
	}
	return judged("memory limit", state, graded(false, limited),
		"buffered figures: the page cache is charged to the limit and shrinks as the engine grows",
		"compare only with runs under the same limit, or use --page-cache direct")
}

func judgeTHP(mode string) Finding {
	return judged("huge pages", cmp.Or(mode, "not supported by the kernel"),
		graded(false, mode == "always"),
		"peak memory and the latency tail: memory is taken and compacted 2 MiB at a time",
		"write madvise to /sys/kernel/mm/transparent_hugepage/enabled")
}

func judgeGovernor(governor string) Finding {
	return judged("CPU governor", cmp.Or(governor, "no frequency scaling in sight"),
		graded(false, governor != "" && governor != "performance"),
		"latency and CPU per Get: the frequency follows the load",
		"cpupower frequency-set -g performance")
}

func judgeClock(kind, doubt string, costNanos float64) Finding {
	state, slow := fmt.Sprintf("%s, %s a reading", kind, unit.Nanos(costNanos)), false
	if kind != measure.TSC {
		state += " (" + doubt + ")"
		slow = costNanos > 200 // a system call, not the vDSO
	}
	return judged("clock", state, graded(false, slow),
		"latency of cache hits: two readings are part of every Get",
		"choose the clock source tsc, if the kernel offers it")
}

func judgeVirtualisation(machine string) Finding {
	return judged("virtualisation", cmp.Or(machine, "none in sight"), graded(false, machine != ""),
		"latency: the hypervisor may cache the disk and share it with other guests",
		"trust counts more than times, and use --repeats")
}

func judgeCPUNeighbours(m *result.Machine) Finding {
	state, v := "unknown: "+m.Absent[cpuOthers], Doubt
	if m.CPUOthersShare != nil {
		state = unit.Percent(*m.CPUOthersShare)
		if *m.CPUStolenShare > 0 {
			state += fmt.Sprintf(", and %s stolen by the hypervisor",
				unit.Percent(*m.CPUStolenShare))
		}

		taken := *m.CPUOthersShare + *m.CPUStolenShare
		v = graded(taken > 0.5, taken > maxOthersCPU)
	}

	return judged("CPU used by others", state, v,
		"throughput and latency; counts per Get stay right",
		"stop the others, or use --repeats and look at the spread")
}

func judgeDiskNeighbours(m *result.Machine) Finding {
	state, v := "unknown: "+m.Absent[diskBusy], Doubt
	if m.DiskBusyShare != nil {
		state = fmt.Sprintf("%s busy %s of the time, %s read and %s written per second", m.Disk,
			unit.Percent(*m.DiskBusyShare),
			unit.Bytes(int64(*m.DiskOthersReadBytes)), unit.Bytes(int64(*m.DiskOthersWriteBytes)))
		v = graded(*m.DiskBusyShare > 0.3, *m.DiskBusyShare > 0.05)
	}

	return judged("disk used by others", state, v, "latency of device reads, and their count "+
		"unless the volume is private",
		"stop the others, or use another disk")
}
