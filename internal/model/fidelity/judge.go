package fidelity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/predict"
)

// Table is a table of a database: its levels, and how its program writes them.
type Table struct {
	Name    string         `json:"name"`
	Keys    int64          `json:"keys"`
	Bytes   int64          `json:"bytes"`
	Levels  []engine.Level `json:"levels"`
	Options Options        `json:"options"`
	Values  *engine.Values `json:"values,omitempty"` // outside its tables
}

// Options are what a program wants new tables to be. The zero value of a field is not known.
type Options struct {
	Source     string  `json:"source,omitempty"` // in words; "" if nothing is known
	BlockBytes int64   `json:"block_bytes,omitempty"`
	FilterBits float64 `json:"filter_bits,omitempty"`
	NoFilter   bool    `json:"no_filter,omitempty"`
	L0Tables   int     `json:"l0_tables,omitempty"` // from which on L0 is compacted
	BaseBytes  int64   `json:"base_bytes,omitempty"`
	Multiplier float64 `json:"multiplier,omitempty"`
	// Style is how RocksDB compacts, unless it is by levels: such a database has no sizes of levels
	// to come to, and with FIFO compaction it keeps all tables in L0.
	Style string `json:"compaction_style,omitempty"`
}

// Compaction styles of RocksDB, as its options name them.
const (
	leveledStyle   = "kCompactionStyleLevel"
	universalStyle = "kCompactionStyleUniversal"
)

// What RocksDB and Pebble do where options do not say otherwise.
const (
	usualL0Tables   = 4
	usualMultiplier = 10
	usualBaseBytes  = 64 << 20
)

// Price is the number of block reads of a Get on levels.
type Price func(levels []engine.Level) (float64, error)

// Kinds of differences.
const (
	Filters = "filters"
	Debt    = "debt in L0"
	Sizes   = "level sizes"
	Blocks  = "block size"
	Entries = "keys and values"
	Missing = "missing table"
)

// Difference is one way in which a table is not as it should be.
type Difference struct {
	Kind     string `json:"kind"`
	Here     string `json:"here"`
	Expected string `json:"expected"`
	// Extra is how many block reads more a Get makes because of it; below 0: fewer, so that
	// a measurement flatters.
	Extra  float64 `json:"extra_reads_per_get"`
	Remedy string  `json:"remedy,omitempty"`
}

// Verdict is what was found of a table.
type Verdict struct {
	Table
	// ReadsPerGet is the price of the levels as they are, ExpectedReadsPerGet without all
	// differences.
	ReadsPerGet         float64      `json:"reads_per_get"`
	ExpectedReadsPerGet float64      `json:"expected_reads_per_get"`
	FilterBits          float64      `json:"filter_bits_per_key"`
	FilteredPercent     float64      `json:"filtered_percent"` // of the keys above the last level
	BlockBytes          float64      `json:"mean_block_bytes"` // in a cache
	KeyBytes            float64      `json:"mean_key_bytes,omitempty"`
	ValueBytes          float64      `json:"mean_value_bytes,omitempty"`
	SortedRuns          int          `json:"sorted_runs"`
	Differences         []Difference `json:"differences"`
	// TooSmall tells that a node's database of this size has a single level: its shape, and what a
	// larger one would read, cannot be told from it, only what its options change. Up to so many
	// bytes it has one.
	TooSmall int64 `json:"too_small_below_bytes,omitempty"`
}

// worthTelling is the least number of reads per Get for which sizes of levels are told: no
// two nodes have the same, but none has most of its keys in L0.
const worthTelling = 0.01

// Compare compares a table with one of a node that has run for long or, where given, with b.
func Compare(a Table, b *Table, price Price) (v Verdict, err error) {
	v = describe(a)
	if v.Keys == 0 {
		return v, nil
	}

	if v.ReadsPerGet, err = price(a.Levels); err != nil {
		return v, fmt.Errorf("table %s: %w", a.Name, err)
	}

	// One is taken away after the other, so that what they cost adds up.
	v.ExpectedReadsPerGet = v.ReadsPerGet
	levels := a.Levels
	base := cmp.Or(a.Options.BaseBytes, usualBaseBytes)
	leveled := a.Options.Style == "" // the other styles have no sizes of levels
	if b == nil && leveled && len(withoutEmpty(settled(levels, base, usualMultiplier))) < 2 {
		v.TooSmall = base
	}

	for _, c := range changes(a, b) {
		if c.Kind == Sizes && v.TooSmall > 0 && !mostInL0(levels) {
			continue
		}

		without := c.change(levels)
		reads, err := price(without)
		if err != nil {
			return v, fmt.Errorf("table %s, %s: %w", a.Name, c.Kind, err)
		}

		if c.Extra = v.ExpectedReadsPerGet - reads; c.Kind == Sizes &&
			math.Abs(c.Extra) < worthTelling && !mostInL0(levels) {
			continue
		}

		v.Differences = append(v.Differences, c.Difference)
		v.ExpectedReadsPerGet, levels = reads, without
	}

	return v, nil
}

