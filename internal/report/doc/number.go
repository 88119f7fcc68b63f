package doc

import (
	"cmp"
	"maps"
	"math"
	"slices"
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
	case math.Abs(v) > maxOf:
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

// ShortNanos and ShortPercent print ticks: 30 us, 0.1%.
func ShortNanos[N Figures](ns N) string { return WithoutZeros(Nanos(ns)) }

// ShortPercent prints a share in percent without zeros at the end: 0.5%.
func ShortPercent(p float64) string { return WithoutZeros(Number(p)) + "%" }

// WithoutZeros drops the zeros at the end of the decimals of a number, which a
// unit may follow.
func WithoutZeros(text string) string {
	number, unit, _ := strings.Cut(text, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return strings.TrimSuffix(number+" "+unit, " ")
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
	minimum, maximum := positive(sizes)
	return largest(
		math.Sqrt(minimum*maximum),
		Scale{"B", 1},
		Scale{"KiB", 1 << 10},
		MiB,
		Scale{"GiB", 1 << 30},
		Scale{"TiB", 1 << 40},
	)
}

// TimeScale picks the unit in which the shortest of the durations is at least
// one half.
func TimeScale(nanos []float64) Scale {
	minimum, _ := positive(nanos)
	return largest(2*minimum, Scale{"ns", 1}, Micros, Millis, Scale{"s", 1e9})
}

// positive is the range of the values above 0; 0 if there are none.
func positive(values []float64) (minimum, maximum float64) {
	for _, v := range values {
		if v > 0 {
			minimum, maximum = cmp.Or(math.Min(minimum, v), v), math.Max(maximum, v)
		}
	}
	return minimum, maximum
}

// largest is the last of ascending units that is not above v, else the first.
func largest(v float64, units ...Scale) Scale {
	best := units[0]
	for _, u := range units {
		if v >= u.Size {
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

// Some is a figure that is there.
func Some(v float64) *float64 { return &v }

// When is a figure that is there if something holds.
func When(is bool, v float64) *float64 {
	if !is {
		return nil
	}
	return &v
}

// Times is a figure that may be absent, in another measure.
func Times(v *float64, by float64) *float64 {
	return Via(v, func(v *float64) float64 { return *v * by })
}

// Via is a figure of what may be absent.
func Via[T any](p *T, of func(*T) float64) *float64 {
	return From(p, func(p *T) *float64 { return Some(of(p)) })
}

// From is a figure of what may be absent, and may lack it.
func From[T any](p *T, of func(*T) *float64) *float64 {
	if p == nil {
		return nil
	}
	return of(p)
}

// At is the figure that a map has by a name.
func At(figures map[string]float64, name string) *float64 {
	v, known := figures[name]
	return When(known, v)
}

// Whole is a count that may be absent.
func Whole[N int | int64](n *N) *float64 {
	return Via(n, func(n *N) float64 { return float64(*n) })
}

// Digits prints a whole number, thousands separated.
func Digits(v float64) string { return unit.Count(int64(v)) }

// Scales of columns whose unit does not depend on their values.
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
func ShortCount[N Figures](v N) string { return orAbsurd(float64(v), unit.ShortCount) }

// Nanos prints a duration.
func Nanos[N Figures](ns N) string { return orAbsurd(float64(ns), unit.Nanos) }

// Figures are all types of figures.
type Figures interface{ int | int64 | uint64 | float64 }

func orAbsurd(v float64, print func(float64) string) string {
	if !Sane(v) {
		return Absurd
	}
	return print(v)
}

// Distinct is what is said of each, once, in order.
func Distinct[T any, K comparable](all []T, say func(T) K) (each []K) {
	known := map[K]bool{}
	for _, one := range all {
		if said := say(one); !known[said] {
			known[said], each = true, append(each, said)
		}
	}
	return each
}

// Without leaves out the empty texts.
func Without(texts []string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// Unless0 prints a figure; "" for 0.
func Unless0[N int | int64 | float64](v N, print func(N) string) string {
	if v == 0 {
		return ""
	}
	return print(v)
}

// List joins what is said of each, by commas.
func List[T any](all []T, say func(T) string) string {
	return strings.Join(Each(all, say), ", ")
}

// OptionsSet are the options of several subjects, by name, each with all its values: NAME=VALUE.
func OptionsSet(of []map[string]string) []string {
	values := map[string][]string{}
	for _, options := range of {
		for name, value := range options {
			if !slices.Contains(values[name], value) {
				values[name] = append(values[name], value)
			}
		}
	}

	return Each(slices.Sorted(maps.Keys(values)), func(name string) string {
		return name + "=" + strings.Join(values[name], ",")
	})
}

// Each is what is made of each.
func Each[T, R any](all []T, of func(T) R) (each []R) {
	for _, one := range all {
		each = append(each, of(one))
	}
	return each
}

// Where are those of which something holds.
func Where[T any](all []T, is func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !is(one) })
}

// Flat is what each has, one after the other.
func Flat[T, R any](all []T, of func(T) []R) []R { return slices.Concat(Each(all, of)...) }
