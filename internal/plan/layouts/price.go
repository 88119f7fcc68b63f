package layouts

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/gas"
	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Pricing is what to make of comparisons of layouts.
type Pricing struct {
	// of states with one contract each; the same states of several seeds are builds of one
	Layouts      []*result.Layouts
	Hardware     []result.Hardware
	GasPerSecond float64
	Ahead        []Size // that were not built
	// with each of those: memory of which warm lookups are predicted
	AheadMemory []int64
	forecasts   forecasts
}

// Size is that of a state.
type Size = gas.Size

// access is a row before its hardware.
type access = result.PriceRow

// Rows are the prices of every access that was measured or can be predicted (gas.Rows).
func (p Pricing) Rows() (rows []result.PriceRow, warnings []engine.Warning) {
	built := p.built()
	all := slices.Clone(built)
	var unknown []unheld
	for _, size := range p.Ahead {
		predicted, unused, unheld := p.predicted(built, size)
		all, unknown = append(all, predicted...), append(unknown, unheld...)
		for _, w := range unused {
			if !slices.Contains(warnings, w) { // each size says the same
				warnings = append(warnings, w)
			}
		}
	}

	return gas.Rows(all, p.Hardware, p.GasPerSecond), append(warnings, unheldWarnings(unknown)...)
}

// built are the accesses of all that was built.
func (p Pricing) built() (built []access) {
	reads := p.readCosts()
	for _, l := range p.Layouts {
		for _, of := range l.Rows {
			if of.Status == result.OK {
				built = append(built, measuredAccesses(l, of, reads)...)
			}
		}
	}
	return gas.Pool(built)
}

// readCosts are the CPU times of one read, by layout.
func (p Pricing) readCosts() map[string]readCost {
	all := map[string]readCost{}
	for _, l := range p.Layouts {
		for _, of := range l.Rows {
			if of.Status == result.OK {
				all[of.Layout] = append(all[of.Layout], coldOf(of))
			}
		}
	}
	return all
}

// found is the measurement of lookups of a kind, one at a time; nil if there is none.
func found(of result.LayoutRow, kind, condition string) *result.Lookups {
	for i := range of.Lookups {
		if look := &of.Lookups[i]; look.Kind == kind && look.Condition == condition &&
			look.InFlight == 1 {
			return look
		}
	}
	return nil
}

// measured fills in what lookups of a kind in a row cost; not ok if nobody measured that.
func measured(
	r access, of result.LayoutRow, kind string, reads readCost,
) (_ access, ok bool) {
	look := found(of, kind, r.Condition)
	if look == nil || look.ReadsUnknown {
		return r, false
	}

	r.Reads, r.ReadUnit = readsOf(look)
	r.Accesses, r.Bytes, r.CPUNanos = look.Nodes, figure.Known(look.DeviceBytes), look.CPUNanos
	if r.Condition == result.FirstLookups {
		cold := found(of, kind, result.ColdLookups)
		if cold == nil {
			return r, false
		}

		if r.CPUNanos = cold.CPUNanos; cold.CPUNanos.IsKnown() {
			r.CPUNanos, r.CPUError = reads.firstCPU(r.Reads.Value, warmNanos(of, kind))
		}
	}

	if !r.Accesses.IsKnown() {
		r.Accesses = look.Pages
	}

	return r, true
}

// warmNanos is the median time of a lookup of an account or a slot right after the same one; 0 if
// nobody measured that.
func warmNanos(of result.LayoutRow, kind string) float64 {
	if kind == result.AbsentSlotLookup {
		kind = result.SlotLookup
	}

	for _, of := range []*result.Lookups{
		found(of, kind, result.AgainLookups),
		found(of, result.AccountLookup, result.AgainLookups),
	} {
		if of != nil && of.ServiceNanos != nil {
			return float64(of.ServiceNanos.P50)
		}
	}

	return 0
}

// readCost is what reads of one layout took the CPU in each of its states. A read takes it as long
// in any state, so they are judged together: one state alone says it to half of its value where
// other programs use the processors.
type readCost []coldCost

// coldCost is what the many lookups after one opening of a state took more of the CPU than warm
// ones, in all kinds together (some of them hardly read), and what they read: sums of the means of
// the kinds.
type coldCost struct {
	accounts    uint64
	more, reads float64
}

