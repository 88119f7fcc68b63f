// Package prices explains price tables: what accesses to state cost in gas, which
// resource sets each price, and what would have to be true for a price to be safe.
package prices

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/gas"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// method is the page that defines the figures.
const method = "prices.md"

// Input is a price table.
type Input struct{ *result.Price }

// Read reads a folder that holds price.json.
func Read(dir string) (Input, error) {
	p, err := result.ReadPrice(dir)
	return Input{p}, err
}

type row = result.PriceRow

type column = doc.Column[row]

func gasText(v float64) string { return unit.Count(int64(v + .5)) }

// band is an estimate with its range where that is wide enough to be seen.
func band(
	name, unit string, scale float64, format func(float64) string, of func(row) result.Estimate,
) column {
	return column{Name: name, Unit: unit, Words: func(r row) string {
		e := of(r)
		value, low, high := format(e.Value/scale), format(e.Low/scale), format(e.High/scale)
		if low == value && high == value {
			return value
		}
		return value + " (" + low + " to " + high + ")"
	}}
}

// pricedBand is a band of a time or a price, which a row without a CPU time does not have.
func pricedBand(
	name, unit string, scale float64, format func(float64) string, of func(row) result.Estimate,
) column {
	c := band(name, unit, scale, format, of)
	words := c.Words
	c.Words = func(r row) string {
		if !r.IsPriced() {
			return doc.None
		}
		return words(r)
	}

	return c
}

// The columns of every table of prices.
func (in Input) columns(keys ...column) []column {
	return append(keys,
		doc.Optional("accesses", "", nil, func(r row) *float64 {
			return r.Accesses.Pointer()
		}),
		band("reads", "", 1, doc.PerGet, func(r row) result.Estimate { return r.Reads }),
		doc.Optional("bytes", "of device", nil, func(r row) *float64 { return r.Bytes.Pointer() }),
		cpuColumn(),
		pricedBand("alone", "us", 1e3, doc.Number, func(r row) result.Estimate {
			return r.AloneNanos
		}),
		pricedBand("at depth", "us", 1e3, doc.Number, func(r row) result.Estimate {
			return r.QueuedNanos
		}),
		pricedBand("alone", "gas", 1, gasText, func(r row) result.Estimate {
			return r.AloneGas
		}),
		pricedBand("at depth", "gas", 1, gasText, func(r row) result.Estimate {
			return r.QueuedGas
		}),
		in.todayColumn(),
		in.proposedColumn(),
		setByColumn())
}

// Columns that the page's table and the terminal's both have.

func cpuColumn() column {
	return doc.Optional("CPU", "us", nil, func(r row) *float64 {
		return doc.Times(r.CPUNanos.Pointer(), 1e-3)
	})
}

func (in Input) todayColumn() column {
	return in.parameterColumn("today", func(p result.PriceParameter) float64 { return p.Today })
}

func (in Input) proposedColumn() column {
	return in.parameterColumn("proposed", func(p result.PriceParameter) float64 {
		return p.Proposed
	})
}

// parameterColumn is a price in gas of the parameter that a row is of, empty where it has none.
func (in Input) parameterColumn(name string, of func(result.PriceParameter) float64) column {
	return doc.Optional(name, "gas", gasText, func(r row) *float64 {
		p, known := in.parameter(r.Parameter)
		return doc.When(known && of(p) > 0, of(p))
	})
}

func setByColumn() column {
	return column{Name: "set by", Left: true, Words: func(r row) string { return r.Binds }}
}

func (in Input) parameter(name string) (p result.PriceParameter, known bool) {
	i := slices.IndexFunc(in.Parameters, func(p result.PriceParameter) bool {
		return p.Name == name
	})
	if i < 0 {
		return p, false
	}
	return in.Parameters[i], true
}

// legend says what the columns are.
const legend = "Alone: the reads follow one another. At depth: they overlap, with as many in " +
	"flight as the disk serves well. " +
	"Set by: the larger part of the time at depth. " + gas.Code + " does not depend on the " +
	"layout: it is one Get of the flat table on Pebble."

