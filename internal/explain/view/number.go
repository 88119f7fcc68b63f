package view

import (
	"math"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
)

// None stands where a figure is absent.
const None = "–"

// Number prints a figure with three significant digits, thousands separated.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return None
	case math.Abs(v) > mostOf:
		return Absurd
	case math.Abs(v) >= 1e3:
		return unit.Count(int64(math.Round(v)))
	}
	return unit.Significant(v, 3)
}

// PerGet prints a figure per Get: three significant digits, but nothing finer
// than 0.001, which no chart and no decision can see.
func PerGet(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v > 0 && v < 0.0005:
		return "<.001"
	case v > 0 && v < 0.9995:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return Number(v)
}

// ShortBytes prints a size that somebody chose: 64 MiB, not 64.0 MiB.
func ShortBytes(n int64) string { return WithoutZeros(unit.Bytes(n)) }

// ShortNanos and shortPercent print ticks: 30 us, 0.1%.
func ShortNanos(ns float64) string { return WithoutZeros(Nanos(ns)) }

func ShortPercent(p float64) string { return WithoutZeros(Number(p)) + "%" }

// WithoutZeros drops the zeros at the end of the decimals of a number, which a
// unit may follow.
func WithoutZeros(text string) string {
	number, unit, apart := strings.Cut(text, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	if !apart {
		return number
	}
	return number + " " + unit
}

// Percent prints a percentage, "0.143%".
func Percent(p float64) string { return Number(p) + "%" }

// Scale is the one unit of a column: its name and its size.
type Scale struct {
	Name string
	Size float64
}

// ByteScale picks the unit in which the middle of the sizes, on a logarithmic
// scale, is at least 1.
func ByteScale(sizes []float64) Scale {
	units := []Scale{{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}
	least, most := math.Inf(1), 0.0
	for _, n := range sizes {
		if n > 0 {
			least, most = math.Min(least, n), math.Max(most, n)
		}
	}
	best := units[0]
	for _, u := range units {
		if most > 0 && math.Sqrt(least*most) >= u.Size {
			best = u
		}
	}
	return best
}

// TimeScale picks the unit in which the shortest of the durations is at least
// one half.
func TimeScale(nanos []float64) Scale {
	units := []Scale{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	least := math.Inf(1)
	for _, n := range nanos {
		if n > 0 {
			least = math.Min(least, n)
		}
	}
	best := units[0]
	for _, u := range units {
		if !math.IsInf(least, 1) && least >= u.Size/2 {
			best = u
		}
	}
	return best
}

// Clip shortens s to n runes.
func Clip(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

// Wrap breaks text into lines of at most width runes; the second and further
// lines start with indent.
func Wrap(text string, width int, indent string) string {
	var b strings.Builder
	used := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case used+1+n > width:
			b.WriteString("\n" + indent)
			used = len(indent)
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// Some is a figure that is there.
func Some(v float64) *float64 { return &v }

// Of is a figure for which 0 means that it was not measured.
func Of[N int | int64 | uint64 | float64](v N) *float64 {
	if v <= 0 {
		return nil
	}
	return Some(float64(v))
}

// Times is a figure that may be absent, in another measure.
func Times(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	return Some(*v * by)
}

// Via is a figure of what may be absent.
func Via[T any](p *T, of func(*T) float64) *float64 {
	if p == nil {
		return nil
	}
	return Some(of(p))
}

// Whole is a count that may be absent.
func Whole[N int | int64](n *N) *float64 {
	if n == nil {
		return nil
	}
	return Some(float64(*n))
}

// Digits prints a whole number, thousands separated.
func Digits(v float64) string { return unit.Count(int64(v)) }

// ShortScales of columns whose unit does not depend on their values.
var (
	Micros = Scale{"us", 1e3}
	Millis = Scale{"ms", 1e6}
	MiB    = Scale{"MiB", 1 << 20}
)

// PercentOf is a share in percent; 0 of nothing.
func PercentOf(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// Upper begins a sentence.
func Upper(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// ShortCount prints a count for a sentence or an axis: 1.05k.
func ShortCount(v float64) string { return orAbsurd(v, unit.ShortCount) }

// Nanos prints a duration.
func Nanos(ns float64) string { return orAbsurd(ns, unit.Nanos) }

func orAbsurd(v float64, print func(float64) string) string {
	if !Sane(v) {
		return Absurd
	}
	return print(v)
}
