package engines

import (
	"fmt"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
)

// handlesTable is what open-file handles decide: how often a Get finds its table
// closed, and what it then reads to open it.
func (a arena) handlesTable() view.Table {
	if a.along != "handles" {
		return view.Table{}
	}
	us := view.Scale{Name: "us", Size: 1e3}
	t := view.Table{Columns: append(a.keys(), view.Column{Name: "table opens", Unit: "/Get"}, view.Column{Name: "their reads", Unit: "/Get"}, view.Column{Name: "block reads", Unit: "/Get"}, view.Column{Name: "mean", Unit: "us"}, view.Column{Name: "CPU", Unit: "us/Get"})}
	known := false
	for _, p := range a.measured() {
		known = known || p.Figures.TableOpensPerGet != nil
	}
	if !known {
		return view.Table{}
	}
	a.add(&t, func(p Point) []string {
		f := p.Figures
		mean := view.None
		if f.ServiceNanos != nil {
			mean = us.In(f.ServiceNanos.Mean)
		}
		return []string{view.Optional(f.TableOpensPerGet, view.PerGet), view.Counted(f.BlockReadsPerGetByType, engine.Meta.String()), view.Optional(f.BlockReadsPerGet, view.PerGet), mean, view.Positive(f.CPUNanosPerGet, us.In)}
	})
	return t
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
	var few, many *Point
	for _, p := range pts {
		if p.Figures.TableOpensPerGet == nil || p.Figures.ServiceNanos == nil {
			continue
		}
		if few == nil || *p.Figures.TableOpensPerGet < *few.Figures.TableOpensPerGet {
			few = &p
		}
		if many == nil || *p.Figures.TableOpensPerGet > *many.Figures.TableOpensPerGet {
			many = &p
		}
	}
	if few == nil {
		return m, false
	}
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
func (a arena) missSentence() string {
	var parts []string
	for _, name := range a.entrants() {
		m, ok := missOf(curve{pts: a.of(name)}.measured())
		if name != "" {
			name += ": "
		}
		switch {
		case !ok:
			parts = append(parts, name+"no two points differ enough in table opens to tell what one costs")
		case m.nanos <= 0:
			parts = append(parts, fmt.Sprintf("%sa closed table costs %s reads; its time is lost in the noise", name, view.Number(m.reads)))
		default:
			parts = append(parts, fmt.Sprintf("%sa closed table costs about %s and %s reads (%s against %s opens per Get)", name, unit.Nanos(m.nanos), view.Number(m.reads), view.PerGet(m.manyOpen), view.PerGet(m.fewOpens)))
		}
	}
	return "An estimate, from the difference of two points: " + strings.Join(parts, "; ") + "."
}
