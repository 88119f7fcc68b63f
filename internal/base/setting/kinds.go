package setting

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/unit"
)

// Kind is a kind of values: how their text is read. Its errors begin with "must be", or name the
// value themselves.
type Kind[T any] struct {
	Name     string // what help shows in place of a value; "" is "string"
	Parse    func(text string) (T, error)
	optional bool           // an empty text is no value
	show     func(T) string // of a value that was not parsed; nil: as fmt prints it
}

// kind has one thing to say about a text that parse does not take: what it must be.
func kind[T any](name, must string, parse func(text string) (T, bool)) Kind[T] {
	return Kind[T]{Name: name, Parse: func(text string) (value T, err error) {
		value, ok := parse(text)
		if !ok {
			return *new(T), &Mistake{Text: "must be " + must}
		}
		return value, nil
	}}
}

// Optional is k where an empty text is no value.
func (k Kind[T]) Optional() Kind[T] {
	k.optional = true
	return k
}

// Text is any text.
var Text = Kind[string]{
	Parse:    func(text string) (string, error) { return text, nil },
	optional: true,
}

// Bool is a switch.
var Bool = kind("bool", "true or false", func(text string) (bool, bool) {
	is, err := strconv.ParseBool(text)
	return is, err == nil
})

// Choice is one of several words.
func Choice(legal ...string) Kind[string] {
	return kind("", "one of "+strings.Join(legal, ", "), func(text string) (string, bool) {
		return text, slices.Contains(legal, text)
	})
}

// Words are values as a choice has them.
func Words[T ~string](values []T) (words []string) {
	for _, v := range values {
		words = append(words, string(v))
	}
	return words
}

// Count is a number such as 500k.
func Count(minimum uint64, example string) Kind[uint64] {
	return Kind[uint64]{Name: "count", Parse: func(text string) (uint64, error) {
		n, err := unit.ParseCount(text)
		if err == nil && n < minimum {
			err = &Mistake{Text: fmt.Sprintf("must be at least %d (example: %s)", minimum, example)}
		}
		return n, err
	}}
}

// Int is a whole number in a range.
func Int(from, to int, example string) Kind[int] {
	return kind("int", fmt.Sprintf("from %d to %d (example: %s)", from, to, example),
		func(text string) (int, bool) {
			n, err := strconv.Atoi(text)
			return n, err == nil && n >= from && n <= to
		})
}

// Whole is Int that may be written as a count: 4k.
func Whole(from, to int, example string) Kind[int] {
	return kind("int", fmt.Sprintf("from %d to %d (example: %s)", from, to, example),
		func(text string) (int, bool) {
			n, err := unit.ParseCount(text)
			return int(n), err == nil && n >= uint64(from) && n <= uint64(to)
		})
}

// Threads is a number of threads or processors.
var Threads = Int(1, 4096, "8")

// Seed is any whole number.
var Seed = kind("uint", "a whole number (example: 1)", func(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
})

// Version is a version of a chain's state.
var Version = kind("version", "a version, or 0 (example: 1000)", func(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0
})

// Float is a number in a range, of which must tells.
func Float(name string, minimum, maximum float64, must string) Kind[float64] {
	return kind(name, must, func(text string) (float64, bool) {
		v, err := strconv.ParseFloat(text, 64)
		return v, err == nil && v >= minimum && v <= maximum
	})
}

// Number is any number that is not negative.
var Number = Float("number", 0, math.MaxFloat64, "a number that is not negative (example: 0.5)")

// Seconds is a time in seconds from least to most.
func Seconds(minimum, maximum float64, example string) Kind[float64] {
	return Float("seconds", minimum, maximum,
		fmt.Sprintf("from %g to %g (example: %s)", minimum, maximum, example))
}

// Share is a part of a whole, such as 20%.
var Share = func() Kind[float64] {
	k := kind("share", "a share from 0% to 100% (example: 20%)", func(text string) (float64, bool) {
		share, ok, err := unit.ParsePercent(text)
		return share, ok && err == nil && share <= 1
	})
	k.show = percent
	return k
}()

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', -1, 64) + "%" }

// Growth is by how much something grows: to so many times as much, or by a share each year.
type Growth struct{ Factor, Yearly float64 }

// MostGrowth is the largest factor of growth.
const MostGrowth = 100

// GrowthRate is a growth: 2x in all, or 30% a year.
var GrowthRate = func() Kind[Growth] {
	k := kind("growth", "from 1x to 100x, or a share for each year (examples: 2x, 30%)",
		func(text string) (g Growth, is bool) {
			number, all := strings.CutSuffix(text, "x")
			number, yearly := strings.CutSuffix(number, "%")
			v, err := strconv.ParseFloat(number, 64)
			switch {
			case err != nil || all == yearly:
				return g, false
			case all:
				return Growth{Factor: v}, v >= 1 && v <= MostGrowth
			}
			return Growth{Yearly: v / 100}, v > 0 && v <= 100*MostGrowth
		})
	k.show = func(g Growth) string {
		if g.Yearly > 0 {
			return percent(g.Yearly)
		}
		return strconv.FormatFloat(g.Factor, 'g', -1, 64) + "x"
	}
	return k
}()

