// Package probe watches the Gets and the reads of a running process from outside, by eBPF: the
// process is not changed, not stopped and not restarted.
//
// A probe where the engine's Get begins and one at each of its returns report every Get: its key,
// its outcome, when it began and ended. Tracepoints of the read calls and of io_uring report every
// read of a file with its offset. A read belongs to the Get that its goroutine, or in C++ its
// thread, is in; any other read carries the stack of its reader, or the name of its thread, which
// tells what it is for.
//
// Return probes of the kernel are never used: they change return addresses on the stack, and Go
// moves stacks. In C++ they break exceptions, and some kernels end a process for them whose system
// calls are filtered, as those of containers are. Nothing is pinned: the kernel removes everything
// when this process ends, however it ends.
//
// Goals: every event seen or counted as lost. Non-goals: what an event means (internal/ask/watch).
//
// Read find_linux.go (which process), binary_linux.go and library_linux.go (where Gets begin and
// end), machine_linux.go (what differs between processors), bpf/programs.c (what runs in the
// kernel), load_linux.go and programs_linux.go (how it gets there) and attach_linux.go (its life)
// in this order; faults_linux.go for page faults, pagecache_linux.go for the page cache.
package probe

import (
	"debug/gosym"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/subject"
)

// MaxKeyBytes are reported of a key; a longer one is cut.
const MaxKeyBytes = len(bpfGet{}.Key)

// Target is a process with an engine in it.
type Target struct {
	PID     int
	Name    string
	Args    []string
	Program string // path of its binary, as it sees it
	Main    string // Go module of the program
	Version string // of the program, where it tells
	Engine  subject.Watched
	Module  string // version of the engine
	Go      string // version of Go; "": it is not a Go program
	Cores   int    // that it may run on

	code       code
	candidates []candidate
}

// code says where the probes belong.
type code struct {
	file      string // the program's, or that of a library
	places    []place
	batches   []batch
	together  []place // that look keys of a batch up
	seeks     []place
	functions functions
	// sharedStrings: strings in C++ are those of the compiler's library before GCC 5, which Java's
	// artifacts keep to.
	sharedStrings bool
}

// batch is a function that looks many keys up at once.
type batch struct {
	subject.Batch
	entry uint64 // its offset into the file
}

// place is a function that makes Gets: offsets into the file.
type place struct {
	function int // of the engine's
	entry    uint64
	returns  []uint64
}

// Batches are lookups of many keys at once.
type Batches struct{ Calls, Keys uint64 }

// Together are keys of a batch that were looked up by one call. Each was reported before as a Get
// with its ID, if keys can be read.
type Together struct {
	ID       GetID
	Keys     int  // that were looked up; more than were reported: not all could be read
	OneByOne bool // as by Gets, one after the other
}

// Get is a Get that was seen from its beginning to its end.
type Get struct {
	ID       GetID
	Start    time.Duration // of the kernel's monotonic clock
	End      time.Duration
	Key      []byte // valid until the next event
	KeyBytes int    // its whole length
	// FirstBytes of it are its first part; the second one is that of a value among several.
	FirstBytes int
	Found      bool
	ErrorData  uint64 // the address of its error's value; 0: none, so the key was absent
	Reads      uint32 // that belong to it
	Database   uint64 // the address of the engine's handle: a process can have several databases
	Family     uint64 // the address of the column family's handle; 0: there is none
	InBatch    bool   // it is a key of a Together, which times it and has its reads
}

// Seek is a Seek of an iterator, of any database of the process.
type Seek struct{ Start, End time.Duration }

// GetID tells Gets apart: the goroutine or thread, and when it began.
type GetID struct{ Goroutine, Start uint64 }

// File is the identity of an open file: inode numbers are used again, generations tell.
type File struct {
	Device, Inode uint64
	Generation    uint32
}

// Read is one read of a file.
type Read struct {
	Get        GetID // zero: of no Get that is watched
	Start, End time.Duration
	File       File
	Descriptor int
	Offset     int64
	Bytes      int    // asked for and returned; negative: it failed
	Purpose    string // of a read without a Get
	InSeek     bool
	// DeviceReads and DeviceBytes are what the kernel asked a block device for, with what it read
	// ahead. 0: the page cache had it.
	DeviceReads, DeviceBytes uint64
}

// Lost counts what could not be reported because the reader was too slow.
type Lost struct{ Gets, Reads uint64 }

// candidate is an engine that a binary holds.
type candidate struct {
	engine  subject.Watched
	version string // of a Go module
	file    string // a library, or the program's file
}

// functions finds the function of an address in memory.
type functions struct {
	bias  uint64
	funcs []gosym.Func
}

func (f functions) name(address uint64) string {
	at := address - f.bias
	i := sort.Search(len(f.funcs), func(i int) bool { return f.funcs[i].Entry > at }) - 1
	if i < 0 || at >= f.funcs[i].End {
		return ""
	}
	return f.funcs[i].Name
}

// purpose is that of a read by its reader's stack.
func (f functions) purpose(stack []uint64, of []subject.Purpose) string {
	for _, p := range of {
		for _, address := range stack {
			if strings.HasPrefix(f.name(address), p.By) {
				return p.Name
			}
		}
	}
	return subject.ForOther
}

// purposeOf is that of a read by the name of its reader's thread.
func purposeOf(thread string, of []subject.Purpose) string {
	for _, p := range of {
		if strings.HasPrefix(thread, p.By) {
			return p.Name
		}
	}
	return subject.ForOther
}

// Engines are the names of all engines in the binary that can be watched.
func (t *Target) Engines() (names []string) {
	for _, c := range t.candidates {
		names = append(names, c.engine.Engine)
	}
	return names
}

// String names the process.
func (t *Target) String() string { return fmt.Sprintf("%s (pid %d)", t.Name, t.PID) }

// MaxOfCore is the share of a processor that watching may take from the process, unless another
// share of time is asked for.
const MaxOfCore = 0.02

// Events are what a Probe reports, from one goroutine.
type Events interface {
	Get(*Get)
	Together(*Together)
	Seek(*Seek)
	Read(*Read)
	// Window begins or ends a stretch of time in which every Get is seen.
	Window(open bool, at time.Duration)
	// Second comes about once a second.
	Second() error
}

// Cost is what an event takes of the process, as measured on this machine.
type Cost struct {
	Get  time.Duration `json:"get_nanos"`
	Read time.Duration `json:"read_nanos"`
}
