package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// Budgets of the outlook: geth's default cache, and what a server has to spare.
const (
	defaultCache = 2 << 30
	serverMemory = 16 << 30
)

// tolerance is what a rounded claim may be missed by.
const tolerance = 0.1

// noFigures is why a claim is not tested whose layout was run.
const noFigures = "the run lacks the figures"

// about begins the finding of a claim about layouts, none of which may be in the run.
func (e evidence) about(layouts ...string) finding {
	for _, layout := range layouts {
		if len(e.sizes(layout)) > 0 {
			return finding{word: untested, clause: noFigures}
		}
	}
	return finding{word: untested, clause: "needs --layout " + strings.Join(layouts, " or "), needs: layouts}
}

// judgeManyReads is of claims that a lookup costs as much as claimed on a main
// network. Reads grow with the size: a smaller state that takes fewer says nothing.
func judgeManyReads(e evidence, claimed float64, layouts ...string) finding {
	f := e.about(layouts...)
	largest := -1
	for _, layout := range layouts {
		i, ok := e.largest(layout)
		if !ok {
			continue
		}
		first, ok := e.reads(i, result.FirstLookups)
		if !ok {
			continue
		}
		text, places := e.cost(i)
		f.note(text, places...)
		if o, place, ok := e.ahead(layout, "nodes_per_lookup", billion, 0); ok && first.of.Nodes != nil && largest < 0 {
			f.note(fmt.Sprintf("for the %s nodes of 1e9 accounts it would be %s reads a node, and a node takes %s here",
				number(o.Value), number(claimed/o.Value), perGet(first.value / *first.of.Nodes)), place)
		}
		if first.value >= claimed*(1-tolerance) {
			f.word, f.clause = holdsIf, "nothing is cached"
		}
		if largest < 0 || e.Rows[i].Accounts > e.Rows[largest].Accounts {
			largest = i
		}
	}
	switch {
	case largest < 0 || f.word == holdsIf:
	case e.Rows[largest].Accounts >= mainNetwork:
		f.word, f.clause = fails, ""
	default:
		f.clause = "it is of a main network, ours has " + e.accounts(largest) + " accounts"
	}
	return f
}

// spanOfGrowth are the decades that sizes must span to tell a law of growth.
const spanOfGrowth = 2

// judgeGrowth holds the reads of a first lookup against c * nodes, where a Get of a
// node costs the same at every size, and c * nodes * log N, where it costs a search of
// the whole store. Nodes themselves grow with log N.
func judgeGrowth(e evidence, layouts ...string) finding {
	f := e.about(layouts...)
	for _, layout := range layouts {
		var same, search, reads []float64
		var rows []int
		for _, i := range e.sizes(layout) {
			if first, ok := e.reads(i, result.FirstLookups); ok && first.of.Nodes != nil && first.value > 0 {
				rows, reads = append(rows, i), append(reads, first.value)
				same, search = append(same, *first.of.Nodes), append(search, *first.of.Nodes*math.Log(float64(e.Rows[i].Accounts)))
				f.places = append(f.places, first.place)
			}
		}
		if len(rows) == 0 {
			continue
		}
		small, large := rows[0], rows[len(rows)-1]
		smallReads, largeReads := reads[0], reads[len(reads)-1]
		f.note(fmt.Sprintf("%s, nothing cached: %s reads a node at %s accounts, %s at %s", layout,
			perGet(smallReads/same[0]), e.accounts(small), perGet(largeReads/same[len(same)-1]), e.accounts(large)))
		decades := math.Log10(float64(e.Rows[large].Accounts) / float64(e.Rows[small].Accounts))
		if len(rows) < 3 || decades < spanOfGrowth-1e-9 {
			if f.word == untested {
				f.clause = "needs three sizes over two decades, such as --accounts 10k,100k,1M"
			}
			continue
		}
		_, bySame := fit(same, reads)
		slope, bySearch := fit(search, reads)
		f.note(fmt.Sprintf("a fit by nodes misses its reads by %s, by nodes * log N by %s", perGet(bySame), perGet(bySearch)))
		switch {
		case bySearch < bySame/2:
			f.word, f.clause = holdsIf, "nothing is cached"
			if o, place, ok := e.ahead(layout, "nodes_per_lookup", billion, 0); ok {
				f.note(fmt.Sprintf("that law carried on to 1e9 accounts: %s reads", number(slope*o.Value*math.Log(billion))), place)
			}
		case bySame < bySearch/2 && f.word != holdsIf:
			f.word, f.clause = fails, ""
		case f.word == untested:
			f.clause = "both laws fit about as well"
		}
	}
	return f
}

