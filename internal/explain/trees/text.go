package trees

import (
	"cmp"
	"fmt"
	"io"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// Text prints the answer, the table of figures and what they depend on.
func (in Input) Text(w io.Writer) error {
	out := view.NewText(w, 80)
	for _, answer := range in.answers() {
		out.Wrap(answer, "  ")
	}
	out.Warnings(append(in.damages(), in.otherSets()...))
	for _, table := range []view.Table{in.speed(), in.state()} {
		out.Line("")
		out.Table(table)
	}
	out.Line("\nDurability and history (a tree that keeps less can be faster):")
	for _, t := range in.trees {
		out.Wrap(fmt.Sprintf("- %s: %s; history: %s", t.Tree, t.Durability, t.History), "  ")
	}
	out.Line("\nCounters that must repeat:")
	for _, c := range in.Counters {
		out.Wrap("- "+countersSentence(c), "  ")
	}
	if line := in.harness(); line != "" {
		out.Line("")
		out.Wrap(line, "  ")
	}
	return out.Flush()
}

type column = view.Column[replayed]

// figure is a column of figures of a tree.
func figure(name, unit string, value func(result.Figures) *float64) column {
	return view.Optional(name, unit, nil, func(of replayed) *float64 { return value(of.Figures) })
}

// quantile is a column of a quantile of durations.
func quantile(name, unit string, in view.Scale, of func(result.Figures) *result.Latency, value func(*result.Latency) float64) column {
	return figure(name, "", func(f result.Figures) *float64 { return view.Via(of(f), value) }).In(in).Named(name, unit)
}

func (in Input) table(columns ...column) view.Table {
	failed := func(of replayed) string {
		if of.Status == result.OK {
			return ""
		}
		return cmp.Or(of.Tell(of.Error), of.Status)
	}
	tree := view.Words("tree", func(of replayed) string { return of.Tree })
	return view.TableOf(in.trees, failed, append([]column{tree}, columns...)...)
}

// speed is what a tree does in a second.
func (in Input) speed() view.Table {
	commit := func(f result.Figures) *result.Latency { return f.CommitNanos }
	p50, p99 := func(l *result.Latency) float64 { return float64(l.P50) }, func(l *result.Latency) float64 { return float64(l.P99) }
	return in.table(
		figure("leaves", "per s", func(f result.Figures) *float64 { return view.Some(f.LeavesPerSecond) }),
		column{Name: "repeats", Unit: "from to", Spare: 1, Words: func(of replayed) string {
			r, ok := of.Spread["leaves_per_second"]
			if !ok {
				return view.None
			}
			return view.ShortCount(r.Low) + " " + view.ShortCount(r.High)
		}},
		figure("settled", "per s", func(f result.Figures) *float64 {
			if f.SettledPerSecond < .99*f.LeavesPerSecond {
				return view.Some(f.SettledPerSecond)
			}
			return nil
		}),
		figure("last window", "per s", func(f result.Figures) *float64 {
			return view.Via(f.LastWindow, func(w *result.Window) float64 { return w.LeavesPerSecond })
		}),
		figure("nodes", "per s", func(f result.Figures) *float64 { return f.NodesPerSecond }),
		quantile("commit", "p50 ms", view.Millis, commit, p50), quantile("commit", "p99 ms", view.Millis, commit, p99),
		figure("db gets", "per s", func(f result.Figures) *float64 { return f.DBGetsPerSecond }),
		quantile("Get", "p50 us", view.Micros, func(f result.Figures) *result.Latency { return f.ServiceNanos }, p50))
}

// state is what a tree has become and what it takes.
func (in Input) state() view.Table {
	height := figure("height", "", func(f result.Figures) *float64 { return view.Whole(f.TreeHeight) })
	height.Format = view.Digits
	return in.table(
		figure("memory", "", func(f result.Figures) *float64 { return view.Of(f.PeakRSSBytes) }).Suited(in.trees),
		figure("disk", "", func(f result.Figures) *float64 { return view.Whole(f.DiskBytes) }).Suited(in.trees),
		figure("bytes written", "per byte given", func(f result.Figures) *float64 { return f.DeviceWriteAmplification }),
		figure("tree size", "leaves", func(f result.Figures) *float64 { return view.Whole(f.TreeSize) }),
		height, figure("cache hits", "", func(f result.Figures) *float64 { return view.Whole(f.CacheHits) }),
		figure("misses", "", func(f result.Figures) *float64 { return view.Whole(f.CacheMisses) }),
		figure("log cache", "hits per s", func(f result.Figures) *float64 { return f.LogHitsPerSecond }).Spared(1))
}

// harness says how much of the fastest tree's time was the harness'.
func (in Input) harness() string {
	worst, of := 0.0, replayed{}
	for _, t := range in.trees {
		if p := t.Figures.HarnessPercent; t.Status == result.OK && t.RootRule != result.NoRoots && p != nil && *p > worst {
			worst, of = *p, t
		}
	}
	if of.Tree == "" {
		return ""
	}
	return fmt.Sprintf("Statelab's own work: %s per leaf, at most %s%% of the time of a tree (%s).",
		view.Nanos(*of.Figures.HarnessNanos), unit.Significant(worst, 2), of.Tree)
}
