package report

import (
	"fmt"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

// handlesTable is what open-file handles decide: how often a Get finds its table
// closed, and what it then reads to open it.
func (a arena) handlesTable() table {
	if a.along != "handles" {
		return table{}
	}
	us := scale{"us", 1e3}
	t := table{Columns: append(a.keys(), column{Name: "table opens", Unit: "/Get"}, column{Name: "their reads", Unit: "/Get"}, column{Name: "block reads", Unit: "/Get"}, column{Name: "mean", Unit: "us"}, column{Name: "CPU", Unit: "us/Get"})}
	known := false
	for _, p := range a.measured() {
		known = known || p.Figures.TableOpensPerGet != nil
	}
	if !known {
		return table{}
	}
	a.add(&t, func(p Point) []string {
		f := p.Figures
		mean := none
		if f.ServiceNanos != nil {
			mean = us.in(f.ServiceNanos.Mean)
		}
		return []string{optional(f.TableOpensPerGet, perGet), counted(f.BlockReadsPerGetByType, engine.Meta.String()), optional(f.BlockReadsPerGet, perGet), mean, positive(f.CPUNanosPerGet, us.in)}
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
			parts = append(parts, fmt.Sprintf("%sa closed table costs %s reads; its time is lost in the noise", name, number(m.reads)))
		default:
			parts = append(parts, fmt.Sprintf("%sa closed table costs about %s and %s reads (%s against %s opens per Get)", name, unit.Nanos(m.nanos), number(m.reads), perGet(m.manyOpen), perGet(m.fewOpens)))
		}
	}
	return "An estimate, from the difference of two points: " + strings.Join(parts, "; ") + "."
}