// fit is the c of least squares by which c * x meets y, and the root of the mean square
// by which it misses.
func fit(x, y []float64) (c, missed float64) {
	xy, xx, sum := 0.0, 0.0, 0.0
	for i := range x {
		xy, xx = xy+x[i]*y[i], xx+x[i]*x[i]
	}
	c = xy / xx
	for i := range x {
		miss := y[i] - c*x[i]
		sum += miss * miss
	}
	return c, math.Sqrt(sum / float64(len(x)))
}

// judgeNodes is of claims about the nodes of a main network, one read each. The run
// tells whether a node is a read and whether the formula gives the nodes; then so it
// does at a size that was not built.
func judgeNodes(e evidence, claimed float64, layout string) finding {
	i, ok := e.largest(layout)
	if !ok {
		return e.about(layout)
	}
	first, ok := e.blocks(i, result.FirstLookups)
	o, place, far := e.ahead(layout, "nodes_per_lookup", billion, 0)
	row := e.Rows[i]
	if !ok || !far || first.of.Nodes == nil || row.Nodes == nil || row.PredictedNodes == nil {
		return finding{word: untested, clause: noFigures}
	}
	perNode, off := first.value / *first.of.Nodes, *row.Nodes / *row.PredictedNodes - 1
	reads := o.Value * perNode
	f := finding{word: fails}
	f.note(fmt.Sprintf("%s: %s reads a node; %s nodes at %s, %s off the formula, which gives %s at 1e9", layout, perGet(perNode), number(*row.Nodes), e.accounts(i), unit.Percent(math.Abs(off)), number(o.Value)),
		first.place, fmt.Sprintf("rows[%d].nodes_per_lookup", i), place)
	switch {
	case math.Abs(off) > tolerance/2:
		f.word, f.clause = untested, "the formula for the nodes misses ours"
	case math.Abs(reads/claimed-1) <= 2*tolerance:
		f.word, f.clause = holdsIf, "nothing is cached"
	}
	return f
}

// judgeFewReads is of claims that a lookup costs no more than claimed, up to a number
// of accounts (0: at any). Reads grow with the size: more than claimed in a smaller
// state refutes it, no more confirms it only so far.
func judgeFewReads(e evidence, claimed float64, upTo uint64, layout string) finding {
	var f finding
	limit := claimed * (1 + tolerance)
	var within, beyond, last int = -1, -1, -1
	for _, i := range e.sizes(layout) {
		first, ok := e.reads(i, result.FirstLookups)
		if !ok {
			continue
		}
		last = i
		if first.value <= limit && beyond < 0 {
			within = i
		} else {
			beyond = i
		}
	}
	if last < 0 {
		return e.about(layout)
	}
	text, places := e.cost(last)
	f.note(text, places...)
	if absent, ok := e.readsOf(last, result.AbsentAccountLookup, result.FirstLookups); ok && claimed == 1 {
		f.note(fmt.Sprintf("%s for an absent account", perGet(absent.value)), absent.place)
	}
	if o, place, ok := e.ahead(layout, "reads_per_lookup", billion, 0); ok {
		f.note(fmt.Sprintf("%s at 1e9 without a cache by %s", number(o.Value), layoutBasis(o.Basis)), place)
	}
	if o, place, ok := e.ahead(layout, "device_reads_per_lookup", billion, serverMemory); ok {
		f.note(fmt.Sprintf("%s at 1e9 with %s by %s", perGet(o.Value), shortBytes(o.MemoryBytes), layoutBasis(o.Basis)), place)
	}
	held, ok := e.reads(last, result.HeldLookups)
	switch {
	case beyond < 0 && e.Rows[last].Accounts >= upTo:
		f.word = holds
	case beyond < 0:
		f.word, f.clause = holdsIf, "there are no more than "+e.accounts(last)+" accounts: more were not built"
	case ok && e.scarce(last) && held.value <= limit:
		f.word, f.clause = holdsIf, e.isHeld(last)+", at "+e.accounts(last)+" accounts"
		if within >= 0 {
			f.clause += "; with nothing cached, up to " + e.accounts(within)
		}
	default:
		f.word = fails
	}
	return f
}

