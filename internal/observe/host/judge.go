//go:build linux

package host

import (
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
)

// The judges below are pure: a reading in, a finding out.

func judgePageCache(evictErr error, canDropAll bool) Finding {
	f := Finding{Name: "page cache", Verdict: OK, State: "files can be evicted, and the kernel confirms it"}
	if canDropAll {
		f.State += "; so can the whole cache"
	}
	if evictErr != nil {
		f.State = "no proof of a cold cache: " + evictErr.Error()
		f.Verdict = Problem
		f.Spoils = "cold figures: reads may come from memory"
		f.Remedy = "use --page-cache direct, or a directory of your own on a disk"
	}
	return f
}

func judgeDirect(err error) Finding {
	if err == nil {
		return Finding{Name: "O_DIRECT", Verdict: OK, State: "reads reach the device"}
	}
	return Finding{
		Name: "O_DIRECT", Verdict: Problem, State: err.Error(),
		Spoils: "device reads per Get: block reads are served from memory",
		Remedy: "put the database on ext4 or xfs on a disk",
	}
}

func judgeRoot(root bool) Finding {
	if root {
		return Finding{Name: "root", Verdict: OK, State: "yes"}
	}
	return Finding{
		Name: "root", Verdict: Doubt, State: "no",
		Spoils: "device reads: without a private volume only bytes are counted, not requests",
		Remedy: "run as root, or use --page-cache direct, where a block read is a device read",
	}
}

func judgeLoop(err error) Finding {
	if err == nil {
		return Finding{Name: "loop devices", Verdict: OK, State: "a private volume can be made"}
	}
	return Finding{
		Name: "loop devices", Verdict: Doubt, State: err.Error(),
		Spoils: "device reads: without a private volume the neighbours' are counted as well",
		Remedy: "run as root with loop devices and e2fsprogs, in a container with --privileged",
	}
}

// Linux's own default.
const ordinaryReadAheadKB = 128

func judgeReadAhead(device string, kilobytes int, err error) Finding {
	f := Finding{Name: "readahead", Verdict: OK, State: fmt.Sprintf("%s: %d KiB", device, kilobytes)}
	switch {
	case err != nil:
		f.State, f.Verdict = "unknown: "+err.Error(), Doubt
		f.Spoils = "bytes per Get of engines that map their files"
		f.Remedy = "put the database on a disk"
	case kilobytes > ordinaryReadAheadKB:
		f.Verdict = Doubt
		f.Spoils = fmt.Sprintf("buffered and mapped reads: a page touched can fetch up to %d KiB", kilobytes)
		f.Remedy = fmt.Sprintf("set %d in /sys/class/block/%s/queue/read_ahead_kb, or use --page-cache direct", ordinaryReadAheadKB, device)
	}
	return f
}

func judgeFDLimit(limit uint64) Finding {
	f := Finding{Name: "open files", Verdict: OK, State: fmt.Sprintf("%s allowed", unit.Count(limit))}
	switch {
	case limit < 1024:
		f.Verdict = Problem
	case limit < 8192:
		f.Verdict = Doubt
	default:
		return f
	}
	f.Spoils = "block reads: tables closed for lack of handles are opened again, at a few reads each"
	f.Remedy = "ulimit -n 65536"
	return f
}

func judgeFreeSpace(free int64, err error) Finding {
	f := Finding{Name: "free space", Verdict: OK, State: unit.Bytes(free)}
	switch {
	case err != nil:
		f.State, f.Verdict = err.Error(), Problem
	case free < 1<<30:
		f.Verdict = Problem
	case free < 10<<30:
		f.Verdict = Doubt
	default:
		return f
	}
	f.Spoils = "loads: compactions need as much again as they rewrite"
	f.Remedy = "use another --db directory, or fewer --keys"
	return f
}

