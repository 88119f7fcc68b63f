package advice

import (
	"fmt"
	"math"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result/figure"
)

// Evidence is what is known of a node's lookups when somebody asks what limits the node. Its
// figures are of one window of time, and those of several caches are of the same Gets.
type Evidence struct {
	Program string  // what a reader calls the node
	Gets    uint64  // seen
	InBatch uint64  // keys that were looked up many at once, which is all that is known of them
	Seconds float64 // in which they were seen

	InFlight figure.Value // Gets under way at a time, on average: the time of so many threads
	Reading  figure.Value // share of that time in Gets that read at least one block
	DiskBusy figure.Value // share of the time in which the device had requests
	ReadWait figure.Value // seconds that Gets which read take for each block read
	OwnReads figure.Value // the node's share of the device's reads; 0 where there are none
	Waiting  figure.Value // share of the time in which its threads could run, but had no processor

	Present CacheReads
	Others  []CacheReads // of other sizes, simulated, the smallest first

	WorkingSet int64 // bytes of all blocks that the Gets accessed; 0: not known

	// OpenFiles: nil where all tables stay open, or it is not known.
	OpenFiles *OpenFileLimit
	// Filters: nil where Gets consult filters of all tables that they pass, or it is not known.
	Filters *FilterUse
}

// CacheReads is what Gets read with a cache, and the range in which that lies.
type CacheReads struct {
	CacheBytes int64 `json:"cache_bytes"`
	// Block reads per Get.
	PerGet float64 `json:"reads_per_get"`
	Least  float64 `json:"least_reads_per_get"`
	Most   float64 `json:"most_reads_per_get"`
}

// Bottleneck is what most limits how soon a node's lookups are answered.
type Bottleneck string

// Bottlenecks. What is none of a node's database leaves open what else limits the node.
const (
	TooFewGets    Bottleneck = "too few Gets"
	MostlyBatches Bottleneck = "not known: MultiGets"
	NotGets       Bottleneck = "not the database"
	SmallCache    Bottleneck = "the cache"
	LowOpenFiles  Bottleneck = "the limit of open files"
	NoFilters     Bottleneck = "filters that are not consulted"
	DiskReads     Bottleneck = "the disk"
	SlowDisk      Bottleneck = "a slow disk"
	Processor     Bottleneck = "the processor"
	SmallMemory   Bottleneck = "the memory"
)

// Verdict is a judgement on a node.
type Verdict struct {
	Bottleneck Bottleneck
	Sentence   string         // what limits the node, and by which figures
	Larger     *CacheReads    // the smallest cache that is worth having instead; nil: none is known
	OpenFiles  *OpenFileLimit // a limit of open files that is worth raising; nil: none is
	Filters    *FilterUse     // filters that are worth consulting; nil: none are
	Memory     *MemoryReads   // the smallest memory that is worth having; nil: none is known
}

// Thresholds of verdicts.
const (
	// enoughGets are those from which shares of time are known within some per cent.
	enoughGets = 1000
	// littleTime in Gets is not worth a change: without any Get, a thread would be a ninth faster.
	littleTime = 0.1
	// busyDisk is the share of the time above which requests wait for each other.
	busyDisk = 0.8
	// mostTime is the share of the time in Gets from which on their reads are what takes it.
	mostTime = 0.5
	// worthwhile is how many reads a larger cache has to save, as a share.
	worthwhile = 0.5
	// slowRead is longer, in seconds, than any solid-state disk takes that is not overloaded.
	slowRead = 0.001
	// noticed is the share of the reads from which on a limit of open files is worth raising, and
	// filters that are there are worth consulting, which both cost little memory.
	noticed = 0.02
	// scarceProcessor is the share of the time that threads wait for a processor from which on the
	// times of Gets are not those of reading and computing alone.
	scarceProcessor = 0.2
)

