package view

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/statelab/statelab/internal/base/unit"
)

// maxTicks keeps tick labels apart at the width of a page.
const maxTicks = 9

// mostTicks is how many ticks have room below a panel.
func (p *Picture) mostTicks() int {
	if p.Beside {
		return (maxTicks + 1) / len(p.Panels)
	}
	return maxTicks
}

// fixedTicks are ticks decided beforehand.
type fixedTicks []plot.Tick

func (t fixedTicks) Ticks(_, _ float64) []plot.Tick { return t }

// x sets the x axis of every panel; its label is below the last, or below each of
// panels side by side.
func (p *Picture) x(label string, set func(*plot.Axis)) {
	for i, panel := range p.Panels {
		set(&panel.X)
		if p.Beside || i == len(p.Panels)-1 {
			panel.X.Label.Text = label
		}
	}
}

// SpanX is how far the lines reach.
func (p *Picture) SpanX() (low, high float64) {
	return span(p.Panels, func(at XY) float64 { return at.X })
}

// Sizes makes x a logarithmic axis of cache sizes in bytes over the lines and further
// places, with the share of a database of dbBytes below each size.
func (p *Picture) Sizes(dbBytes float64, also ...float64) {
	low, high := p.SpanX()
	low, high = slices.Min(append(also, low)), slices.Max(append(also, high))
	label := "cache size"
	if dbBytes > 0 {
		label += ", and as a share of the database"
	}
	p.atX = func(v float64) string {
		words := ShortBytes(int64(v))
		if dbBytes > 0 {
			words += " (" + unit.Significant(100*v/dbBytes, 2) + "% of the database)"
		}
		return words
	}
	p.x(label, func(axis *plot.Axis) {
		logarithmic(axis, low, high)
		octaves := math.Log2(axis.Max / axis.Min)
		every := max(1, int(math.Ceil(octaves/float64(p.mostTicks()))))
		var ticks fixedTicks
		for k := int(math.Floor(math.Log2(axis.Min))); k <= int(math.Log2(axis.Max)); k++ {
			if k%every != 0 {
				continue
			}
			v := math.Exp2(float64(k))
			ticks = append(ticks, sizeTick(v, dbBytes))
			if octaves < float64(p.mostTicks()-1)/2 && every == 1 {
				ticks = append(ticks, sizeTick(1.5*v, dbBytes))
			}
		}
		axis.Tick.Marker = inside(ticks, axis)
	})
}

func sizeTick(v, dbBytes float64) plot.Tick {
	label := ShortBytes(int64(v))
	if dbBytes > 0 {
		label += "\n" + unit.Significant(100*v/dbBytes, 2) + "%"
	}
	return plot.Tick{Value: v, Label: label}
}

// Decades makes x a logarithmic axis.
func (p *Picture) Decades(label string, tick func(float64) string) {
	low, high := p.SpanX()
	p.atX = tick
	p.x(label, func(axis *plot.Axis) { decades(axis, low, high, tick) })
}

// Places makes x a logarithmic axis with ticks at the values given, leaving out those
// whose labels would touch; also widens it.
func (p *Picture) Places(label string, values []float64, tick func(float64) string, also ...float64) {
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	low, high := slices.Min(append(also, values[0])), slices.Max(append(also, values[len(values)-1]))
	p.atX = tick
	p.x(label, func(axis *plot.Axis) {
		logarithmic(axis, low, high)
		var ticks fixedTicks
		last := math.Inf(-1)
		for _, v := range values {
			if place := math.Log(v/axis.Min) / math.Log(axis.Max/axis.Min); place-last > 0.63/float64(p.mostTicks()) {
				ticks = append(ticks, plot.Tick{Value: v, Label: tick(v)})
				last = place
			}
		}
		axis.Tick.Marker = ticks
	})
}

// Linear makes x an axis in round steps from low to high.
func (p *Picture) Linear(label string, low, high float64, tick func(v, step float64) string) {
	step := roundStep((high - low) / 8)
	p.x(label, func(axis *plot.Axis) {
		axis.Min, axis.Max = low, high
		axis.Tick.Marker = steps(step*math.Ceil(low/step), high, step, func(v float64) string { return tick(v, step) })
	})
}

// Percentiles makes x an axis of -log10(1-q), which stretches towards 100%.
func (p *Picture) Percentiles() {
	_, nines := p.SpanX()
	p.atX = func(v float64) string {
		return WithoutZeros(strconv.FormatFloat(100*(1-math.Pow(10, -v)), 'f', max(0, int(math.Ceil(v))), 64))
	}
	p.x("percentile", func(axis *plot.Axis) {
		axis.Min, axis.Max = 0, math.Max(1, nines)*1.02
		ticks := fixedTicks{{Value: 0, Label: "0"}, {Value: -math.Log10(0.5), Label: "50"}}
		for i, label := range []string{"90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"} {
			ticks = append(ticks, plot.Tick{Value: float64(i + 1), Label: label})
		}
		axis.Tick.Marker = inside(ticks, axis)
	})
}

