package engines

import (
	"fmt"
	"slices"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

const seriesPoints = 3 // of a curve: the smallest, a middle and the largest

// timed is the series of one point.
type timed struct {
	point Point
	ticks []moment
}

// moment is a tick on a clock that is 0 where measuring begins.
type moment struct {
	phase string
	at    float64
	ops   float64  // per second
	reads *float64 // block reads per operation
}

// Figures of a moment, over the clock.
var (
	clock   = view.Column[moment]{Value: func(m moment) *float64 { return &m.at }}
	speed   = view.Column[moment]{Value: func(m moment) *float64 { return &m.ops }}
	perTick = view.Column[moment]{Value: func(m moment) *float64 { return m.reads }}
)

// seriesChart is what happened second by second in the warm and the measured
// phase. some says how many of the points are drawn, if not all are.
func seriesChart(c curve) (chart *view.Chart, all []timed, some string) {
	with := c.having(func(p Point) bool { return len(p.Ticks) > 1 })
	chart = view.NewChart("operations per second and block reads per operation over time", view.Linear("seconds since measuring began", view.AsNumber),
		view.Axis{Label: "operations per second", Format: view.AsCount}, view.Axis{Label: "block reads per op"})
	speeds, reads := chart.Panels[0], chart.Panels[1]
	for n, i := range view.Spaced(len(with), seriesPoints) {
		t := seriesOf(with[i])
		if len(t.ticks) < 2 {
			continue
		}
		look := view.RampStyle(n*3, view.MaxLines)
		speeds.Line(c.pointName(t.point), view.Thin(speed.Against(clock, t.ticks)), look)
		if perOp := perTick.Against(clock, t.ticks); slices.ContainsFunc(perOp, func(at view.XY) bool { return at.Y > 0 }) {
			reads.Line(c.pointName(t.point), view.Thin(perOp), look)
		}
		all = append(all, t)
	}
	if !chart.Drawn() {
		return nil, nil, ""
	}
	if first, _ := chart.SpanX(); first < 0 {
		chart.Marks = []view.Mark{{X: 0, Color: view.Muted, Dashed: true}}
	}
	if len(all) < len(c.pts) {
		some = fmt.Sprintf(" Drawn: %d of %d points.", len(all), len(c.pts))
	}
	return chart, all, some
}

// seriesOf lays the phases one after the other, on a clock that is 0 where
// measuring begins (or, in a run that never did, at the first tick). Of a run
// that measured, only the warm and the measured phase are shown.
func seriesOf(p Point) timed {
	measured := slices.ContainsFunc(p.Ticks, func(tick result.Tick) bool { return tick.Phase == "measure" })
	t := timed{point: p}
	now, zero, phase := 0.0, 0.0, ""
	var last float64 // the phase's clock at the tick before
	for _, tick := range p.Ticks {
		if measured && tick.Phase != "warm" && tick.Phase != "measure" {
			continue
		}
		if tick.Phase != phase || restarted(tick, last) {
			last = 0
		}
		if tick.Phase == "measure" && phase != "measure" {
			zero = now
		}
		now, last, phase = now+tick.Seconds-last, tick.Seconds, tick.Phase
		m := moment{phase: tick.Phase, at: now, ops: tick.OpsPerSecond, reads: tick.BlockReadsPerOp}
		if m.ops == 0 {
			m.ops = tick.PutsPerSecond
		}
		t.ticks = append(t.ticks, m)
	}
	for i := range t.ticks {
		t.ticks[i].at -= zero
	}
	return t
}

// restarted reports whether a tick began before the one before it ended at
// last: a phase made of several rounds starts its clock again with each.
func restarted(tick result.Tick, last float64) bool {
	if tick.Ops == 0 || !(tick.OpsPerSecond > 0) {
		return tick.Seconds <= last
	}
	length := float64(tick.Ops) / tick.OpsPerSecond
	return tick.Seconds-length < last-length/2
}

// seriesTable summarises each phase of each line; every tick is in series.jsonl.
func seriesTable(c curve, all []timed) view.Table {
	var parts []timed
	for _, t := range all {
		parts = append(parts, byPhase(t)...)
	}
	rate := func(name string, pick func(sorted []float64) float64) view.Column[timed] {
		return view.Figure(name, "ops/s", nil, func(t timed) float64 { return pick(slices.Sorted(slices.Values(speed.Values(t.ticks)))) })
	}
	read := func(name string, pick func([]float64) float64) view.Column[timed] {
		return view.Optional(name, "block reads/op", view.PerGet, func(t timed) *float64 {
			if reads := perTick.Values(t.ticks); len(reads) > 0 {
				return view.Some(pick(reads))
			}
			return nil
		})
	}
	return view.TableOf(parts, nil,
		view.Words("point", func(t timed) string { return c.pointName(t.point) }),
		view.Words("phase", func(t timed) string { return t.ticks[0].phase }),
		view.Figure("samples", "", view.Digits, func(t timed) float64 { return float64(len(t.ticks)) }),
		rate("slowest", func(s []float64) float64 { return s[0] }), rate("median", func(s []float64) float64 { return s[len(s)/2] }),
		rate("fastest", func(s []float64) float64 { return s[len(s)-1] }),
		read("first", func(of []float64) float64 { return of[0] }), read("last", func(of []float64) float64 { return of[len(of)-1] }))
}

// byPhase cuts a series where its phase changes.
func byPhase(t timed) []timed {
	var parts []timed
	for i, m := range t.ticks {
		if i == 0 || m.phase != t.ticks[i-1].phase {
			parts = append(parts, timed{point: t.point})
		}
		last := &parts[len(parts)-1]
		last.ticks = append(last.ticks, m)
	}
	return parts
}
