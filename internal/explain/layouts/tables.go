package layouts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// row is a layout at one size, with its place in layouts.json.
type row struct {
	result.LayoutRow
	at int
}

type column = doc.Column[row]

// rows are those of all layouts, grouped by layout.
func (in Input) rows() (all []row) {
	for _, name := range in.Names() {
		for i, of := range in.Rows {
			if of.Layout == name {
				all = append(all, row{of, i})
			}
		}
	}
	return all
}

// measured are the rows that have figures.
func (in Input) measured() []row {
	return doc.Where(in.rows(), func(of row) bool { return of.Status == result.OK })
}

func failure(of row) string {
	if of.Status == result.OK {
		return ""
	}
	return cmp.Or(of.WithRemedy(of.Error), of.Status)
}

// columnOf is the column of a figure of a layout at a size.
func columnOf(f figure.Figure, value func(result.LayoutRow) figure.Value) column {
	return doc.ColumnOf(f, func(of row) figure.Value { return value(of.LayoutRow) })
}

// rowColumn is a column of figures of a layout at a size.
func rowColumn(name, unit string, format func(float64) string,
	value func(result.LayoutRow) *float64) column {
	return doc.Optional(name, unit, format, func(of row) *float64 { return value(of.LayoutRow) })
}

// Columns that several tables share.
var (
	layoutKey = doc.Words("layout", func(r row) string {
		return r.Layout + " " + doc.ShortCount(r.Accounts)
	}).Named("layout",
		"accounts")
	nodes = columnOf(figure.NodesPerLookup,
		func(r result.LayoutRow) figure.Value { return r.Nodes }).Formatted(nil)
	blockReads = rowColumn("reads", "", doc.PerGet,
		func(r result.LayoutRow) *float64 { return r.BlockReads.Pointer() })
	deviceReads = columnOf(figure.DeviceReadsPerLookup,
		func(r result.LayoutRow) figure.Value { return r.DeviceReads })
	disk = columnOf(figure.DiskBytesPerAccount,
		func(r result.LayoutRow) figure.Value { return r.DiskPerAccount })
	p50 = duration("p50", "us", doc.Micros,
		func(r result.LayoutRow) *float64 { return doc.Via(r.LookupNanos, p50Of) })
)

// duration is a column of a quantile of durations.
func duration(name, unit string, in doc.Scale, value func(result.LayoutRow) *float64) column {
	return rowColumn(name, "", nil, value).In(in).Named(name, unit)
}

func p50Of(l *result.Latency) float64 { return float64(l.P50) }
func p99Of(l *result.Latency) float64 { return float64(l.P99) }

// reads is a column of the reads of lookups of a kind in a condition.
func (in Input) reads(name, unit, kind, condition string) column {
	return doc.Optional(name, unit, doc.PerGet, func(of row) *float64 {
		return in.ReadsValue(of.at, kind, condition)
	})
}

// costs is what to know of every layout at the largest size.
func (in Input) costs() doc.Table {
	var largest []row
	for _, name := range in.Names() {
		if i, ok := in.Largest(name); ok {
			largest = append(largest, row{in.Rows[i], i})
		}
	}

	columns := []column{
		doc.Words("layout", func(of row) string {
			if of.Accounts < claims.Largest(in.Layouts) {
				return layoutKey.Words(of)
			}
			return of.Layout
		}),
		in.reads("nothing", "cached", result.AccountLookup, result.FirstLookups),
		in.reads("memory", "held", result.AccountLookup, result.HeldLookups),
		in.share(),
	}

	for _, at := range in.ahead() {
		columns = append(columns,
			doc.Optional("at "+doc.ShortCount(at.accounts)+" with", doc.ShortBytes(at.memory),
				doc.PerGet,
				func(of row) *float64 { return in.Predicted(of.Layout, at.accounts, at.memory) }))
	}

	return doc.TableOf(largest, nil,
		append(columns, in.reads("a slot", "held", result.SlotLookup, result.HeldLookups),
			p50.Named("p50", "us, held"), nodes.Spared(2), disk.Spared(1))...)
}

// place is a size and a memory to predict for.
type place struct {
	accounts uint64
	memory   int64
}

// maxAhead are as many predictions as the first table has room for; the last table has all.
const maxAhead = 2

// ahead are the sizes and memories that the run was asked about, or else those of a server.
func (in Input) ahead() (places []place) {
	for _, accounts := range in.Workload.At {
		for _, memory := range in.Workload.AtMemory {
			places = append(places, place{accounts, memory})
		}
	}

	if len(places) == 0 {
		return []place{{subject.Billion, claims.ServerMemory}}
	}

	return places[:min(len(places), maxAhead)]
}

