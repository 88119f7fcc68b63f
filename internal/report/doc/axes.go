package doc

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/statelab/statelab/internal/base/unit"
)

// Axis is what an axis says and how its values are printed. How far it reaches follows from
// what is drawn.
type Axis struct {
	Label  string    `json:"label"`
	Unit   string    `json:"unit,omitempty"`
	Kind   Kind      `json:"kind,omitempty"`
	Format Format    `json:"format,omitempty"`
	Whole  float64   `json:"whole,omitempty"` // the bytes that sizes are shares of
	At     []float64 `json:"at,omitempty"`    // the places of ticks
	Names  []string  `json:"names,omitempty"` // of the places 0, 1, 2, ...
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
}

// Kind is how values become places on an axis.
type Kind string

// Kinds of axes.
const (
	Plain   Kind = ""       // from 0 in round steps
	Logs    Kind = "log"    // of a y axis: where the values span enough for it
	Shares  Kind = "shares" // 0 to 100
	sized   Kind = "sizes"  // logarithmic, with ticks at powers of two
	placed  Kind = "places" // logarithmic, with ticks at given places
	nines   Kind = "nines"  // -log10(1-q), which stretches towards 100%
	grouped Kind = "groups" // places 0, 1, 2, ... with names
)

// Sizes is an axis of cache sizes in bytes, with the share of a database of whole bytes
// below each.
func Sizes(whole float64) Axis {
	return Axis{Label: "cache size", Kind: sized, Format: AsBytes, Whole: whole}
}

// Decades is a logarithmic axis.
func Decades(label string, format Format) Axis {
	return Axis{Label: label, Kind: Logs, Format: format}
}

// Places is a logarithmic axis with ticks at the values given, as far as their labels do not
// touch.
func Places(label string, values []float64, format Format) Axis {
	return Axis{
		Label:  label,
		Kind:   placed,
		Format: format,
		At:     slices.Compact(slices.Sorted(slices.Values(values))),
	}
}

// Linear is an axis from 0 in round steps, or from below 0 where the values are.
func Linear(label string, format Format) Axis {
	return Axis{Label: label, Kind: Plain, Format: format}
}

// Percents is an axis from 0 to 100, with room for lines at both ends.
func Percents(label string) Axis { return Axis{Label: label, Unit: "%", Kind: Shares} }

// Percentiles is an axis of -log10(1-q).
func Percentiles() Axis {
	return Axis{
		Label:  "percentile",
		Kind:   nines,
		Format: AsPercentile,
		At:     []float64{0, -math.Log10(0.5), 1, 2, 3, 4, 5, 6, 7},
	}
}

// logarithmic tells whether no value may be 0.
func (a *Axis) logarithmic() bool { return a.Kind == Logs || a.Kind == sized || a.Kind == placed }

// title is what stands at the axis.
func (a *Axis) title(y bool) string {
	text := a.Label
	if a.Unit != "" {
		text += ", " + a.Unit
	}

	if a.Whole > 0 {
		text += ", and as a share of the database"
	}

	if y && a.Kind == Logs {
		text += " (log scale)"
	}

	return text
}

// reach sets how far the axis reaches. A range that no machine measures becomes one that can
// be drawn: a logarithmic axis has at most some thirty decades.
func (a *Axis) reach(low, high float64) {
	switch a.Kind {
	case Shares:
		a.Min, a.Max = -2, 102
	case grouped:
		a.Min, a.Max = -0.6, float64(len(a.Names))-0.4
	case nines:
		a.Min, a.Max = 0, math.Max(1, high)*1.02
	case Plain:
		a.Min = math.Min(0, low)
		if a.Max = high; !(high > a.Min) || !Sane(high) {
			a.Min, a.Max = 0, 1
		}
		step := roundStep((a.Max - a.Min) / 7)
		a.Max = step * math.Ceil(1.02*a.Max/step)
	default:
		for _, v := range a.At {
			low, high = math.Min(low, v), math.Max(high, v)
		}

		if !(low > 0) || !(high >= low) || !Sane(high) {
			a.Min, a.Max = 0.5, 2
			return
		}

		low = math.Max(low, 1/maxOf)
		high = math.Max(low, high)
		room := math.Max(1.08, math.Pow(high/low, 0.03))
		if low == high {
			room = 2
		}

		a.Min, a.Max = low/room, high*room
	}
}

