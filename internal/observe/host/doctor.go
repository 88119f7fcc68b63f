package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/observe/measure"
)

// Verdict says how much a finding matters.
type Verdict string

const (
	OK      Verdict = "ok"
	Doubt   Verdict = "doubt"   // some figures need care
	Problem Verdict = "problem" // some figures are wrong or cannot be had
)

// Finding is one thing about this machine that a measurement depends on.
type Finding struct {
	Name    string  `json:"name"`
	State   string  `json:"state"` // what is
	Verdict Verdict `json:"verdict"`
	Spoils  string  `json:"spoils,omitempty"` // what it would do to which figures
	Remedy  string  `json:"remedy,omitempty"`
}

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
	neighbours, neighboursErr := watchNeighbours(ctx, deviceName, 500*time.Millisecond)

	return []Finding{
		judgePageCache(tryEvict(ctx, dir), unix.Access("/proc/sys/vm/drop_caches", unix.W_OK) == nil),
		judgeDirect(DirectSupported(dir)),
		judgeRoot(os.Geteuid() == 0),
		judgeLoop(loopTools()),
		judgeReadAhead(deviceName, readAheadKB, deviceErr),
		judgeFDLimit(fdLimit()),
		judgeFreeSpace(free, freeErr),
		judgeMemoryLimit(memoryLimit(), memoryBytes()),
		judgeTHP(chosen(firstLine("/sys/kernel/mm/transparent_hugepage/enabled"))),
		judgeGovernor(firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
		judgeClock(clock.Kind(), clock.Doubt(), clock.CostNanos()),
		judgeVirtualisation(virtualised(cpu)),
		judgeCPUNeighbours(neighbours, neighboursErr),
		judgeDiskNeighbours(deviceName, neighbours, neighboursErr),
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

// neighbours is what everybody but this process did for a while.
type neighbours struct {
	cpuShare   float64 // of all processors, 0..1
	stealShare float64 // of all processors: ready to run while the hypervisor ran others
	diskShare  float64 // of the time, 0..1: the device had at least one request
	diskReads  float64 // per second
	diskWrites float64 // per second
}

// watchNeighbours compares two moments. This process waits between them, so
// what happens on the disk is others'.
func watchNeighbours(ctx context.Context, device string, span time.Duration) (neighbours, error) {
	first, err := loadNow(device)
	if err != nil {
		return neighbours{}, err
	}
	select {
	case <-ctx.Done():
		return neighbours{}, ctx.Err()
	case <-time.After(span):
	}
	last, err := loadNow(device)
	if err != nil {
		return neighbours{}, err
	}
	return loadBetween(first, last), nil
}

// load is a moment of the machine's counters.
type load struct {
	at       time.Time
	cpu      cpuTicks
	ownNanos int64
	disk     diskCounts
}

func loadNow(device string) (load, error) {
	own, err := ProcessNow()
	if err != nil {
		return load{}, err
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return load{}, err
	}
	l := load{at: time.Now(), ownNanos: own.UserNanos + own.SystemNanos}
	if l.cpu, err = parseCPUTicks(string(stat)); err != nil {
		return load{}, err
	}
	if device != "" {
		disks, err := os.ReadFile("/proc/diskstats")
		if err != nil {
			return load{}, err
		}
		if l.disk, err = parseDiskCounts(string(disks), device); err != nil {
			return load{}, err
		}
	}
	return l, nil
}

// tickNanos is USER_HZ, which the kernel fixes at 100 for user space.
const tickNanos = int64(time.Second) / 100

func loadBetween(first, last load) neighbours {
	seconds := last.at.Sub(first.at).Seconds()
	n := neighbours{
		diskShare:  min(1, float64(last.disk.busyMillis-first.disk.busyMillis)/1e3/seconds),
		diskReads:  float64(last.disk.reads-first.disk.reads) / seconds,
		diskWrites: float64(last.disk.writes-first.disk.writes) / seconds,
	}
	busy := last.cpu.busy - first.cpu.busy
	steal := last.cpu.steal - first.cpu.steal
	if all := busy + steal + last.cpu.idle - first.cpu.idle; all > 0 {
		own := float64(last.ownNanos-first.ownNanos) / float64(tickNanos)
		n.cpuShare = max(0, (float64(busy)-own)/float64(all))
		n.stealShare = float64(steal) / float64(all)
	}
	return n
}

// cpuTicks are hundredths of a second over all processors.
type cpuTicks struct{ busy, idle, steal int64 }

// parseCPUTicks reads the first line of /proc/stat: user nice system idle iowait
// irq softirq steal. Guests are part of user.
func parseCPUTicks(stat string) (cpuTicks, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return cpuTicks{}, fmt.Errorf("no processor times: %.100q", line)
	}
	var v [8]int64
	for i := range v {
		n, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			return cpuTicks{}, fmt.Errorf("no processor times: %w", err)
		}
		v[i] = n
	}
	return cpuTicks{busy: v[0] + v[1] + v[2] + v[5] + v[6], idle: v[3] + v[4], steal: v[7]}, nil
}

type diskCounts struct{ reads, writes, busyMillis int64 }

// parseDiskCounts reads the device's row of /proc/diskstats: major minor name,
// then reads at 1, writes at 5 and milliseconds busy at 10.
func parseDiskCounts(diskstats, device string) (diskCounts, error) {
	for line := range strings.Lines(diskstats) {
		fields := strings.Fields(line)
		if len(fields) < 13 || fields[2] != device {
			continue
		}
		var c diskCounts
		for column, to := range map[int]*int64{1: &c.reads, 5: &c.writes, 10: &c.busyMillis} {
			n, err := strconv.ParseInt(fields[2+column], 10, 64)
			if err != nil {
				return diskCounts{}, fmt.Errorf("counters of %s: %w", device, err)
			}
			*to = n
		}
		return c, nil
	}
	return diskCounts{}, fmt.Errorf("/proc/diskstats has no row %s", device)
}