func parameter(r row) string {
	if r.Absent {
		return r.Parameter + ", absent"
	}
	return r.Parameter
}

func size(r row) string {
	text := accountsAndSlots(r)
	if r.Predicted {
		text += " predicted"
	}
	return text
}

// accountsAndSlots is a size, short.
func accountsAndSlots(r row) string {
	if r.SpreadSlots > 0 {
		return doc.ShortCount(r.Accounts) + " / " + doc.ShortCount(r.SpreadSlots) + " spread"
	}
	return doc.ShortCount(r.Accounts) + " / " + doc.ShortCount(r.ContractSlots)
}

// shown is the hardware that the first tables are of, and the largest size built.
func (in Input) shown() (h result.Hardware, accounts, slots uint64) {
	if len(in.Hardware) > 0 {
		h = in.Hardware[0]
	}

	for _, r := range in.Rows {
		if !r.Predicted &&
			(r.Accounts > accounts || r.Accounts == accounts && r.ContractSlots > slots) {
			accounts, slots = r.Accounts, r.ContractSlots
		}
	}

	return h, accounts, slots
}

// main is the table of the largest size that was built, with nothing cached.
func (in Input) main() []row {
	h, accounts, slots := in.shown()
	rows := doc.Where(in.Rows, func(r row) bool {
		return r.Hardware == h.Name && r.Condition == result.FirstLookups &&
			r.Accounts == accounts && r.ContractSlots == slots && !r.Predicted
	})
	in.sort(rows)
	return rows
}

// sort orders rows as the parameters are.
func (in Input) sort(rows []row) {
	place := func(r row) int {
		return slices.IndexFunc(in.Parameters, func(p result.PriceParameter) bool {
			return p.Name == r.Parameter
		})
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(place(a)-place(b), strings.Compare(parameter(a), parameter(b)))
	})
}

// aged are the accesses of an access list by their age, at the largest size that was built.
func (in Input) aged() []row {
	h, accounts, slots := in.shown()
	rows := doc.Where(in.Rows, func(r row) bool {
		return gas.IsAged(r.Parameter) && r.Hardware == h.Name && r.Accounts == accounts &&
			r.ContractSlots == slots
	})
	in.sort(rows)
	return rows
}

// agedColumns are those of accesses by their age.
func (in Input) agedColumns() []column {
	narrow := in.narrow()
	return slices.Insert(narrow, 2,
		doc.Optional("share", "%", nil, func(r row) *float64 {
			return doc.Times(r.Share.Pointer(), 100)
		}))
}

const agedNote = "Of the last blocks of the access list, with memory held and the caches as the " +
	"blocks before have left them. Share: of the accounts " +
	"or slots that a block touches, or writes. Recurring: one of the 256 blocks before has " +
	"touched it, too; EIP-8289 says 79 % of cold accesses are. " +
	"Rewritten: an earlier block of the list has written it, too. EIP-8295 sets no surcharge; " +
	"the one here is what finding the old state costs more."

// answers are the prices of cold accesses and what they are prices of: at the largest size that
// was asked for or, where none was, at the largest that was built.
func (in Input) answers() (out []string) {
	out = in.pricesAndBands(in.largestAsked(), gas.ColdAccount, gas.ColdStorage)
	for _, w := range in.Warnings {
		if w.Code == gas.MemoryNotPredicted || w.Code == gas.StateFailed {
			out = append(out, w.Text+".")
		}
	}

	if len(in.asked()) == 0 {
		out = append(out, in.pricesAndBands(in.main(), gas.ColdAccount, gas.ColdStorage)...)
	}

	return append(out,
		in.pricesAndBands(in.aged(), gas.RecurringAccount, gas.RecurringStorage)...)
}

// Setting is what a citation says of the prices: those of cold accesses, with memory if any are,
// and of what.
func (in Input) Setting() string {
	rows := in.largestAsked()
	if held := doc.Where(rows, func(r row) bool { return r.MemoryBytes > 0 }); len(held) > 0 {
		rows = held
	}

	if len(rows) == 0 {
		rows = in.main()
	}

	prices, _ := in.answersOf(rows, gas.ColdAccount, gas.ColdStorage)
	return strings.Join(prices, " ")
}

