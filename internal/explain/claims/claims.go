// Package claims judges what others published about the cost of state by the figures
// of a run. It draws nothing.
package claims

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// finding is what a run says of a claim.
type finding struct {
	Word   string
	Clause string   // under what it holds, or why it was not tested
	Needs  []string // layouts that it is about, if the run has none of them
	ours   []string
	Places []string // of our figures in layouts.json
}

// Words of findings.
const (
	Holds      = "holds"
	HoldsIf    = "holds if"
	Fails      = "does not hold"
	CannotTell = "cannot tell here"
	Untested   = "not tested here"
)

// Verdict is the word, and what limits it.
func (f finding) Verdict() string {
	switch f.Word {
	case HoldsIf:
		return f.Word + " " + f.Clause
	case Untested, CannotTell:
		return f.Word + ": " + f.Clause
	}
	return f.Word
}

// Figures are our figures as a sentence.
func (f finding) Figures() string {
	if len(f.ours) == 0 {
		return doc.None
	}
	return strings.Join(f.ours, "; ") + "."
}

func (f *finding) note(text string, places ...string) {
	if text != "" {
		f.ours, f.Places = append(f.ours, text), append(f.Places, places...)
	}
}

// Judged is a claim with what the run says of it.
type Judged struct {
	subject.Claim
	finding
}

// Verdict is the finding, with the name of the stand-in that was measured.
func (j Judged) Verdict() string {
	v := j.finding.Verdict()
	if j.StandIn != "" && (j.Word == Holds || j.Word == HoldsIf || j.Word == Fails) {
		v += " (of " + j.StandIn + ")"
	}
	return v
}

// Check judges every claim by a comparison; nil if it has no figures.
func Check(l *result.Layouts) (found []Judged) {
	e := Evidence{l}
	if Largest(l) == 0 {
		return nil
	}

	for _, c := range subject.Claims() {
		if c.Own != "" && len(e.Sizes(c.Own)) > 0 {
			c.StandIn = ""
		}
		found = append(found, Judged{c, judge(e, c)})
	}

	return found
}

// rules judge a claim; they see at least one of its layouts.
var rules = map[subject.Rule]func(Evidence, subject.Claim) finding{
	subject.Growth:      judgeGrowth,
	subject.ManyReads:   judgeManyReads,
	subject.NodeReads:   judgeNodes,
	subject.FewReads:    judgeFewReads,
	subject.RingReads:   judgeRingReads,
	subject.ReadPerNode: judgeReadPerNode,
	subject.PerGet:      judgePerGet,
	subject.PerNode:     judgePerNode,
	subject.IndexMemory: judgeIndexMemory,
	subject.Writes:      judgeWrites,
	subject.Speed:       judgeSpeed,
}

// judge is the finding of a claim. A state that fitted in memory confirms nothing about one that
// does not.
func judge(e Evidence, c subject.Claim) finding {
	here := doc.Where(c.Layouts, func(layout string) bool { return len(e.Sizes(layout)) > 0 })
	if len(here) == 0 {
		return finding{
			Word:   Untested,
			Clause: "needs --layout " + strings.Join(c.Layouts, " or "),
			Needs:  c.Layouts,
		}
	}

	c.Layouts = here
	f := rules[c.Rule](e, c)
	if f.Word != Holds && f.Word != HoldsIf {
		return f
	}

	for _, layout := range c.Layouts {
		if i, ok := e.Largest(layout); ok && !e.fitted(i) {
			return f
		}
	}

	f.Word, f.Clause = CannotTell,
		"the state fitted in memory, build a larger one or hold less memory (--accounts, --memory)"
	return f
}

// Sentence counts the verdicts on what was tested; "" if nothing was.
func Sentence(all []Judged) string {
	count := map[string]int{}
	for _, j := range all {
		count[j.Word]++
	}

	holds := "%d hold here"
	if n := count[HoldsIf]; n > 0 {
		holds += fmt.Sprintf(" (%d of them under a condition)", n)
	}

	var parts []string
	for _, part := range []struct {
		n      int
		format string
	}{
		{count[Holds] + count[HoldsIf], holds},
		{count[Fails], "%d do not hold"},
		{count[CannotTell],
			"%d cannot be told from this run, because the state fitted in memory"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf(part.format, part.n))
		}
	}

	if len(parts) == 0 {
		return ""
	}

	return fmt.Sprintf("Of %d published claims that this run is about, %s.",
		len(all)-count[Untested], strings.Join(parts, ", "))
}

// NotCovered counts the claims about layouts that the run does not have.
func NotCovered(all []Judged) string {
	elsewhere := doc.Where(all, func(j Judged) bool { return j.Needs != nil })
	if len(elsewhere) == 0 {
		return ""
	}
	needs := doc.Distinct(doc.Flat(elsewhere, func(j Judged) []string { return j.Needs }),
		strings.Clone)
	return fmt.Sprintf("Claims about layouts that are not in this run: %d, for --layout %s.",
		len(elsewhere), strings.Join(needs, ","))
}

