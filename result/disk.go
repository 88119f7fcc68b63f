package result

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/result/figure"
)

// DiskFile is the disk's own limit, in a folder of its own or in a sweep's.
const DiskFile = "disk.json"

// Disk is what the device gives to random 4-KiB reads without any engine.
type Disk struct {
	Schema     string    `json:"schema"`
	Started    time.Time `json:"started"`
	Command    []string  `json:"command"`
	Dir        string    `json:"dir"`
	Host       Host      `json:"host"`
	Machine    *Machine  `json:"machine,omitempty"` // what else ran on it
	BlockBytes int       `json:"block_bytes"`
	AreaBytes  int64     `json:"area_bytes"` // read from at random
	Seconds    float64   `json:"seconds"`    // of one reading of one point
	Repeats    int       `json:"repeats"`

	Points []DiskPoint `json:"points"`
	// Allocation is what a buffer costs beside a read; nil: an earlier version wrote this.
	Allocation *Allocation `json:"allocation,omitempty"`
	// Fio is another prober's account of the same files, taken in turns with ours.
	Fio        []DiskPoint `json:"fio,omitempty"`
	FioVersion string      `json:"fio_version,omitempty"`
	FioAbsent  string      `json:"fio_absent,omitempty"` // why fio was not asked

	// Contradicted says why these figures are no limit. Empty: nothing speaks against it.
	Contradicted string           `json:"contradicted,omitempty"`
	Warnings     []engine.Warning `json:"warnings"`
}

// Allocation is what a buffer costs, got and given up: the fastest of several batches.
type Allocation struct {
	Bytes       int     `json:"bytes"`
	ReusedNanos float64 `json:"reused_ns"`  // from a pool of kept buffers
	HeapNanos   float64 `json:"go_heap_ns"` // made by Go: zeroed, and collected again
	// mapped by the kernel, as C's malloc does from 128 KiB on, not touched
	MappedNanos  float64 `json:"mapped_ns"`
	TouchedNanos float64 `json:"touched_ns"` // the same, every page touched
}

// DiskPoint is a number of readers that each wait for one read at a time. The
// figures are medians over the repeats.
type DiskPoint struct {
	InFlight       int     `json:"in_flight"`
	Reads          uint64  `json:"reads"` // of all repeats
	ReadsPerSecond float64 `json:"reads_per_second"`
	MeanNanos      float64 `json:"mean_ns"`
	P99Nanos       float64 `json:"p99_ns"`
	Spread         Range   `json:"reads_per_second_spread"`
}

// At is the limit with n reads in flight: between two measured numbers on the
// straight line through them, beyond the largest what that one gave. ok is false
// below the smallest measured.
func (d *Disk) At(n float64) (p DiskPoint, ok bool) {
	if d == nil || len(d.Points) == 0 || n < float64(d.Points[0].InFlight) {
		return DiskPoint{}, false
	}

	for i, right := range d.Points {
		if n == float64(right.InFlight) {
			return right, true
		}

		if n < float64(right.InFlight) {
			left := d.Points[i-1]
			share := (n - float64(left.InFlight)) / float64(right.InFlight-left.InFlight)
			mix := func(a, b float64) float64 { return a + share*(b-a) }
			return DiskPoint{
				InFlight:       int(math.Round(n)),
				ReadsPerSecond: mix(left.ReadsPerSecond, right.ReadsPerSecond),
				MeanNanos:      mix(left.MeanNanos, right.MeanNanos),
				P99Nanos:       mix(left.P99Nanos, right.P99Nanos),
				Spread: Range{
					Low:  mix(left.Spread.Low, right.Spread.Low),
					High: mix(left.Spread.High, right.Spread.High),
				},
			}, true
		}
	}

	return d.Points[len(d.Points)-1], true
}

// What a probe of the disk may differ by before it is no limit.
const (
	maxBeyondLimit = 1.1 // measured reads a second / the probe's
	maxProbeSpread = 2.0 // fastest / slowest repeat of a number in flight
)

// FindContradiction looks for what contradicts the probe: repeats too far apart, far fewer reads a
// second with more in flight, or measured reads a second, with so many in flight, beyond what it
// says the disk can give. It stores the reason in Contradicted and returns it.
func (d *Disk) FindContradiction(measured ...DiskPoint) string {
	if d == nil {
		return ""
	}
	d.Contradicted = cmp.Or(d.Contradicted, d.contradiction(measured))
	return d.Contradicted
}