func coldOf(of result.LayoutRow) coldCost {
	cost := coldCost{accounts: of.Accounts}
	for _, k := range pricedKinds() {
		cold := found(of, k.lookup, result.ColdLookups)
		if cold == nil || cold.ReadsUnknown {
			continue
		}

		if cpu, known := cold.CPUNanos.Number(); known {
			each, _, _ := cold.Reads()
			cost.more += cpu - warmNanos(of, k.lookup)
			cost.reads += each
		}
	}

	return cost
}

// nanos is the CPU time of a read, and twice its standard error as a share of it, by the states'
// distances from the common ratio (Cochran, Sampling Techniques, 1977, 6.4). States of one size may
// have an error in common, so sizes are taken for one observation each if that says more.
func (r readCost) nanos() (mean float64, off figure.Value, known bool) {
	more, reads := 0.0, 0.0
	for _, of := range r {
		more, reads = more+of.more, reads+of.reads
	}

	if reads == 0 {
		return 0, off, false
	}

	mean = max(0, more/reads)
	bySize := map[uint64]float64{}
	squares := 0.0
	for _, of := range r {
		away := of.more - mean*of.reads
		squares += away * away
		bySize[of.accounts] += away
	}

	standardError := func(squares float64, n int) float64 {
		return math.Sqrt(squares*float64(n)/float64(n-1)) / reads
	}

	widest := 0.0
	if len(r) > 1 {
		widest = standardError(squares, len(r))
	}

	if len(bySize) > 1 {
		squares = 0
		for _, size := range slices.Sorted(maps.Keys(bySize)) {
			squares += bySize[size] * bySize[size]
		}
		widest = max(widest, standardError(squares, len(bySize)))
	}

	switch {
	case mean == 0:
	case len(r) > 1:
		off = figure.Known(max(2*widest/mean, errorBetweenRuns))
	default:
		off = figure.Known(errorOfOne)
	}

	return mean, off, true
}

// errorBetweenRuns is the least error of the CPU time of a read, as a share: by so much it differs
// between runs of one command on a machine that has other guests (docs/price-model.md), however
// close to each other the states of one run are.
const errorBetweenRuns = .2

// errorOfOne is the error of the CPU time of a read that one state alone says, as a share: there is
// no other to see it by.
const errorOfOne = .5

// firstCPU is the CPU time of a first lookup that reads so much, and its error as a share. Its own
// has the opening in it, so it is that of a warm lookup and that of its reads.
func (r readCost) firstCPU(reads, warm float64) (cpu, off figure.Value) {
	each, ofRead, known := r.nanos()
	switch {
	case reads == 0:
		return figure.Known(warm), off
	case !known:
		return figure.Unavailable("no lookup after opening is known to have read, so the CPU " +
			"time of a read is not known"), off
	}

	cpu = figure.Known(warm + reads*each)
	if ofRead.IsKnown() {
		off = figure.Known(ofRead.OrZero() * reads * each / max(cpu.OrZero(), 1e-9))
	}

	return cpu, off
}

// measuredAccesses are those of a layout at a size, in both conditions.
func measuredAccesses(
	l *result.Layouts, of result.LayoutRow, reads map[string]readCost,
) (all []access) {
	blank := access{
		Layout:        of.Layout,
		Accounts:      of.Accounts,
		ContractSlots: l.Workload.ContractSlots,
	}

	for _, condition := range []string{result.FirstLookups, result.HeldLookups} {
		blank.Condition = condition
		for _, k := range pricedKinds() {
			if r, ok := measured(blank, of, k.lookup, reads[of.Layout]); ok {
				r.Parameter, r.Absent, r.Basis = k.parameter, k.absent, "measured"
				all = append(all, r)
			}
		}

		all = append(all, others(blank, of, l, reads)...)
	}

	return append(all, agedAccesses(blank, of)...)
}

// agedAccesses are those of the blocks of an access list.
func agedAccesses(r access, of result.LayoutRow) (all []access) {
	for _, a := range gas.ByAge() {
		look, blocks := found(of, result.AgedAccess(a.Age, a.Slot), result.HeldLookups),
			found(of, result.BlockAccess, result.HeldLookups)
		if look == nil || blocks == nil || look.ReadsUnknown {
			continue
		}

		n := float64(look.Count)
		r.Share = figure.Known(1)
		if other := found(of, result.AgedAccess(a.Other, a.Slot),
			result.HeldLookups); other != nil {
			r.Share = figure.Known(n / (n + float64(other.Count)))
		}

		r.Parameter, r.Basis = a.Name,
			"measured in blocks of the access list; CPU is the mean of all their lookups"
		r.Reads, r.ReadUnit = readsOf(look)
		r.Bytes, r.CPUNanos = figure.Known(look.DeviceBytes), blocks.CPUNanos
		all = append(all, r)
	}

	return all
}

