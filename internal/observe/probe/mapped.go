package probe

import "time"

// Fault is a page fault of the process: it touched a page of its memory that was not there.
type Fault struct {
	Thread      uint64
	Start, End  time.Duration // no Start: the kernel does not tell
	Address     uint64
	Major       bool   // the page had to be read; else it was in the page cache
	DeviceReads uint64 // that it asked the block device for, with what the kernel read ahead
	DeviceBytes uint64
}

// Faults are events of a process that maps its database.
type Faults interface {
	Fault(*Fault)
	// Second comes about once a second.
	Second() error
}

// Elsewhere counts faults that were not reported: minor ones outside the range, and what was lost.
type Elsewhere struct{ Minor, Lost uint64 }

// Mapping is a file in a process's memory.
type Mapping struct {
	Path      string // as the process sees it; where it was last, if it has been deleted
	Inode     uint64
	Low, High uint64 // addresses
	Offset    uint64 // in the file, at Low
}

// DeviceCounts are reads of a block device, by the process and by all others.
type DeviceCounts struct{ Reads, Bytes, OtherReads, OtherBytes uint64 }
