// Package unit parses and prints sizes, counts and rates: the only place where
// "64MiB" or "5M" is understood.
package unit

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// byteUnits are accepted case-insensitively.
var byteUnits = map[string]float64{
	"b":  1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
}

var countUnits = map[string]float64{"": 1, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}

// ParseBytes reads "512MB" (10^6), "512MiB" or "512M" (2^20). A number without a
// unit is refused: some programs count its bytes, others its MiB.
func ParseBytes(s string) (int64, error) { return ParseSize("size", s, "64MiB, 1.5GiB") }

// ParseSize is ParseBytes; its errors name what the size is of and give examples.
func ParseSize(what, s, examples string) (int64, error) {
	if v, err := parse(s, byteUnits); err == nil {
		return int64(v), nil
	}

	_, err := parse(s, map[string]float64{"": 1})
	switch {
	case err != nil:
		return 0, fmt.Errorf("invalid %s %q (examples: %s)", what, s, examples)
	case strings.ContainsAny(s, "123456789"): // of which 0.1 is no whole byte
		return 0, fmt.Errorf("invalid %s %q: add a unit (examples: %s)", what, s, examples)
	}

	return 0, nil
}

// WithUnit makes bytes of a bare number. Plans written before units were
// required, and options whose unit is the engine's own, mean bytes by it.
func WithUnit(s string) string {
	if bareNumber.MatchString(s) {
		return s + "B"
	}
	return s
}

var bareNumber = regexp.MustCompile(`^\s*[0-9][0-9_,.eE+]*\s*$`)

// ParseCount reads "500000", "500k", "5M", "2B".
func ParseCount(s string) (uint64, error) {
	v, err := parse(s, countUnits)
	if err != nil {
		return 0, fmt.Errorf("invalid number %q (examples: 1000, 5k, 2M)", s)
	}
	return uint64(v), nil
}

// ParsePercent reads "0.1%" as 0.001. ok is false without a percent sign.
func ParsePercent(s string) (share float64, ok bool, err error) {
	number, found := strings.CutSuffix(strings.TrimSpace(s), "%")
	if !found {
		return 0, false, nil
	}

	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return 0, true, fmt.Errorf("invalid percentage %q (example: 0.1%%)", s)
	}

	return v / 100, true, nil
}

var thousands = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+[^0-9,]*$`)

func parse(s string, units map[string]float64) (float64, error) {
	text := strings.ReplaceAll(strings.TrimSpace(s), "_", "")
	if thousands.MatchString(text) { // elsewhere a comma may be a decimal point
		text = strings.ReplaceAll(text, ",", "")
	}

	end := len(text)
	for end > 0 && (text[end-1] < '0' || text[end-1] > '9') && text[end-1] != '.' {
		end--
	}

	factor, ok := units[strings.ToLower(strings.TrimSpace(text[end:]))]
	if !ok {
		return 0, strconv.ErrSyntax
	}

	number, err := strconv.ParseFloat(text[:end], 64)
	if err != nil || !(number >= 0) || number*factor >= math.MaxInt64 {
		return 0, strconv.ErrSyntax
	}

	return math.Round(number * factor), nil
}

// ExactBytes writes n as an option is written, in the largest unit of which it is a whole number:
// 4KiB.
func ExactBytes(n int64) string {
	for i, name := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if of := int64(1) << (10 * (4 - i)); n != 0 && n%of == 0 {
			return strconv.FormatInt(n/of, 10) + name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// Bytes prints a size in binary units with three significant digits.
func Bytes(n int64) string {
	if n < 0 {
		return "-" + Bytes(-n)
	}

	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}

	v, i := float64(n), 0
	for v >= 1023.5 && i < 5 {
		v, i = v/1024, i+1
	}

	return Significant(v, 3) + " " + []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}[i]
}

// Count prints a number with thousands separators: 81,204.
func Count[T ~int | ~int64 | ~uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}

	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}

	return sign + s
}

// ShortCount prints 5M, 2.5k, 20B.
func ShortCount(n float64) string {
	for _, u := range []struct {
		at   float64
		name string
	}{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= u.at {
			return trimZeros(Significant(n/u.at, 3)) + u.name
		}
	}

	return trimZeros(Significant(n, 3))
}

// Nanos prints a duration given in nanoseconds: 850 ns, 12.3 us, 4.56 ms.
func Nanos(ns float64) string {
	switch {
	case ns < 1e3:
		return Significant(ns, 3) + " ns"
	case ns < 1e6:
		return Significant(ns/1e3, 3) + " us"
	case ns < 1e9:
		return Significant(ns/1e6, 3) + " ms"
	}

	return Significant(ns/1e9, 3) + " s"
}

// Percent prints a share: 0.00143 is "0.143%".
func Percent(share float64) string { return Significant(share*100, 3) + "%" }

// Significant prints v with n significant digits and no exponent.
func Significant(v float64, n int) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}

	decimals := n - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	scale := math.Pow10(decimals)
	if rounded := math.Round(v*scale) / scale; rounded != 0 {
		decimals = n - 1 - int(math.Floor(math.Log10(math.Abs(rounded))))
		v = rounded
	}

	return strconv.FormatFloat(v, 'f', max(0, decimals), 64)
}

func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Printable is a name as it can be shown and typed: names of bytes, such as Besu's column
// families have, become \x06.
func Printable(name string) string {
	quoted := strconv.Quote(name)
	if quoted == `"`+name+`"` ||
		utf8.ValidString(name) && strings.ContainsAny(name, `"\\`) &&
			!strings.ContainsFunc(name, unicode.IsControl) {
		return name
	}
	// One spelling of every byte: operators know their families as \x08, not as \b.
	return controls.Replace(quoted[1 : len(quoted)-1])
}

var controls = strings.NewReplacer(`\\`, `\\`, `\a`, `\x07`, `\b`, `\x08`, `\t`, `\x09`,
	`\n`, `\x0a`, `\v`, `\x0b`, `\f`, `\x0c`, `\r`, `\x0d`)

// Is reports whether a typed text means a name: itself, as Printable shows it, or in another
// spelling of Go's, such as \b for \x08. The name may itself be one that was shown.
func Is(name, typed string) bool {
	return name == typed || Printable(name) == typed || spelt(name) == spelt(typed)
}

// spelt is what a name with escapes stands for.
func spelt(name string) string {
	if !strings.Contains(name, `\`) {
		return name
	}

	meant, err := strconv.Unquote(`"` + name + `"`)
	if err != nil {
		return name
	}
	return meant
}

// Plural is a number of things, such as "1 run" or "3 runs".
func Plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Roughly is a duration that nobody takes for exact: 40 s, 12 min, 3 h.
func Roughly(seconds float64) string {
	d := time.Duration(min(seconds, 1e9) * float64(time.Second))
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", math.Ceil(d.Minutes()))
	}
	return fmt.Sprintf("%.0f h", math.Ceil(d.Hours()))
}

// Seconds is a time in seconds with three digits: 1.23 s.
func Seconds(seconds float64) string { return Significant(seconds, 3) + " s" }