// pricedKind is a parameter that lookups of one kind measure.
type pricedKind struct {
	parameter, lookup string
	absent            bool
	model             statemodel.Kind
}

func pricedKinds() []pricedKind {
	return []pricedKind{
		{gas.ColdAccount, result.AccountLookup, false, statemodel.Account},
		{gas.ColdAccount, result.AbsentAccountLookup, true, statemodel.AbsentAccount},
		{gas.ColdStorage, result.SlotLookup, false, statemodel.Slot},
		{gas.ColdStorage, result.AbsentSlotLookup, true, statemodel.AbsentSlot},
	}
}

// others are warm accesses, code and writes.
func others(
	blank access, of result.LayoutRow, l *result.Layouts, reads map[string]readCost,
) (all []access) {
	if again := found(of, result.AccountLookup, result.AgainLookups); again != nil &&
		again.ServiceNanos != nil {
		r := blank
		r.Parameter, r.ReadUnit = gas.Warm, "device reads"
		r.CPUNanos = figure.Known(float64(again.ServiceNanos.P50))
		r.Basis = "measured: the median time of a lookup right after the same one, all of it " +
			"taken as CPU"
		all = append(all, r)
	}

	records := slices.IndexFunc(l.Rows, func(row result.LayoutRow) bool {
		return row.Layout == subject.Records().Label && row.Accounts == of.Accounts &&
			row.Status == result.OK
	})

	if records >= 0 {
		row := l.Rows[records]
		if r, ok := measured(blank, row, result.AccountLookup, reads[row.Layout]); ok {
			r.Parameter, r.Accesses = gas.Code, figure.Value{}
			r.Basis = "one Get of the flat table on Pebble, as of code by its hash; the length " +
				"of the code is not included"
			all = append(all, r)
		}
	}

	if of.Updates == nil {
		return all
	}

	for _, w := range []struct {
		parameter string
		cost      *result.StateWrites
	}{{gas.AccountWrite, of.Updates.Accounts}, {gas.StorageWrite, of.Updates.Slots}} {
		if w.cost == nil {
			continue
		}

		r := blank
		off := 0.0
		if w.cost.Nanos > 0 {
			off = w.cost.Reads * (w.cost.Spread.High/w.cost.Nanos - 1)
		}

		r.Parameter, r.ReadUnit = w.parameter, "read calls"
		r.CPUNanos, r.Bytes = figure.Known(w.cost.CPUNanos), figure.Known(w.cost.WriteBytes)
		r.Reads = result.Estimate{
			Value: w.cost.Reads,
			Low:   max(0, w.cost.Reads-off),
			High:  w.cost.Reads + off,
		}

		r.Basis = "measured: blocks of such writes alone, the commit included, right after the " +
			"build; bytes are written ones"
		all = append(all, r)
	}

	return all
}

// readsOf are the reads of a lookup by the best count there is, with twice their standard
// error where it is known.
func readsOf(look *result.Lookups) (e result.Estimate, unit string) {
	e.Value, unit, _ = look.Reads()
	off := 0.0
	if look.ReadsError.IsKnown() {
		off = 2 * look.ReadsError.OrZero()
	}
	e.Low, e.High = max(0, e.Value-off), e.Value+off
	return e, unit
}

// predicted are the accesses of every layout at a size that was not built, with nothing
// cached and with memory, and why others are not.
func (p Pricing) predicted(
	built []access, size Size,
) (all []access, unused []engine.Warning, unknown []unheld) {
	for _, name := range layoutsOf(built) {
		var cold []access
		for _, k := range pricedKinds() {
			r, ok := gas.Extrapolate(firstLookups(built, name, k), size, len(p.seeds()),
				func(s Size) (statemodel.Reads, bool) {
					return p.forecast(forecast{name, s, k.model, 0})
				})

			switch {
			case !ok:
			case r.TestedError.OrZero() > gas.WorstTested:
				unused = append(unused, engine.Warning{Code: "not_predicted", Text: fmt.Sprintf(
					"%s of %s (absent: %v) is not predicted: the same prediction was off by "+
						"%.0f%% at the largest size that was built", k.parameter, name, k.absent,
					100*r.TestedError.OrZero()), Remedy: "build larger sizes: --accounts"})
			default:
				cold = append(cold, r)
			}
		}

		all = append(all, cold...)
		for _, bytes := range p.AheadMemory {
			warm, unheld := p.withMemory(built, cold, name, size, bytes)
			all, unknown = append(all, warm...), append(unknown, unheld...)
		}
	}

	return all, unused, unknown
}

