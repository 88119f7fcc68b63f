package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
)

// none stands where a figure is absent.
const none = "–"

// number prints a figure with three significant digits, thousands separated.
func number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return none
	case math.Abs(v) >= 1e3:
		return unit.Count(int64(math.Round(v)))
	}
	return unit.Significant(v, 3)
}

// perGet prints a figure per Get: three significant digits, but nothing finer
// than 0.001, which no chart and no decision can see.
func perGet(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v > 0 && v < 0.0005:
		return "<.001"
	case v > 0 && v < 0.9995:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return number(v)
}

// optional prints a figure that may be absent.
func optional(v *float64, print func(float64) string) string {
	if v == nil {
		return none
	}
	return print(*v)
}

// typed prints the entry of a map by type, absent if there is none.
func typed(m map[string]float64, name string, print func(float64) string) string {
	v, ok := m[name]
	if !ok {
		return none
	}
	return print(v)
}

// counted prints the entry of a map of counts per Get: where any type was
// counted, a type that is not there was counted 0 times.
func counted(m map[string]float64, name string) string {
	if len(m) == 0 {
		return none
	}
	return perGet(m[name])
}

// positive prints a figure for which 0 means that it was not measured.
func positive(v float64, print func(float64) string) string {
	if v <= 0 {
		return none
	}
	return print(v)
}

// shortBytes prints a size that somebody chose: 64 MiB, not 64.0 MiB.
func shortBytes(n int64) string { return withoutZeros(unit.Bytes(n)) }

// shortNanos and shortPercent print ticks: 30 us, 0.1%.
func shortNanos(ns float64) string  { return withoutZeros(unit.Nanos(ns)) }
func shortPercent(p float64) string { return withoutZeros(unit.Significant(p, 3)) + "%" }

// withoutZeros drops the zeros at the end of the decimals of a number, which a
// unit may follow.
func withoutZeros(text string) string {
	number, unit, apart := strings.Cut(text, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	if !apart {
		return number
	}
	return number + " " + unit
}

// percent prints a percentage, "0.143%".
func percent(p float64) string { return unit.Significant(p, 3) + "%" }

// scale is the one unit of a column: its name and its size.
type scale struct {
	name string
	size float64
}

// byteScale picks the unit in which the middle of the sizes, on a logarithmic
// scale, is at least 1.
func byteScale(sizes []int64) scale {
	units := []scale{{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}
	least, most := math.Inf(1), 0.0
	for _, n := range sizes {
		if n > 0 {
			least, most = math.Min(least, float64(n)), math.Max(most, float64(n))
		}
	}
	best := units[0]
	for _, u := range units {
		if most > 0 && math.Sqrt(least*most) >= u.size {
			best = u
		}
	}
	return best
}

// timeScale picks the unit in which the shortest of the durations is at least
// one half.
func timeScale(nanos []float64) scale {
	units := []scale{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	least := math.Inf(1)
	for _, n := range nanos {
		if n > 0 {
			least = math.Min(least, n)
		}
	}
	best := units[0]
	for _, u := range units {
		if !math.IsInf(least, 1) && least >= u.size/2 {
			best = u
		}
	}
	return best
}

// in prints v in the scale.
func (s scale) in(v float64) string { return number(v / s.size) }

// clip shortens s to n runes.
func clip(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

// wrap breaks text into lines of at most width runes; the second and further
// lines start with indent.
func wrap(text string, width int, indent string) string {
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
