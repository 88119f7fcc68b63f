//go:build linux

package host

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// Watch learns what the machine does besides this process, from the difference of
// two moments: it costs nothing between them.
type Watch struct {
	disk      Device
	readAhead int // KB; 0: unknown
	begin     moment
	absent    map[string]string
}

// Figures of result.Machine that a kernel or a filesystem may not tell.
const (
	cpuOthers  = "cpu_others_share"
	cpuStolen  = "cpu_stolen_share"
	diskBusy   = "disk_busy_share"
	diskReads  = "disk_others_read_bytes_per_second"
	diskWrites = "disk_others_write_bytes_per_second"
)

// moment is what the kernel has counted since its start.
type moment struct {
	at        time.Time
	load      float64
	available int64
	cpu       cpuTicks
	own       result.ProcessIO
	disk      result.DeviceIO
}

// StartWatch begins to watch. dir holds the database, or will.
func StartWatch(dir string) *Watch {
	dir = Existing(dir)
	w := &Watch{absent: map[string]string{}}
	var err error
	if w.disk, err = diskOf(dir); err != nil {
		w.lacks(err, diskBusy, diskReads, diskWrites)
	}

	if database, err := DeviceOf(dir); err == nil {
		w.readAhead, err = database.ReadAheadKB()
		if err != nil {
			w.readAhead = 0
		}
	}

	w.begin = w.now()
	return w
}

// Stop returns what happened since the start, and what of it makes figures doubtful.
func (w *Watch) Stop() (*result.Machine, []engine.Warning) {
	end := w.now()
	m := between(w.begin, end)
	m.Disk, m.Absent = w.disk.Name, w.absent
	if _, unknown := w.absent[cpuOthers]; unknown {
		m.CPUOthersShare, m.CPUStolenShare = nil, nil
	}

	if _, unknown := w.absent[diskBusy]; unknown {
		m.DiskBusyShare, m.DiskOthersReadBytes, m.DiskOthersWriteBytes = nil, nil, nil
	}

	return m, warnings(m, Between(w.begin.own, end.own), governor(), w.readAhead)
}

func (w *Watch) lacks(why error, figures ...string) {
	for _, name := range figures {
		w.absent[name] = why.Error()
	}
}

func (w *Watch) now() (m moment) {
	m = moment{load: loadAverage(), available: AvailableMemory()}
	var err error
	if m.own, err = ProcessNow(); err != nil {
		w.lacks(err, cpuOthers, cpuStolen, diskBusy, diskReads, diskWrites)
	}

	stat, err := os.ReadFile("/proc/stat")
	if err == nil {
		m.cpu, err = parseCPUTicks(string(stat))
	}

	if err != nil {
		w.lacks(err, cpuOthers, cpuStolen)
	}

	if w.disk.Name != "" {
		if m.disk, err = w.disk.Now(); err != nil {
			w.lacks(err, diskBusy, diskReads, diskWrites)
		}
	}

	m.at = time.Now()
	return m
}

// tickNanos is USER_HZ, which the kernel fixes at 100 for user space.
const tickNanos = int64(time.Second) / 100

// between takes this process's own part off what was counted for all.
func between(begin, end moment) *result.Machine {
	m := &result.Machine{
		Seconds:              end.at.Sub(begin.at).Seconds(),
		LoadAverageBegin:     begin.load,
		LoadAverageEnd:       end.load,
		AvailableMemoryBegin: begin.available,
		AvailableMemoryEnd:   end.available,
	}

	own, disk := Between(begin.own, end.own), Between(begin.disk, end.disk)
	rate := func(bytes int64) *float64 {
		return new(max(0, float64(bytes)/m.Seconds))
	}
	m.DiskOthersReadBytes, m.DiskOthersWriteBytes = rate(disk.ReadBytes-own.ReadBytes),
		rate(disk.WriteBytes-own.WriteBytes)
	m.DiskBusyShare = new(min(1, float64(disk.BusyMillis)/1e3/m.Seconds))
	others, stolen := 0.0, 0.0
	busy, steal := end.cpu.busy-begin.cpu.busy, end.cpu.steal-begin.cpu.steal
	if all := busy + steal + end.cpu.idle - begin.cpu.idle; all > 0 {
		ticks := float64(own.UserNanos+own.SystemNanos) / float64(tickNanos)
		others, stolen = max(0, (float64(busy)-ticks)/float64(all)), float64(steal)/float64(all)
	}

	m.CPUOthersShare, m.CPUStolenShare = &others, &stolen
	return m
}