// unheld are accesses that are predicted with nothing cached, but not with a memory.
type unheld struct {
	parameter, layout string
	bytes             int64
	why               string
}

// unheldWarnings name the layouts of which the same is not predicted together.
func unheldWarnings(all []unheld) (warnings []engine.Warning) {
	layouts := map[unheld][]string{}
	var order []unheld
	for _, u := range all {
		name := u.layout
		u.layout = ""
		if layouts[u] == nil {
			order = append(order, u)
		}

		if !slices.Contains(layouts[u], name) {
			layouts[u] = append(layouts[u], name)
		}
	}

	for _, u := range order {
		warnings = append(warnings, engine.Warning{Code: gas.MemoryNotPredicted, Text: fmt.Sprintf(
			"%s of %s is not predicted with %s of memory, only with nothing cached: %s",
			u.parameter, strings.Join(layouts[u], ", "), unit.Bytes(u.bytes), u.why)})
	}

	return warnings
}

// knowsSlots tells whether a model knows which slots a layout keeps in memory.
func knowsSlots(layout string) bool {
	of, _ := subject.LayoutOf(layout)
	return of.Model != nil && of.Model.Slots
}

// isPredicted tells whether a model reaches lookups of a kind, with nothing cached (0) or with so
// much memory.
func isPredicted(layout string, kind statemodel.Kind, memory int64) bool {
	return memory == 0 || !isSlot(kind) || knowsSlots(layout)
}

func isSlot(kind statemodel.Kind) bool {
	return kind == statemodel.Slot || kind == statemodel.AbsentSlot
}

// withMemory are the warm accesses of a layout at a size that was not built, of those whose first
// lookups are predicted, and which of them its model does not know.
func (p Pricing) withMemory(
	built, cold []access, layout string, size Size, bytes int64,
) (all []access, unknown []unheld) {
	for _, first := range cold {
		k := kindOf(first)
		reads, known := p.forecast(forecast{layout, size, k.model, bytes})
		largest := firstLookups(built, layout, k)
		before := largest[len(largest)-1]
		warm := slices.IndexFunc(built, func(b access) bool {
			return b.Layout == layout && b.Parameter == gas.Warm &&
				b.Condition == result.HeldLookups && gas.SizeOf(b) == gas.SizeOf(before)
		})

		if !known && p.forecasts.cut {
			continue
		}

		if !known || warm < 0 {
			u := unheld{k.parameter, layout, bytes,
				"the model of what is kept in memory does not reach this size or memory"}
			switch {
			case !isPredicted(layout, k.model, bytes):
				u.why = "no model knows which slots are kept in memory"
			case known:
				u.why = "no warm lookups were measured"
			}

			unknown = append(unknown, u)
			continue
		}

		off, tested := p.heldError(layout, k)
		all = append(all,
			gas.WithMemory(first, before, built[warm], bytes, reads.Mean, off, tested))
	}

	return all, unknown
}

// kindOf is what a row of cold accesses is of.
func kindOf(r access) pricedKind {
	all := pricedKinds()
	return all[slices.IndexFunc(all, func(k pricedKind) bool {
		return k.parameter == r.Parameter && k.absent == r.Absent
	})]
}

// heldError is how far the model of a layout's memory was off, as a share of reads: the most of all
// kinds of lookups, since one of them alone may be right by chance. Not tested where lookups of the
// kind hardly read, as in a state that nearly fits in the memory it had.
func (p Pricing) heldError(layout string, k pricedKind) (off float64, tested bool) {
	for _, other := range pricedKinds() {
		if e, known := p.heldErrorOf(layout, other); known {
			off, tested = max(off, e), tested || other == k
		}
	}

	if !tested {
		return gas.WorstTested, false
	}

	return off, true
}

