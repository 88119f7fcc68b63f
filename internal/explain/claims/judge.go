package claims

import (
	"fmt"
	"math"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Budgets of the outlook: geth's default cache, and what a server has to spare.
const (
	defaultCache = 2 << 30
	ServerMemory = 16 << 30
)

// tolerance is what a rounded claim may be missed by.
const tolerance = 0.1

// noFigures is why a claim is not tested whose layout was run.
const noFigures = "the run does not have the figures"

// judgeManyReads is of claims that a lookup costs as much as claimed on a main
// network. Reads grow with the size: a smaller state that takes fewer says nothing.
func judgeManyReads(e Evidence, c subject.Claim) finding {
	f := finding{Word: Untested, Clause: noFigures}
	largest := -1
	for _, layout := range c.Layouts {
		i, there := e.Largest(layout)
		if !there {
			continue
		}

		first, ok := e.Reads(i, result.FirstLookups)
		if !ok {
			continue
		}

		text, places := e.cost(i)
		f.note(text, places...)
		if o, place, ok := e.Ahead(layout, figure.NodesPerLookup.Key, subject.Billion, 0); ok &&
			first.of.Nodes.IsKnown() && largest < 0 {
			f.note(fmt.Sprintf("for the %s nodes of 1B accounts it would be %s reads a node, and "+
				"a node takes %s here",
				doc.Number(o.Value), doc.Number(c.Low/o.Value),
				doc.PerGet(first.Value/first.of.Nodes.OrZero())), place)
		}

		if first.Value >= c.Low*(1-tolerance) {
			f.Word, f.Clause = HoldsIf, "nothing is cached"
		}

		if largest < 0 || e.Rows[i].Accounts > e.Rows[largest].Accounts {
			largest = i
		}
	}

	switch {
	case largest < 0 || f.Word == HoldsIf:
	case subject.IsMainNetwork(e.Rows[largest].Accounts):
		f.Word, f.Clause = Fails, ""
	default:
		f.Clause = "the claim is about the main network; ours has " + e.Accounts(largest) +
			" accounts"
	}

	return f
}

// spanOfGrowth are the decades that sizes must span to tell a law of growth.
const spanOfGrowth = 2

// judgeGrowth fits the reads of a first lookup by c * nodes, where a Get of a
// node costs the same at every size, and c * nodes * log N, where it costs a search of
// the whole store. Nodes themselves grow with log N.
func judgeGrowth(e Evidence, c subject.Claim) finding {
	f := finding{Word: Untested, Clause: noFigures}
	for _, layout := range c.Layouts {
		var same, search, reads []float64
		var rows []int
		for _, i := range e.Sizes(layout) {
			if first, ok := e.Reads(i, result.FirstLookups); ok && first.of.Nodes.IsKnown() &&
				first.Value > 0 {
				rows, reads = append(rows, i), append(reads, first.Value)
				same, search = append(same, first.of.Nodes.OrZero()), append(search,
					first.of.Nodes.OrZero()*math.Log(float64(e.Rows[i].Accounts)))
				f.Places = append(f.Places, first.place)
			}
		}

		if len(rows) == 0 {
			continue
		}

		small, large := rows[0], rows[len(rows)-1]
		f.note(fmt.Sprintf("%s, nothing cached: %s reads a node at %s accounts, %s at %s", layout,
			doc.PerGet(reads[0]/same[0]), e.Accounts(small),
			doc.PerGet(reads[len(reads)-1]/same[len(same)-1]), e.Accounts(large)))
		decades := math.Log10(float64(e.Rows[large].Accounts) / float64(e.Rows[small].Accounts))
		if len(rows) < 3 || decades < spanOfGrowth-1e-9 {
			if f.Word == Untested {
				f.Clause = "needs three sizes over two decades, such as --accounts 10k,100k,1M"
			}
			continue
		}

		_, bySame := fit(same, reads)
		slope, bySearch := fit(search, reads)
		f.note(fmt.Sprintf("RMS error of reads = c * nodes: %s, of reads = c * nodes * log N: %s",
			doc.PerGet(bySame), doc.PerGet(bySearch)))
		switch {
		case bySearch < bySame/2:
			f.Word, f.Clause = HoldsIf, "nothing is cached"
			if o, place, ok := e.Ahead(layout, figure.NodesPerLookup.Key, subject.Billion, 0); ok {
				f.note(fmt.Sprintf("that law extrapolated to 1B accounts: %s reads",
					doc.Number(slope*o.Value*math.Log(subject.Billion))), place)
			}
		case bySame < bySearch/2 && f.Word != HoldsIf:
			f.Word, f.Clause = Fails, ""
		case f.Word == Untested:
			f.Clause = "both laws fit about as well"
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
func judgeNodes(e Evidence, c subject.Claim) finding {
	layout := c.Layouts[0]
	i, _ := e.Largest(layout)
	first, ok := e.blocks(i, result.FirstLookups)
	o, place, far := e.Ahead(layout, figure.NodesPerLookup.Key, subject.Billion, 0)
	row := e.Rows[i]
	if !ok || !far || !first.of.Nodes.IsKnown() || !row.Nodes.IsKnown() ||
		!row.PredictedNodes.IsKnown() {
		return finding{Word: Untested, Clause: noFigures}
	}

	perNode, off := first.Value/first.of.Nodes.OrZero(),
		row.Nodes.OrZero()/row.PredictedNodes.OrZero()-1
	reads := o.Value * perNode
	f := finding{Word: Fails}
	f.note(fmt.Sprintf("%s: %s reads a node; %s nodes at %s, %s off the formula, which gives %s "+
		"at 1B", layout, doc.PerGet(perNode),
		doc.Number(row.Nodes.OrZero()), e.Accounts(i), unit.Percent(math.Abs(off)),
		doc.Number(o.Value)),
		first.place, fmt.Sprintf("rows[%d].%s", i, figure.NodesPerLookup.Key), place)

	switch {
	case math.Abs(off) > tolerance/2:
		f.Word, f.Clause = Untested, "the formula does not predict our node counts"
	case math.Abs(reads/c.High-1) <= 2*tolerance:
		f.Word, f.Clause = HoldsIf, "nothing is cached"
	}

	return f
}

// judgeFewReads is of claims that a lookup costs no more than claimed, up to a number
// of accounts (0: at any). Reads grow with the size: more than claimed in a smaller
// state refutes it, no more confirms it only so far.
func judgeFewReads(e Evidence, c subject.Claim) finding {
	layout, limit := c.Layouts[0], c.High*(1+tolerance)
	var f finding
	var within, beyond, last int = -1, -1, -1
	for _, i := range e.Sizes(layout) {
		first, ok := e.Reads(i, result.FirstLookups)
		if !ok {
			continue
		}

		last = i
		if first.Value <= limit && beyond < 0 {
			within = i
		} else {
			beyond = i
		}
	}

	if last < 0 {
		return finding{Word: Untested, Clause: noFigures}
	}

	text, places := e.cost(last)
	f.note(text, places...)
	if absent, ok := e.ReadsOf(last, result.AbsentAccountLookup, result.FirstLookups); ok &&
		c.High == 1 {
		f.note(fmt.Sprintf("%s for an absent account", doc.PerGet(absent.Value)), absent.place)
	}

	if o, place, ok := e.Ahead(layout, figure.ReadsPerLookup.Key, subject.Billion, 0); ok {
		f.note(fmt.Sprintf("%s at 1B without a cache by %s", doc.Number(o.Value), Basis(o.Basis)),
			place)
	}

	if o, place, ok := e.Ahead(layout, figure.DeviceReadsPerLookup.Key, subject.Billion,
		ServerMemory); ok {
		f.note(fmt.Sprintf("%s at 1B with %s by %s", doc.PerGet(o.Value),
			doc.ShortBytes(o.MemoryBytes), Basis(o.Basis)), place)
	}

	held, ok := e.Reads(last, result.HeldLookups)
	switch {
	case beyond < 0 && e.Rows[last].Accounts >= c.UpTo:
		f.Word = Holds
	case beyond < 0:
		f.Word, f.Clause = HoldsIf,
			"there are at most "+e.Accounts(last)+" accounts (larger states were not built)"
	case ok && e.scarce(last) && held.Value <= limit:
		f.Word, f.Clause = HoldsIf, e.isHeld(last)+", at "+e.Accounts(last)+" accounts"
		if within >= 0 {
			f.Clause += "; with nothing cached, up to " + e.Accounts(within)
		}
	default:
		f.Word = Fails
	}

	return f
}

// judgeRingReads is judgeFewReads of a layout that reads through io_uring: no call is
// made for a read, so that only a device of its own counts them.
func judgeRingReads(e Evidence, c subject.Claim) finding {
	i, _ := e.Largest(c.Layouts[0])
	if first, _, ok := e.lookups(i, result.AccountLookup, result.FirstLookups); ok &&
		!first.DeviceReads.IsKnown() {
		return finding{
			Word:   Untested,
			Clause: "its reads can be counted only on a volume: statelab volume create",
		}
	}

	return judgeFewReads(e, c)
}

// judgeReadPerNode compares the layout's own reads with the nodes of the same lookups,
// at every size.
func judgeReadPerNode(e Evidence, c subject.Claim) finding {
	layout, f := c.Layouts[0], finding{Word: Untested, Clause: noFigures}
	for _, i := range e.Sizes(layout) {
		first, ok := e.blocks(i, result.FirstLookups)
		if !ok || !first.of.Nodes.IsKnown() {
			continue
		}

		perNode := first.Value / first.of.Nodes.OrZero()
		if math.Abs(perNode-1) > tolerance/10 {
			f.Word = Fails
		} else if f.Word == Untested {
			f.Word, f.Clause = Holds, ""
		}

		text := fmt.Sprintf("%s at %s: %s %s for %s nodes", layout, e.Accounts(i),
			doc.PerGet(first.Value), first.Unit, doc.PerGet(first.of.Nodes.OrZero()))
		if first.of.DeviceReads.IsKnown() {
			text += fmt.Sprintf(", %s of the device, which reads pages",
				doc.PerGet(first.of.DeviceReads.OrZero()))
		}

		f.ours, f.Places = []string{text}, append(f.Places, first.place)
	}

	return f
}

// judgePerGet is of claims about one Get of a key-value store with memory held: of a
// node where a lookup walks a trie, else of the account. The reads are those below
// the store's cache.
func judgePerGet(e Evidence, c subject.Claim) finding {
	layout, f := c.Layouts[0], finding{Word: Untested, Clause: noFigures}
	for _, i := range e.Sizes(layout) {
		held, ok := e.blocks(i, result.HeldLookups)
		if !ok || !e.scarce(i) {
			if f.Word == Untested && len(f.ours) == 0 {
				f.Clause = "the memory limit was not below a third of the state: lower --memory " +
					"or raise --accounts"
				if e.Workload.MemoryBytes == 0 {
					f.Clause = "memory was not limited: set --memory to less than a third of the " +
						"state"
				}
			}

			continue
		}

		perGetReads, what := held.Value, "a Get"
		if held.of.Nodes.IsKnown() {
			perGetReads, what = held.Value/held.of.Nodes.OrZero(), "a node"
		}

		text := fmt.Sprintf("%s at %s: %s %s %s with %s", layout, e.Accounts(i),
			doc.PerGet(perGetReads), held.Unit, what, e.memory(i))
		f = finding{
			Word:   HoldsIf,
			Clause: e.isHeld(i),
			ours:   []string{text},
			Places: []string{held.place},
		}

		switch {
		case perGetReads > c.High*(1+tolerance):
			f.Word, f.Clause = Fails, ""
		case perGetReads < c.Low*(1-tolerance):
			f.note("fewer than claimed")
		}

		if f.Word == HoldsIf && e.Share(i) > studyShare {
			f.Word = Untested
			f.Clause = e.isHeld(i) + ", the claim is of 0.2% and 0.9%: see " +
				"docs/studies/bench_kvdb.md"
		}
	}

	i, _ := e.Largest(layout)
	if first, ok := e.blocks(i, result.FirstLookups); ok {
		if first.of.Nodes.IsKnown() {
			first.Value /= first.of.Nodes.OrZero()
		}
		f.note(doc.PerGet(first.Value)+" with nothing cached at "+e.Accounts(i), first.place)
	}

	o, place, ok := e.Ahead(layout, figure.ReadsPerLookup.Held().Key, subject.Billion, defaultCache)
	nodes, _, walks := e.Ahead(layout, figure.NodesPerLookup.Key, subject.Billion, 0)
	if ok && walks {
		o.Value /= nodes.Value
	}

	if ok {
		f.note(fmt.Sprintf("%s at 1B with %s by %s", doc.PerGet(o.Value),
			doc.ShortBytes(o.MemoryBytes), Basis(o.Basis)), place)
	}

	return f
}

// studyShare is the most of a database that the Pebble study's claims give the cache.
const studyShare = 0.02

// judgePerNode has reads of a node where the claim is of a call of db.Get. A Get is
// made only for nodes that no cache above the store answers, so that the two cannot be
// compared.
func judgePerNode(e Evidence, c subject.Claim) finding {
	f := judgePerGet(e, c)
	f.Word, f.Clause = Untested,
		"ours are reads of a node, theirs of a db.Get, which is made only for nodes that no "+
			"cache answers"
	return f
}

// judgeIndexMemory divides memory by entries. The claim is of an index on the
// disk, ours is all in memory.
func judgeIndexMemory(e Evidence, c subject.Claim) finding {
	layout := c.Layouts[0]
	i, _ := e.Largest(layout)
	f := finding{Word: Untested, Clause: "our layout keeps its whole index in memory"}
	row := e.Rows[i]
	entries := float64(row.Accounts + row.Slots)
	if row.Memory != nil {
		for n, share := range row.Memory.Shares {
			if share.Holds == engine.EntryIndex {
				f.note(fmt.Sprintf("%s at %s: %s bytes an entry of %s", layout, e.Accounts(i),
					doc.Number(float64(share.Bytes)/entries), share.Use),
					fmt.Sprintf("rows[%d].memory.shares[%d]", i, n))
			}
		}
	}

	if len(f.ours) == 0 {
		f.note(fmt.Sprintf("%s at %s: %s bytes an entry of the whole process", layout,
			e.Accounts(i), doc.Number(float64(row.PeakRSSBytes.OrZero())/entries)),
			fmt.Sprintf("rows[%d].%s", i, figure.PeakMemory.Key))
	}

	return f
}

// judgeSpeed gives our speed for a claim that hardware decides.
func judgeSpeed(e Evidence, c subject.Claim) finding {
	layout := c.Layouts[0]
	i, _ := e.Largest(layout)
	f := finding{Word: Untested, Clause: c.Why}
	if nanos := e.Rows[i].UpdateNanos.Pointer(); nanos != nil && *nanos > 0 {
		f.note(fmt.Sprintf("%s at %s: %s updates a second on %d cores, in blocks of %s", layout,
			e.Accounts(i), doc.ShortCount(1e9 / *nanos), e.Host.Cores,
			doc.ShortCount(e.Workload.UpdateAccounts)), fmt.Sprintf("rows[%d].%s", i,
			figure.UpdateTime.Key))
	}

	return f
}

// writtenPage is what a claim counts as a write.
const writtenPage = 4096

// judgeWrites compares the bytes written for a changed account, in pages, with a
// claim of at most so many.
func judgeWrites(e Evidence, c subject.Claim) finding {
	layout := c.Layouts[0]
	i, _ := e.Largest(layout)
	u := e.Rows[i].Updates
	if u == nil {
		return finding{Word: Untested, Clause: "the run has no updates: set --update-blocks"}
	}

	pages := u.WriteBytes / writtenPage
	f := finding{Word: Fails}
	f.note(fmt.Sprintf("%s at %s: %s pages of 4 KiB for a changed account with its slot, in "+
		"blocks of %s", layout, e.Accounts(i), doc.Number(pages),
		doc.ShortCount(e.Workload.UpdateAccounts)),
		fmt.Sprintf("rows[%d].updates.%s", i, figure.WriteBytesPerUpdate.Key))

	if pages <= c.High*(1+tolerance) {
		f.Word, f.Clause = HoldsIf,
			"there are at most "+e.Accounts(i)+" accounts (larger states were not built)"
	}

	return f
}