// largestAsked are the accesses at the largest size that was asked for and not built.
func (in Input) largestAsked() []row {
	asked := in.asked()
	if len(asked) == 0 {
		return nil
	}

	last := slices.MaxFunc(asked, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Accounts, b.Accounts),
			cmp.Compare(a.SpreadSlots, b.SpreadSlots),
			cmp.Compare(a.ContractSlots, b.ContractSlots))
	})

	return doc.Where(asked, func(r row) bool { return gas.SizeOf(r) == gas.SizeOf(last) })
}

// pricesAndBands are all of answersOf.
func (in Input) pricesAndBands(rows []row, names ...string) []string {
	prices, wide := in.answersOf(rows, names...)
	return append(prices, wide...)
}

// answersOf are the prices of the parameters with each memory, a sentence each, the most memory
// first, with the conditions that all of them have in common; and what makes their bands wide. All
// rows are of one size.
func (in Input) answersOf(rows []row, names ...string) (prices, wide []string) {
	rows = doc.Where(rows, func(r row) bool {
		return slices.Contains(names, r.Parameter) && !r.Absent
	})
	if len(rows) == 0 {
		return nil, nil
	}

	all := !slices.ContainsFunc(rows, func(r row) bool { return !in.isOfOneBuild(r) })
	memories := doc.Distinct(rows, func(r row) int64 { return r.MemoryBytes })
	slices.SortFunc(memories, func(a, b int64) int { return cmp.Compare(b, a) })
	for _, memory := range memories {
		held := doc.Where(rows, func(r row) bool { return r.MemoryBytes == memory })
		for _, name := range names {
			alike := doc.Where(held, func(r row) bool { return r.Parameter == name })
			if len(alike) > 0 {
				prices = append(prices, in.priceOf(alike, all))
			}
		}

		widest := slices.MaxFunc(held, func(a, b row) int {
			return cmp.Compare(above(a), above(b))
		})
		wide = append(wide, in.narrowing(widest))
	}

	h, _, _ := in.shown()
	conditions := sizeAndBasis(rows[0])
	if all {
		conditions += ", one build"
	}

	text := fmt.Sprintf("%s; on %s.", conditions, diskText(h))
	if slices.ContainsFunc(rows, in.isDoubtful) {
		text += " The CPU time was measured while other processes used the processors."
	}

	text += untestedText(rows)
	if len(memories) > 1 && slices.Contains(memories, 0) {
		text += " With memory: lookups all over the state, of a node that has run for long. " +
			"Nothing cached: the first lookup after a start, the most that one can cost."
	}

	return append(prices, text), doc.Without(wide)
}

// priceOf is the prices of one parameter in all layouts with their bands, the lowest first. Where
// not all prices are of one build, those that are say so.
func (in Input) priceOf(rows []row, allOfOneBuild bool) string {
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Compare(a.QueuedGas.Value, b.QueuedGas.Value)
	})

	p, _ := in.parameter(rows[0].Parameter)
	prices := doc.Each(rows, func(r row) string {
		if !r.IsPriced() {
			return r.Layout + " has no price, since the CPU time was not measured"
		}

		name := r.Layout
		if !allOfOneBuild && in.isOfOneBuild(r) {
			name += " (one build)"
		}

		return fmt.Sprintf("%s %s gas, %s %s to %s, %s", name,
			gasRounded(r.QueuedGas.Value), bandName(r), gasRounded(r.QueuedGas.Low),
			gasRounded(r.QueuedGas.High), in.verdict(r, p.Proposed))
	})

	return fmt.Sprintf("%s, proposed %s gas, %s: %s.", rows[0].Parameter, gasText(p.Proposed),
		condition(rows[0]), strings.Join(prices, "; "))
}

