package bench

import (
	"fmt"
	"math"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Two countings of one thing are compared in every run that has both. The pairs and their
// tolerances are told in docs/runs.md.

// pair are two counters that should agree.
type pair struct {
	name, note string
	// sides are ours and the other one's; false where a run has not both, or they are of too
	// little.
	sides func(r *run, m *measured) (ours, theirs float64, both bool)
	// limit is how far they may differ, as a share of ours.
	limit func(r *run, m *measured) float64
}

const (
	sharedReadLimit = 0.015 // engines that let several Gets wait for one read count each as a miss
	getsLimit       = 0.001
	growths         = 20      // of the buffer of a thread
	byteLimit       = 0.02    // the process reads a little besides blocks
	replayLimit     = 0.02    // replayed are the Gets of one thread
	callLimit       = 0.01    // a block is read by one call, but for what ends short
	callsPerSecond  = 10      // the process's own, of files that tell of it
	minBytes        = 1 << 20 // below, what the process reads besides weighs too much
	minCalls        = 10_000
	readsMeanwhile  = 200 // of a compaction, between the looks at the two counters
)

// pairs are compared when Gets were measured.
func pairs() []pair {
	return []pair{
		{"Gets = counted by the engine", "a value that is larger than the buffer of its reader " +
			"is asked for twice", (*run).getsOfEngine,
			func(r *run, m *measured) float64 {
				return getsLimit + growths*float64(r.spec.Threads)/float64(max(1, m.gets))
			}},
		{"block reads = the engine's cache misses",
			"reads by Gets and in the background; without those past the cache, as of footers " +
				"when tables are opened", (*run).missesOfEngine, (*run).sharedLimit},
		{"files opened = the engine's", "tables and files of values", (*run).opensOfEngine,
			within(0)},
		{"bytes read = the process's read calls", "bytes of block reads, or of O_DIRECT reads; " +
			"rchar of the process", (*run).bytesOfKernel, within(byteLimit)},
		{"block reads = the process's read calls",
			"reads by Gets and in the background; syscr of the process", (*run).callsOfKernel,
			func(_ *run, m *measured) float64 {
				return callLimit + callsPerSecond*m.Seconds/max(1, float64(readsOf(m)))
			}},
	}
}

// accessPairs are compared when it is known how many blocks Gets need.
func accessPairs() []pair {
	return []pair{{"accesses per Get, replayed = counted by the engine",
		"replayed without a cache; hits + misses of the measured Gets", (*run).accessesOfEngine,
		within(replayLimit)}}
}

func within(limit float64) func(*run, *measured) float64 {
	return func(*run, *measured) float64 { return limit }
}

// compare compares those that the run has. A disagreement is a warning.
func (r *run) compare(m *measured, all []pair) {
	for _, p := range all {
		ours, theirs, both := p.sides(r, m)
		if !both {
			continue
		}

		c := result.Check{
			Name:   p.name,
			Ours:   ours,
			Theirs: theirs,
			Limit:  p.limit(r, m),
			Note:   p.note,
		}

		c.OK = ours == theirs || (ours > 0 && math.Abs(theirs-ours)/ours <= c.Limit)
		r.Result.Checks = append(r.Result.Checks, c)
		if !c.OK {
			r.Warn(engine.Warning{
				Code: "check_failed",
				Text: fmt.Sprintf("self-check %q: %s against %s, allowed %s %%", p.name,
					counted(ours), counted(theirs),
					unit.Significant(100*c.Limit, 2)),
				Remedy: "do not publish these figures before the difference is understood",
			})
		}
	}
}

// counted is a whole number in full, and a mean with enough of its digits.
func counted(n float64) string {
	if n == float64(int64(n)) {
		return unit.Count(int64(n))
	}
	return unit.Significant(n, 4)
}

// readsOf are the reads of files by Gets and in the background.
func readsOf(m *measured) (n int64) {
	if m.Subject.Reads != nil {
		n = m.Subject.Reads.Total().Count
	}
	if m.Subject.BackgroundReads != nil {
		n += m.Subject.BackgroundReads.Count
	}
	return n
}

func (r *run) getsOfEngine(m *measured) (ours, theirs float64, both bool) {
	if m.Subject.Gets == nil {
		return 0, 0, false
	}
	return float64(m.gets), float64(*m.Subject.Gets), true
}

func (r *run) missesOfEngine(m *measured) (ours, theirs float64, both bool) {
	if m.Subject.CacheMisses == nil || m.Subject.Reads == nil {
		return 0, 0, false
	}
	n := readsOf(m)
	if m.Subject.UncachedReads != nil {
		n -= *m.Subject.UncachedReads
	}
	return float64(n), float64(*m.Subject.CacheMisses), true
}

// sharedLimit is how many more misses than reads there may be. Of the blocks a Get
// needs about one in four, a filter or a top index, is the only one of its table:
// the fewer tables, the more often another Get in flight needs it as well.
func (r *run) sharedLimit(m *measured) float64 {
	ours, theirs, _ := r.missesOfEngine(m)
	meanwhile := 0.0
	if r.spec.Workload == workload.ReadWhileWriting {
		meanwhile = readsMeanwhile / max(1, ours)
	}

	if !r.engine.Info().Has(engine.SharesReads) {
		return meanwhile
	}

	limit := meanwhile + sharedReadLimit +
		float64(r.spec.Threads*max(1, r.spec.InFlight)-1)/float64(4*max(1, r.Result.Database.Files))
	if more := theirs - ours; more > 0 && more <= limit*ours {
		r.Warn(engine.Warning{Code: "shared_reads", Text: fmt.Sprintf(
			"the engine counts %.0f cache misses more than there were reads (%s %%): Gets that "+
				"wait for another's read of the same block count as misses; the reads "+
				"are right", more, unit.Significant(100*more/ours, 2))})
	}

	return limit
}

// opensOfEngine: an engine that keeps tables open opens one when its table cache misses.
func (r *run) opensOfEngine(m *measured) (ours, theirs float64, both bool) {
	if m.Subject.TableOpens == nil || m.Subject.TableCacheMisses == nil ||
		r.spec.Workload == workload.ReadWhileWriting {
		return 0, 0, false
	}
	return float64(*m.Subject.TableOpens), float64(*m.Subject.TableCacheMisses), true
}

func (r *run) bytesOfKernel(m *measured) (ours, theirs float64, both bool) {
	if m.Subject.Reads == nil || r.spec.Workload == workload.ReadWhileWriting ||
		r.mapsTables() || r.Uncounted() != "" {
		return 0, 0, false
	}

	bytes := m.Subject.Reads.Total().Bytes
	if r.spec.PageCache == Direct && opensTables(m) {
		return 0, 0, false // each ends with a sector that the file fills in part
	}

	if m.Subject.DirectBytes != nil && r.spec.PageCache == Direct {
		bytes = *m.Subject.DirectBytes
	}

	if bytes < minBytes {
		return 0, 0, false
	}

	if t := m.Subject.BackgroundReads; t != nil {
		bytes += t.Bytes
	}

	return float64(bytes), float64(m.Process.ReadChars), true
}

// mappedReadsOption is the effective option that is "true" where files of tables are mapped into
// memory. Most engines do not have it.
const mappedReadsOption = "allow_mmap_reads"

// mapsTables reports that block reads are not calls of the kernel.
func (r *run) mapsTables() bool {
	return r.Result.Engine.Options[mappedReadsOption] == "true"
}

// opensTables reports that more than one read in a hundred opened a table.
func opensTables(m *measured) bool {
	return m.Subject.TableOpens != nil && 100**m.Subject.TableOpens > readsOf(m)
}

func (r *run) callsOfKernel(m *measured) (ours, theirs float64, both bool) {
	if m.Subject.Reads == nil || r.spec.Workload == workload.ReadWhileWriting ||
		r.spec.BatchGets > 0 || r.spec.Rate > 0 || r.mapsTables() || r.Uncounted() != "" {
		// one call may read for several keys of a batch, and Go's runtime reads to wake who sleeps
		// until a Get is due
		return 0, 0, false
	}
	n := readsOf(m)
	return float64(n), float64(m.Process.ReadCalls), n >= minCalls
}

func (r *run) accessesOfEngine(m *measured) (ours, theirs float64, both bool) {
	h, misses, f := m.Subject.CacheHits, m.Subject.CacheMisses, &r.Result.Figures
	if h == nil || misses == nil || *h+*misses == 0 || !f.Has(figure.BlockAccessesPerGet) ||
		opensTables(m) {
		return 0, 0, false // an opening asks the cache for blocks that no Get asks for
	}

	counted := *h + *misses
	// accesses by type include values past the cache
	if m.Subject.Accesses != nil && m.Subject.UncachedReads != nil {
		counted += *m.Subject.UncachedReads - m.Subject.Reads.Type(engine.Meta).Count
	}

	return f.OrZero(figure.BlockAccessesPerGet), float64(counted) / float64(m.gets), true
}
