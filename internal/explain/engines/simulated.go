package engines

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// simulatedRow is a cache of a sweep that was simulated and, of some, also measured.
type simulatedRow struct {
	result.PredictedPoint
	measured *float64 // block reads per Get
}

// simulated are the caches of a sweep that was to simulate more than it measured, in ascending
// order, with those that it measured; nil of another one.
func (c curve) simulated() (rows []simulatedRow) {
	if c.x != "cache" || len(c.sweep.Simulated) == 0 {
		return nil
	}

	for _, p := range slices.Concat(c.sweep.Simulated, c.sweep.Predicted) {
		row := simulatedRow{PredictedPoint: p}
		for _, m := range c.withReads() {
			if m.CacheBytes == p.CacheBytes {
				row.measured = m.Figures.Pointer(figure.BlockReadsPerGet)
			}
		}

		rows = append(rows, row)
	}

	slices.SortFunc(rows, func(a, b simulatedRow) int {
		return cmp.Compare(a.CacheBytes, b.CacheBytes)
	})
	return rows
}

// simulatedSentence is the answer of the simulated caches: the study's two questions, and how far
// the simulation is from what was measured; "" if no more was simulated than measured.
func (c curve) simulatedSentence() string {
	rows := c.simulated()
	if len(rows) == 0 {
		return ""
	}

	text := "Simulated from the same Gets: "
	for i, row := range []simulatedRow{rows[0], rows[len(rows)-1]} {
		if i > 0 {
			text += ", "
		}
		text += doc.PerGet(row.BlockReadsPerGet) + " block reads per Get at " +
			doc.ShortBytes(row.CacheBytes)
	}

	for _, limit := range []float64{nearTwo, nearOne} {
		at := slices.IndexFunc(rows,
			func(row simulatedRow) bool { return row.BlockReadsPerGet < limit })
		if at > 0 {
			text += fmt.Sprintf("; fewer than %g with %s or more, not with %s", limit,
				doc.ShortBytes(rows[at].CacheBytes), doc.ShortBytes(rows[at-1].CacheBytes))
		}
	}

	if worst, at := worstOf(rows); at != nil {
		const least = 0.01 // percent
		text += ". Where the cache was measured as well, the simulation "
		if worst < least {
			text += "equals that"
		} else {
			text += "is within " + doc.Percent(worst)
		}

		text += fmt.Sprintf(" (%s: %s measured, %s simulated)", doc.ShortBytes(at.CacheBytes),
			thousandths(*at.measured), thousandths(at.BlockReadsPerGet))
	}

	return text + "."
}

// worstOf is the largest difference between simulated and measured block reads, in percent, and
// where it is; nil if no cache has both.
func worstOf(rows []simulatedRow) (percent float64, at *simulatedRow) {
	for i, row := range rows {
		if d := row.difference(); d != nil && (at == nil || max(*d, -*d) > percent) {
			percent, at = max(*d, -*d), &rows[i]
		}
	}
	return percent, at
}

// difference is simulated - measured, in percent of what was measured.
func (r simulatedRow) difference() *float64 {
	if r.measured == nil || *r.measured == 0 {
		return nil
	}
	const parts = 1e4 // hundredths of a percent; without a negative zero
	return doc.Some(math.Round(parts*(r.BlockReadsPerGet/(*r.measured)-1))/100 + 0)
}

// simulatedBlock draws the simulated caches and what was measured of them.
func (c curve) simulatedBlock() (b doc.Block, is bool) {
	rows := c.simulated()
	if len(rows) == 0 {
		return b, false
	}

	columns := append(
		sizeColumns(func(r simulatedRow) int64 { return r.CacheBytes }, c.sweep.Database.Bytes),
		doc.Figure("simulated", "/Get", thousandths,
			func(r simulatedRow) float64 { return r.BlockReadsPerGet }),
		doc.Optional("measured", "/Get", thousandths,
			func(r simulatedRow) *float64 { return r.measured }),
		doc.Optional("difference", "%", hundredths, simulatedRow.difference),
		doc.Optional("hit rate", "%", hundredths, func(r simulatedRow) *float64 {
			return doc.Times(doc.At(r.HitRate, "all"), 100)
		}),
	)

	return doc.Block{
		Title:  "Simulated caches",
		Method: "simulation.md",
		Note: "The Gets of this sweep were traced once: which blocks each asks for follows from " +
			"the filters and indexes of the database. The trace was then replayed through a " +
			"model of the engine's cache at each size.",
		Chart: c.simulatedChart(),
		Table: doc.TableOf(rows, nil, columns...),
	}, true
}

func (c curve) simulatedChart() *doc.Chart {
	rows := c.simulated()
	if len(rows) < 2 {
		return nil
	}

	chart, panel := doc.OnePanel("simulated block reads per Get by cache size", c.sweep.sizes(),
		readsPerGet)
	simulated := doc.Each(rows, func(r simulatedRow) doc.XY {
		return doc.XY{
			X:    float64(r.CacheBytes),
			Y:    r.BlockReadsPerGet,
			Text: doc.PerGet(r.BlockReadsPerGet),
		}
	})
	if !panel.Line("simulated", simulated, doc.CurveStyle(0)) {
		return nil
	}

	if measured := blockReads.Against(cacheBytes, c.withReads()); len(measured) > 0 {
		look := doc.Style{Color: doc.Ink, Shape: doc.Pyramid, Width: 1.4}
		panel.Line("measured", measured, look)
	}

	markInflection(chart, c.sweep.Inflection, reservedOf(c.pts))
	panel.Labels(simulated)
	return chart
}