// untestedText says what the bands of untested prices are, and what tests them; "" of none.
func untestedText(rows []row) (text string) {
	untested := doc.Where(rows, isUntested)
	if len(untested) == 0 {
		return ""
	}

	text = fmt.Sprintf(" Untested: nothing that was built says how far off the model is, and an "+
		"error of %.0f %% of the reads is assumed", 100*gas.WorstTested)
	if slices.ContainsFunc(untested, func(r row) bool { return r.MemoryBytes == 0 }) {
		text += ", with nothing cached for each factor of ten; another size in --accounts tests it"
	}

	if slices.ContainsFunc(untested, func(r row) bool { return r.MemoryBytes > 0 }) {
		text += "; states that need several times their --memory test prices with memory"
	}

	return text + "."
}

// bandName says what a band is: that of a measurement is a confidence interval, that of a
// prediction is how far off it may be by its tests, and one that nothing tested is an allowance.
func bandName(r row) string {
	switch {
	case isUntested(r):
		return "untested,"
	case r.Predicted:
		return "range"
	}
	return "95 %"
}

// isUntested tells whether nothing that was built says how far off a prediction is.
func isUntested(r row) bool { return r.Predicted && !r.TestedError.IsKnown() }

// isDoubtful tells whether the answer about a row rests on a CPU time that is in doubt.
func (in Input) isDoubtful(r row) bool {
	p, _ := in.parameter(r.Parameter)
	return in.isAboveByCPU(r, p.Proposed)
}

// isOfOneBuild tells whether a price rests on one build of each size that was built.
func (in Input) isOfOneBuild(r row) bool {
	most := 0
	for _, of := range in.Rows {
		if !of.Predicted && of.Layout == r.Layout && of.Parameter == r.Parameter &&
			of.Absent == r.Absent {
			most = max(most, of.Builds)
		}
	}
	return most == 1
}

// diskText is the disk that prices are of.
func diskText(h result.Hardware) string {
	read := doc.Number(h.Points[0].MeanNanos / 1e3)
	if gas.IsGiven(h) {
		return fmt.Sprintf("a disk of %s us per read, 1 in flight", read)
	}
	return fmt.Sprintf("the disk %s (%s us for a read, %s in flight)", h.Name, read,
		unit.Plural(gas.Useful(h).InFlight, "read"))
}

// quotable is how far a band may reach above its price, as a share of it, and need no advice.
const quotable = .25

// above is how far the band of a price reaches above it, as a share of it; 0 without a price.
func above(r row) float64 {
	if !r.IsPriced() || r.QueuedGas.Value <= 0 {
		return 0
	}
	return r.QueuedGas.High/r.QueuedGas.Value - 1
}

// narrowing says what makes the band of a price as wide as it is, what narrows it and by how much;
// "" if it is narrow.
func (in Input) narrowing(r row) string {
	// The error of a predicted CPU time has that of the reads in it, which take it.
	ofReads := gas.Off(r.Reads)
	ofCPU := r.CPUError.OrZero()
	if r.Predicted {
		ofCPU = math.Sqrt(max(0, ofCPU*ofCPU-ofReads*ofReads))
	}

	what := ""
	switch {
	case above(r) <= quotable:
		return ""
	case r.Predicted && ofReads > ofCPU && r.MemoryBytes == 0:
		what = in.distance(r, ofReads)
	case r.Predicted && ofReads > ofCPU && r.TestedError.IsKnown():
		what = fmt.Sprintf("the number of reads (%.0f %%): by so much the model of the memory was "+
			"off at the largest size built", 100*ofReads)
	case r.Predicted && ofReads > ofCPU:
		what = fmt.Sprintf("the number of reads (%.0f %%, assumed): nothing built tested the "+
			"model of the memory; --accounts and --contract-slots that need several times the "+
			"--memory of the builds do", 100*ofReads)
	case ofReads > ofCPU:
		what = fmt.Sprintf("the number of reads (%.0f %%): four times as many --cold-lookups "+
			"or --repeats halve that", 100*ofReads)
	default:
		what = fmt.Sprintf("the CPU time of a read (%.0f %%): four times as many --repeats on a "+
			"machine with nothing else to do halve that, or more", 100*ofCPU)
	}

	return fmt.Sprintf("%s of %s, %s, may cost %.0f %% more, mostly by %s.",
		r.Parameter, r.Layout, condition(r), 100*above(r), what)
}

