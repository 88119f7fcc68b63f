//go:build !linux

package probe

import (
	"context"
	"os"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/subject"
)

var errNeedsLinux = engine.Fail(engine.CodeUnsupported, "a running process can only be watched on Linux")

// Find needs Linux.
func Find(int, []subject.Watched) (*Target, error) { return nil, errNeedsLinux }

// Named needs Linux.
func Named(string) (int, error) { return 0, errNeedsLinux }

// With needs Linux.
func With(string) (int, error) { return 0, errNeedsLinux }

// Possible needs Linux.
func Possible() error { return errNeedsLinux }

// Probe needs Linux.
type Probe struct{}

// Open needs Linux.
func Open(*Target) (*Probe, error) { return nil, errNeedsLinux }

// OnDevice needs Linux.
func (*Probe) OnDevice(string) error { return errNeedsLinux }

// Device needs Linux.
func (*Probe) Device() (DeviceCounts, error) { return DeviceCounts{}, errNeedsLinux }

// Attach needs Linux.
func (*Probe) Attach() error { return errNeedsLinux }

// Watch needs Linux.
func (*Probe) Watch(context.Context, float64, Events) error { return errNeedsLinux }

// Lost needs Linux.
func (*Probe) Lost() (Lost, error) { return Lost{}, errNeedsLinux }

// Cost needs Linux.
func (*Probe) Cost() Cost { return Cost{} }

// Close needs Linux.
func (*Probe) Close() error { return nil }

// Process needs Linux.
func Process(int) (*Target, error) { return nil, errNeedsLinux }

// Mappings needs Linux.
func (t *Target) Mappings([]string) ([]Mapping, error) { return nil, errNeedsLinux }

// Mapped needs Linux.
func (t *Target) Mapped(Mapping) (string, error) { return "", errNeedsLinux }

// Inode needs Linux.
func Inode(string) (uint64, error) { return 0, errNeedsLinux }

// FaultProbe needs Linux.
type FaultProbe struct {
	Attached          time.Time
	Untimed, NoDevice error
}

// OpenFaults needs Linux.
func OpenFaults(*Target, string) (*FaultProbe, error) { return nil, errNeedsLinux }

// Attach needs Linux.
func (*FaultProbe) Attach() error { return errNeedsLinux }

// Report needs Linux.
func (*FaultProbe) Report(uint64, uint64) error { return errNeedsLinux }

// Watch needs Linux.
func (*FaultProbe) Watch(context.Context, Faults) error { return errNeedsLinux }

// Device needs Linux.
func (*FaultProbe) Device() (DeviceCounts, error) { return DeviceCounts{}, errNeedsLinux }

// Elsewhere needs Linux.
func (*FaultProbe) Elsewhere() (Elsewhere, error) { return Elsewhere{}, errNeedsLinux }

// Core needs Linux.
func (*FaultProbe) Core() float64 { return 0 }

// Close needs Linux.
func (*FaultProbe) Close() error { return nil }

// Opened needs Linux.
func (t *Target) Opened(string) string { return "" }

// Databases needs Linux.
func (t *Target) Databases() []string { return nil }

// Path needs Linux.
func (t *Target) Path(path string) string { return path }

// OpenTable needs Linux.
func (t *Target) OpenTable(*Read, string) (*os.File, string, bool) { return nil, "", false }

// Started needs Linux.
func (t *Target) Started() (time.Time, error) { return time.Time{}, errNeedsLinux }

// HasRead needs Linux.
func (t *Target) HasRead() int64 { return 0 }

// Alive needs Linux.
func (t *Target) Alive() bool { return false }

// Family needs Linux.
func (*Target) Family(uint64) (uint32, string, error) { return 0, "", errNeedsLinux }

// Choose needs Linux.
func (t *Target) Choose(string) error { return errNeedsLinux }

// Names needs Linux.
type Names struct{}

// Appeared needs Linux.
func Appeared([]string) (*Names, error) { return nil, errNeedsLinux }

// Next needs Linux.
func (*Names) Next() ([]string, error) { return nil, errNeedsLinux }

// Close needs Linux.
func (*Names) Close() error { return nil }

// Now needs Linux.
func Now() time.Duration { return 0 }
