package report

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"

	"github.com/statelab/statelab/internal/base/unit"
)

// maxTicks keeps tick labels apart at the width of a page.
const maxTicks = 9

// fixedTicks are ticks decided beforehand.
type fixedTicks []plot.Tick

func (t fixedTicks) Ticks(_, _ float64) []plot.Tick { return t }

// linear sets a panel's y axis to 0..top with round steps.
func linear(axis *plot.Axis, top float64) {
	if !(top > 0) || math.IsInf(top, 0) {
		top = 1
	}
	step := roundStep(top / 7)
	axis.Min, axis.Max = 0, step*math.Ceil(top/step*0.9999)
	axis.Tick.Marker = steps(0, axis.Max, step, func(v float64) string { return trimmed(v, step) })
}

// steps are ticks from low to high.
func steps(low, high, step float64, label func(float64) string) fixedTicks {
	var ticks fixedTicks
	for i := 0; ; i++ {
		v := low + float64(i)*step
		if v > high+step/1e3 || i > 100 {
			return ticks
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
	}
}

// roundStep is the smallest of 1, 2, 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*0.9999 {
			return m * power
		}
	}
	return 10 * power
}

// trimmed prints a tick with the decimals its step needs; thousands as k.
func trimmed(v, step float64) string {
	if step >= 1000 {
		return unit.ShortCount(v)
	}
	decimals := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	return fmt.Sprintf("%.*f", decimals, v)
}

// percents sets a y axis to 0..100, with room for lines at both ends.
func percents(axis *plot.Axis) {
	axis.Min, axis.Max = -2, 102
	axis.Tick.Marker = steps(0, 100, 20, func(v float64) string { return trimmed(v, 20) })
}

// sizes sets an x axis of cache sizes in bytes, logarithmic, with the share of
// the database below each size.
func sizes(axis *plot.Axis, low, high, dbBytes float64) {
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max = widen(low, high)
	octaves := math.Log2(axis.Max / axis.Min)
	every := max(1, int(math.Ceil(octaves/maxTicks)))
	var ticks fixedTicks
	for k := math.Floor(math.Log2(axis.Min)); k <= math.Log2(axis.Max); k++ {
		v := math.Exp2(k)
		if math.Mod(k, float64(every)) != 0 {
			continue
		}
		ticks = append(ticks, sizeTick(v, dbBytes))
		if octaves < 4 && every == 1 {
			ticks = append(ticks, sizeTick(1.5*v, dbBytes))
		}
	}
	axis.Tick.Marker = inside(ticks, axis)
	axis.Label.Text = "cache size"
	if dbBytes > 0 {
		axis.Label.Text = "cache size, and as a share of the database"
	}
}

func sizeTick(v, dbBytes float64) plot.Tick {
	label := shortBytes(int64(v))
	if dbBytes > 0 {
		label += "\n" + unit.Significant(100*v/dbBytes, 2) + "%"
	}
	return plot.Tick{Value: v, Label: label}
}

// decades sets a logarithmic axis with ticks at 1, 2, 5 times powers of ten, or
// fewer where they would crowd.
func decades(axis *plot.Axis, low, high float64, label func(float64) string) {
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max = widen(low, high)
	span := math.Log10(axis.Max / axis.Min)
	factors := []float64{1, 2, 5}
	switch {
	case span > 6:
		factors = []float64{1}
	case span > 2.5:
		factors = []float64{1, 3}
	}
	var ticks fixedTicks
	for e := math.Floor(math.Log10(axis.Min)); e <= math.Log10(axis.Max); e++ {
		for _, f := range factors {
			v := f * math.Pow(10, e)
			ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
		}
	}
	axis.Tick.Marker = inside(ticks, axis)
}

// values sets a logarithmic axis with ticks at the values given, leaving out
// those whose labels would touch.
func values(axis *plot.Axis, at []float64, label func(float64) string) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range at {
		low, high = math.Min(low, v), math.Max(high, v)
	}
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max = widen(low, high)
	var ticks fixedTicks
	last := math.Inf(-1)
	for _, v := range at {
		if place := math.Log(v/axis.Min) / math.Log(axis.Max/axis.Min); place-last > 0.07 {
			ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
			last = place
		}
	}
	axis.Tick.Marker = ticks
}

// names sets an axis of places 0, 1, 2, ... with a name each.
func names(axis *plot.Axis, texts []string) {
	axis.Min, axis.Max = -0.6, float64(len(texts))-0.4
	var ticks fixedTicks
	for i, text := range texts {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: clip(text, max(6, 60/len(texts)))})
	}
	axis.Tick.Marker = ticks
	axis.Tick.Color = color.Transparent // keeps the distance to the names
}

// widen gives a logarithmic range room at its ends.
func widen(low, high float64) (float64, float64) {
	if !(low > 0) || !(high >= low) || math.IsInf(high, 0) {
		return 0.5, 2
	}
	room := math.Max(1.08, math.Pow(high/low, 0.03))
	return low / room, high * room
}

// inside drops ticks outside the axis.
func inside(ticks fixedTicks, axis *plot.Axis) fixedTicks {
	var in fixedTicks
	for _, t := range ticks {
		if t.Value >= axis.Min && t.Value <= axis.Max {
			in = append(in, t)
		}
	}
	return in
}