// names makes x an axis of places 0, 1, 2, ... with a name each.
func (p *Picture) names(label string, texts []string) {
	p.x(label, func(axis *plot.Axis) {
		axis.Min, axis.Max = -0.6, float64(len(texts))-0.4
		var ticks fixedTicks
		for i, text := range texts {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: text})
		}
		axis.Tick.Marker = nameTicks{ticks}
		axis.Tick.Color = color.Transparent // keeps the distance to the names
	})
}

// FitY fits y to the lines: from 0, unless the panel may be logarithmic and that would
// press most points together. tick nil: with the decimals that the steps need.
func (p *Panel) FitY(tick func(float64) string) {
	low, high := span([]*Panel{p}, func(at XY) float64 { return at.Y })
	p.atY = tick
	switch {
	case math.IsInf(low, 1):
	case p.LogY && high > 4*low:
		decades(&p.Y, low/1.2, high*1.2, tick)
		p.Y.Label.Text += logMark
	default:
		fromZero(&p.Y, 1.06*high, tick)
	}
}

// logMark says that an axis is logarithmic.
const logMark = " (log scale)"

// FitPercents makes y an axis of 0 to 100, with room for lines at both ends.
func (p *Panel) FitPercents() {
	p.Y.Min, p.Y.Max = -2, 102
	p.Y.Tick.Marker = steps(0, 100, 20, func(v float64) string { return Trimmed(v, 20) })
}

// fromZero sets an axis to 0..top with round steps.
func fromZero(axis *plot.Axis, top float64, tick func(float64) string) {
	if !(top > 0) || !Sane(top) {
		top = 1
	}
	step := roundStep(top / 7)
	axis.Min, axis.Max = 0, step*math.Ceil(top/step*0.9999)
	axis.Tick.Marker = steps(0, axis.Max, step, func(v float64) string {
		switch {
		case tick == nil:
			return Trimmed(v, step)
		case v == 0:
			return "0"
		}
		return tick(v)
	})
}

// steps are ticks from low to high.
func steps(low, high, step float64, label func(float64) string) fixedTicks {
	const most = 100
	var ticks fixedTicks
	for i := range most {
		v := low + float64(i)*step
		if !(v <= high+step/1e3) {
			break
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
	}
	return ticks
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

// Trimmed prints a tick with the decimals its step needs; thousands as k.
func Trimmed(v, step float64) string {
	if step >= 1000 {
		return unit.ShortCount(v)
	}
	decimals := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	return fmt.Sprintf("%.*f", decimals, v)
}

// decades sets a logarithmic axis with ticks at 1, 2, 5 times powers of ten, at more where these
// would be two or three, or at fewer where they would crowd.
func decades(axis *plot.Axis, low, high float64, label func(float64) string) {
	logarithmic(axis, low, high)
	span := math.Log10(axis.Max / axis.Min)
	factors := []float64{1, 2, 5}
	switch {
	case span > 6:
		factors = []float64{1}
	case span > 2.5:
		factors = []float64{1, 3}
	case span < 1.2:
		factors = []float64{1, 1.5, 2, 3, 4, 5, 7}
	}
	var ticks fixedTicks
	for e := int(math.Floor(math.Log10(axis.Min))); e <= int(math.Log10(axis.Max)); e++ {
		for _, f := range factors {
			v := f * math.Pow10(e)
			ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
		}
	}
	axis.Tick.Marker = inside(ticks, axis)
}

// logarithmic sets an axis to a range with room at its ends. A range that no machine
// measures becomes one that can be drawn: an axis has at most some thirty decades.
func logarithmic(axis *plot.Axis, low, high float64) {
	axis.Scale = plot.LogScale{}
	if !(low > 0) || !(high >= low) || !Sane(high) {
		axis.Min, axis.Max = 0.5, 2
		return
	}
	low = math.Max(low, 1/mostOf)
	high = math.Max(low, high)
	room := math.Max(1.08, math.Pow(high/low, 0.03))
	axis.Min, axis.Max = low/room, high*room
}

// inside drops ticks outside the axis.
func inside(ticks fixedTicks, axis *plot.Axis) fixedTicks {
	return slices.DeleteFunc(ticks, func(t plot.Tick) bool { return t.Value < axis.Min || t.Value > axis.Max })
}