func judgeMemoryLimit(limit, memory int64) Finding {
	if limit == 0 || limit >= memory {
		return Finding{Name: "memory limit", Verdict: OK, State: "none below the machine's " + unit.Bytes(memory)}
	}
	return Finding{
		Name: "memory limit", Verdict: Doubt,
		State:  fmt.Sprintf("%s of the machine's %s", unit.Bytes(limit), unit.Bytes(memory)),
		Spoils: "buffered figures: the page cache is charged to the limit and shrinks as the engine grows",
		Remedy: "compare only with runs under the same limit, or use --page-cache direct",
	}
}

func judgeTHP(mode string) Finding {
	f := Finding{Name: "huge pages", Verdict: OK, State: mode}
	switch mode {
	case "":
		f.State = "not supported by the kernel"
	case "always":
		f.Verdict = Doubt
		f.Spoils = "peak memory and the latency tail: memory is taken and compacted 2 MiB at a time"
		f.Remedy = "write madvise to /sys/kernel/mm/transparent_hugepage/enabled"
	}
	return f
}

func judgeGovernor(governor string) Finding {
	f := Finding{Name: "CPU governor", Verdict: OK, State: governor}
	switch governor {
	case "":
		f.State = "no frequency scaling in sight"
	case "performance":
	default:
		f.Verdict = Doubt
		f.Spoils = "latency and CPU per Get: the frequency follows the load"
		f.Remedy = "cpupower frequency-set -g performance"
	}
	return f
}

func judgeClock(kind, doubt string, costNanos float64) Finding {
	f := Finding{Name: "clock", Verdict: OK, State: fmt.Sprintf("%s, %s a reading", kind, unit.Nanos(costNanos))}
	if kind == measure.TSC {
		return f
	}
	f.State += " (" + doubt + ")"
	if costNanos > 200 { // a system call, not the vDSO
		f.Verdict = Doubt
		f.Spoils = "latency of cache hits: two readings are part of every Get"
		f.Remedy = "choose the clock source tsc, if the kernel offers it"
	}
	return f
}

func judgeVirtualisation(machine string) Finding {
	if machine == "" {
		return Finding{Name: "virtualisation", Verdict: OK, State: "none in sight"}
	}
	return Finding{
		Name: "virtualisation", Verdict: Doubt, State: machine,
		Spoils: "latency: the disk can be cached outside, and other machines share it unseen",
		Remedy: "trust counts more than times, and use --repeats",
	}
}

func judgeCPUNeighbours(m *result.Machine) Finding {
	f := Finding{Name: "CPU used by others", Verdict: OK}
	if m.CPUOthersShare == nil {
		f.State, f.Verdict = "unknown: "+m.Absent[cpuOthers], Doubt
	} else {
		f.State = unit.Percent(*m.CPUOthersShare)
		if *m.CPUStolenShare > 0 {
			f.State += fmt.Sprintf(", and %s stolen by the hypervisor", unit.Percent(*m.CPUStolenShare))
		}
		switch taken := *m.CPUOthersShare + *m.CPUStolenShare; {
		case taken > 0.5:
			f.Verdict = Problem
		case taken > mostOthersCPU:
			f.Verdict = Doubt
		default:
			return f
		}
	}
	f.Spoils = "throughput and latency; counts per Get stay right"
	f.Remedy = "stop the others, or use --repeats and look at the spread"
	return f
}

func judgeDiskNeighbours(m *result.Machine) Finding {
	f := Finding{Name: "disk used by others", Verdict: OK}
	if m.DiskBusyShare == nil {
		f.State, f.Verdict = "unknown: "+m.Absent[diskBusy], Doubt
	} else {
		f.State = fmt.Sprintf("%s busy %s of the time, %s read and %s written a second", m.Disk, unit.Percent(*m.DiskBusyShare),
			unit.Bytes(int64(*m.DiskOthersReadBytes)), unit.Bytes(int64(*m.DiskOthersWriteBytes)))
		switch {
		case *m.DiskBusyShare <= 0.05:
			return f
		case *m.DiskBusyShare > 0.3:
			f.Verdict = Problem
		default:
			f.Verdict = Doubt
		}
	}
	f.Spoils = "latency of device reads, and their count unless the volume is private"
	f.Remedy = "stop the others, or use another disk"
	return f
}