// heldErrorOf is the error for lookups of one kind in the largest state that was built, in the mean
// of its builds.
func (p Pricing) heldErrorOf(layout string, k pricedKind) (off float64, known bool) {
	ratios, builds, largest := 0.0, 0, uint64(0)
	for _, l := range p.Layouts {
		for _, row := range l.Rows {
			records := row.Accounts + l.Workload.ContractSlots
			predicted, measured, known := p.heldAsBuilt(l, row, k)
			if row.Layout != layout || row.Status != result.OK || records < largest || !known {
				continue
			}

			if records > largest {
				ratios, builds, largest = 0, 0, records
			}
			ratios, builds = ratios+predicted/measured, builds+1
		}
	}

	if builds == 0 {
		return 0, false
	}

	return math.Abs(ratios/float64(builds) - 1), true
}

// heldAsBuilt is what a warm lookup of a kind read in a state that was built, and what the model
// says of it, after the lookups that were made before. Not known where nobody measured it, where
// the model does not reach it, and where it hardly reads.
func (p Pricing) heldAsBuilt(
	l *result.Layouts, row result.LayoutRow, k pricedKind,
) (predicted, measured float64, known bool) {
	look := found(row, k.lookup, result.HeldLookups)
	of, _ := subject.LayoutOf(row.Layout)
	model := of.Model
	if look == nil || model == nil || row.Memory == nil || row.Memory.PageCacheBytes == nil ||
		isSlot(k.model) && !model.Slots {
		return 0, 0, false
	}

	measured, _, _ = look.Reads()
	below := model.Device
	if _, ofDevice := look.DeviceReads.Number(); !ofDevice && model.Own != subject.Nowhere {
		below = model.Own // what it counts itself, or asks the kernel for, which may have it
	}

	size := Size{Accounts: row.Accounts, ContractSlots: l.Workload.ContractSlots}
	memories := model.Memories(p.state(row.Layout, size), memoryOf(row, l.Host.Cores))
	if memories == nil || measured < enoughReads {
		return 0, 0, false
	}

	predicted = statemodel.After(memories, phases(l.Workload, k.model))[below]
	return predicted, measured, true
}

// enoughReads of a warm lookup are so many that the share by which a model is off says something.
const enoughReads = .1

// firstLookups are those of a kind that were measured in a layout, those of the smallest size
// first.
func firstLookups(built []access, layout string, k pricedKind) (at []access) {
	for _, b := range built {
		if b.Layout == layout && b.Parameter == k.parameter && b.Absent == k.absent &&
			b.Condition == result.FirstLookups {
			at = append(at, b)
		}
	}

	slices.SortStableFunc(at, func(a, b access) int {
		return cmp.Or(cmp.Compare(a.Accounts, b.Accounts),
			cmp.Compare(a.ContractSlots, b.ContractSlots))
	})

	return at
}

// AheadTexts say, before anything is built, what is predicted of the layouts and what is not;
// nothing if nothing is to be predicted.
func (p Pricing) AheadTexts(layouts []string) (texts []string) {
	if len(p.Ahead) == 0 {
		return nil
	}

	var none, noSlots, predicted []string
	for _, name := range layouts {
		of, _ := subject.LayoutOf(name)
		if of.Model == nil {
			none = append(none, name)
			continue
		}

		predicted = append(predicted, name)
		if !of.Model.Slots {
			noSlots = append(noSlots, name)
		}
	}

	if len(none) > 0 {
		texts = append(texts, fmt.Sprintf("not predicted, since no model knows the layout: %s; "+
			"sizes that are built have prices", strings.Join(none, ", ")))
	}

	held := strings.Join(eachText(p.AheadMemory, unit.Bytes), ", ")
	if len(noSlots) > 0 && len(p.AheadMemory) > 0 {
		texts = append(texts, fmt.Sprintf("slots are not predicted with --at-memory %s for %s, "+
			"since no model knows which slots are kept in memory: for these layouts, accounts are "+
			"predicted with that memory, and accounts and slots with nothing cached", held,
			strings.Join(noSlots, ", ")))
	}

	if len(predicted) == 0 {
		return texts
	}

	conditions := "with nothing cached"
	if len(p.AheadMemory) > 0 {
		conditions += " and with " + held + " of memory"
	}

	return append(texts, fmt.Sprintf("after what is built, %s are predicted %s (%s): seconds on "+
		"idle processors, minutes on busy ones; the progress shows the time left",
		strings.Join(eachText(p.Ahead, sizeText), "; "), conditions,
		unit.Plural(len(predicted), "layout")))
}

// Measured are the layouts that were measured.
func (p Pricing) Measured() []string { return layoutsOf(p.built()) }

