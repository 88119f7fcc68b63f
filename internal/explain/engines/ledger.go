package engines

import (
	"slices"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// ledger is what the points that wrote wrote, by cause, beside what they read meanwhile;
// without rows where none did.
func (s *Sweep) ledger() view.Table {
	wrote := slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool { return len(p.Figures.WriteBytesPerPut) == 0 })
	bytes := func(cause string) column {
		return figure(cause, "B/put", nil, func(f result.Figures) *float64 {
			if n, known := f.WriteBytesPerPut[cause]; known {
				return &n
			}
			return nil
		})
	}
	commits := func(f result.Figures) *result.Latency { return f.PutNanos }
	return view.TableOf(wrote, failure, column{Name: "point", Left: true, Key: true, Words: pointLabel},
		figure("puts", "/s", view.ShortCount, func(f result.Figures) *float64 { return view.Of(f.PutsPerSecond) }),
		bytes(result.LedgerUser), bytes(result.LedgerJournal), bytes(result.LedgerFlush), bytes(result.LedgerCompaction), bytes(result.LedgerDevice),
		latency("commit p50", commits, p50Of), latency("commit p99", commits, p99Of),
		figure("stalls", "", view.Digits, func(f result.Figures) *float64 { return view.Whole(f.Stalls) }),
		figure("stalled", "s", nil, func(f result.Figures) *float64 { return f.StallSeconds }),
		gets, latency("Get p99", service, p99Of))
}
