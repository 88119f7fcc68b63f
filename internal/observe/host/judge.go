//go:build linux

package host

import (
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
)

// The judges below are pure: a reading in, a finding out.

// with is f where something is not as it should be: what that spoils, and the way out.
func (f Finding) with(v Verdict, spoils, remedy string) Finding {
	f.Verdict, f.Spoils, f.Remedy = v, spoils, remedy
	return f
}

func judgePageCache(evictErr error, canDropAll bool) Finding {
	f := Finding{Name: "page cache", Verdict: OK, State: "files can be evicted, and the kernel confirms it"}
	if canDropAll {
		f.State += "; so can the whole cache"
	}
	if evictErr != nil {
		f.State = "no proof of a cold cache: " + evictErr.Error()
		return f.with(Problem, "cold figures: reads may come from memory", "use --page-cache direct, or a directory of your own on a disk")
	}
	return f
}

func judgeDirect(err error) Finding {
	if err == nil {
		return Finding{Name: "O_DIRECT", Verdict: OK, State: "reads reach the device"}
	}
	return Finding{Name: "O_DIRECT", State: err.Error()}.with(Problem,
		"device reads per Get: block reads are served from memory",
		"put the database on ext4 or xfs on a disk")
}

func judgeRoot(root bool) Finding {
	if root {
		return Finding{Name: "root", Verdict: OK, State: "yes"}
	}
	return Finding{Name: "root", State: "no"}.with(Doubt,
		"device reads: without a private volume only bytes are counted, not requests",
		"run as root, or use --page-cache direct, where a block read is a device read")
}

func judgeLoop(err error) Finding {
	if err == nil {
		return Finding{Name: "loop devices", Verdict: OK, State: "a private volume can be made"}
	}
	return Finding{Name: "loop devices", State: err.Error()}.with(Doubt,
		"device reads: without a private volume the neighbours' are counted as well",
		"run as root with loop devices and e2fsprogs, in a container with --privileged")
}

// Linux's own default.
const ordinaryReadAheadKB = 128

func judgeReadAhead(device string, kilobytes int, err error) Finding {
	f := Finding{Name: "readahead", Verdict: OK, State: fmt.Sprintf("%s: %d KiB", device, kilobytes)}
	switch {
	case err != nil:
		f.State = "unknown: " + err.Error()
		return f.with(Doubt, "bytes per Get of engines that map their files", "put the database on a disk")
	case kilobytes > ordinaryReadAheadKB:
		return f.with(Doubt,
			fmt.Sprintf("buffered and mapped reads: a page touched can fetch up to %d KiB", kilobytes),
			fmt.Sprintf("set %d in /sys/class/block/%s/queue/read_ahead_kb, or use --page-cache direct", ordinaryReadAheadKB, device))
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
	return f.with(f.Verdict, "block reads: tables closed for lack of handles are opened again, at a few reads each", "ulimit -n 65536")
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
	return f.with(f.Verdict, "loads: compactions need as much again as they rewrite", "use another --db directory, or fewer --keys")
}

func judgeMemoryLimit(limit, memory int64) Finding {
	if limit == 0 || limit >= memory {
		return Finding{Name: "memory limit", Verdict: OK, State: "none below the machine's " + unit.Bytes(memory)}
	}
	return Finding{Name: "memory limit", State: fmt.Sprintf("%s of the machine's %s", unit.Bytes(limit), unit.Bytes(memory))}.with(Doubt,
		"buffered figures: the page cache is charged to the limit and shrinks as the engine grows",
		"compare only with runs under the same limit, or use --page-cache direct")
}

func judgeTHP(mode string) Finding {
	f := Finding{Name: "huge pages", Verdict: OK, State: mode}
	switch mode {
	case "":
		f.State = "not supported by the kernel"
	case "always":
		return f.with(Doubt, "peak memory and the latency tail: memory is taken and compacted 2 MiB at a time",
			"write madvise to /sys/kernel/mm/transparent_hugepage/enabled")
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
		return f.with(Doubt, "latency and CPU per Get: the frequency follows the load", "cpupower frequency-set -g performance")
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
		return f.with(Doubt, "latency of cache hits: two readings are part of every Get", "choose the clock source tsc, if the kernel offers it")
	}
	return f
}

func judgeVirtualisation(machine string) Finding {
	if machine == "" {
		return Finding{Name: "virtualisation", Verdict: OK, State: "none in sight"}
	}
	return Finding{Name: "virtualisation", State: machine}.with(Doubt,
		"latency: the disk can be cached outside, and other machines share it unseen",
		"trust counts more than times, and use --repeats")
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
	return f.with(f.Verdict, "throughput and latency; counts per Get stay right", "stop the others, or use --repeats and look at the spread")
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
	return f.with(f.Verdict, "latency of device reads, and their count unless the volume is private", "stop the others, or use another disk")
}