func eachText[T any](all []T, text func(T) string) (texts []string) {
	for _, v := range all {
		texts = append(texts, text(v))
	}
	return texts
}

// sizeText is a size in words.
func sizeText(s Size) string {
	text := unit.ShortCount(float64(s.Accounts)) + " accounts and "
	if s.SpreadSlots > 0 {
		return text + unit.ShortCount(float64(s.SpreadSlots)) + " slots of all contracts"
	}
	return text + unit.ShortCount(float64(s.ContractSlots)) + " slots of one contract"
}

// Begun is what is told of prices until they are finished; again is the command that goes on, from
// the folders of a comparison that was measured before, if any.
func (p Pricing) Begun(command []string, again string, from []string) *result.Price {
	return &result.Price{
		Status:       result.Interrupted,
		Error:        "not finished: " + again,
		Started:      time.Now().UTC(),
		Command:      command,
		GasPerSecond: p.GasPerSecond,
		Formula:      gas.Formula(p.GasPerSecond),
		Parameters:   gas.Parameters(),
		Layouts:      from,
	}
}

// Measure measures the builds in order, until one is interrupted. say hears which layouts failed.
func (p *Pricing) Measure(
	builds []Build, done *result.Price, measure func(Build) (*result.Layouts, error),
	say func(format string, args ...any),
) error {
	done.Status, done.Error = result.OK, ""
	for _, b := range builds {
		l, err := measure(b)
		if err != nil {
			return err
		}

		p.Layouts, done.Layouts = append(p.Layouts, l), append(done.Layouts, b.Folder())
		if l.Status != result.OK {
			done.Status, done.Error, done.FailureInfo = l.Status, l.Error, l.FailureInfo
		}

		for _, row := range l.Rows {
			if row.Status == result.Failed {
				say("%s failed at %s accounts: %s", row.Layout, unit.Count(row.Accounts),
					row.WithRemedy(row.Error))
			}
		}

		if l.Status == result.Interrupted {
			return nil
		}
	}

	return nil
}

// Finish predicts the sizes that were not built, unless the measurement was interrupted, and prices
// all.
func (p *Pricing) Finish(
	ctx context.Context, done *result.Price, again string, tell result.EventFunc,
) {
	if done.Status != result.Interrupted {
		if err := p.Forecast(ctx, func(done, of int) {
			tell(result.Event{
				Phase: "predict the sizes that are not built",
				Done:  uint64(done),
				Total: uint64(of),
				Unit:  "states",
			})
		}); err != nil {
			done.Status, done.Error = result.Interrupted,
				"interrupted: not all sizes that are not built are predicted; "+again
		}
	} else {
		p.Ahead = nil
	}

	rows, unused := p.Rows()
	done.Host, done.Hardware, done.Rows, done.Warnings = p.Layouts[0].Host, p.Hardware, rows, nil
	done.Seeds = p.seeds()
	for _, l := range p.Layouts {
		for _, w := range l.Warnings {
			if !result.HasWarning(done.Warnings, w) {
				done.Warnings = append(done.Warnings, w)
			}
		}
	}

	for i := range p.Hardware {
		done.Warnings = append(done.Warnings, p.Hardware[i].Warnings()...)
	}

	done.Warnings = append(done.Warnings, append(unused, p.failedStates(again)...)...)
}

// failedStates name the states that are missing among those that prices rest on.
func (p Pricing) failedStates(again string) (warnings []engine.Warning) {
	for _, l := range p.Layouts {
		for _, row := range l.Rows {
			if row.Status == result.Failed {
				warnings = append(warnings, engine.Warning{Code: gas.StateFailed, Text: fmt.Sprintf(
					"%s failed at %s accounts, so its prices rest on the other sizes alone",
					row.Layout, unit.Count(row.Accounts)), Remedy: again})
			}
		}
	}

	return warnings
}

// layoutsOf are those that accesses are of.
func layoutsOf(built []access) (names []string) {
	for _, r := range built {
		if !slices.Contains(names, r.Layout) {
			names = append(names, r.Layout)
		}
	}
	return names
}

// seeds are those of the builds.
func (p Pricing) seeds() (all []uint64) {
	for _, l := range p.Layouts {
		if !slices.Contains(all, l.Workload.Seed) {
			all = append(all, l.Workload.Seed)
		}
	}
	return all
}