// distance says by how much less far a prediction would reach from a larger state, and by what
// share the number of reads would then be uncertain.
func (in Input) distance(r row, off float64) string {
	const larger = 10
	records := func(r row) float64 {
		size := gas.SizeOf(r)
		return float64(size.Accounts + size.Slots())
	}

	largest, accounts := 0.0, uint64(0)
	for _, of := range in.Rows {
		if !of.Predicted && of.Layout == r.Layout && of.Parameter == r.Parameter &&
			records(of) > largest {
			largest, accounts = records(of), of.Accounts
		}
	}

	text := fmt.Sprintf("the number of reads (%.0f %%)", 100*off)
	if records(r) <= larger*largest || largest == 0 {
		return text + ": a larger --accounts narrows that"
	}

	times := records(r) / largest
	return fmt.Sprintf("%s, since the state is %s times the largest built: with --accounts %s "+
		"among the sizes that would be about %.0f %%", text, doc.ShortCount(uint64(times)),
		doc.ShortCount(larger*accounts), 100*off*(1-math.Log(larger)/math.Log(times)))
}

// isAboveByCPU tells whether a price is above another one by a CPU time that is in doubt: its reads
// alone are not.
func (in Input) isAboveByCPU(r row, price float64) bool {
	h, _, _ := in.shown()
	return r.IsPriced() && r.QueuedGas.Low > price && in.busy() &&
		gas.ReadsAlone(r, h, in.GasPerSecond).Low <= price
}

// verdict says on which side of a price the band of a row lies.
func (in Input) verdict(r row, price float64) string {
	switch {
	case in.isAboveByCPU(r, price):
		return "above it by its CPU time"
	case r.QueuedGas.Low > price:
		return "above it"
	case r.AloneGas.High <= price:
		return "within it even one read at a time"
	case r.QueuedGas.High <= price:
		return "within it at this depth only"
	}
	return "too close to tell"
}

// conditions are what a price is of, in words.
func conditions(r row) string {
	text := sizeAndBasis(r) + ", " + condition(r)
	return strings.ToLower(text[:1]) + text[1:]
}

// sizeAndBasis is how a price was had and at which size, in words that begin a sentence.
func sizeAndBasis(r row) string {
	slots := "a contract of " + doc.ShortCount(r.ContractSlots) + " slots"
	if r.SpreadSlots > 0 {
		slots = doc.ShortCount(r.SpreadSlots) + " slots spread as on the main network"
	}

	how := "Measured"
	if r.Predicted {
		how = "Predicted"
	}

	return fmt.Sprintf("%s at %s accounts, %s", how, doc.ShortCount(r.Accounts), slots)
}

// gasRounded is a price with three digits: no band is narrower.
func gasRounded(gas float64) string {
	if gas < 100 {
		return gasText(gas)
	}
	unit := math.Pow(10, math.Floor(math.Log10(gas))-2)
	return gasText(math.Round(gas/unit) * unit)
}

// busy tells whether other processes used the processors meanwhile.
func (in Input) busy() bool {
	return slices.ContainsFunc(in.Warnings, func(w engine.Warning) bool {
		return w.Code == result.BusyMachine
	})
}

// asked are the accesses at sizes that were not built, on the first disk.
func (in Input) asked() []row {
	h, _, _ := in.shown()
	rows := doc.Where(in.Rows, func(r row) bool {
		return r.Predicted && r.Hardware == h.Name && !r.Absent &&
			(r.Parameter == gas.ColdAccount || r.Parameter == gas.ColdStorage)
	})

	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(strings.Compare(a.Parameter, b.Parameter),
			cmp.Compare(a.Accounts, b.Accounts), cmp.Compare(a.ContractSlots, b.ContractSlots),
			cmp.Compare(a.SpreadSlots, b.SpreadSlots), cmp.Compare(a.MemoryBytes, b.MemoryBytes),
			strings.Compare(a.Layout, b.Layout))
	})

	return rows
}

