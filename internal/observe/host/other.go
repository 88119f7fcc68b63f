//go:build !linux

package host

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/livedir"
	"github.com/statelab/statelab/result"
)

// errLinux is why nothing is measured here.
var errLinux = errors.New("measuring needs Linux: this is " + runtime.GOOS)

// What other systems tell is what explaining and predicting take; the rest are errors.
// Non-goal: measuring with what a system's own counters happen to mean.

const Counts = false

type (
	MemoryLimit struct {
		How    string
		Within int64
		Own    OwnReads
	}
	Watch struct{}
)

// MajorFaults are not counted.
func MajorFaults() int64 { return 0 }

func Describe(string) result.Host {
	h := result.Host{
		OS:         runtime.GOOS,
		Cores:      runtime.NumCPU(),
		Gomaxprocs: runtime.GOMAXPROCS(0),
		Go:         runtime.Version(),
	}

	if build, ok := debug.ReadBuildInfo(); ok {
		h.Statelab, h.Commit, h.Cgo = describeBuild(build)
	}

	return h
}

func Doctor(context.Context, string) []Finding {
	return []Finding{{
		Name:    "system",
		State:   runtime.GOOS,
		Verdict: Problem,
		Spoils:  "everything that is measured: nothing is measured here",
		Remedy: "measure on Linux; predict, simulate, inspect, advise, report and compare work " +
			"here",
	}}
}

// Allocated is the length of the files below dir.
func Allocated(dir string) (bytes int64, files int, err error) {
	err = livedir.Walk(dir, func(_ string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() {
			return nil
		}

		info, err := entry.Info()
		if err == nil {
			bytes, files = bytes+info.Size(), files+1
		}

		return err
	})

	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}

	return bytes, files, err
}

func StartWatch(string) *Watch                           { return new(Watch) }
func (*Watch) Stop() (*result.Machine, []engine.Warning) { return nil, nil }
func DeviceOf(string) (Device, error)                    { return Device{}, errLinux }
func (Device) Now() (io result.DeviceIO, err error)      { return io, errLinux }
func (Device) Settled(*OwnReads, time.Duration) (io result.DeviceIO, err error) {
	return io, errLinux
}
func DirectSupported(string) error    { return errLinux }
func InMemory(string) (bool, error)   { return false, errLinux }
func FreeBytes(string) (int64, error) { return 0, errLinux }
func AvailableMemory() int64          { return 0 }
func MeasureDisk(context.Context, DiskPlan, func(string)) (*result.Disk, error) {
	return nil, errLinux
}
func LimitMemory() (*MemoryLimit, error)                          { return nil, errLinux }
func (*MemoryLimit) TrackAnonRSS(int64) error                     { return errLinux }
func (*MemoryLimit) Release() error                               { return nil }
func AnonymousBytes() (bytes, chars int64, err error)             { return 0, 0, errLinux }
func SweepGroups()                                                {}
func Evict(context.Context, string) (string, error)               { return "", errLinux }
func SyncFilesystem(string) error                                 { return errLinux }
func Warm(context.Context, string, func(_, _ int64)) error        { return errLinux }
func Resident(string) (resident, total int64, err error)          { return 0, 0, errLinux }
func ProbeWrite(context.Context, string) (float64, error)         { return 0, errLinux }
func ProcessNow() (p result.ProcessIO, err error)                 { return p, errLinux }
func PeakRSS() (int64, error)                                     { return 0, errLinux }
func ResetPeakRSS() error                                         { return errLinux }
func RSS() (int64, error)                                         { return 0, errLinux }
func SwitchNanos() (float64, error)                               { return 0, errLinux }
func VolumeCreate(context.Context, string, int64) (string, error) { return "", errLinux }
func VolumeRemove(string) error                                   { return errLinux }
