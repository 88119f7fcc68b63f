package advice

import (
	"fmt"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result/figure"
)

// MemoryEvidence is what is known of a node that maps its database into memory, when somebody asks
// what limits the node.
type MemoryEvidence struct {
	Program string

	// Waiting: threads that wait for pages of the database at a time, on average.
	Waiting  figure.Value
	DiskBusy figure.Value // share of the time in which the device had requests
	OwnReads figure.Value // the node's share of the device's reads; 0 where there are none

	Present MemoryReads
	Others  []MemoryReads // with other amounts of memory, the smallest first; nil: not known
}

// MemoryReads is how many pages of its database a process reads with an amount of memory, and the
// range in which that lies.
type MemoryReads struct {
	MemoryBytes int64
	PerSecond   float64
	Least, Most float64
}

// fewPages a second are not worth a change, whatever share of the reads they are.
const fewPages = 1

// JudgeMemory says what limits a node that maps its database, by the time that its threads wait
// for pages, and what other amounts of memory would read.
func JudgeMemory(e MemoryEvidence) Verdict {
	waiting, known := e.Waiting.Number()
	if !known {
		return Verdict{Memory: moreMemory(e)}
	}

	busy, disk := e.DiskBusy.OrZero(), diskClause(e.Program, e.DiskBusy, e.OwnReads)
	v := Verdict{Memory: moreMemory(e)}
	switch {
	case waiting < littleTime && busy < busyDisk:
		v.Bottleneck = NotGets
		v.Memory = nil
		v.Sentence = fmt.Sprintf("The database is not what slows this %s: waiting for its pages "+
			"takes %s of the time of one thread%s.", e.Program, percent(waiting),
			after(", and ", disk))
	case waiting < littleTime:
		v.Bottleneck = DiskReads
		v.Memory = nil
		v.Sentence = fmt.Sprintf("The disk is %s busy, but not with pages of the database: "+
			"waiting for these takes %s of the time of one thread.", percent(busy),
			percent(waiting))
	case v.Memory != nil:
		v.Bottleneck = SmallMemory
		v.Sentence = fmt.Sprintf("The memory is too small: waiting for pages of the database "+
			"takes %s%s.", threads(waiting), after("; ", disk))
	default:
		v.Bottleneck = DiskReads
		v.Sentence = fmt.Sprintf("Reads of pages of the database limit this %s: waiting for them "+
			"takes %s%s.", e.Program, threads(waiting), after("; ", disk))
	}

	return v
}

// moreMemory is the smallest larger amount that saves enough of the reads for certain; where none
// is certain, the smallest that is expected to.
func moreMemory(e MemoryEvidence) *MemoryReads {
	for _, expected := range []func(MemoryReads) float64{
		func(r MemoryReads) float64 { return r.Most },
		func(r MemoryReads) float64 { return r.PerSecond },
	} {
		for i, other := range e.Others {
			saved := e.Present.PerSecond - expected(other)
			if other.MemoryBytes > e.Present.MemoryBytes && saved >= fewPages &&
				saved >= worthwhile*e.Present.PerSecond {
				return &e.Others[i]
			}
		}
	}

	return nil
}

// SetMemory says how a process gets so much memory. group is the control group that limits it;
// "": the machine does.
func SetMemory(group string, bytes int64) string {
	switch {
	case group == "":
		return fmt.Sprintf("To get it: a machine with %s of memory.", unit.Bytes(bytes))
	case strings.HasSuffix(group, ".service"):
		return fmt.Sprintf("To set it: MemoryMax=%dM of %s.", ceilDiv(bytes, 1<<20), group)
	}
	return fmt.Sprintf("To set it: %s as the limit of the control group %s.", unit.Bytes(bytes),
		group)
}
