//go:build linux

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/base/livedir"

	"github.com/statelab/statelab/result"
)

// Counts tells whether this system counts what a process reads. Where it does not, nothing
// is measured; databases are inspected all the same.
const Counts = true

// ProcessNow returns what the kernel has counted for this process since its
// start, all threads together: /proc/self/io and getrusage. Each call counts one
// read call of about 100 characters itself.
//
// ReadBytes are bytes fetched from a device, by O_DIRECT, mmap and io_uring as
// well; ReadCalls and ReadChars see neither of the last two.
func ProcessNow() (result.ProcessIO, error) {
	io, err := processIO()
	if err != nil {
		return result.ProcessIO{}, fmt.Errorf("read the process's I/O counters: %w", err)
	}

	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return result.ProcessIO{}, fmt.Errorf("read the process's resource usage: %w", err)
	}

	return result.ProcessIO{
		ReadCalls:           io["syscr"],
		ReadChars:           io["rchar"],
		ReadBytes:           io["read_bytes"],
		WriteBytes:          io["write_bytes"],
		MajorFaults:         usage.Majflt,
		MinorFaults:         usage.Minflt,
		VoluntarySwitches:   usage.Nvcsw,
		InvoluntarySwitches: usage.Nivcsw,
		UserNanos:           usage.Utime.Nano(),
		SystemNanos:         usage.Stime.Nano(),
	}, nil
}

// MajorFaults are those of this process since its start. Unlike ProcessNow, it reads no file.
func MajorFaults() int64 {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return usage.Majflt
}

// PeakRSS is the most memory this process has had resident, in bytes, since its
// start or since ResetPeakRSS.
func PeakRSS() (int64, error) {
	bytes, _, err := statusBytes("VmHWM")
	return bytes, err
}

// statusBytes is a size that the kernel tells of this process, in a text of so many
// characters that one call reads.
func statusBytes(name string) (size, chars int64, err error) {
	status, err := readOnce("/proc/self/status", 8<<10)
	if err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", name, err)
	}
	size, err = sizeIn(status, name)
	return size, int64(len(status)), err
}

// readOnce reads a file that is no longer than room in one call, so that its own trace in the
// kernel's counters is known.
func readOnce(path string, room int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, room)
	n, err := f.Read(text)
	return text[:n], err
}

// sizeIn finds a line such as "VmHWM:     1234 kB" in /proc/self/status.
func sizeIn(status []byte, name string) (int64, error) {
	for line := range bytes.Lines(status) {
		rest, is := bytes.CutPrefix(line, []byte(name+":"))
		if !is {
			continue
		}

		kilobytes, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(
			rest,
		), []byte("kB")))), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}

		return kilobytes << 10, nil
	}

	return 0, fmt.Errorf("the kernel does not tell %s", name)
}

// ResetPeakRSS makes PeakRSS begin again at what is resident now.
func ResetPeakRSS() error {
	const resetPeak = "5" // proc(5), clear_refs
	if err := os.WriteFile("/proc/self/clear_refs", []byte(resetPeak), 0); err != nil {
		return fmt.Errorf("reset the peak of resident memory: %w", err)
	}
	return nil
}

func processIO() (map[string]int64, error) {
	text, err := readOnce("/proc/self/io", 1024)
	if err != nil {
		return nil, err
	}

	counters, err := parseCounters(text)
	if err != nil {
		return nil, err
	}

	for _, name := range []string{"syscr", "rchar", "read_bytes", "write_bytes"} {
		if _, ok := counters[name]; !ok {
			return nil, fmt.Errorf("/proc/self/io lacks %s", name)
		}
	}

	return counters, nil
}

// integers are the numbers that fields say.
func integers(fields []string) (n []int64, err error) {
	n = make([]int64, len(fields))
	for i, field := range fields {
		if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// parseCounters reads lines "name: number [unit]", leaving out values that are
// no numbers.
func parseCounters(text []byte) (map[string]int64, error) {
	counters := make(map[string]int64)
	for line := range bytes.Lines(text) {
		name, value, ok := strings.Cut(string(line), ":")
		if !ok {
			return nil, fmt.Errorf("no counter: %.60q", line)
		}

		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}

		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			counters[name] = n
		}
	}

	return counters, nil
}

// Allocated is what the files below dir take on the disk, in bytes and in number:
// blocks, not lengths, so that sparse and preallocated files count as they are.
// A file that is deleted meanwhile is left out; a dir that does not exist has
// none.
func Allocated(dir string) (allocated int64, files int, err error) {
	err = livedir.Walk(dir, func(path string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() {
			return nil
		}

		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return &fs.PathError{Op: "stat", Path: path, Err: err}
		}

		const blockBytes = 512 // of st_blocks, see stat(2)
		allocated += stat.Blocks * blockBytes
		files++
		return nil
	})

	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}

	return allocated, files, err
}

// RSS is the memory this process has resident now, in bytes.
func RSS() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("read the resident memory: %w", err)
	}

	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("read the resident memory: /proc/self/statm says %q", text)
	}

	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the resident memory: %w", err)
	}

	return pages * int64(os.Getpagesize()), nil
}