// Format says how the values of an axis are printed. The page's script knows the same ones.
type Format string

// Formats of values.
const (
	AsNumber     Format = ""
	AsCount      Format = "count"
	AsNanos      Format = "nanos"
	AsBytes      Format = "bytes"
	AsPercent    Format = "percent"
	AsPercentile Format = "percentile"
)

// print is a value in a format.
func (f Format) print(v float64) string {
	switch {
	case v == 0:
		return "0"
	case f == AsCount:
		return ShortCount(v)
	case f == AsNanos:
		return ShortNanos(v)
	case f == AsBytes:
		return ShortBytes(int64(v))
	case f == AsPercent:
		return ShortPercent(v)
	case f == AsPercentile:
		return WithoutZeros(strconv.FormatFloat(100*(1-math.Pow(10, -v)), 'f',
			max(0, int(math.Ceil(v))), 64))
	}

	return WithoutZeros(Number(v))
}

// tick is a place on an axis and its label.
type tick struct {
	at    float64
	label string
}

// ticks are as many as have room: labels is how many do.
func (a *Axis) ticks(labels int) (all []tick) {
	switch {
	case a.Kind == grouped:
		for i, name := range a.Names {
			all = append(all, tick{float64(i), name})
		}
		return all
	case a.Kind == placed || a.Kind == nines:
		last := math.Inf(-1)
		for _, v := range a.At {
			if place := a.place(v); v <= a.Max && place-last > 0.63/float64(labels) {
				all, last = append(all, tick{v, a.Format.print(v)}), place
			}
		}
		return all
	}

	for _, level := range a.levels() {
		if all = a.inside(level); len(all) <= labels {
			break
		}
	}

	return all
}

// place is where a value is on the axis, from 0 to 1.
func (a *Axis) place(v float64) float64 {
	if a.logarithmic() {
		return math.Log(v/a.Min) / math.Log(a.Max/a.Min)
	}
	return (v - a.Min) / (a.Max - a.Min)
}

// levels are lists of places, from the densest.
func (a *Axis) levels() (all [][]float64) {
	switch a.Kind {
	case sized:
		octaves := func(every int, factors ...float64) (level []float64) {
			for k := 0; k <= int(math.Log2(a.Max)); k += every {
				for _, f := range factors {
					level = append(level, f*math.Exp2(float64(k)))
				}
			}

			return level
		}

		for _, every := range []int{1, 2, 5, 10} {
			all = append(all, octaves(every, 1))
		}

		return append([][]float64{octaves(1, 1, 1.5)}, all...)
	case Logs:
		for _, factors := range [][]float64{{1, 1.5, 2, 3, 4, 5, 7}, {1, 2, 5}, {1, 3}, {1}} {
			var level []float64
			for e := int(math.Floor(math.Log10(a.Min))); e <= int(math.Log10(a.Max)); e++ {
				for _, f := range factors {
					level = append(level, f*math.Pow10(e))
				}
			}

			all = append(all, level)
		}

		return all
	}

	for fewer := 7.0; fewer > 0; fewer-- {
		step := roundStep((a.Max - a.Min) / fewer)
		var level []float64
		for k := math.Ceil(a.Min / step); k*step <= a.Max*1.0001; k++ {
			level = append(level, k*step)
		}

		all = append(all, level)
	}

	return all
}

// inside are the places on the axis, with labels.
func (a *Axis) inside(places []float64) (all []tick) {
	for _, v := range places {
		if v < a.Min || v > a.Max*1.0001 {
			continue
		}

		label := a.Format.print(v)
		if a.Whole > 0 {
			label += "\n" + WithoutZeros(unit.Significant(100*v/a.Whole, 2)) + "%"
		}

		all = append(all, tick{v, label})
	}

	return all
}

