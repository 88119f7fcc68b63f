package engines

import (
	"math"
	"slices"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

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

func (t timed) speeds() plotter.XYs {
	var xys plotter.XYs
	for _, m := range t.ticks {
		xys = append(xys, plotter.XY{X: m.at, Y: m.ops})
	}
	return view.Finite(xys, false, false)
}

func (t timed) reads() plotter.XYs {
	var xys plotter.XYs
	for _, m := range t.ticks {
		if m.reads != nil {
			xys = append(xys, plotter.XY{X: m.at, Y: *m.reads})
		}
	}
	return view.Finite(xys, false, false)
}

// seriesChart is what happened second by second in the warm and the measured
// phase.
func seriesChart(c curve) (*view.Picture, []timed) {
	var with []Point
	for _, p := range c.pts {
		if len(p.Ticks) > 1 {
			with = append(with, p)
		}
	}
	if len(with) == 0 {
		return nil, nil
	}
	speed, reads := view.NewPanel("operations per second"), view.NewPanel("block reads per op")
	pic := &view.Picture{About: "operations per second and block reads per operation over time", Panels: []*plot.Plot{speed}, Height: view.PictureHeight}
	var all []timed
	topSpeed, topReads, first, last := 0.0, 0.0, 0.0, 0.0
	for n, i := range view.Spaced(len(with), view.SeriesPoints) {
		t := seriesOf(with[i])
		ops, perOp := t.speeds(), t.reads()
		if len(ops) < 2 {
			continue
		}
		look := view.RampStyle(n*3, view.MaxLines)
		pic.Add(pointName(c, t.point), view.Line(speed, view.Thin(ops), look)...)
		view.Line(reads, view.Thin(perOp), look)
		topSpeed, topReads = math.Max(topSpeed, view.Highest(ops)), math.Max(topReads, view.Highest(perOp))
		first, last = math.Min(first, ops[0].X), math.Max(last, ops[len(ops)-1].X)
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, nil
	}
	if topReads > 0 {
		pic.Panels = append(pic.Panels, reads)
		pic.Height = view.TwoPanels
	}
	view.LinearAxis(&speed.Y, 1.05*topSpeed)
	view.LinearAxis(&reads.Y, 1.05*topReads)
	for _, panel := range pic.Panels {
		panel.X.Min, panel.X.Max = first, math.Max(last, first+1)
		step := view.RoundStep((last - first) / 8)
		panel.X.Tick.Marker = view.Steps(step*math.Ceil(first/step), last, step, func(v float64) string { return view.Trimmed(v, math.Min(step, 100)) })
		if first < 0 {
			panel.Add(&view.Marks{List: []view.Mark{{X: 0, Color: view.Muted, Dashed: true}}})
		}
	}
	pic.Panels[len(pic.Panels)-1].X.Label.Text = "seconds since measuring began"
	return pic, all
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
	t := view.Table{Columns: []view.Column{{Name: "point", Text: true}, {Name: "phase", Text: true}, {Name: "ticks"},
		{Name: "slowest", Unit: "ops/s"}, {Name: "median", Unit: "ops/s"}, {Name: "fastest", Unit: "ops/s"},
		{Name: "first", Unit: "block reads/op"}, {Name: "last", Unit: "block reads/op"}}}
	for _, s := range all {
		for _, part := range byPhase(s) {
			var rates []float64
			for _, m := range part.ticks {
				rates = append(rates, m.ops)
			}
			slices.Sort(rates)
			first, last := view.None, view.None
			if reads := part.reads(); len(reads) > 0 {
				first, last = view.PerGet(reads[0].Y), view.PerGet(reads[len(reads)-1].Y)
			}
			t.Add(pointName(c, s.point), part.ticks[0].phase, unit.Count(len(rates)), view.Number(rates[0]), view.Number(rates[len(rates)/2]), view.Number(rates[len(rates)-1]), first, last)
		}
	}
	t.Drop()
	return t
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
