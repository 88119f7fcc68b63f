package setting

import (
	"fmt"
	"math"
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

// Text is any text.
var Text = Kind[string]{Parse: func(text string) (string, error) { return text, nil }, optional: true}

// Yes is a switch.
var Yes = Kind[bool]{Name: "bool", Parse: func(text string) (bool, error) {
	is, err := strconv.ParseBool(text)
	if err != nil {
		err = mustBe("true or false")
	}
	return is, err
}}

// Choice is one of several words.
func Choice(legal ...string) Kind[string] {
	return Kind[string]{Parse: func(text string) (string, error) {
		if !slices.Contains(legal, text) {
			return "", mustBe("one of %s", strings.Join(legal, ", "))
		}
		return text, nil
	}}
}

// Count is a number such as 500k.
func Count(least uint64, example string) Kind[uint64] {
	return Kind[uint64]{Name: "count", Parse: func(text string) (uint64, error) {
		n, err := unit.ParseCount(text)
		if err == nil && n < least {
			err = mustBe("at least %d (example: %s)", least, example)
		}
		return n, err
	}}
}

// Int is a whole number in a range.
func Int(from, to int, example string) Kind[int] {
	return Kind[int]{Name: "int", Parse: func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < from || n > to {
			return 0, mustBe("from %d to %d (example: %s)", from, to, example)
		}
		return n, nil
	}}
}

// Optional is k where an empty text is no value.
func (k Kind[T]) Optional() Kind[T] {
	k.optional = true
	return k
}

// Ratio is a number above 0 and at most most.
func Ratio(most float64, example string) Kind[float64] {
	return Kind[float64]{Name: "ratio", Parse: func(text string) (float64, error) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0 && v <= most) {
			return 0, mustBe("above 0 and at most %g (example: %s)", most, example)
		}
		return v, nil
	}}
}

// Threads is a number of threads or processors.
var Threads = Int(1, 4096, "8")

// Seed is any whole number.
var Seed = Kind[uint64]{Name: "uint", Parse: func(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		err = mustBe("a whole number (example: 1)")
	}
	return n, err
}}

// Number is any number that is not negative.
var Number = Kind[float64]{Name: "number", Parse: func(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= math.MaxFloat64) {
		return 0, mustBe("a number that is not negative (example: 0.5)")
	}
	return v, nil
}}

// Seconds is a time in seconds from least to most.
func Seconds(least, most float64, example string) Kind[float64] {
	return Kind[float64]{Name: "seconds", Parse: func(text string) (float64, error) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= least && v <= most) {
			return 0, mustBe("from %g to %g (example: %s)", least, most, example)
		}
		return v, nil
	}}
}

// Share is a part of a whole, such as 20%.
var Share = Kind[float64]{Name: "share", show: percent, Parse: func(text string) (float64, error) {
	share, ok, err := unit.ParsePercent(text)
	if err != nil || !ok || share > 1 {
		return 0, mustBe("a share from 0%% to 100%% (example: 20%%)")
	}
	return share, nil
}}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', -1, 64) + "%" }

// Rate is a number of operations per second: 20k or 20k/s.
var Rate = Kind[float64]{Name: "rate", Parse: func(text string) (float64, error) {
	n, err := unit.ParseCount(strings.TrimSuffix(text, "/s"))
	if err != nil {
		err = mustBe("a number of operations per second (example: 20k)")
	}
	return float64(n), err
}}

// Duration is a time such as 60s; 0 needs no unit.
func Duration(example string) Kind[time.Duration] {
	return Kind[time.Duration]{Name: "duration", Parse: func(text string) (time.Duration, error) {
		if text == "0" {
			return 0, nil
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			err = mustBe("a duration (example: %s)", example)
		}
		return d, err
	}}
}

// Size is a number of bytes, named what in mistakes, of at least so many.
func Size(what string, least int64, examples string) Kind[int64] {
	return Kind[int64]{Name: "size", optional: true, Parse: func(text string) (int64, error) {
		bytes, err := unit.ParseSize(what, text, examples)
		if err == nil && bytes < least {
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

// Of is the size for a database of so many bytes.
func (c CacheSize) Of(databaseBytes int64) int64 {
	return c.Bytes + int64(c.Share*float64(databaseBytes))
}

// Bytes is a cache of a number of bytes.
func Bytes(n int64) CacheSize { return CacheSize{Bytes: n} }

func (c CacheSize) String() string {
	if c.Share > 0 {
		return percent(c.Share)
	}
	return strconv.FormatInt(c.Bytes, 10) + "B"
}

// Cache is the size of a cache: 64MiB, or 0.1% of the database.
var Cache = Kind[CacheSize]{Name: "size", optional: true, Parse: func(text string) (c CacheSize, err error) {
	share, ok, err := unit.ParsePercent(text)
	if !ok {
		c.Bytes, err = unit.ParseSize("cache size", text, "64MiB, 0.1%")
		if err == nil && c.Bytes == 0 {
			err = fmt.Errorf("the cache must be larger than 0 (examples: 64MiB, 0.1%%)")
		}
		return c, err
	}
	if err == nil && (share == 0 || share > 1) {
		err = fmt.Errorf("invalid cache size %q: a share of the database is above 0%% and at most 100%%", text)
	}
	return CacheSize{Share: share}, err
}}

// Warmup is how many Gets go before the measured ones: as many as it takes, a count, or a share
// of the keys.
type Warmup struct {
	Auto  bool
	Gets  uint64
	Share float64
}

// Of is the number of Gets for so many keys, 0 for those that it takes.
func (w Warmup) Of(keys uint64) uint64 { return w.Gets + uint64(w.Share*float64(keys)) }

// WarmupKind reads a Warmup.
var WarmupKind = Kind[Warmup]{Parse: func(text string) (w Warmup, err error) {
	share, ok, err := unit.ParsePercent(text)
	switch {
	case text == "auto":
		w.Auto = true
	case err != nil || ok:
		w.Share = share
	default:
		if w.Gets, err = unit.ParseCount(text); err != nil {
			err = mustBe("auto, a number such as 100k, or a share of the keys such as 0.05%%")
		}
	}
	return w, err
}}

// Place is where runs are carried out.
type Place struct {
	Cluster   bool   // Slurm; else on this machine
	Partition string // of the cluster; "": its default
}

// Where reads a Place: local, slurm or slurm:PARTITION.
var Where = Kind[Place]{optional: true, Parse: func(text string) (p Place, err error) {
	name, partition, given := strings.Cut(text, ":")
	switch {
	case text == "local":
	case name != "slurm" || given && partition == "":
		err = mustBe("local, slurm or slurm:PARTITION (example: --on slurm:fast)")
	default:
		p = Place{true, partition}
	}
	return p, err
}}

func (p Place) String() string {
	switch {
	case !p.Cluster:
		return "local"
	case p.Partition == "":
		return "slurm"
	}
	return "slurm:" + p.Partition
}

func (w Warmup) String() string {
	switch {
	case w.Auto:
		return "auto"
	case w.Share > 0:
		return percent(w.Share)
	}
	return strconv.FormatUint(w.Gets, 10)
}