// contractAt is where the one contract, which has index 0, lies among all accounts.
func contractAt(seed uint64) float64 {
	hash := lookup.NewGenerator(protocol.Chain{Seed: seed, Accounts: 1, BlockAccounts: 1}, 0).
		Hash(0)
	return float64(binary.BigEndian.Uint64(hash[:])) / (1 << 64)
}

// state is one of a size, whose files take as much for each account and slot as those of
// the largest state of the layout that was built.
func (p Pricing) state(layout string, size Size) statemodel.State {
	s := statemodel.State{
		Accounts:      float64(size.Accounts),
		ContractShare: 1 / float64(size.Accounts),
		SlotsPer:      float64(size.ContractSlots),
		Grown:         true, // but in the block that made it, where it is no larger than one built
	}

	maximum := 0.0
	for _, l := range p.Layouts {
		w := l.Workload
		s.CodeBytes, s.Grown = float64(w.CodeBytes), s.Grown && size.ContractSlots > w.ContractSlots
		s.BlockAccounts, s.UpdateBlocks, s.UpdateKeys = float64(w.BlockAccounts),
			float64(w.UpdateBlocks), float64(w.UpdateAccounts)
		for _, of := range l.Rows {
			records := float64(of.Accounts + l.Workload.ContractSlots)
			if of.Layout == layout && of.Status == result.OK && records > maximum {
				maximum = records
				s.DiskBytes = float64(of.DiskBytes.OrZero()) / records *
					float64(size.Accounts+size.Slots())
				withOptions(&s, of)
			}
		}
	}

	return s
}

// SameSettings refuses results in which a layout has one name and other settings, such as one group
// depth in each folder: they would be taken for builds of one state.
func SameSettings(all []*result.Layouts) error {
	type state struct {
		layout          string
		accounts, slots uint64
	}

	settings := map[state]map[string]string{}
	for _, l := range all {
		for _, r := range l.Rows {
			s := state{r.Layout, r.Accounts, l.Workload.ContractSlots}
			before, known := settings[s]
			settings[s] = r.Options
			for _, name := range slices.Sorted(maps.Keys(r.Options)) {
				if known && before[name] != r.Options[name] {
					return engine.Fail(engine.CodeUsage, "%s has %s=%s in one folder and %s in "+
						"another: measure them in one run of statelab layouts, or price the "+
						"folders one by one", r.Layout, name, before[name], r.Options[name])
				}
			}
		}
	}

	return nil
}

// Build is a comparison of layouts with one size of the contract, which is then priced. A repeat
// has other accounts: where the contract lies among them is chance, and so is what it shares
// blocks with.
type Build struct {
	text   string // of slots
	slots  uint64
	n      uint64 // from 0
	seed   uint64
	builds uint64
}

// Builds are the comparisons that a price table is made from: every size of the contract, as often
// as asked.
func Builds(e *experiment.Experiment, m *setting.Mistakes) (builds []Build) {
	s := experiment.SubjectAs[*experiment.PriceConfig](e)
	if !s.ContractSlots.IsSet() {
		m.At("contract-slots", "", "give at least one size of the contract (example: %s)",
			m.Name("contract-slots", "10k"))
	}

	for i, slots := range s.ContractSlots.All() {
		for n := range e.Repeats.Value() {
			builds = append(builds, Build{s.ContractSlots.Texts()[i], slots, n, e.Seed.Value() + n,
				e.Repeats.Value()})
		}
		specOf(builds[len(builds)-1].Experiment(e), m)
	}

	return builds
}

// Folder of the build in that of the price table.
func (b Build) Folder() string {
	if b.n == 0 {
		return "contract-" + b.text
	}
	return fmt.Sprintf("contract-%s-build-%d", b.text, b.n+1)
}

// IsRepeat tells whether another build differs from it in the accounts alone.
func (b Build) IsRepeat() bool { return b.n > 0 }

// Label is what progress lines begin with.
func (b Build) Label() string {
	if b.builds == 1 {
		return "contract of " + b.text + " slots: "
	}
	return fmt.Sprintf("contract of %s slots, build %d of %d: ", b.text, b.n+1, b.builds)
}

// Experiment is the experiment of the build.
func (b Build) Experiment(e *experiment.Experiment) *experiment.Experiment {
	build := experiment.New(experiment.Layouts)
	build.Name, build.Where, build.Options, build.DB = e.Name, e.Where, e.Options, e.DB
	s := experiment.SubjectAs[*experiment.LayoutConfig](build)
	*s = *StatesOf(e)
	s.ContractSlots.SetValues(b.slots)
	build.Seed.SetValues(b.seed)
	return build
}