// askedColumns are those of predictions, with their bands.
func (in Input) askedColumns() []column {
	return []column{doc.Words("parameter", parameter),
		doc.Words("accounts / slots", accountsAndSlots),
		doc.Words("memory", func(r row) string {
			if r.MemoryBytes == 0 {
				return doc.None
			}
			return unit.Bytes(r.MemoryBytes)
		}),
		doc.Words("layout", func(r row) string { return r.Layout }),
		band("reads", "", 1, doc.PerGet, func(r row) result.Estimate { return r.Reads }),
		pricedBand("at depth", "gas", 1, gasText, func(r row) result.Estimate {
			return r.QueuedGas
		}),
		doc.Optional("tested error", "%", nil, func(r row) *float64 {
			return doc.Times(r.TestedError.Pointer(), 100)
		})}
}

const askedNote = "Predicted. Spread: in contracts whose sizes are divided as on the main " +
	"network (" + gas.MainnetTable + "), otherwise in one. Memory: warm lookups with so much " +
	"of it; without, nothing is cached. The tested error is that of the same prediction at the " +
	"largest size that was built, from the one before. The range widens with the logarithmic " +
	"distance from the largest size that was built; larger --accounts and more --repeats make " +
	"it narrower."

// safety says what would have to be true for the proposed prices to be safe: a text for each
// parameter and condition, of all layouts.
func (in Input) safety() (out []string) {
	rows := doc.Where(append(in.main(), in.asked()...), func(r row) bool {
		_, known := in.parameter(r.Parameter)
		return known && !r.Absent &&
			(r.Parameter == gas.ColdAccount || r.Parameter == gas.ColdStorage)
	})

	of := func(r row) string {
		p, _ := in.parameter(r.Parameter)
		return fmt.Sprintf("%s at %s gas (%s us), %s.", r.Parameter, gasText(p.Proposed),
			doc.Number(p.Proposed/in.GasPerSecond*1e6), conditions(r))
	}
	for _, what := range doc.Distinct(rows, of) {
		alike := doc.Where(rows, func(r row) bool { return of(r) == what })
		each := doc.Each(alike, func(r row) string { return r.Layout + ": " + in.safeIf(r) + "." })
		out = append(out, what+" "+strings.Join(each, " "))
	}

	return out
}

// safeIf says what would have to be true for the proposed price of a row to be safe.
func (in Input) safeIf(r row) string {
	h, _, _ := in.shown()
	p, _ := in.parameter(r.Parameter)
	reads := gas.ReadsAlone(r, h, in.GasPerSecond)
	tooMany := fmt.Sprintf("no, the reads alone cost %s gas, without any CPU time",
		gasRounded(reads.Value))
	switch {
	case r.IsPriced():
	case reads.Low > p.Proposed:
		return tooMany
	default:
		return "not known, since its CPU time is missing: " + r.CPUNanos.Reason()
	}

	cpu := doc.Number(r.CPUNanos.OrZero() / 1e3)
	s := gas.SafeAt(r, h, p.Proposed, in.GasPerSecond)
	switch {
	case s.Never && in.busy() && reads.Low > p.Proposed:
		return tooMany
	case s.Already:
		return "safe with one access after another"
	case s.Never && in.busy():
		return fmt.Sprintf("not known, since its CPU time was %s us while other processes used "+
			"the processors: measure it on a quiet machine", cpu)
	case s.Never:
		return fmt.Sprintf("not safe whatever the disk, since its CPU time alone is %s us", cpu)
	}

	text := fmt.Sprintf("safe if %.0f%% of its %s reads are cached, if a read takes at most %s "+
		"us, or ", 100*s.CachedPart, doc.PerGet(r.Reads.Value), doc.Number(s.ReadNanos/1e3))
	if s.InFlight > 0 {
		return text + fmt.Sprintf("with %s or more in flight on this disk",
			unit.Plural(s.InFlight, "read"))
	}
	return text + "on a disk that does more reads at the same time: no number in flight that " +
		"was measured is enough on this one"
}