func (in Input) share() column {
	return column{Name: "in memory", Unit: "% of state", Value: func(of row) *float64 {
		share := in.Share(of.at)

		return doc.When(share > 0, share) // 0: nothing held the memory
	}, Format: func(share float64) string {
		if share >= 1 {
			return "all"
		}
		return doc.Number(100 * share)
	}}
}

// costsNote says what was counted, and of what.
func (in Input) costsNote() string {
	if claims.Largest(in.Layouts) == 0 {
		return "the state of the access list alone"
	}

	var counts []string
	for i := range in.Rows {
		if r, ok := in.Reads(i, result.HeldLookups); ok && !slices.Contains(counts, r.Unit) {
			counts = append(counts, r.Unit)
		}
	}

	return fmt.Sprintf("%s of a lookup of one of %s accounts", strings.Join(counts, " or "),
		doc.ShortCount(claims.Largest(in.Layouts)))
}

// samples says that the conditions were measured with lookups of different accounts, which lie at
// different depths.
func (in Input) samples() string {
	first, held := uint64(0), uint64(0)
	for _, r := range in.Rows {
		for _, l := range r.Lookups {
			switch {
			case l.Kind != result.AccountLookup || r.Accounts != claims.Largest(in.Layouts):
			case l.Condition == result.FirstLookups:
				first = max(first, l.Count)
			case l.Condition == result.HeldLookups:
				held = max(held, l.Count)
			}
		}
	}

	if first == 0 || held == 0 {
		return ""
	}

	return fmt.Sprintf("Nothing cached: the mean of %s lookups; memory held: of %s lookups of "+
		"other random accounts.", unit.Count(first), unit.Count(held))
}

// lookup is what a lookup costs, and what was predicted.
func (in Input) lookup() doc.Table {
	return doc.TableOf(in.rows(), failure, layoutKey, nodes,
		rowColumn("formula", "", nil, func(r result.LayoutRow) *float64 {
			return r.PredictedNodes.Pointer()
		}),
		columnOf(figure.PagesPerLookup, func(r result.LayoutRow) figure.Value { return r.Pages }).
			Formatted(nil),
		blockReads,
		rowColumn("formula", "", nil, func(r result.LayoutRow) *float64 {
			return r.PredictedReads.Pointer()
		}),
		deviceReads, p50,
		duration("p99", "us", doc.Micros, func(r result.LayoutRow) *float64 {
			return doc.Via(r.LookupNanos, p99Of)
		}))
}

// lookedUp is a figure of the last of a row's lookups that fulfil a condition.
func lookedUp(
	name, unit string, format func(float64) string, is func(result.Lookups) bool,
	value func(result.Lookups) *float64,
) column {
	return rowColumn(name, unit, format, func(r result.LayoutRow) (found *float64) {
		for _, look := range r.Lookups {
			if is(look) {
				found = value(look)
			}
		}
		return found
	})
}

// device is what lookups fetch from the device, cold and with memory held, and how many
// there are a second.
func (in Input) device() doc.Table {
	of := func(
		name, unit string, format func(float64) string, is func(result.Lookups) bool,
		value func(result.Lookups) *float64,
	) column {
		return lookedUp(name, unit, format,
			func(l result.Lookups) bool { return l.Kind == result.AccountLookup && is(l) }, value)
	}

	cold := func(l result.Lookups) bool { return l.Condition == result.ColdLookups }
	held := func(l result.Lookups) bool { return l.Condition == result.HeldLookups }
	rate := func(l result.Lookups) *float64 { return doc.Some(l.PerSecond) }
	return doc.TableOf(in.measured(), nil, layoutKey,
		columnOf(figure.DeviceBytesPerLookup,
			func(r result.LayoutRow) figure.Value { return r.DeviceBytes }),
		of("cold", "reads", doc.PerGet, cold,
			func(l result.Lookups) *float64 { return l.DeviceReads.Pointer() }),
		of("cold", "bytes", nil, cold, func(l result.Lookups) *float64 {
			return doc.Some(l.DeviceBytes)
		}),
		of("1 in flight", "per s", doc.ShortCount,
			func(l result.Lookups) bool { return held(l) && l.InFlight == 1 }, rate),
		of("64 in flight", "per s", doc.ShortCount,
			func(l result.Lookups) bool { return held(l) && l.InFlight > 1 }, rate))
}

const nodeBytesNote = "Of first lookups of present accounts; a chunk of code: of one of a " +
	"contract's. Root: CPU time of making roots, for each changed account."