func (d *Disk) contradiction(measured []DiskPoint) string {
	for _, p := range d.Points {
		if p.Spread.High > maxProbeSpread*p.Spread.Low {
			return fmt.Sprintf("with %d in flight its repeats gave %.0f to %.0f reads/s",
				p.InFlight, p.Spread.Low, p.Spread.High)
		}
	}

	for i, p := range d.Points {
		for _, fewer := range d.Points[:i] {
			if fewer.ReadsPerSecond > maxProbeSpread*p.ReadsPerSecond {
				return fmt.Sprintf("it gave %.0f reads/s with %d in flight, but %.0f with %d",
					fewer.ReadsPerSecond, fewer.InFlight, p.ReadsPerSecond, p.InFlight)
			}
		}
	}

	for _, m := range measured {
		if limit, ok := d.At(float64(m.InFlight)); ok &&
			m.ReadsPerSecond > maxBeyondLimit*limit.ReadsPerSecond {
			return fmt.Sprintf("it gave %.0f reads/s with %d in flight, the engine then made %.0f",
				limit.ReadsPerSecond, m.InFlight, m.ReadsPerSecond)
		}
	}

	return ""
}

// DeviceReads are the device reads a second of a point, for Disk.Judge: none where they
// were not counted. threads is of a point whose axes do not tell.
func (p Point) DeviceReads(threads int) DiskPoint {
	if n, err := strconv.Atoi(p.Axes["threads"]); err == nil {
		threads = n
	}

	f := p.Figures // 0 where device reads were not counted

	return DiskPoint{
		InFlight:       threads,
		ReadsPerSecond: f.OrZero(figure.GetsPerSecond) * f.OrZero(figure.DeviceReadsPerGet),
	}
}

// DiskContradicted is the code of Warning.
const DiskContradicted = "disk_contradicted"

// Warning is that of a probe that is contradicted.
func (d *Disk) Warning() engine.Warning {
	return engine.Warning{
		Code: DiskContradicted,
		Text: "the probe of the disk is not used as its limit: " + d.Contradicted,
		Remedy: "stop other users of the disk, measure it again with statelab disk --out DIR, " +
			"and give that folder to --disk",
	}
}

// WriteDisk writes disk.json into dir, whole or not at all.
func WriteDisk(dir string, d *Disk) error {
	return write(filepath.Join(dir, DiskFile), d, &d.Schema, schema.Disk, &d.Warnings)
}

// ReadDisk reads a disk.json, or that of a folder.
func ReadDisk(path string) (*Disk, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, DiskFile)
	}

	d, err := output.ReadJSON(path, schema.Disk, func(v *Disk) string { return v.Schema })
	if err != nil {
		return nil, err
	}

	last := 0
	for _, p := range d.Points {
		if p.InFlight <= last || !(p.ReadsPerSecond > 0) || !(p.MeanNanos > 0) {
			return nil, fmt.Errorf("%s is damaged: %d in flight after %d give %v reads/s of %v ns",
				path, p.InFlight, last, p.ReadsPerSecond, p.MeanNanos)
		}

		last = p.InFlight
	}

	return d, nil
}

// Machine is what the machine did besides a process while that measured. nil is
// absent: see Absent.
type Machine struct {
	Seconds              float64  `json:"seconds"`
	LoadAverageBegin     float64  `json:"load_average_begin"` // 1 min
	LoadAverageEnd       float64  `json:"load_average_end"`
	AvailableMemoryBegin int64    `json:"available_memory_begin_bytes"`
	AvailableMemoryEnd   int64    `json:"available_memory_end_bytes"`
	CPUOthersShare       *float64 `json:"cpu_others_share,omitempty"` // of all processors, 0..1
	// of all processors: the hypervisor ran others on them
	CPUStolenShare *float64 `json:"cpu_stolen_share,omitempty"`

	// Disk is the device below the database: below a loop device, the one that holds
	// its file; below a partition, the whole disk.
	Disk string `json:"disk,omitempty"`
	// of the time: it had at least one request, of anybody
	DiskBusyShare        *float64 `json:"disk_busy_share,omitempty"`
	DiskOthersReadBytes  *float64 `json:"disk_others_read_bytes_per_second,omitempty"`
	DiskOthersWriteBytes *float64 `json:"disk_others_write_bytes_per_second,omitempty"`
	// figure -> why it is not there
	Absent map[string]string `json:"absent,omitempty"`
}

// Codes of warnings about the machine.
const (
	BusyMachine = "busy_machine"
	CPUStolen   = "cpu_stolen"
	BusyDisk    = "busy_disk"
	Governor    = "governor"
	ReadAhead   = "readahead"
)

// HasWarning reports whether a warning about the machine is among known ones: of several
// runs compared, one of a kind says enough.
func HasWarning(known []engine.Warning, w engine.Warning) bool {
	switch w.Code {
	case BusyMachine, CPUStolen, BusyDisk, Governor, ReadAhead:
		return slices.ContainsFunc(known, func(k engine.Warning) bool { return k.Code == w.Code })
	}
	return false
}