// Judge says what limits a node, by the time that its threads spend in Gets, the part of that time
// in which Gets read, and what other caches would read.
func Judge(e Evidence) Verdict {
	if e.InBatch > e.Gets {
		return Verdict{Bottleneck: MostlyBatches, Sentence: fmt.Sprintf("Most keys of this %s "+
			"are looked up by MultiGet, whose block reads are not resolved, so what limits it is "+
			"not known.", e.Program)}
	}

	if e.Gets < enoughGets {
		return Verdict{Bottleneck: TooFewGets, Sentence: tooFew(e)}
	}

	v := Verdict{Larger: worthHaving(e)}
	if e.OpenFiles != nil && e.OpenFiles.saves(noticed) {
		v.OpenFiles = e.OpenFiles
	}

	if e.Filters != nil && e.Filters.Worth() {
		v.Filters = e.Filters
	}

	// What other caches read was worked out for Gets that consult no filter: it is another question
	// when they do.
	filters := v.Filters != nil && v.Filters.saves(worthwhile)
	if filters {
		v.Larger = nil
	}

	inFlight, known := e.InFlight.Number()
	if !known {
		return v
	}

	busy, disk := e.DiskBusy.OrZero(), diskClause(e.Program, e.DiskBusy, e.OwnReads)
	switch reading := e.Reading.OrZero(); {
	case inFlight < littleTime && busy < busyDisk:
		v.Bottleneck = NotGets
		v.Sentence = fmt.Sprintf("The database is not what slows this %s: its Gets take %s of the "+
			"time of one thread%s.", e.Program, percent(inFlight), after(", and ", disk))
	case inFlight < littleTime:
		v.Bottleneck = DiskReads
		v.Sentence = fmt.Sprintf("The disk is %s busy, but not with Gets: they take %s of the "+
			"time of one thread.", percent(busy), percent(inFlight))
	case reading < mostTime:
		v.Bottleneck = Processor
		v.Sentence = fmt.Sprintf("%s of the time in Gets passes in Gets whose blocks were all in "+
			"the cache: the processor limits them, and a larger cache saves at most %s of their "+
			"time.",
			percent(1-reading), percent(reading))
	case filters:
		v.Bottleneck = NoFilters
		v.Sentence = fmt.Sprintf("Filters would save block reads of the Gets, which take %s, "+
			"%s of that in Gets that read blocks%s.", threads(inFlight), percent(reading),
			after("; ", disk))
	case v.OpenFiles != nil && v.OpenFiles.saves(worthwhile):
		v.Bottleneck = LowOpenFiles
		v.Sentence = fmt.Sprintf("The limit of open files is too low: Gets take %s, %s of that in "+
			"Gets that read blocks%s; most of these reads open tables again.", threads(inFlight),
			percent(reading), after("; ", disk))
	case v.Larger != nil:
		v.Bottleneck = SmallCache
		v.Sentence = fmt.Sprintf("The cache is too small: Gets take %s, %s of that in Gets that "+
			"read blocks%s.", threads(inFlight), percent(reading), after("; ", disk))
	case e.ReadWait.OrZero() >= slowRead && e.Waiting.OrZero() < scarceProcessor:
		v.Bottleneck = SlowDisk
		v.Sentence = fmt.Sprintf("The disk is slow: Gets that read blocks take %s ms for each "+
			"block, and Gets take %s%s%s. The command disk measures the disk by itself.",
			unit.Significant(1000*e.ReadWait.OrZero(), 2), threads(inFlight), after("; ", disk),
			noLarger(e))
	default:
		v.Bottleneck = DiskReads
		v.Sentence = fmt.Sprintf("Block reads limit the Gets, which take %s, %s of that in "+
			"Gets that read blocks%s%s.", threads(inFlight), percent(reading), after("; ", disk),
			noLarger(e))
	}

	if waiting := e.Waiting.OrZero(); waiting >= scarceProcessor {
		v.Sentence += fmt.Sprintf(" When its threads could run, they wait %s of the time for a "+
			"processor, also inside Gets.", percent(waiting))
	}

	return v
}

// diskClause says how busy the disk is, and whether that is not with a node's own reads; "": it is
// not known.
func diskClause(program string, busy, own figure.Value) string {
	share, known := busy.Number()
	if !known {
		return ""
	}

	text := fmt.Sprintf("the disk is %s busy", percent(share))
	if reads, known := own.Number(); known && reads < noticed/2 && share >= littleTime {
		text += ", but not with reads of this " + program
	}

	return text
}

// Unwatched says that what limits a node is not known from its files, and what would tell it. n is
// the process that has the database open; nil: none is known.
func Unwatched(n *RunningNode) string {
	if n == nil {
		return "Whether the database limits its node is not known, because this command sees " +
			"none of the node's Gets: sudo statelab watch does, while the node runs."
	}
	return fmt.Sprintf("Whether the database limits %s (pid %d) is not known, because this "+
		"command sees none of its Gets: sudo statelab watch --pid %d does.", n.Name, n.PID, n.PID)
}

// after is a clause behind a separator, or nothing.
func after(separator, clause string) string {
	if clause == "" {
		return ""
	}
	return separator + clause
}

// tooFew says how long to watch a node that is nearly idle.
func tooFew(e Evidence) string {
	text := fmt.Sprintf("%s made %s in %s: too few to judge its database.", e.Program,
		unit.Plural(int(e.Gets), "Get"), unit.Seconds(e.Seconds))
	if e.Gets == 0 || e.Seconds <= 0 {
		return text + " Watch it while it has work."
	}

	needed := math.Ceil(enoughGets * e.Seconds / float64(e.Gets))

	return text + fmt.Sprintf(" Watch it for %s or longer.", unit.Roughly(needed))
}

// worthHaving is the smallest larger cache that saves enough of the reads for certain; where none
// is certain, the smallest that is expected to.
func worthHaving(e Evidence) *CacheReads {
	for _, expected := range []func(CacheReads) float64{
		func(r CacheReads) float64 { return r.Most },
		func(r CacheReads) float64 { return r.PerGet },
	} {
		for i, other := range e.Others {
			saved := e.Present.PerGet - expected(other)
			if other.CacheBytes > e.Present.CacheBytes && saved >= figure.BlockReadsPerGet.Least &&
				saved >= worthwhile*e.Present.PerGet {
				return &e.Others[i]
			}
		}
	}

	return nil
}

// noLarger says that no larger cache that was looked at helps.
func noLarger(e Evidence) string {
	if len(e.Others) == 0 {
		return ""
	}
	largest := e.Others[len(e.Others)-1]
	if largest.CacheBytes <= e.Present.CacheBytes {
		return ""
	}
	text := fmt.Sprintf("; with a cache of %s, a Get would still need %s block reads",
		unit.Bytes(largest.CacheBytes), unit.Significant(largest.PerGet, 3))
	if e.WorkingSet > largest.CacheBytes {
		text += fmt.Sprintf(" (all blocks of these Gets take %s: try --what-if)",
			unit.Bytes(e.WorkingSet))
	}
	return text
}

// threads says how many threads' time passes in Gets.
func threads(inFlight float64) string {
	if inFlight < 1 {
		return percent(inFlight) + " of the time of one thread"
	}
	return fmt.Sprintf("the time of %s threads", unit.Significant(inFlight, 2))
}

// percent is a share in whole per cents: nothing here is known better.
func percent(share float64) string {
	if share > 0 && share < 0.005 {
		return "less than 1%"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}
