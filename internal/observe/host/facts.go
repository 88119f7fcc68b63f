//go:build linux

package host

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
)

// Describe returns what can move a number measured on a database in dir. A fact
// the machine does not tell is left empty. It takes about 20 ms (the clock).
func Describe(dir string) result.Host {
	clock := measure.NewClock()
	cpu := processor()
	h := result.Host{
		OS:          osName(),
		Kernel:      firstLine("/proc/sys/kernel/osrelease"),
		CPU:         cpu.model,
		Cores:       runtime.NumCPU(),
		Gomaxprocs:  runtime.GOMAXPROCS(0),
		MemoryBytes: memoryBytes(),
		MemoryLimit: memoryLimit(),
		Go:          runtime.Version(),
		THP:         chosen(firstLine("/sys/kernel/mm/transparent_hugepage/enabled")),
		Governor:    governor(),
		FDLimit:     fdLimit(),
		Root:        os.Geteuid() == 0,
		LoadAverage: loadAverage(),
		Clock:       clock.Kind(),
		ClockNanos:  clock.CostNanos(),
		Virtualised: virtualised(cpu),
		Node:        os.Getenv("SLURMD_NODENAME"),
		Class:       os.Getenv("STATELAB_CLASS"),
		Job:         os.Getenv("SLURM_JOB_ID"),
	}

	if build, ok := debug.ReadBuildInfo(); ok {
		h.Statelab, h.Commit, h.Cgo = describeBuild(build)
	}

	if m, err := mountOf(dir); err == nil {
		h.Filesystem = m.filesystem
		h.Mount = strings.Join(unique(m.options), ",")
	}

	if d, err := DeviceOf(dir); err == nil {
		h.Device = d.Name
		h.Rotational = firstLine(d.queue("rotational")) == "1"
		h.Scheduler = chosen(firstLine(d.queue("scheduler")))
		if kilobytes, err := d.ReadAheadKB(); err == nil {
			h.ReadAheadKB = kilobytes
		}
	}

	return h
}

// FreeBytes is what an ordinary user can still write into dir.
func FreeBytes(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

func osName() string {
	text, _ := os.ReadFile("/etc/os-release")
	for line := range bytes.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return runtime.GOOS
}

type cpuInfo struct {
	model      string
	hypervisor bool
}

func processor() cpuInfo {
	text, _ := os.ReadFile("/proc/cpuinfo")
	return parseCPU(text)
}

// parseCPU reads the first processor of /proc/cpuinfo. Architectures that name
// no model are known by their GOARCH.
func parseCPU(text []byte) cpuInfo {
	c := cpuInfo{model: runtime.GOARCH}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(line), ":")
		switch strings.TrimSpace(name) {
		case "model name":
			c.model = strings.TrimSpace(value)
		case "flags":
			c.hypervisor = slices.Contains(strings.Fields(value), "hypervisor")
			return c
		}
	}

	return c
}

// virtualised names the virtual machine or is empty.
func virtualised(cpu cpuInfo) string {
	if !cpu.hypervisor {
		return ""
	}
	vendor := strings.TrimSpace(firstLine("/sys/class/dmi/id/sys_vendor") + " " +
		firstLine("/sys/class/dmi/id/product_name"))
	return "virtual machine: " + cmp.Or(vendor, firstLine("/sys/hypervisor/type"), "unnamed")
}

func memoryBytes() int64 { return meminfo("MemTotal") }

// AvailableMemory is what programs can still have, the page cache included, in bytes.
func AvailableMemory() int64 { return meminfo("MemAvailable") }

// meminfo is 0 where the kernel does not tell.
func meminfo(name string) int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	kilobytes, _ := parseCounters(text)
	return kilobytes[name] << 10
}

// governor is "" where the kernel does not set the frequency of processors.
func governor() string { return firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") }

func fdLimit() uint64 {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // 0 where it is not told
	return limit.Cur
}

func loadAverage() float64 {
	minute, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	load, _ := strconv.ParseFloat(minute, 64)
	return load
}

// firstLine is "" where the file does not exist or cannot be read: such files
// hold facts, and an absent fact stays empty.
func firstLine(path string) string {
	text, _ := os.ReadFile(filepath.Clean(path))
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// chosen picks b out of "a [b] c".
func chosen(options string) string {
	_, after, ok := strings.Cut(options, "[")
	choice, _, closed := strings.Cut(after, "]")
	if !ok || !closed {
		return options
	}
	return choice
}

func unique(words []string) []string {
	var first []string
	for _, w := range words {
		if !slices.Contains(first, w) {
			first = append(first, w)
		}
	}
	return first
}
