package engines

import (
	"cmp"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// ledger is what the points that wrote wrote, by cause, beside what they read meanwhile;
// without rows where none did.
func (s *Sweep) ledger() view.Table {
	wrote := slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool { return len(p.Figures.WriteBytesPerPut) == 0 })
	bytes := func(cause string) column {
		return figure(cause, "B/put", nil, func(f result.Figures) *float64 { return view.At(f.WriteBytesPerPut, cause) })
	}
	commits := func(f result.Figures) *result.Latency { return f.PutNanos }
	return view.TableOf(wrote, failure, view.Words("point", s.differing),
		figure("puts", "/s", view.ShortCount, func(f result.Figures) *float64 { return view.Of(f.PutsPerSecond) }),
		bytes(result.LedgerUser).Named("user", "B/put"), bytes(result.LedgerJournal), bytes(result.LedgerFlush),
		bytes(result.LedgerCompaction).Named("compact", "B/put"),
		bytes(result.LedgerSynced), bytes(result.LedgerDevice),
		figure("syncs", "", view.ShortCount, func(f result.Figures) *float64 { return view.Whole(f.Syncs) }).Spared(2),
		latency("commit p50", commits, p50Of), latency("commit p99", commits, p99Of),
		figure("stalls", "", view.Digits, func(f result.Figures) *float64 { return view.Whole(f.Stalls) }).Spared(2),
		figure("stalled", "s", nil, func(f result.Figures) *float64 { return f.StallSeconds }).Spared(2),
		gets.Spared(1), latency("Get p99", service, p99Of).Spared(1))
}

// differing names a point by what varies in its sweep.
func (s *Sweep) differing(p Point) string {
	var parts []string
	for _, axis := range s.varied {
		parts = append(parts, axisValue(axis, p.Axes[axis]))
	}
	return cmp.Or(strings.Join(parts, ", "), "all")
}
