package result

import (
	"slices"

	"github.com/statelab/statelab/engine"
)

// Machine is what the machine did besides a process while that measured. nil is
// absent: see Absent.
type Machine struct {
	Seconds              float64  `json:"seconds"`
	LoadAverageBegin     float64  `json:"load_average_begin"` // 1 min
	LoadAverageEnd       float64  `json:"load_average_end"`
	AvailableMemoryBegin int64    `json:"available_memory_begin_bytes"`
	AvailableMemoryEnd   int64    `json:"available_memory_end_bytes"`
	CPUOthersShare       *float64 `json:"cpu_others_share,omitempty"` // of all processors, 0..1
	CPUStolenShare       *float64 `json:"cpu_stolen_share,omitempty"` // of all processors: the hypervisor ran others on them

	// Disk is the device below the database: below a loop device, the one that holds
	// its file; below a partition, the whole disk.
	Disk                 string            `json:"disk,omitempty"`
	DiskBusyShare        *float64          `json:"disk_busy_share,omitempty"` // of the time: it had at least one request, of anybody
	DiskOthersReadBytes  *float64          `json:"disk_others_read_bytes_per_second,omitempty"`
	DiskOthersWriteBytes *float64          `json:"disk_others_write_bytes_per_second,omitempty"`
	Absent               map[string]string `json:"absent,omitempty"` // figure -> why it is not there
}

// Codes of warnings about the machine.
const (
	BusyMachine = "busy_machine"
	CPUStolen   = "cpu_stolen"
	BusyDisk    = "busy_disk"
	Governor    = "governor"
	ReadAhead   = "readahead"
)

// Told reports whether a warning about the machine is among known ones: of several
// runs compared, one of a kind says enough.
func Told(known []engine.Warning, w engine.Warning) bool {
	switch w.Code {
	case BusyMachine, CPUStolen, BusyDisk, Governor, ReadAhead:
		return slices.ContainsFunc(known, func(k engine.Warning) bool { return k.Code == w.Code })
	}
	return false
}
