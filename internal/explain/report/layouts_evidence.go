package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// evidence is a comparison of layouts as claims look at it.
type evidence struct{ *result.Layouts }

// reading is a figure of lookups and the place of it in layouts.json.
type reading struct {
	of    result.Lookups
	value float64
	unit  string // what was counted
	place string
}

// sizes are the places of a layout's rows that have figures, smallest first.
func (e evidence) sizes(layout string) (rows []int) {
	for i, row := range e.Rows {
		if row.Layout == layout && row.Status == result.OK {
			rows = append(rows, i)
		}
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(e.Rows[a].Accounts, e.Rows[b].Accounts) })
	return rows
}

// largest is the place of a layout's largest row.
func (e evidence) largest(layout string) (i int, ok bool) {
	rows := e.sizes(layout)
	if len(rows) == 0 {
		return 0, false
	}
	return rows[len(rows)-1], true
}

// lookups are those of a kind in a condition, one in flight.
func (e evidence) lookups(i int, kind, condition string) (of result.Lookups, place string, ok bool) {
	for j, of := range e.Rows[i].Lookups {
		if of.Kind == kind && of.Condition == condition && of.InFlight == 1 {
			return of, fmt.Sprintf("rows[%d].lookups[%d]", i, j), true
		}
	}
	return of, "", false
}

// reads are what lookups of present accounts read, by the best count there is: the
// device's, the layout's own, the kernel's of calls, or of faults where files are mapped.
func (e evidence) reads(i int, condition string) (r reading, ok bool) {
	return e.readsOf(i, result.AccountLookup, condition)
}

func (e evidence) readsOf(i int, kind, condition string) (r reading, ok bool) {
	of, place, ok := e.lookups(i, kind, condition)
	r = reading{of: of}
	var field string
	switch {
	case of.DeviceReads != nil:
		r.value, r.unit, field = *of.DeviceReads, "device reads", "device_reads_per_lookup"
	case of.BlockReads != nil:
		r.value, r.unit, field = *of.BlockReads, "block reads", "block_reads_per_lookup"
	case of.ReadCalls >= of.MajorFaults:
		r.value, r.unit, field = of.ReadCalls, "read calls", "read_calls_per_lookup"
	default:
		r.value, r.unit, field = of.MajorFaults, "page faults", "major_faults_per_lookup"
	}
	r.place = place + "." + field
	return r, ok
}

// blocks are the reads below the layout's own caches, whether the page cache answers
// them or the device; nodes come with them.
func (e evidence) blocks(i int, condition string) (r reading, ok bool) {
	of, place, ok := e.lookups(i, result.AccountLookup, condition)
	if of.BlockReads != nil {
		return reading{of, *of.BlockReads, "block reads", place + ".block_reads_per_lookup"}, ok
	}
	return reading{of, of.ReadCalls, "read calls", place + ".read_calls_per_lookup"}, ok && of.ReadCalls >= of.MajorFaults
}

// share is the memory held over what the state takes; 0: nothing was held.
func (e evidence) share(i int) float64 {
	if e.Rows[i].DiskBytes == 0 {
		return 0
	}
	return float64(e.Workload.MemoryBytes) / float64(e.Rows[i].DiskBytes)
}

// mostlyCached is the share of a state in memory from which reads with memory held
// say nothing of a state that does not fit.
const mostlyCached = 1.0 / 3

// scarce tells whether memory was held to much less than the state.
func (e evidence) scarce(i int) bool { return e.share(i) > 0 && e.share(i) < mostlyCached }

func (e evidence) accounts(i int) string { return unit.ShortCount(float64(e.Rows[i].Accounts)) }

func (e evidence) memory(i int) string {
	return "memory of " + shortShare(e.share(i)) + " of the state"
}

func (e evidence) isHeld(i int) string { return shortShare(e.share(i)) + " of the state is in memory" }

func shortShare(share float64) string { return withoutZeros(unit.Significant(100*share, 2)) + "%" }

// cost says what a lookup in a row takes, with nothing cached and with memory held.
func (e evidence) cost(i int) (text string, places []string) {
	var parts []string
	counted := ""
	if r, ok := e.reads(i, result.FirstLookups); ok {
		parts, places, counted = append(parts, fmt.Sprintf("%s %s with nothing cached", perGet(r.value), r.unit)), append(places, r.place), r.unit
	}
	if r, ok := e.reads(i, result.HeldLookups); ok && e.scarce(i) {
		text := perGet(r.value)
		if r.unit != counted {
			text += " " + r.unit
		}
		parts, places = append(parts, text+" with "+e.memory(i)), append(places, r.place)
	}
	if len(parts) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%s at %s: %s", e.Rows[i].Layout, e.accounts(i), strings.Join(parts, ", ")), places
}

// ahead is a figure of a layout at a size that was not built, with a budget of memory;
// 0: of one that needs none.
func (e evidence) ahead(layout, figure string, accounts uint64, memoryBytes int64) (o result.LayoutOutlook, place string, ok bool) {
	return e.outlook(layout, figure, accounts, func(o result.LayoutOutlook) bool { return !o.PerAccount && o.MemoryBytes == memoryBytes })
}

// aheadAlike is one with as much memory for each account as the run had.
func (e evidence) aheadAlike(layout, figure string, accounts uint64) (o result.LayoutOutlook, place string, ok bool) {
	return e.outlook(layout, figure, accounts, func(o result.LayoutOutlook) bool { return o.PerAccount })
}

func (e evidence) outlook(layout, figure string, accounts uint64, is func(result.LayoutOutlook) bool) (o result.LayoutOutlook, place string, ok bool) {
	for i, o := range e.Outlook {
		if o.Layout == layout && o.Figure == figure && o.Accounts == accounts && is(o) {
			return o, fmt.Sprintf("outlook[%d]", i), true
		}
	}
	return o, "", false
}
