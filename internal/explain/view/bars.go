package view

import (
	"cmp"
	"math"
	"slices"
)

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
func Ranges[R any](about, x string, y Axis, rows []R, name func(R) string, of func(R) (float64, Range)) *Chart {
	set := BarSet{Color: Blue, Values: [][]float64{nil}}
	b := Bars{About: about, X: x, Panels: []Axis{y}}
	for _, r := range rows {
		at, span := of(r)
		b.Groups, set.Values[0], set.Spans = append(b.Groups, name(r)), append(set.Values[0], at), append(set.Spans, span)
	}
	b.Sets = []BarSet{set}
	return b.Chart(nil)
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
			i, found := slices.BinarySearchFunc(s.Points, x, func(at XY, x float64) int { return cmp.Compare(at.X, x) })
			if found {
				sum += s.Points[i].Y
			}
		}
	}
	return sum
}