// roundStep is the smallest of 1, 2, 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	if !(v > 0) || !Sane(v) {
		return 1
	}

	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*0.9999 {
			return m * power
		}
	}

	return 10 * power
}

// Bars are groups of bars, in panels above or beside each other.
type Bars struct {
	About, X string
	Groups   []string
	Panels   []Axis
	Sets     []BarSet
	Stacked  bool // the sets stand on each other, not side by side
	Beside   bool // the panels
}

// Ranges is a bar for each row, with its range; nil if there is none.
func Ranges[R any](
	about, x string, y Axis, rows []R, name func(R) string, of func(R) (float64, Range),
) *Chart {
	set := BarSet{Color: Blue, Values: [][]float64{nil}}
	for _, r := range rows {
		at, span := of(r)
		set.Values[0], set.Spans = append(set.Values[0], at), append(set.Spans, span)
	}

	return Bars{
		About:  about,
		X:      x,
		Panels: []Axis{y},
		Groups: Each(rows, name),
		Sets:   []BarSet{set},
	}.Chart(nil)
}

// BarSet is a bar of each group.
type BarSet struct {
	Name   string
	Color  Color
	Values [][]float64 // by panel, by group; 0: no bar
	Failed []bool      // by group: a cross stands there
	Spans  []Range     // by group, over the first panel's bars
	Limits [][]float64 // by panel, by group: a line across the bar's place; 0: none
}

// Chart draws the bars; nil if there is none. Over stacked bars stands their sum.
func (b Bars) Chart(sum func(float64) string) *Chart {
	c := NewChart(b.About, Axis{Label: b.X, Kind: grouped, Names: b.Groups}, b.Panels...)
	c.Beside = b.Beside
	columns, form := len(b.Sets), bar
	if b.Stacked {
		columns, form = 1, stack
		slices.Reverse(b.Sets) // from the top
	}

	breath := math.Min(1/float64(columns+1), 0.085*float64(len(b.Groups)))
	drawn := false
	for n, p := range c.Panels {
		sums := make(XYs, len(b.Groups))
		for i, set := range b.Sets {
			s := Series{Name: set.Name, Form: form, Style: Style{Color: set.Color}, Breath: breath}
			for g, v := range set.Values[n] {
				at := XY{X: float64(g), Y: v}
				if !b.Stacked {
					at.X += breath * (float64(i) - float64(columns-1)/2)
				}

				if n == 0 && set.Spans != nil && set.Spans[g].Low > 0 {
					at.Low, at.High = set.Spans[g].Low, set.Spans[g].High
				}

				if set.Failed != nil && set.Failed[g] {
					s.Failed = append(s.Failed, at.X)
				}

				if v > 0 || !Sane(v) {
					s.Points = append(s.Points, at)
					sums[g] = XY{X: at.X, Y: sums[g].Y + v}
				}

				if set.Limits != nil && set.Limits[n][g] > 0 && Sane(set.Limits[n][g]) && v > 0 {
					s.Limits = append(s.Limits, XY{X: at.X, Y: set.Limits[n][g]})
				}
			}

			s.Points = p.sane(s.Points)
			if drawn = drawn || len(s.Points) > 0; len(s.Points) == 0 {
				s.Name, s.Empty = s.Name+" (failed)", true
			}

			if len(s.Points) > 0 || len(s.Failed) > 0 {
				p.Series = append(p.Series, s)
			}
		}

		if b.Stacked {
			for g := range sums {
				sums[g].Text = sum(sums[g].Y)
			}
			p.Labels(slices.DeleteFunc(sums, func(at XY) bool { return at.Y == 0 }))
		}
	}

	if !drawn || !c.Drawn() {
		return nil
	}

	return c
}

// bottom is where a stacked series ends at a place: on the sum of those below it.
func (p *Panel) bottom(nth int, x float64) (sum float64) {
	for _, s := range p.Series[nth+1:] {
		if s.stacks() {
			i, found := slices.BinarySearchFunc(s.Points, x, func(at XY, x float64) int {
				return cmp.Compare(at.X, x)
			})
			if found {
				sum += s.Points[i].Y
			}
		}
	}

	return sum
}
