package compare

import (
	"math"
	"slices"
	"strconv"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// metric is a figure of a run that is compared. It is declared once: the sentence, the
// tables and the Go benchmark lines come from it.
type metric struct {
	name   string // in JSON, in --fail-if
	noun   string // in a sentence: 18 % fewer <noun>
	bench  string // unit of a Go benchmark line
	scale  view.Scale
	higher bool // is better
	count  bool // repeats exactly with one thread and equal seeds
	much   bool // an amount: less and more, not fewer; lower and higher of times
	time   bool
	least  float64 // a change below it does not matter; 0: the margin alone decides
	value  func(*result.Run) *float64
}

func (m metric) direction(change float64) string {
	switch {
	case m.time && change < 0:
		return "lower"
	case m.time:
		return "higher"
	case change > 0:
		return "more"
	case m.much:
		return "less"
	}
	return "fewer"
}

// better tells whether a change is wanted.
func (m metric) better(change float64) bool { return m.higher == (change > 0) }

// middle is the value of the run that stands for all in this figure, by the rule of sweeps and
// replays: the one in the middle, of an even number the worse of the two.
func (m metric) middle(values []float64) float64 {
	return result.Representative(values, func(v float64) float64 {
		if m.higher {
			return -v
		}
		return v
	})
}

// edge is the largest change that does not matter, as a share of a where relative, else in the
// unit of the figure.
func (m metric) edge(margin, a, b float64, relative bool) float64 {
	if relative {
		return max(margin, m.least/a)
	}
	return max(margin*max(a, b), m.least)
}

func latencyMetric(name, noun, unit string, of func(result.Figures) *result.Latency, pick func(*result.Latency) float64) metric {
	return metric{name: name, noun: noun, bench: unit, scale: view.Micros, time: true,
		value: func(r *result.Run) *float64 { return view.Via(of(r.Figures), pick) }}
}

// leastReads is a difference in reads per Get that no decision depends on; tables and charts
// show nothing finer either.
const leastReads = 0.001

func p50(l *result.Latency) float64 { return float64(l.P50) }
func p99(l *result.Latency) float64 { return float64(l.P99) }

// metrics are all that runs can be compared by; absent ones are left out of a comparison.
func metrics() []metric {
	service := func(f result.Figures) *result.Latency { return f.ServiceNanos }
	response := func(f result.Figures) *result.Latency { return f.ResponseNanos }
	list := []metric{
		{name: "block_reads_per_get", noun: "block reads per Get", bench: "block-reads/op", count: true, least: leastReads,
			value: func(r *result.Run) *float64 { return r.Figures.BlockReadsPerGet }},
		{name: "device_reads_per_get", noun: "device reads per Get", bench: "device-reads/op", least: leastReads,
			value: func(r *result.Run) *float64 { return r.Figures.DeviceReadsPerGet }},
		{name: "gets_per_second", noun: "Gets per second", bench: "gets/s", higher: true, value: func(r *result.Run) *float64 {
			if r.Workload.Rate > 0 {
				return nil // the schedule's
			}
			return view.Of(r.Figures.GetsPerSecond)
		}},
		closed(latencyMetric("service_p50_ns", "p50 service time", "p50-ns", service, p50)),
		closed(latencyMetric("service_p99_ns", "p99 service time", "p99-ns", service, p99)),
		latencyMetric("response_p50_ns", "p50 response time", "p50-response-ns", response, p50),
		latencyMetric("response_p99_ns", "p99 response time", "p99-response-ns", response, p99),
		{name: "cpu_ns_per_get", noun: "CPU time per Get", bench: "cpu-ns/op", scale: view.Micros, time: true,
			value: func(r *result.Run) *float64 { return view.Of(r.Figures.CPUNanosPerGet) }},
		{name: "puts_per_second", noun: "Puts per second", bench: "puts/s", higher: true,
			value: func(r *result.Run) *float64 { return view.Of(r.Figures.PutsPerSecond) }},
		{name: "write_amplification", noun: "write amplification", bench: "write-amplification", time: true,
			value: func(r *result.Run) *float64 { return r.Figures.WriteAmplification }},
		{name: "leaves_per_second", noun: "leaves per second", bench: "leaves/s", higher: true,
			value: ofReplay(func(f *result.Replay) *float64 { return view.Of(f.LeavesPerSecond) })},
		{name: "commit_p99_ns", noun: "p99 commit time", bench: "p99-commit-ns", scale: view.Millis, time: true,
			value: ofReplay(func(f *result.Replay) *float64 { return view.Via(f.CommitNanos, p99) })},
		{name: "nodes", noun: "nodes written", bench: "nodes", count: true, value: ofReplay(func(f *result.Replay) *float64 { return view.Whole(f.Nodes) })},
		{name: "disk_bytes", noun: "disk space", bench: "disk-B", scale: view.MiB, much: true,
			value: ofReplay(func(f *result.Replay) *float64 { return view.Whole(f.DiskBytes) })},
	}
	list = append(list, lookupMetrics(result.AccountLookup, "an account lookup")...)
	return append(list, lookupMetrics(result.SlotLookup, "a slot lookup")...)
}

// lookupMetrics are those of lookups of a kind in a state that does not fit in memory.
func lookupMetrics(kind, one string) []metric {
	of := func(pick func(*result.Lookups) *float64) func(*result.Run) *float64 {
		return func(r *result.Run) *float64 {
			if r.Figures.State == nil {
				return nil
			}
			i := slices.IndexFunc(r.Figures.State.Lookups, func(l result.Lookups) bool {
				return l.Kind == kind && l.Condition == result.HeldLookups && l.InFlight == 1
			})
			if i < 0 {
				return nil
			}
			return pick(&r.Figures.State.Lookups[i])
		}
	}
	return []metric{
		{name: kind + "_nodes_per_lookup", noun: "nodes per " + kind + " lookup", bench: kind + "-nodes/op", count: true,
			value: of(func(l *result.Lookups) *float64 { return l.Nodes })},
		{name: kind + "_device_bytes_per_lookup", noun: "device bytes per " + kind + " lookup", bench: kind + "-device-B/op",
			value: of(func(l *result.Lookups) *float64 { return &l.DeviceBytes })},
		{name: kind + "_service_p50_ns", noun: "p50 time of " + one, bench: kind + "-p50-ns", scale: view.Micros, time: true,
			value: of(func(l *result.Lookups) *float64 { return view.Via(l.ServiceNanos, p50) })},
	}
}

// closed is a metric that an open-loop run replaces by its response time.
func closed(m metric) metric {
	value := m.value
	m.value = func(r *result.Run) *float64 {
		if r.Workload.Rate > 0 {
			return nil
		}
		return value(r)
	}
	return m
}

func ofReplay(of func(*result.Replay) *float64) func(*result.Run) *float64 {
	return func(r *result.Run) *float64 { return view.From(r.Figures.Replay, of) }
}

// Names are those of all metrics.
func Names() (names []string) {
	for _, m := range metrics() {
		names = append(names, m.name)
	}
	return names
}

// print writes a value in the metric's unit.
func (m metric) print(v float64) string {
	if m.scale.Size > 0 {
		return view.Number(v/m.scale.Size) + " " + m.scale.Name
	}
	if m.least > 0 && math.Abs(v) < 100*m.least { // nothing finer than a tenth of what matters
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	if m.count {
		return view.PerGet(v)
	}
	return view.Number(v)
}