// Here stands for the disk under the folder of the results.
const Here = "here"

// PricingOf is what to price, and what to build for that: nothing if comparisons are named.
func PricingOf(e *experiment.Experiment, m *setting.Mistakes) (p Pricing, builds []Build) {
	s := experiment.SubjectAs[*experiment.PriceConfig](e)
	p.GasPerSecond = float64(s.GasPerSecond.Value())
	contracts := s.ContractAt.All()
	if !s.ContractAt.IsSet() && !s.SlotsAt.IsSet() {
		contracts = []uint64{10_000, 100_000_000}
	}

	for _, accounts := range s.At.All() {
		for _, slots := range contracts {
			p.Ahead = append(p.Ahead, Size{Accounts: accounts, ContractSlots: slots})
		}

		for _, slots := range s.SlotsAt.All() {
			p.Ahead = append(p.Ahead, Size{Accounts: accounts, SpreadSlots: slots})
		}
	}

	p.AheadMemory = s.AtMemory.All()

	if !s.Hardware.IsSet() {
		m.At("hardware", "", "name at least one disk (example: %s)", m.Name("hardware", Here))
	}

	for _, name := range s.Hardware.All() {
		if name == Here {
			continue
		}

		if h := HardwareOf(name, m); h != nil {
			p.Hardware = append(p.Hardware, *h)
		}
	}

	if !s.From.IsSet() {
		return p, Builds(e, m)
	}

	for _, dir := range s.From.All() {
		l, err := result.ReadLayouts(dir)
		if err != nil {
			m.Unread("from", "", "%v", err)
			continue
		}

		if l.Workload.ContractSlots == 0 {
			m.At("from", dir, "its states have no large contract, so slots have no price: "+
				"measure them with statelab layouts --contract-slots 10k")
		}

		p.Layouts = append(p.Layouts, l)
	}

	p.keepOnly(s.Layout.All(), m)
	if err := SameSettings(p.Layouts); err != nil {
		m.At("from", s.From.String(), "%v", err)
	}

	return p, nil
}

// keepOnly leaves out what was measured of other layouts than those named.
func (p *Pricing) keepOnly(names []string, m *setting.Mistakes) {
	if slices.Contains(names, Every) || len(p.Layouts) == 0 {
		return
	}

	var measured []string
	for _, l := range p.Layouts {
		for _, r := range l.Rows {
			if !slices.Contains(measured, r.Layout) {
				measured = append(measured, r.Layout)
			}
		}

		l.Rows = slices.DeleteFunc(l.Rows, func(r result.LayoutRow) bool {
			return !slices.Contains(names, r.Layout)
		})
	}

	for _, name := range names {
		if !slices.Contains(measured, name) {
			m.At("layout", name, "not among the layouts of --from, which are %s",
				strings.Join(measured, ", "))
		}
	}
}

// HardwareOf reads the profile of a disk; nil if none is named.
func HardwareOf(path string, m *setting.Mistakes) *result.Hardware {
	switch path {
	case "":
		return nil
	case Here:
		m.At("hardware", Here,
			"measure the disk first (statelab disk DIR --out DISK), and give %s",
			m.Name("hardware", "DISK"))
		return nil
	}

	if _, err := os.Stat(path); err != nil && isTime(path) {
		return stated(path, m)
	}

	h, err := result.ReadHardware(path)
	if err != nil {
		m.Unread("hardware", "", "%v", err)
		return nil
	}

	return h
}

// isTime tells whether a text begins as a duration does, and names no file below a folder.
func isTime(text string) bool {
	return strings.TrimLeft(text, "+-.0123456789") != text && !strings.ContainsAny(text, "/\\") &&
		!strings.HasSuffix(text, ".json")
}

// stated is a disk of which only the latency is known: that of one read with one in flight.
func stated(text string, m *setting.Mistakes) *result.Hardware {
	const longest = 24 * time.Hour
	each, err := time.ParseDuration(text)
	if err != nil || each <= 0 || each > longest {
		m.At("hardware", text, "there is no such file, and it is not the time of one read, from "+
			"1ns to 24h with its unit (example: %s)", m.Name("hardware", "100us"))
		return nil
	}

	h := gas.GivenLatency(text, each)
	h.Schema = schema.Hardware
	return &h
}
