package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// otherMix are shares of the Gets, as a difference between two watches, from which what they look
// up is no longer alike.
const otherMix = .05

// mixNote says how the Gets of two watches differ: by kind of key, the most first, and in how many
// found nothing; "" where they are alike. Reads per Get then follow from that, too, and not only
// from what was changed between the watches.
func mixNote(a, b *result.Watch) string {
	if a == nil || b == nil || a.Gets == 0 || b.Gets == 0 {
		return ""
	}

	type change struct {
		words    string
		from, to float64
	}

	shares := func(w *result.Watch) map[string]float64 {
		of := map[string]float64{}
		for _, k := range w.Keys {
			of[k.Kind] += float64(k.Gets) / float64(w.Gets)
		}
		return of
	}

	before, after := shares(a), shares(b)
	kinds := doc.Distinct(append(slices.Clone(a.Keys), b.Keys...),
		func(k result.WatchedKeys) string { return k.Kind })
	changes := doc.Each(kinds, func(kind string) change {
		return change{"are of " + unit.Printable(kind), before[kind], after[kind]}
	})
	changes = append(changes, change{"find nothing", a.Absent, b.Absent})
	changes = slices.DeleteFunc(changes, func(c change) bool {
		return math.Abs(c.to-c.from) < otherMix
	})
	if len(changes) == 0 {
		return ""
	}

	slices.SortStableFunc(changes, func(a, b change) int {
		return cmp.Compare(math.Abs(b.to-b.from), math.Abs(a.to-a.from))
	})
	return "Their Gets differ, and with them the reads per Get: " +
		doc.List(changes[:min(3, len(changes))], func(c change) string {
			return fmt.Sprintf("%.0f %% and %.0f %% %s", 100*c.from, 100*c.to, c.words)
		})
}
