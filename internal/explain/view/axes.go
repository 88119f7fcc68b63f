package view

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"github.com/statelab/statelab/internal/base/unit"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// maxTicks keeps tick labels apart at the width of a page.
const maxTicks = 9

// FixedTicks are ticks decided beforehand.
type FixedTicks []plot.Tick

func (t FixedTicks) Ticks(_, _ float64) []plot.Tick { return t }

// LinearAxis sets a panel's y axis to 0..top with round steps.
func LinearAxis(axis *plot.Axis, top float64) {
	if !(top > 0) || math.IsInf(top, 0) {
		top = 1
	}
	step := RoundStep(top / 7)
	axis.Min, axis.Max = 0, step*math.Ceil(top/step*0.9999)
	axis.Tick.Marker = Steps(0, axis.Max, step, func(v float64) string { return Trimmed(v, step) })
}

// Steps are ticks from low to high.
func Steps(low, high, step float64, label func(float64) string) FixedTicks {
	var ticks FixedTicks
	for i := 0; ; i++ {
		v := low + float64(i)*step
		if v > high+step/1e3 || i > 100 {
			return ticks
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
	}
}

// RoundStep is the smallest of 1, 2, 5 times a power of ten that is not below v.
func RoundStep(v float64) float64 {
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

// PercentAxis sets a y axis to 0..100, with room for lines at both ends.
func PercentAxis(axis *plot.Axis) {
	axis.Min, axis.Max = -2, 102
	axis.Tick.Marker = Steps(0, 100, 20, func(v float64) string { return Trimmed(v, 20) })
}

// SizeAxis sets an x axis of cache sizes in bytes, logarithmic, with the share of
// the database below each size.
func SizeAxis(axis *plot.Axis, low, high, dbBytes float64) {
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max = widen(low, high)
	octaves := math.Log2(axis.Max / axis.Min)
	every := max(1, int(math.Ceil(octaves/maxTicks)))
	var ticks FixedTicks
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
	axis.Tick.Marker = Inside(ticks, axis)
	axis.Label.Text = "cache size"
	if dbBytes > 0 {
		axis.Label.Text = "cache size, and as a share of the database"
	}
}

func sizeTick(v, dbBytes float64) plot.Tick {
	label := ShortBytes(int64(v))
	if dbBytes > 0 {
		label += "\n" + unit.Significant(100*v/dbBytes, 2) + "%"
	}
	return plot.Tick{Value: v, Label: label}
}

// DecadeAxis sets a logarithmic axis with ticks at 1, 2, 5 times powers of ten, or
// fewer where they would crowd.
func DecadeAxis(axis *plot.Axis, low, high float64, label func(float64) string) {
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
	var ticks FixedTicks
	for e := math.Floor(math.Log10(axis.Min)); e <= math.Log10(axis.Max); e++ {
		for _, f := range factors {
			v := f * math.Pow(10, e)
			ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
		}
	}
	axis.Tick.Marker = Inside(ticks, axis)
}

// ValueAxis sets a logarithmic axis with ticks at the values given, leaving out
// those whose labels would touch.
func ValueAxis(axis *plot.Axis, at []float64, label func(float64) string) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range at {
		low, high = math.Min(low, v), math.Max(high, v)
	}
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max = widen(low, high)
	var ticks FixedTicks
	last := math.Inf(-1)
	for _, v := range at {
		if place := math.Log(v/axis.Min) / math.Log(axis.Max/axis.Min); place-last > 0.07 {
			ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
			last = place
		}
	}
	axis.Tick.Marker = ticks
}

// NameAxis sets an axis of places 0, 1, 2, ... with a name each.
func NameAxis(axis *plot.Axis, texts []string) {
	axis.Min, axis.Max = -0.6, float64(len(texts))-0.4
	var ticks FixedTicks
	for i, text := range texts {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: Clip(text, max(6, 60/len(texts)))})
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

// Inside drops ticks outside the axis.
func Inside(ticks FixedTicks, axis *plot.Axis) FixedTicks {
	var in FixedTicks
	for _, t := range ticks {
		if t.Value >= axis.Min && t.Value <= axis.Max {
			in = append(in, t)
		}
	}
	return in
}

// ScaleY starts at 0 unless that would press most points together.
func ScaleY(axis *plot.Axis, lines []plotter.XYs, log bool, label func(float64) string) {
	low, high := math.Inf(1), 0.0
	for _, xys := range lines {
		for _, p := range xys {
			low, high = math.Min(low, p.Y), math.Max(high, p.Y)
		}
	}
	if math.IsInf(low, 1) {
		return
	}
	if log && high > 4*low {
		if !math.IsInf(axis.Max, 0) {
			high = math.Max(high, axis.Max) // the ideal line
		}
		DecadeAxis(axis, low/1.2, high*1.2, label)
		return
	}
	LinearAxis(axis, 1.05*high)
	step := RoundStep(1.05 * high / 7)
	axis.Tick.Marker = Steps(0, axis.Max, step, func(v float64) string {
		if v == 0 {
			return "0"
		}
		return label(v)
	})
}

func AnyPoints(lines []plotter.XYs) bool {
	return slices.ContainsFunc(lines, func(xys plotter.XYs) bool { return len(xys) > 0 })
}

// Relabel prints an axis' round steps in other words.
func Relabel(axis *plot.Axis, label func(float64) string) {
	ticks, ok := axis.Tick.Marker.(FixedTicks)
	if !ok {
		return
	}
	for i, t := range ticks {
		if ticks[i].Label = label(t.Value); t.Value == 0 {
			ticks[i].Label = "0"
		}
	}
}