// Document says what accesses of the state should cost.
func (in Input) Document() *doc.Document {
	h, accounts, slots := in.shown()
	p := &doc.Document{
		Title:    "Statelab: what a state access should cost",
		Warnings: doc.Detailed(doc.WarningsOf(in.Warnings)),
	}

	p.Answer("", in.answers()...)
	p.Add("At the sizes asked for", doc.Block{
		Title:  "Predicted",
		Method: method,
		Table:  doc.TableOf(in.asked(), nil, in.askedColumns()...),
		Texts:  noteOf(in.asked(), askedNote),
	})

	p.Add("Prices", doc.Block{
		Title:  "Nothing cached",
		Method: method,
		Table:  doc.TableOf(in.main(), nil, in.narrow()...),
		Note: fmt.Sprintf("Measured: %s accounts, a contract of %s slots, disk %s. Accesses, "+
			"bytes and times are in the table of all rows.",
			doc.ShortCount(accounts), doc.ShortCount(slots), h.Name),
		Texts: noteOf(in.main(), append([]string{legend}, in.Formula...)...),
	})

	p.Add("By age", doc.Block{Title: "What blocks touch, by age", Method: method,
		Table: doc.TableOf(in.aged(), nil,
			in.agedColumns()...), Texts: noteOf(in.aged(), agedNote)})
	p.Add("Over the size of the state", doc.AsDetail(in.charts())...)
	p.Add("What would have to be true", doc.Block{
		Title:  "Safe at the proposed price",
		Method: method,
		List:   in.safety(),
	})

	p.Add("All rows", doc.Block{
		Title:  "Every size, condition and disk",
		Method: method,
		Folded: true,
		Table: doc.TableOf(in.Rows, nil,
			append(
				in.columns(
					doc.Words("parameter", parameter),
					doc.Words("layout", func(r row) string { return r.Layout }),
					doc.Words("accounts / slots", size),
					doc.Words("caches", condition),
					doc.Words("disk", func(r row) string { return r.Hardware }),
				),
				doc.Optional("tested error", "%", nil, func(r row) *float64 {
					return doc.Times(r.TestedError.Pointer(), 100)
				}),
				doc.Words("basis", func(r row) string { return r.Basis }),
			)...),
		Note: "Predicted rows are of states that were not built: their error is what the same " +
			"prediction was off by at the largest size that was.",
	})

	p.Add("Hardware", doc.Block{Title: "Disks", Detail: true, Method: method, Table: in.disks(),
		Note: "Random reads of 4 KiB. The useful depth is the smallest with 90 % of the highest " +
			"number of reads per second."})
	p.Add("Run it again", doc.Block{Title: "Command", Pre: doc.Shell(in.Command), Folded: true})
	return p
}

// noteOf explains a table; nothing of one without rows.
func noteOf[R any](rows []R, notes ...string) []string {
	if len(rows) == 0 {
		return nil
	}
	return notes
}

func condition(r row) string {
	switch {
	case r.Condition == result.FirstLookups:
		return "nothing cached"
	case r.MemoryBytes > 0:
		return unit.Bytes(r.MemoryBytes) + " of memory"
	}
	return "memory held"
}

// reading is a reading of a disk.
type reading struct {
	of result.Hardware
	at result.DiskPoint
}