// nodeBytes is what first lookups read by the type of blocks, of layouts that tell how long their
// nodes are.
func (in Input) nodeBytes() doc.Table {
	rows := doc.Where(in.measured(), func(of row) bool {
		return slices.ContainsFunc(of.Lookups,
			func(l result.Lookups) bool { return l.NodeBytes.IsKnown() && l.BlockTypes != nil })
	})

	first := func(name, unit string, value func(result.Lookups) *float64) column {
		return lookedUp(name, unit, nil, func(l result.Lookups) bool {
			return l.Kind == result.AccountLookup && l.Condition == result.FirstLookups &&
				l.BlockTypes != nil
		}, value)
	}

	return doc.TableOf(rows, nil, layoutKey,
		first("nodes", "", func(l result.Lookups) *float64 { return l.Nodes.Pointer() }),
		first("nodes", "bytes", func(l result.Lookups) *float64 { return l.NodeBytes.Pointer() }),
		first("filter", "reads", func(l result.Lookups) *float64 { return &l.BlockTypes.Filter }),
		first("index", "reads", func(l result.Lookups) *float64 { return &l.BlockTypes.Index }),
		first("data", "reads", func(l result.Lookups) *float64 { return &l.BlockTypes.Data }),
		first("blocks", "bytes", func(l result.Lookups) *float64 { return l.BlockBytes.Pointer() }),
		in.reads("a chunk", "of code", result.CodeLookup, result.FirstLookups),
		in.reads("absent", "chunk", result.AbsentCodeLookup, result.FirstLookups),
		duration("root", "CPU us", doc.Micros, func(r result.LayoutRow) *float64 {
			return doc.From(r.Updates, func(u *result.StateUpdates) *float64 {
				return u.HashNanos.Pointer()
			})
		}))
}

const (
	trafficMethod = "access-lists.md"
	trafficNote   = "Reads of each account and slot that a block touches first, beside lookups " +
		"of random accounts and slots of the generated state; " +
		"warm across blocks with memory held, and cold: each block right after an opening. 64 in " +
		"flight: as a client prefetches that has the block's access list."
)

// traffic is what blocks of an access list cost beside lookups of random accounts and slots.
func (in Input) traffic() doc.Table {
	played := doc.Where(in.measured(), func(of row) bool { return of.Traffic != nil })
	of := func(
		name, unit string, format func(float64) string, kind string, many bool,
		value func(result.Lookups) *float64,
	) column {
		return lookedUp(name, unit, format, func(l result.Lookups) bool {
			return l.Kind == kind && l.Condition == result.HeldLookups && l.InFlight > 1 == many
		}, value)
	}

	device := func(l result.Lookups) *float64 { return doc.Some(l.DeviceBytes) }
	rate := func(l result.Lookups) *float64 { return doc.Some(l.PerSecond) }
	return doc.TableOf(played, nil, layoutKey,
		in.reads("random", "accounts", result.AccountLookup, result.HeldLookups),
		in.reads("random", "slots", result.SlotLookup, result.HeldLookups),
		in.reads("blocks", "held", result.BlockAccess, result.HeldLookups),
		in.reads("blocks", "cold", result.BlockAccess, result.ColdLookups),
		of("random", "B, slots", nil, result.SlotLookup, false, device),
		of("blocks", "B, held", nil, result.BlockAccess, false, device),
		of("1 in flight", "per s", doc.ShortCount, result.BlockAccess, false, rate),
		of("64 in flight", "per s", doc.ShortCount, result.BlockAccess, true, rate),
		duration("a write", "us", doc.Micros, func(r result.LayoutRow) *float64 {
			return doc.When(r.Traffic.Writes > 0, r.Traffic.WriteNanos)
		}))
}

// trafficRoots says what the blocks' roots were held against.
func (in Input) trafficRoots() string {
	names := func(is func(*result.StateTraffic) bool) string {
		return doc.List(
			doc.Where(in.measured(), func(of row) bool {
				return of.Traffic != nil && is(of.Traffic)
			}),
			func(of row) string { return of.Layout },
		)
	}

	var texts []string
	if own := names(func(t *result.StateTraffic) bool { return t.RootsCompared > 0 }); own != "" {
		texts = append(texts, "State roots after each block equal the headers': "+own+".")
	}

	if back := names(func(t *result.StateTraffic) bool {
		return t.RootsCompared == 0 && t.ReadBackRoot != ""
	}); back != "" {
		texts = append(texts, "Read back after the last block, all accounts and slots make its "+
			"header's root: "+back+".")
	}

	return strings.Join(texts, " ")
}