// Thresholds of the warnings, told in docs/disks.md.
const (
	minJudged       = 1.0 // seconds: the kernel counts processor time in hundredths
	maxOthersCPU    = 0.10
	maxStolenCPU    = 0.02
	minOwnDisk      = 64 << 10 // bytes a second: below, a run does not depend on the disk
	minOthersDisk   = 1 << 20  // bytes a second
	maxOthersDisk   = 0.10     // of the run's own bytes
	maxFetched      = 2.0      // times the bytes asked for
	minFetchedBytes = 1 << 20  // beyond those
)

// warnings are pure: what was seen, and what this process did, in; sentences out.
// What a run did not depend on is passed over.
func warnings(
	m *result.Machine, own result.ProcessIO, governor string, readAheadKB int,
) (all []engine.Warning) {
	warn := func(code, remedy, text string, args ...any) {
		all = append(all, engine.Warning{
			Code:   code,
			Text:   fmt.Sprintf(text, args...),
			Remedy: remedy,
		})
	}

	if governor != "" && governor != "performance" {
		warn(result.Governor, "cpupower frequency-set -g performance",
			"the CPU frequency governor is %s: the frequency follows the load, so latency and "+
				"CPU per operation vary; counts are not affected", governor)
	}

	asked := own.ReadChars + own.MajorFaults*int64(os.Getpagesize())
	if extra := own.ReadBytes - asked; readAheadKB > ordinaryReadAheadKB &&
		extra > minFetchedBytes && float64(own.ReadBytes) > maxFetched*float64(asked) {
		warn(result.ReadAhead,
			fmt.Sprintf(
				"set read_ahead_kb of the device to %d or less, or use --page-cache direct",
				ordinaryReadAheadKB,
			),
			"the device read %s for the %s that were asked for: its readahead is %d KB",
			unit.Bytes(own.ReadBytes), unit.Bytes(asked), readAheadKB)
	}

	if m.Seconds < minJudged {
		return all
	}

	if m.CPUOthersShare != nil && *m.CPUOthersShare > maxOthersCPU {
		warn(result.BusyMachine,
			"stop the other processes, or measure several times and compare the spread",
			"other processes used %s of the processors during the run (load average %.1f at its "+
				"end): throughput and latency are worse than on an idle machine; counts are not "+
				"affected",
			unit.Percent(*m.CPUOthersShare), m.LoadAverageEnd)
	}

	if m.CPUStolenShare != nil && *m.CPUStolenShare > maxStolenCPU {
		warn(result.CPUStolen, "use a machine with dedicated cores, or measure several times "+
			"and compare the spread",
			"the hypervisor gave %s of the processor time to other virtual machines: "+
				"throughput and latency are worse than on a dedicated machine; counts are not "+
				"affected",
			unit.Percent(*m.CPUStolenShare))
	}

	if m.DiskOthersReadBytes != nil {
		others, ours := *m.DiskOthersReadBytes+*m.DiskOthersWriteBytes,
			float64(own.ReadBytes+own.WriteBytes)/m.Seconds
		if ours >= minOwnDisk && others > minOthersDisk && others > maxOthersDisk*ours {
			warn(result.BusyDisk, "stop the other processes, or put the database on another disk",
				"other processes moved %s/s on the disk %s, this run %s/s: operations that wait "+
					"for the disk took longer than on an idle disk",
				unit.Bytes(int64(others)), m.Disk, unit.Bytes(int64(ours)))
		}
	}

	return all
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

	v, err := integers(fields[1:9])
	if err != nil {
		return cpuTicks{}, fmt.Errorf("no processor times: %w", err)
	}

	return cpuTicks{busy: v[0] + v[1] + v[2] + v[5] + v[6], idle: v[3] + v[4], steal: v[7]}, nil
}
