package engines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// handlesTable is what open-file handles decide: how often a Get finds its table
// closed, and what it then reads to open it.
func (c curve) handlesTable() view.Table {
	opens := perGet("table opens", func(f result.Figures) *float64 { return f.TableOpensPerGet })
	if c.x != "handles" || len(opens.Values(c.measured())) == 0 {
		return view.Table{}
	}
	return c.table(opens, readsOf("their reads", engine.Meta), blockReads,
		latency("mean", service, meanOf), cpuTime)
}

// fewestOpens is the least difference in table opens per Get from which the cost
// of one is told.
const fewestOpens = 0.01

// miss is what one closed table costs a Get, between the points with the fewest
// and the most.
type miss struct {
	nanos, reads       float64
	fewOpens, manyOpen float64
}

func missOf(pts []Point) (m miss, ok bool) {
	pts = slices.DeleteFunc(slices.Clone(pts), func(p Point) bool { return p.Figures.TableOpensPerGet == nil || p.Figures.ServiceNanos == nil })
	if len(pts) == 0 {
		return m, false
	}
	byOpens := func(a, b Point) int { return cmp.Compare(*a.Figures.TableOpensPerGet, *b.Figures.TableOpensPerGet) }
	few, many := slices.MinFunc(pts, byOpens), slices.MaxFunc(pts, byOpens)
	m.fewOpens, m.manyOpen = *few.Figures.TableOpensPerGet, *many.Figures.TableOpensPerGet
	opens := m.manyOpen - m.fewOpens
	if opens < fewestOpens {
		return m, false
	}
	meta := engine.Meta.String()
	m.nanos = (many.Figures.ServiceNanos.Mean - few.Figures.ServiceNanos.Mean) / opens
	m.reads = (many.Figures.BlockReadsPerGetByType[meta] - few.Figures.BlockReadsPerGetByType[meta]) / opens
	return m, true
}

// missSentence is the estimate for every entrant.
func (c curve) missSentence() string {
	var parts []string
	for _, name := range c.entrants() {
		m, ok := missOf(c.of(name).measured())
		name = before(name, ": ")
		switch {
		case !ok:
			parts = append(parts, name+"no two points differ enough in table opens to tell what one costs")
		case m.nanos <= 0:
			parts = append(parts, fmt.Sprintf("%sa closed table costs %s reads; its time is lost in the noise", name, view.Number(m.reads)))
		default:
			parts = append(parts, fmt.Sprintf("%sa closed table costs about %s and %s reads (%s against %s opens per Get)", name, view.Nanos(m.nanos),
				view.Number(m.reads), view.PerGet(m.manyOpen), view.PerGet(m.fewOpens)))
		}
	}
	return "An estimate, from the difference of two points: " + strings.Join(parts, "; ") + "."
}