// upkeep is what keeping and changing the state costs.
func (in Input) upkeep() doc.Table {
	update := func(
		name, unit string, format func(float64) string, value func(*result.StateUpdates) *float64,
	) column {
		return rowColumn(name, unit, format,
			func(r result.LayoutRow) *float64 { return doc.From(r.Updates, value) })
	}

	return doc.TableOf(in.measured(), nil, layoutKey, disk,
		columnOf(figure.UpdateTime, func(r result.LayoutRow) figure.Value { return r.UpdateNanos }),
		update("root", "", nil, func(u *result.StateUpdates) *float64 {
			return doc.Via(u.CommitNanos, p50Of)
		}).In(doc.Millis).Named("root", "p50 ms"),
		update("new nodes", "/update", nil,
			func(u *result.StateUpdates) *float64 { return u.NodesPerUpdate.Pointer() }),
		update("read calls", "/update", doc.PerGet, func(u *result.StateUpdates) *float64 {
			return &u.ReadCallsPerUpdate
		}),
		update("written", "times", nil, func(u *result.StateUpdates) *float64 {
			return &u.WriteAmplification
		}),
		columnOf(figure.OpenTime, func(r result.LayoutRow) figure.Value { return r.OpenNanos }),
		columnOf(figure.PeakMemory,
			func(r result.LayoutRow) figure.Value { return r.PeakRSSBytes }).
			Suited(in.rows()))
}

// model compares the reads that a model of the caches predicted with those that were
// measured, below the layout's own caches and below the page cache.
func (in Input) model() doc.Table {
	rows := doc.Where(in.measured(), func(of row) bool {
		return of.PredictedHeldReads.IsKnown() ||
			of.PredictedDeviceReads.IsKnown()
	})

	held := rowColumn("predicted", "reads", doc.PerGet,
		func(r result.LayoutRow) *float64 { return r.PredictedHeldReads.Pointer() })
	device := rowColumn("predicted", "device", doc.PerGet,
		func(r result.LayoutRow) *float64 { return r.PredictedDeviceReads.Pointer() })
	return doc.TableOf(rows, nil, layoutKey, blockReads, held, offBy(blockReads, held),
		deviceReads, device, offBy(deviceReads, device))
}

// offBy is how far a prediction is off. Of a lookup in twenty that reads at all a share
// says little: there it is left out.
func offBy(measured, predicted column) column {
	const few = .05
	return column{
		Name:   "off by",
		Format: func(v float64) string { return fmt.Sprintf("%+d %%", int(math.Round(v))) },
		Value: func(of row) *float64 {
			m, p := measured.Value(of), predicted.Value(of)
			if m == nil || p == nil || *m < few {
				return nil
			}
			return doc.Some(100 * (*p / *m - 1))
		},
	}
}

// ahead is a layout at a size that was not built.
type ahead struct {
	layout   string
	accounts uint64
}

// outlook has figures of sizes that were not built, a row per layout and size: nodes,
// reads without a cache, device reads by the memory.
func (in Input) outlook() doc.Table {
	held := doc.Where(in.Outlook, func(o result.LayoutOutlook) bool {
		return o.MemoryBytes > 0 && !o.PerAccount
	})
	budgets := doc.Each(held, func(o result.LayoutOutlook) int64 { return o.MemoryBytes })
	slices.Sort(budgets)
	reads := func(name, unit string, value func(ahead) *float64) doc.Column[ahead] {
		return doc.Optional(name, unit, doc.PerGet, value)
	}
	columns := []doc.Column[ahead]{
		doc.Words("layout", func(a ahead) string {
			return a.layout + " " + doc.ShortCount(a.accounts)
		}).Named("layout", "accounts"),
		reads("nodes", "", func(a ahead) *float64 {
			return claims.Value(in.Ahead(a.layout, figure.NodesPerLookup.Key, a.accounts, 0))
		}),
		reads("reads", "no cache", func(a ahead) *float64 {
			return claims.Value(in.Ahead(a.layout, figure.ReadsPerLookup.Key, a.accounts, 0))
		}),
		reads("device reads", in.memoryAlike(), func(a ahead) *float64 {
			if i, ok := in.Largest(a.layout); ok && in.Share(i) >= 1 {
				return nil // it fitted in memory, and would again
			}
			return claims.Value(in.AheadAlike(a.layout, figure.DeviceReadsPerLookup.Key,
				a.accounts))
		}),
	}

	for _, budget := range slices.Compact(budgets) {
		columns = append(columns,
			reads("device reads", doc.ShortBytes(budget), func(a ahead) *float64 {
				return in.Predicted(a.layout, a.accounts, budget)
			}))
	}

	var rows []ahead
	for _, name := range in.Names() {
		for _, accounts := range in.SizesAhead("") {
			a := ahead{name, accounts}
			if slices.ContainsFunc(columns[1:], func(c doc.Column[ahead]) bool {
				return c.Value(a) != nil
			}) {
				rows = append(rows, a)
			}
		}
	}

	return doc.TableOf(rows, nil, columns...)
}