// Month is a month, or the January of a year.
var Month = func() Kind[time.Time] {
	k := kind("date", "a year or a month (examples: 2029, 2029-07)",
		func(text string) (time.Time, bool) {
			at, err := time.Parse("2006-01", text)
			if err != nil {
				at, err = time.Parse("2006", text)
			}
			return at, err == nil
		})
	k.show = func(at time.Time) string { return at.Format("2006-01") }
	return k
}()

// Rate is a number of operations per second: 20k or 20k/s.
var Rate = kind("rate", "a number of operations per second (example: 20k)", func(
	text string,
) (float64, bool) {
	n, err := unit.ParseCount(strings.TrimSuffix(text, "/s"))
	return float64(n), err == nil
})

// Address is where to listen: on this machine only, unless a host is given.
var Address = kind("", "an address (examples: :9464 for this machine only, 0.0.0.0:9464)",
	func(text string) (string, bool) {
		host, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port), err == nil
	})

// Duration is a time such as 60s; 0 needs no unit.
func Duration(example string) Kind[time.Duration] {
	return kind("duration", "a duration (example: "+example+")", func(
		text string,
	) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && d >= 0
	})
}

// Size is a number of bytes, named what in mistakes, of at least so many.
func Size(what string, minimum int64, examples string) Kind[int64] {
	return Kind[int64]{Name: "size", optional: true, Parse: func(text string) (int64, error) {
		bytes, err := unit.ParseSize(what, text, examples)
		if err == nil && bytes < minimum {
			err = fmt.Errorf("the %s must be larger than 0 (examples: %s)", what, examples)
		}
		return bytes, err
	}}
}

// Memory is a memory budget.
var Memory = Size("memory budget", 1, "512MiB, 2GiB")

// CacheSize is a number of bytes, or a share of a database.
type CacheSize struct {
	Bytes int64
	Share float64
}

// BytesFor returns the size for a database of so many bytes.
func (c CacheSize) BytesFor(databaseBytes int64) int64 {
	return c.Bytes + int64(c.Share*float64(databaseBytes))
}

// Bytes is a cache of a number of bytes.
func Bytes(n int64) CacheSize { return CacheSize{Bytes: n} }

// String is the size as a flag takes it: 64MiB, or 0.1%.
func (c CacheSize) String() string {
	if c.Share > 0 {
		return percent(c.Share)
	}
	return strconv.FormatInt(c.Bytes, 10) + "B"
}

// Cache is the size of a cache: 64MiB, or 0.1% of the database.
var Cache = Kind[CacheSize]{
	Name:     "size",
	optional: true,
	Parse: func(text string) (c CacheSize, err error) {
		share, ok, err := unit.ParsePercent(text)
		if !ok {
			c.Bytes, err = Size("cache size", 0, "64MiB, 0.1%").Parse(text)
			if err == nil && c.Bytes == 0 {
				err = fmt.Errorf("the cache must be larger than 0 (examples: 64MiB, 0.1%%)")
			}
			return c, err
		}
		if err == nil && (share == 0 || share > 1) {
			err = fmt.Errorf("invalid cache size %q: a share of the database is above 0%% and at "+
				"most 100%%", text)
		}
		return CacheSize{Share: share}, err
	},
}

// Warmup is how many Gets go before the measured ones: as many as it takes, a count, or a share
// of the keys.
type Warmup struct {
	Auto  bool
	Gets  uint64
	Share float64
}

// GetsFor returns the number of Gets for so many keys, 0 for those that it takes.
func (w Warmup) GetsFor(keys uint64) uint64 { return w.Gets + uint64(w.Share*float64(keys)) }

// String is the warm-up as a flag takes it: auto, a count of Gets, or a share of the keys.
func (w Warmup) String() string {
	switch {
	case w.Auto:
		return "auto"
	case w.Share > 0:
		return percent(w.Share)
	}
	return strconv.FormatUint(w.Gets, 10)
}

// WarmupKind reads a Warmup.
var WarmupKind = kind("", "auto, a number such as 100k, or a share of the keys such as 0.05%",
	func(text string) (w Warmup, ok bool) {
		if text == "auto" {
			return Warmup{Auto: true}, true
		}
		share, is, err := unit.ParsePercent(text)
		if w.Share = share; !is {
			w.Gets, err = unit.ParseCount(text)
		}
		return w, err == nil
	})

// Target is where runs are carried out.
type Target struct {
	Cluster   bool   // Slurm; else on this machine
	Partition string // of the cluster; "": its default
}

// String is the target as a flag takes it: local, slurm or slurm:PARTITION.
func (p Target) String() string {
	switch {
	case !p.Cluster:
		return "local"
	case p.Partition == "":
		return "slurm"
	}
	return "slurm:" + p.Partition
}

// TargetKind reads a Target: local, slurm or slurm:PARTITION.
var TargetKind = kind("", "local, slurm or slurm:PARTITION (example: --on slurm:fast)",
	func(text string) (p Target, ok bool) {
		name, partition, given := strings.Cut(text, ":")
		p = Target{name == "slurm", partition}
		return p, text == "local" || p.Cluster && given == (partition != "")
	}).Optional()