// judgeRingReads is judgeFewReads of a layout that reads through io_uring: no call is
// made for a read, so that only a device of its own counts them.
func judgeRingReads(e evidence, claimed float64, upTo uint64, layout string) finding {
	if i, ok := e.largest(layout); ok {
		if first, _, ok := e.lookups(i, result.AccountLookup, result.FirstLookups); ok && first.DeviceReads == nil {
			return finding{word: untested, clause: "its reads are counted on a volume only: statelab volume"}
		}
	}
	return judgeFewReads(e, claimed, upTo, layout)
}

// judgeReadPerNode holds the layout's own reads against the nodes of the same lookups,
// at every size.
func judgeReadPerNode(e evidence, layout string) finding {
	f := e.about(layout)
	for _, i := range e.sizes(layout) {
		first, ok := e.blocks(i, result.FirstLookups)
		if !ok || first.of.Nodes == nil {
			continue
		}
		perNode := first.value / *first.of.Nodes
		if math.Abs(perNode-1) > tolerance/10 {
			f.word = fails
		} else if f.word == untested {
			f.word, f.clause = holds, ""
		}
		text := fmt.Sprintf("%s at %s: %s %s for %s nodes", layout, e.accounts(i), perGet(first.value), first.unit, perGet(*first.of.Nodes))
		if first.of.DeviceReads != nil {
			text += fmt.Sprintf(", %s of the device, which reads pages", perGet(*first.of.DeviceReads))
		}
		f.ours, f.places = []string{text}, append(f.places, first.place)
	}
	return f
}

// judgePerGet is of claims about one Get of a key-value store with memory held: of a
// node where a lookup walks a trie, else of the account. The reads are those below
// the store's cache.
func judgePerGet(e evidence, low, high float64, layout string) finding {
	f := e.about(layout)
	for _, i := range e.sizes(layout) {
		held, ok := e.blocks(i, result.HeldLookups)
		if !ok || !e.scarce(i) {
			if f.word == untested && len(f.ours) == 0 {
				f.clause = "memory was not held to less than a third of the state: see --memory"
			}
			continue
		}
		perGetReads, what := held.value, "a Get"
		if held.of.Nodes != nil {
			perGetReads, what = held.value / *held.of.Nodes, "a node"
		}
		text := fmt.Sprintf("%s at %s: %s %s %s with %s", layout, e.accounts(i), perGet(perGetReads), held.unit, what, e.memory(i))
		f = finding{word: holdsIf, clause: e.isHeld(i), ours: []string{text}, places: []string{held.place}}
		switch {
		case perGetReads > high*(1+tolerance):
			f.word, f.clause = fails, ""
		case perGetReads < low*(1-tolerance):
			f.note("fewer than claimed")
		}
	}
	if first, ok := e.firstPerGet(layout); ok {
		f.note(first.text, first.place)
	}
	o, place, ok := e.ahead(layout, "held_reads_per_lookup", billion, defaultCache)
	nodes, _, walks := e.ahead(layout, "nodes_per_lookup", billion, 0)
	if ok && walks {
		o.Value /= nodes.Value
	}
	if ok {
		f.note(fmt.Sprintf("%s at 1e9 with %s by %s", perGet(o.Value), shortBytes(o.MemoryBytes), layoutBasis(o.Basis)), place)
	}
	return f
}