// memoryAlike is the memory that the run had for each account, in bytes, at the largest
// size of each layout.
func (in Input) memoryAlike() string {
	all := doc.Without(doc.Distinct(in.Outlook, func(o result.LayoutOutlook) string {
		if !o.PerAccount {
			return ""
		}
		return doc.ShortBytes(int64(math.Round(float64(o.MemoryBytes)/float64(o.Accounts)))) +
			"/account"
	}))

	if len(all) == 1 {
		return all[0]
	}

	return "as here, per account" // a layout failed at the largest size
}

// kind is one kind of lookup of a row.
type kind struct {
	of row
	result.Lookups
}

// kinds has every kind of lookup in every condition.
func (in Input) kinds() doc.Table {
	var all []kind
	for i, r := range in.Rows {
		for _, look := range r.Lookups {
			all = append(all, kind{row{r, i}, look})
		}
	}

	number := func(
		name, unit string, format func(float64) string, value func(result.Lookups) *float64,
	) doc.Column[kind] {
		return doc.Optional(name, unit, format, func(k kind) *float64 { return value(k.Lookups) })
	}

	quantile := func(name string, value func(*result.Latency) float64) doc.Column[kind] {
		return number(name, "", nil, func(l result.Lookups) *float64 {
			return doc.Via(l.ServiceNanos, value)
		}).In(doc.Micros)
	}

	return doc.TableOf(all, nil,
		doc.Words("layout", func(k kind) string { return layoutKey.Words(k.of) }).Named("layout",
			"accounts"),
		doc.Words("lookup", func(k kind) string { return strings.ReplaceAll(k.Kind, "_", " ") }),
		doc.Words("condition", func(k kind) string { return k.Condition }),
		number("in flight", "", doc.Digits, func(l result.Lookups) *float64 {
			return doc.Some(float64(l.InFlight))
		}),
		number("nodes", "", nil, func(l result.Lookups) *float64 { return l.Nodes.Pointer() }),
		number("pages", "", nil, func(l result.Lookups) *float64 { return l.Pages.Pointer() }),
		number("block reads", "", doc.PerGet,
			func(l result.Lookups) *float64 { return l.BlockReads.Pointer() }),
		number("read calls", "", doc.PerGet,
			func(l result.Lookups) *float64 { return &l.ReadCalls }),
		number("faults", "", doc.PerGet, func(l result.Lookups) *float64 { return &l.MajorFaults }),
		number("device reads", "", doc.PerGet,
			func(l result.Lookups) *float64 { return l.DeviceReads.Pointer() }),
		number("device", "bytes", nil, func(l result.Lookups) *float64 { return &l.DeviceBytes }),
		quantile("p50", p50Of), quantile("p99", p99Of),
		number("per second", "", doc.ShortCount, func(l result.Lookups) *float64 {
			return &l.PerSecond
		}))
}

// labels say what each layout is.
func (in Input) labels() doc.Table {
	each := slices.CompactFunc(in.rows(), func(a, b row) bool { return a.Layout == b.Layout })
	return doc.ListOf(
		[]string{"layout", "version", "root rule", "durability", "history"},
		each,
		func(of row) []string {
			return []string{of.Layout, of.Version, of.RootRule, of.Durability, of.History}
		},
	)
}

// spread is the range of figures over repeats; without rows where nothing was repeated.
func (in Input) spread() doc.Table {
	between := func(name, unit, figure string, scale float64) column {
		return column{Name: name, Unit: unit, Words: func(of row) string {
			r, known := of.Spread[figure]
			if !known {
				return doc.None
			}
			return doc.Number(r.Low*scale) + " to " + doc.Number(r.High*scale)
		}}
	}

	repeated := doc.Where(in.measured(), func(of row) bool { return len(of.Spread) > 0 })
	return doc.TableOf(repeated, failure, layoutKey,
		column{Name: "runs", Words: func(of row) string { return fmt.Sprint(len(of.Runs)) }},
		between("lookup", "us, mean", figure.LookupTime.Key, 1e-3), between("reads", "/lookup",
			figure.BlockReadsPerLookup.Key, 1),
		between("device reads", "/lookup", figure.DeviceReadsPerLookup.Key, 1), between("update",
			"us", figure.UpdateTime.Key, 1e-3))
}