func withoutEmpty(levels []engine.Level) []engine.Level {
	return slices.DeleteFunc(slices.Clone(levels), func(l engine.Level) bool { return l.Keys == 0 })
}

func describe(a Table) Verdict {
	v := Verdict{Table: a, SortedRuns: len(runsOf(a.Levels)), Differences: []Difference{}}
	all := total(a.Levels)
	last := predict.Deepest(a.Levels)
	var above, inFilters, bits, bitsKeys float64
	for i, l := range a.Levels {
		if i != last || l.Level == 0 && l.Sublevels > 1 {
			above += float64(l.Keys)
			inFilters += filtered(l) * float64(l.Keys)
		}

		if filtered(l) > 0 {
			bits += 8 * float64(l.FilterBytes)
			bitsKeys += filtered(l) * float64(l.Keys)
		}
	}

	if v.FilteredPercent = 100; above > 0 {
		v.FilteredPercent = 100 * inFilters / above
	}

	if bitsKeys > 0 {
		v.FilterBits = bits / bitsKeys
	}

	if all.DataBlocks > 0 {
		v.BlockBytes = blockBytes(all) - handleBytes
	}

	if all.RawKeyBytes > 0 {
		v.KeyBytes = float64(all.RawKeyBytes)/float64(all.Keys) - trailerBytes
		v.ValueBytes = float64(all.RawValueBytes) / float64(all.Keys)
	}

	return v
}

// trailerBytes are what tables keep with each key: its sequence number and kind.
const trailerBytes = 8

// change is a difference and how to take it away.
type change struct {
	Difference
	change func([]engine.Level) []engine.Level
}

func changes(a Table, b *Table) []*change {
	all := []*change{filters(a, b), debt(a, b), sizes(a, b), blocks(a, b), entries(a, b)}
	return slices.DeleteFunc(all, func(c *change) bool { return c == nil })
}

func filters(a Table, b *Table) *change {
	which := lacking(a.Levels)
	if len(which) == 0 || b != nil && len(lacking(b.Levels)) > 0 {
		return nil
	}

	var names []string
	for _, l := range which {
		text := fmt.Sprintf("L%d", l.Level)
		if share := filtered(l); share > 0 {
			text += fmt.Sprintf(" (%.0f%% have one)", 100*share)
		}
		names = append(names, text)
	}

	bits := a.Options.FilterBits
	if b != nil {
		bits = describe(*b).FilterBits
	}

	bits = cmp.Or(bits, usualBits)
	c := change{
		Difference{Kind: Filters, Here: "keys of " + strings.Join(names, ", ") + " without filters",
			Expected: fmt.Sprintf("filters of %.0f bits per key on all levels but the last", bits),
			Remedy:   "set a filter policy, then rewrite the tables with a full compaction"},
		func(levels []engine.Level) []engine.Level { return withFilters(levels, bits) },
	}

	if a.Options.Source != "" && !a.Options.NoFilter {
		c.Remedy = "new tables get filters (" + a.Options.Source +
			"); rewrite the old ones with a full compaction"
	} else if a.Options.NoFilter {
		c.Remedy = "set a filter policy, then rewrite the tables that were written without one " +
			"with a full compaction"
	}

	return &c
}

// l0Runs are the sorted runs of L0.
func l0Runs(levels []engine.Level) int {
	for _, l := range levels {
		if l.Level == 0 && l.Files > 0 {
			return max(1, l.Sublevels)
		}
	}
	return 0
}

func debt(a Table, b *Table) *change {
	maximum := cmp.Or(a.Options.L0Tables, usualL0Tables)
	expected := fmt.Sprintf("at most %d: compactions begin there", maximum)
	if b != nil {
		maximum = max(maximum, l0Runs(b.Levels))
		expected = fmt.Sprint(l0Runs(b.Levels))
	}

	merges := a.Options.Style == "" || a.Options.Style == universalStyle
	runs := l0Runs(a.Levels)
	if runs <= maximum || b == nil && !merges {
		return nil
	}

	return &change{Difference{
		Kind:     Debt,
		Here:     fmt.Sprintf("%d sorted runs in L0", runs),
		Expected: expected,
		Remedy:   "let compactions finish before measuring",
	}, withoutL0}
}