// Evidence is a comparison of layouts as claims look at it.
type Evidence struct{ *result.Layouts }

// Reading is a figure of lookups and the place of it in layouts.json.
type Reading struct {
	of    result.Lookups
	Value float64
	Unit  string // what was counted
	place string
}

// Sizes are the places of a layout's rows that have figures, smallest first.
func (e Evidence) Sizes(layout string) (rows []int) {
	for i, row := range e.Rows {
		if row.Layout == layout && row.Status == result.OK {
			rows = append(rows, i)
		}
	}

	slices.SortStableFunc(rows, func(a, b int) int {
		return cmp.Compare(e.Rows[a].Accounts, e.Rows[b].Accounts)
	})
	return rows
}

// Largest is the place of a layout's largest row.
func (e Evidence) Largest(layout string) (i int, ok bool) {
	rows := e.Sizes(layout)
	if len(rows) == 0 {
		return 0, false
	}
	return rows[len(rows)-1], true
}

// lookups are those of a kind in a condition, one in flight.
func (e Evidence) lookups(
	i int, kind, condition string,
) (of result.Lookups, place string, ok bool) {
	for j, of := range e.Rows[i].Lookups {
		if of.Kind == kind && of.Condition == condition && of.InFlight == 1 {
			return of, fmt.Sprintf("rows[%d].lookups[%d]", i, j), true
		}
	}
	return of, "", false
}

// Reads are what lookups of present accounts read, by the best count there is: the
// device's, the layout's own, the kernel's of calls, or of faults where files are mapped.
func (e Evidence) Reads(i int, condition string) (r Reading, ok bool) {
	return e.ReadsOf(i, result.AccountLookup, condition)
}

// ReadsOf are the reads of lookups of a kind, in a condition, in row i; not ok: none were measured.
func (e Evidence) ReadsOf(i int, kind, condition string) (r Reading, ok bool) {
	of, place, ok := e.lookups(i, kind, condition)
	r = Reading{of: of}
	var counted figure.Figure
	r.Value, r.Unit, counted = of.Reads()
	r.place = place + "." + counted.Key
	return r, ok && !of.ReadsUnknown
}

// blocks are the reads below the layout's own caches, whether the page cache answers
// them or the device; nodes come with them.
func (e Evidence) blocks(i int, condition string) (r Reading, ok bool) {
	of, place, ok := e.lookups(i, result.AccountLookup, condition)
	if of.BlockReads.IsKnown() {
		return Reading{of, of.BlockReads.OrZero(), "block reads",
			place + "." + figure.BlockReadsPerLookup.Key}, ok
	}
	return Reading{of, of.ReadCalls, "read calls", place + "." + figure.ReadCallsPerLookup.Key},
		ok && of.ReadCalls >= of.MajorFaults && !of.ReadsUnknown
}

// Share is the memory held over what the state takes; 0: nothing was held.
func (e Evidence) Share(i int) float64 {
	if e.Rows[i].DiskBytes.OrZero() == 0 {
		return 0
	}
	return float64(e.Workload.MemoryBytes) / e.Rows[i].DiskBytes.OrZero()
}

// mostlyCached is the share of a state in memory from which reads with memory held
// say nothing of a state that does not fit.
const mostlyCached = 1.0 / 3

// FitsInMemory is the code of the warning that a state or a database fitted in memory.
const FitsInMemory = "fits_in_memory"

// fitted tells whether a row's state was in memory as a whole: it is as large as the
// budget, or nothing held it and the machine has more, or the run says so.
func (e Evidence) fitted(i int) bool {
	row := e.Rows[i]
	if e.Workload.MemoryBytes == 0 && row.DiskBytes.OrZero() < float64(e.Host.MemoryBytes) {
		return true
	}
	return e.Share(i) >= 1 || slices.ContainsFunc(e.Warnings, func(w engine.Warning) bool {
		// of several layouts it is about their smallest state
		return w.Code == FitsInMemory && w.Of == row.Layout
	})
}

// scarce tells whether memory was held to much less than the state.
func (e Evidence) scarce(i int) bool { return e.Share(i) > 0 && e.Share(i) < mostlyCached }

// Accounts are those of the state of row i, in short: 10k.
func (e Evidence) Accounts(i int) string { return doc.ShortCount(e.Rows[i].Accounts) }

func (e Evidence) memory(i int) string {
	return "memory of " + shortShare(e.Share(i)) + " of the state"
}

func (e Evidence) isHeld(i int) string {
	return shortShare(e.Share(i)) + " of the state is in memory"
}

func shortShare(share float64) string {
	return doc.WithoutZeros(unit.Significant(100*share, 2)) + "%"
}

