package engines

import (
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// looksUp reports whether any point made Gets, or should have.
func (c curve) looksUp() bool {
	return slices.ContainsFunc(c.pts, func(p Point) bool {
		return p.Figures.Gets > 0 || p.Status != result.OK
	})
}

// oneLine are the settings in one sentence.
func (s *Sweep) oneLine() string {
	var parts []string
	if s.Name != "" {
		parts = append(parts, s.Name)
	}

	for _, kv := range s.settings() {
		switch kv[0] {
		case "engine", "profile", "workload", "database", "options that differ":
			parts = append(parts, kv[1])
		case "keys":
			parts = append(parts, kv[1]+" keys")
		case "threads":
			parts = append(parts, counted1("threads", strings.Split(kv[1], ", ")))
		case "seed", "page cache":
			parts = append(parts, kv[0]+" "+kv[1])
		}
	}

	return strings.Join(parts, ", ")
}

// Setting says what was measured: all settings but the seed, and nothing of when and how fast.
func (in Input) Setting() string {
	return strings.Join(doc.Each(in.Sweeps, func(s *Sweep) string {
		var parts []string
		for _, kv := range s.settings() {
			switch kv[0] {
			case "seed", "harness overhead", "source", "date":
			case "engine", "workload":
				parts = append(parts, kv[1])
			default:
				parts = append(parts, kv[0]+": "+kv[1])
			}
		}

		return strings.Join(parts, "; ")
	}), "; ")
}

// readsTable is what the points of a curve read, in the columns a terminal has room for.
//
// "top index" counts top-level indexes and the whole indexes of tables too small
// for two levels: both are what a Get reads to find its way inside a table.
func (c curve) readsTable() doc.Table {
	times := doc.TimeScale(latency("", service, p50Of).Values(c.measured()))
	speed := gets
	speed.Format = func(v float64) string {
		if v >= 1e6 {
			return doc.ShortCount(v)
		}
		return doc.Number(v)
	}

	columns := []column{blockReads, readsOf("filter reads", engine.Filter),
		readsOf("top index reads", engine.TopIndex, engine.SingleIndex),
		readsOf("index reads", engine.Index), readsOf("data reads", engine.Data)}
	values := readsOf("value reads", engine.Value)
	if slices.ContainsFunc(values.Values(c.measured()), func(v float64) bool { return v > 0 }) {
		columns = append(columns, values)
	}

	columns = append(columns, deviceReads, latency("p50", service, p50Of).In(times),
		latency("p99", service, p99Of).In(times), speed)
	return doc.TableOf(c.pts, failure, append(c.keys(), columns...)...)
}