func (in Input) disks() doc.Table {
	all := doc.Flat(in.Hardware, func(h result.Hardware) []reading {
		return doc.Each(h.Points, func(at result.DiskPoint) reading { return reading{h, at} })
	})
	return doc.TableOf(all, nil,
		doc.Words("disk", func(r reading) string { return r.of.Name }),
		doc.Figure("in flight", "", doc.Digits, func(r reading) float64 {
			return float64(r.at.InFlight)
		}),
		doc.Figure("reads", "per s", doc.ShortCount, func(r reading) float64 {
			return r.at.ReadsPerSecond
		}),
		doc.Figure("lowest repeat", "per s", doc.ShortCount, func(r reading) float64 {
			return r.at.Spread.Low
		}),
		doc.Figure("highest repeat", "per s", doc.ShortCount, func(r reading) float64 {
			return r.at.Spread.High
		}),
		doc.Figure("mean", "us", nil, func(r reading) float64 { return r.at.MeanNanos / 1e3 }),
		doc.Column[reading]{Name: "useful", Left: true, Words: func(r reading) string {
			if gas.Useful(r.of).InFlight == r.at.InFlight {
				return "yes"
			}
			return doc.None
		}})
}

// charts are the two prices of cold accesses over the accounts, with the prices drawn in.
func (in Input) charts() (blocks []doc.Block) {
	h, _, slots := in.shown()
	for _, name := range []string{gas.ColdAccount, gas.ColdStorage} {
		rows := doc.Where(in.Rows, func(r row) bool {
			return r.Parameter == name && !r.Absent && r.Condition == result.FirstLookups &&
				r.Hardware == h.Name && r.ContractSlots == slots && r.IsPriced()
		})

		chart, panel := doc.OnePanel(name+" in gas by accounts, nothing cached",
			doc.Decades("accounts", doc.AsCount),
			doc.Axis{Label: "gas at the useful depth", Kind: doc.Logs, Format: doc.AsCount})
		for i, layout := range doc.Distinct(rows, func(r row) string { return r.Layout }) {
			of := doc.Where(rows, func(r row) bool { return r.Layout == layout })
			slices.SortFunc(of, func(a, b row) int { return cmp.Compare(a.Accounts, b.Accounts) })
			xys := doc.Each(of, func(r row) doc.XY {
				return doc.XY{X: float64(r.Accounts), Y: max(1, r.QueuedGas.Value)}
			})
			panel.Line(layout, xys, doc.CurveStyle(i))
		}

		low, high := chart.SpanX()
		p, _ := in.parameter(name)
		line := func(text string, price float64, dashed doc.Style) {
			panel.Line(text, doc.XYs{{X: low, Y: price}, {X: high, Y: price}}, dashed)
		}
		line("today", p.Today, doc.Style{Color: doc.Muted, Dash: doc.Dotted()})
		line("proposed", p.Proposed, doc.Style{Color: doc.Ink, Dash: doc.Dashed()})
		if !(low < high) || !chart.Drawn() {
			continue
		}

		blocks = append(blocks, doc.Block{Title: name, Method: method, Chart: chart,
			Note: fmt.Sprintf("Nothing cached, a contract of %s slots, disk %s. Sizes that were "+
				"not built are predicted.", doc.ShortCount(slots), h.Name),
			Table: doc.TableOf(rows, nil,
				in.columns(doc.Words("layout", func(r row) string { return r.Layout }),
					doc.Words("accounts / slots", size))...),
			Aside: true})
	}

	return blocks
}

// inGas is a column of prices, which a row without a CPU time does not have.
func inGas(name string, of func(row) float64) column {
	return doc.Optional(name, "gas", gasText, func(r row) *float64 {
		return doc.When(r.IsPriced(), of(r))
	})
}

// narrow are the columns that a terminal has room for.
func (in Input) narrow() []column {
	return []column{
		doc.Words("parameter", parameter),
		doc.Words("layout", func(r row) string { return r.Layout }),
		doc.Optional("reads", "", doc.PerGet, func(r row) *float64 { return &r.Reads.Value }),
		cpuColumn(),
		inGas("alone", func(r row) float64 { return r.AloneGas.Value }),
		inGas("at depth", func(r row) float64 { return r.QueuedGas.Value }),
		inGas("lowest", func(r row) float64 { return r.QueuedGas.Low }),
		inGas("highest", func(r row) float64 { return r.QueuedGas.High }),
		in.todayColumn(),
		in.proposedColumn(),
		setByColumn(),
	}
}