type perGetFigure struct{ text, place string }

// firstPerGet are the reads of a Get with nothing cached, at the largest size.
func (e evidence) firstPerGet(layout string) (perGetFigure, bool) {
	i, ok := e.largest(layout)
	if !ok {
		return perGetFigure{}, false
	}
	first, ok := e.blocks(i, result.FirstLookups)
	if !ok {
		return perGetFigure{}, false
	}
	reads := first.value
	if first.of.Nodes != nil {
		reads /= *first.of.Nodes
	}
	return perGetFigure{perGet(reads) + " with nothing cached at " + e.accounts(i), first.place}, true
}

// judgeIndexMemory holds memory against entries. The claim is of an index on the
// disk, ours is all in memory.
func judgeIndexMemory(e evidence, claimed float64, layout string) finding {
	i, ok := e.largest(layout)
	if !ok {
		return e.about(layout)
	}
	f := finding{word: untested, clause: "our layout keeps its whole index in memory"}
	row := e.Rows[i]
	entries := float64(row.Accounts + row.Slots)
	if row.Memory != nil {
		for n, share := range row.Memory.Shares {
			if strings.Contains(share.Use, "index") {
				f.note(fmt.Sprintf("%s at %s: %s bytes an entry of %s", layout, e.accounts(i), number(float64(share.Bytes)/entries), share.Use), fmt.Sprintf("rows[%d].memory.shares[%d]", i, n))
			}
		}
	}
	if len(f.ours) == 0 {
		f.note(fmt.Sprintf("%s at %s: %s bytes an entry of the whole process", layout, e.accounts(i), number(float64(row.PeakRSSBytes)/entries)), fmt.Sprintf("rows[%d].peak_rss_bytes", i))
	}
	return f
}

// judgeSpeed puts our speed beside a claim that hardware decides.
func judgeSpeed(e evidence, why, layout string) finding {
	i, ok := e.largest(layout)
	if !ok {
		return e.about(layout)
	}
	f := finding{word: untested, clause: why}
	if nanos := e.Rows[i].UpdateNanos; nanos != nil && *nanos > 0 {
		f.note(fmt.Sprintf("%s at %s: %s updates a second on %d cores, in blocks of %s", layout, e.accounts(i), unit.ShortCount(1e9 / *nanos), e.Host.Cores, unit.ShortCount(float64(e.Workload.UpdateAccounts))), fmt.Sprintf("rows[%d].update_ns", i))
	}
	return f
}

// writtenPage is what a claim counts as a write.
const writtenPage = 4096

// judgeWrites holds the bytes written for a changed account, in pages, against a
// claim of at most so many.
func judgeWrites(e evidence, claimed float64, layout string) finding {
	i, ok := e.largest(layout)
	if !ok {
		return e.about(layout)
	}
	u := e.Rows[i].Updates
	if u == nil {
		return finding{word: untested, clause: "the run has no updates: see --update-blocks"}
	}
	pages := u.WriteBytes / writtenPage
	f := finding{word: fails}
	f.note(fmt.Sprintf("%s at %s: %s pages of 4 KiB for a changed account with its slot, in blocks of %s", layout, e.accounts(i), number(pages), unit.ShortCount(float64(e.Workload.UpdateAccounts))),
		fmt.Sprintf("rows[%d].updates.write_bytes_per_update", i))
	if pages <= claimed*(1+tolerance) {
		f.word, f.clause = holdsIf, "there are no more than "+e.accounts(i)+" accounts: more were not built"
	}
	return f
}