func sizes(a Table, b *Table) *change {
	if b != nil {
		if shares(a.Levels) == shares(b.Levels) {
			return nil
		}
		return &change{Difference{Kind: Sizes, Here: shares(a.Levels), Expected: shares(b.Levels)},
			func(levels []engine.Level) []engine.Level { return like(levels, b.Levels) }}
	}

	if a.Options.Style != "" {
		return nil
	}

	base, multiplier := cmp.Or(a.Options.BaseBytes, usualBaseBytes), a.Options.Multiplier
	if multiplier < 2 {
		multiplier = usualMultiplier
	}

	change := change{
		Difference{Kind: Sizes, Here: shares(a.Levels)},
		func(levels []engine.Level) []engine.Level {
			return settled(levels, base, multiplier)
		},
	}

	now, then := withoutL0(a.Levels), withoutL0(change.change(a.Levels))
	// where every Get asks a filter that the last level would not have
	unsorted := mostInL0(a.Levels)
	if len(now) == len(then) && !unsorted {
		return nil
	}

	change.Expected = shares(change.change(a.Levels))
	maximum := cmp.Or(a.Options.L0Tables, usualL0Tables)
	switch change.Remedy = "overwrite keys until the level sizes no longer change"; {
	case unsorted && l0Runs(a.Levels) <= maximum: // compactions have nothing to do
		change.Remedy = fmt.Sprintf("load more keys: %s are too few for compactions to move them "+
			"out of L0", unit.Count(total(a.Levels).Keys))
	case unsorted || len(now) > len(then):
		change.Remedy = "let compactions finish before measuring"
	}

	return &change
}

// shares tells which part of the keys each level holds.
func shares(levels []engine.Level) string {
	keys := float64(total(levels).Keys)
	var parts []string
	for _, l := range levels {
		if l.Files > 0 {
			parts = append(parts,
				fmt.Sprintf("L%d %s%%", l.Level, unit.Significant(100*float64(l.Keys)/keys, 2)))
		}
	}

	return strings.Join(parts, ", ")
}

// farOff is a factor between sizes of blocks or values from which on it is told.
const farOff = 1.25

func blocks(a Table, b *Table) *change {
	here := describe(a)
	want, why := float64(a.Options.BlockBytes), a.Options.Source
	if b != nil {
		want, why = describe(*b).BlockBytes, "as in the other database"
	}

	// A block holds at least one value, however large.
	if entry := here.KeyBytes + here.ValueBytes; want > 0 && entry > want/2 && b == nil {
		return nil
	}

	if want == 0 || here.BlockBytes == 0 ||
		math.Max(want/here.BlockBytes, here.BlockBytes/want) < farOff {
		return nil
	}

	return &change{
		Difference{
			Kind:     Blocks,
			Here:     bytesWords(here.BlockBytes),
			Expected: bytesWords(want) + " (" + why + ")",
			Remedy:   "rewrite the tables with a full compaction",
		},
		func(levels []engine.Level) []engine.Level {
			all := total(levels)
			bytesPerKey := (blockBytes(all) - handleBytes) * float64(all.DataBlocks) / float64(
				all.Keys,
			)
			return withBlocks(levels, math.Max(1, want/bytesPerKey), bytesPerKey)
		},
	}
}

func entries(a Table, b *Table) *change {
	if b == nil {
		return nil
	}

	here, there := describe(a), describe(*b)
	if here.KeyBytes == 0 || there.KeyBytes == 0 {
		return nil
	}

	size, want := here.KeyBytes+here.ValueBytes, there.KeyBytes+there.ValueBytes
	if math.Max(size/want, want/size) < farOff {
		return nil
	}

	words := func(v Verdict) string {
		return fmt.Sprintf("keys of %.0f B, values of %.0f B", v.KeyBytes, v.ValueBytes)
	}
	return &change{
		Difference{Kind: Entries, Here: words(here), Expected: words(there)},
		func(levels []engine.Level) []engine.Level {
			return withBlocks(levels, math.Max(1, here.BlockBytes/want), want)
		},
	}
}

func bytesWords(n float64) string { return unit.Bytes(int64(n)) + " before compression" }

// JudgeAll judges every table of a, by name beside those of b if it is given. Tables of b that
// a lacks are told as well.
func JudgeAll(a, b []Table, price func(Table) Price) (verdicts []Verdict, err error) {
	for _, t := range a {
		var beside *Table
		if i := slices.IndexFunc(b, func(o Table) bool { return o.Name == t.Name }); i >= 0 {
			beside = &b[i]
		}

		if b != nil && beside == nil || beside != nil && (beside.Keys == 0) != (t.Keys == 0) {
			other := "no such table"
			if beside != nil {
				other = unit.Count(beside.Keys) + " entries"
			}

			v := describe(t)
			v.Differences = append(v.Differences, Difference{
				Kind:     Missing,
				Here:     unit.Count(t.Keys) + " entries",
				Expected: other,
			})

			verdicts = append(verdicts, v)
			continue
		}

		v, err := Compare(t, beside, price(t))
		if err != nil {
			return nil, err
		}

		verdicts = append(verdicts, v)
	}

	for _, o := range b {
		if !slices.ContainsFunc(a, func(t Table) bool { return t.Name == o.Name }) {
			verdicts = append(verdicts, Verdict{
				Table: Table{Name: o.Name},
				Differences: []Difference{
					{
						Kind:     Missing,
						Here:     "no such table",
						Expected: unit.Count(o.Keys) + " entries",
					}},
			})
		}
	}

	return verdicts, nil
}
