// Package figure declares every figure that statelab measures or computes, each once: its name in
// files, its noun, its unit, which direction is better, the sentence that defines it, and where
// docs/ says more. JSON members, columns, verdicts, limits of --fail-if, checks of packs,
// benchmark lines and the table in docs/figures.md derive from it.
//
// A figure of a run is a Value: a number, or the reason why there is none.
//
// To print a number of a figure f, print its unit and noun behind it: 1.23 block reads per Get has
// no unit, since f.Unit is None and f.Noun says what is counted; 8420 ns of mean service time has
// f.Unit.
package figure

import "strings"

// Better says which change of a figure is wanted.
type Better int

// Directions. Neither is of figures that describe a run and do not judge it.
const (
	Lower Better = iota
	Higher
	Neither
)

// Kind says what a figure counts, from which follow the words of a comparison ("fewer", "less",
// "lower") and how it is printed.
type Kind int

// Kinds of figures.
const (
	Count    Kind = iota // of things: 18 % fewer block reads per Get
	Rate                 // of things per second: 18 % more Gets per second
	Amount               // of bytes: 18 % less disk space
	Duration             // a time: 18 % lower p99 service time
	Ratio                // a factor or a share: 18 % higher write amplification
)

// Unit is the unit of a stored number. Units are in the names of figures too.
type Unit string

// Units. None is of counts and ratios.
const (
	None        Unit = ""
	Bytes       Unit = "bytes"
	Nanoseconds Unit = "ns"
	Seconds     Unit = "s"
	Percent     Unit = "%"
	PerSecond   Unit = "/s"
)

// Figure is one figure. It is comparable, and a value to be copied.
type Figure struct {
	Key  string // in JSON, in flags, in packs
	Noun string // in a sentence: 18 % fewer NOUN

	// Name and Per are the two lines of a column's head: block reads, /Get.
	Name, Per string
	// Shown is the unit in which columns and sentences print it: us, ms, MiB. "": Unit.
	Shown string

	Unit   Unit
	Kind   Kind
	Better Better

	Defined string // one sentence, which docs/figures.md repeats
	Doc     string // page and anchor below docs/

	Metric   string // in Prometheus, where it does not follow from the key; see MetricName
	Bench    string // its unit for b.ReportMetric and benchstat; "": it has none
	Question string // that a ranking by it answers; "": nothing is ranked by it

	// Repeats: with one thread and equal seeds it is the same in every run.
	Repeats bool
	// Least is a change that no decision depends on, in Unit; 0: the margin alone decides.
	Least float64
	// Tolerance is by what share it may differ from what the counters beside it give; 0: it is
	// not computed again. See internal/explain/publish.
	Tolerance float64

	// Positive: no run that measures it has 0 of it. Versions before 0.3 stored 0 where they had
	// not measured it, without a reason.
	Positive bool
	// OfGets: it is of Gets, so a run without any has none.
	OfGets bool

	// Base is the key of the figure that this one is derived from, "" of one that is not derived.
	// Quantile ("p50", "p99") is of one that is taken from a histogram, Lookup ("account", "slot")
	// of one of lookups of a kind.
	Base, Quantile, Lookup string
}

// derived is a figure of f with a key and a noun of its own. It is not ranked by, and has no place
// in benchmark lines.
func (f Figure) derived(key, noun string) Figure {
	if f.Base == "" {
		f.Base = f.Key
	}
	f.Key, f.Noun, f.Question, f.Bench, f.Metric, f.Tolerance = key, noun, "", "", "", 0

	return f
}

func (f Figure) prefixed(prefix, noun string) Figure { return f.derived(prefix+"_"+f.Key, noun) }

func (f Figure) suffixed(suffix, noun string) Figure { return f.derived(f.Key+"_"+suffix, noun) }

// Predicted is the figure as it is predicted.
func (f Figure) Predicted() Figure { return f.prefixed("predicted", "predicted "+f.Noun) }

// Measured is the figure as it is measured, beside a prediction.
func (f Figure) Measured() Figure { return f.prefixed("measured", "measured "+f.Noun) }

// Floor is the figure with a cache of any size.
func (f Figure) Floor() Figure { return f.prefixed("floor", f.Noun+" with any cache") }

// Data is the part of data blocks.
func (f Figure) Data() Figure { return f.prefixed("data", f.Noun+", of data blocks") }

// First is the figure where nothing is cached.
func (f Figure) First() Figure { return f.prefixed("first", f.Noun+" with nothing cached") }