// cost says what a lookup in a row takes, with nothing cached and with memory held.
func (e Evidence) cost(i int) (text string, places []string) {
	var parts []string
	counted := ""
	if r, ok := e.Reads(i, result.FirstLookups); ok {
		parts, places, counted = append(parts,
			fmt.Sprintf("%s %s with nothing cached", doc.PerGet(r.Value), r.Unit)),
			append(places, r.place), r.Unit
	}

	if r, ok := e.Reads(i, result.HeldLookups); ok && e.scarce(i) {
		text := doc.PerGet(r.Value)
		if r.Unit != counted {
			text += " " + r.Unit
		}
		parts, places = append(parts, text+" with "+e.memory(i)), append(places, r.place)
	}

	if len(parts) == 0 {
		return "", nil
	}

	return fmt.Sprintf("%s at %s: %s", e.Rows[i].Layout, e.Accounts(i), strings.Join(parts, ", ")),
		places
}

// Ahead is a figure of a layout at a size that was not built, with a budget of memory;
// 0: of one that needs none.
func (e Evidence) Ahead(
	layout, figure string, accounts uint64, memoryBytes int64,
) (o result.LayoutOutlook, place string, ok bool) {
	return e.outlook(layout, figure, accounts, func(o result.LayoutOutlook) bool {
		return !o.PerAccount && o.MemoryBytes == memoryBytes
	})
}

// AheadAlike is one with as much memory for each account as the run had.
func (e Evidence) AheadAlike(
	layout, figure string, accounts uint64,
) (o result.LayoutOutlook, place string, ok bool) {
	return e.outlook(layout, figure, accounts, func(o result.LayoutOutlook) bool {
		return o.PerAccount
	})
}

func (e Evidence) outlook(
	layout, figure string, accounts uint64, is func(result.LayoutOutlook) bool,
) (o result.LayoutOutlook, place string, ok bool) {
	for i, o := range e.Outlook {
		if o.Layout == layout && o.Figure == figure && o.Accounts == accounts && is(o) {
			return o, fmt.Sprintf("outlook[%d]", i), true
		}
	}
	return o, "", false
}

// Largest is the largest state that any layout was measured with.
func Largest(l *result.Layouts) (accounts uint64) {
	for _, row := range l.Rows {
		if row.Status == result.OK {
			accounts = max(accounts, row.Accounts)
		}
	}
	return accounts
}

// Predicted are the device reads at a size that was not built.
func (e Evidence) Predicted(layout string, accounts uint64, memoryBytes int64) *float64 {
	return Value(e.Ahead(layout, figure.DeviceReadsPerLookup.Key, accounts, memoryBytes))
}

// Value is that of a figure of the outlook, for a column.
func Value(o result.LayoutOutlook, _ string, ok bool) *float64 { return doc.When(ok, o.Value) }

// ReadsValue is that of ReadsOf, for a column.
func (e Evidence) ReadsValue(i int, kind, condition string) *float64 {
	r, ok := e.ReadsOf(i, kind, condition)
	return doc.When(ok, r.Value)
}

// SizesAhead are the numbers of accounts that a layout has figures of without having been
// built so large; layout "": any.
func (e Evidence) SizesAhead(layout string) (sizes []uint64) {
	of := doc.Where(e.Outlook, func(o result.LayoutOutlook) bool {
		return layout == "" || o.Layout == layout
	})
	sizes = doc.Each(of, func(o result.LayoutOutlook) uint64 { return o.Accounts })
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// Names are those of the layouts, in order.
func (e Evidence) Names() []string {
	return doc.Distinct(e.Rows, func(r result.LayoutRow) string { return r.Layout })
}

// Basis is the first word of what a figure stands on.
func Basis(basis string) string {
	word, _, _ := strings.Cut(basis, " ")
	return strings.TrimSuffix(word, ":")
}

// Verdicts are judged claims as a document shows them.
func Verdicts(judged []Judged) []doc.Verdict {
	class := map[string]string{
		Holds:      "holds",
		HoldsIf:    "if",
		Fails:      "fails",
		Untested:   "untested",
		CannotTell: "untested",
	}

	return doc.Each(judged, func(j Judged) doc.Verdict {
		// " (of the layout that was judged)"
		standIn := strings.TrimPrefix(j.Verdict(), j.finding.Verdict())
		clause := strings.TrimSpace(j.Clause + standIn)
		return doc.Verdict{
			Word:    j.Word,
			Clause:  clause,
			Class:   class[j.Word],
			Says:    doc.Upper(j.Says),
			By:      j.By,
			Source:  strings.TrimPrefix(j.Source, "https://"),
			Given:   j.Given,
			Figures: j.Figures(),
			Where:   strings.Join(j.Places, ", "),
		}
	})
}