// Seen is the figure of a process as it was watched.
func (f Figure) Seen() Figure { return f.prefixed("seen", f.Noun+" as watched") }

// SteadyState is the figure once a cache has stopped changing.
func (f Figure) SteadyState() Figure {
	return f.prefixed("steady_state", f.Noun+" in a steady state")
}

// Settled is the figure with the work that was left in the background.
func (f Figure) Settled() Figure { return f.prefixed("settled", f.Noun+" once settled") }

// Low is the lower end of the figure's range.
func (f Figure) Low() Figure { return f.suffixed("low", "least "+f.Noun) }

// High is the upper end of the figure's range.
func (f Figure) High() Figure { return f.suffixed("high", "most "+f.Noun) }

// Spread is the figure's range.
func (f Figure) Spread() Figure { return f.suffixed("spread", "range of "+f.Noun) }

// Error is how uncertain the figure is, in its unit.
func (f Figure) Error() Figure { return f.suffixed("error", "error of "+f.Noun) }

// StandardError is the standard error of the figure, in its unit.
func (f Figure) StandardError() Figure {
	return f.suffixed("standard_error", "standard error of "+f.Noun)
}

// ByType is the figure by type of block: a number for each.
func (f Figure) ByType() Figure { return f.suffixed("by_type", f.Noun+" by block type") }

// ByLevel is the figure by level of the database: a number for each.
func (f Figure) ByLevel() Figure { return f.suffixed("by_level", f.Noun+" by level") }

// OfValues is the part of values that are stored outside the tables.
func (f Figure) OfValues() Figure { return f.suffixed("of_values", f.Noun+" of values") }

// AtRest is the figure while nothing writes.
func (f Figure) AtRest() Figure { return f.suffixed("at_rest", f.Noun+" at rest") }

// FromDevice is the part that reached the device: block_reads_from_device_per_get.
func (f Figure) FromDevice() Figure {
	key := strings.Replace(f.Key, "_per_", "_from_device_per_", 1)

	return f.derived(key, f.Noun+" from the device")
}

// Before is the figure in an earlier window, beside that of a later one.
func (f Figure) Before() Figure { return f.suffixed("before", f.Noun+" before") }

// Last is the figure in the last window.
func (f Figure) Last() Figure { return f.suffixed("last", f.Noun+" in the last window") }

// Held is the figure below the caches that its subject has itself.
func (f Figure) Held() Figure { return f.prefixed("held", f.Noun+" with its own caches") }

// P50 is the median of a duration whose histogram is stored: service_p50_ns of service_ns.
func (f Figure) P50() Figure { return f.quantile("p50") }

// P99 is the 99th percentile.
func (f Figure) P99() Figure { return f.quantile("p99") }

func (f Figure) quantile(name string) Figure {
	key := strings.Replace(f.Key, "_ns", "_"+name+"_ns", 1)
	q := f.derived(key, name+" "+f.Noun)
	q.Name, q.Quantile = name, name
	q.Bench, q.Question = name+"-"+f.Bench, f.Question

	return q
}

// OfAccount is a figure of lookups of state, of those of accounts.
func (f Figure) OfAccount() Figure { return f.ofLookup("account", "an account lookup") }

// OfSlot is a figure of lookups of state, of those of storage slots.
func (f Figure) OfSlot() Figure { return f.ofLookup("slot", "a slot lookup") }

func (f Figure) ofLookup(kind, one string) Figure {
	noun := strings.Replace(f.Noun, "per lookup", "per "+kind+" lookup", 1)
	if noun == f.Noun {
		noun = strings.Replace(noun, "service time", "time of "+one, 1)
	}
	of := f.derived(kind+"_"+f.Key, noun)
	of.Lookup, of.Bench = kind, kind+"-"+f.Bench

	return of
}

// Asks is the figure with the question that a ranking by it answers.
func (f Figure) Asks(question string) Figure {
	f.Question = question

	return f
}

// Direction is the word for a change of the figure: 18 % WORD than before.
func (f Figure) Direction(change float64) string {
	switch {
	case (f.Kind == Duration || f.Kind == Ratio) && change < 0:
		return "lower"
	case f.Kind == Duration || f.Kind == Ratio:
		return "higher"
	case change > 0:
		return "more"
	case f.Kind == Amount:
		return "less"
	}

	return "fewer"
}

// IsBetter tells whether a change is wanted. No change of a figure that is Neither is.
func (f Figure) IsBetter(change float64) bool {
	switch f.Better {
	case Higher:
		return change > 0
	case Lower:
		return change < 0
	}

	return false
}
