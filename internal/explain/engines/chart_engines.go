package engines

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// enginesChart has a group of bars per stop and a bar per entrant, above Gets a
// second, below the mean service time. Over each bar stand its ideal, the first
// stop's speed scaled by the threads, and what the disk leaves to it.
func (a arena) enginesChart() *view.Picture {
	if len(a.measured()) == 0 {
		return nil
	}
	speed, mean := view.NewPanel("Gets per second"), view.NewPanel("mean service time")
	pic := &view.Picture{About: "Gets per second and mean service time by engine", Panels: []*plot.Plot{speed, mean}, Height: 1.2 * view.TwoPanels}
	stops, entrants := a.stops(), a.entrants()
	groups := make([][]Point, len(entrants))
	for i, name := range entrants {
		groups[i] = a.of(name)
	}
	ceilings := ceilingsDrawn(a.sweep, groups)
	width := vg.Points(math.Min(30, 470/float64(len(stops)*(len(entrants)+1))))
	ideals, limits := &view.BarTicks{Width: width, Color: view.Ink}, &view.BarTicks{Width: width, Color: view.LimitColor, Dashed: true}
	slowest := &view.BarTicks{Width: width, Color: view.LimitColor, Dashed: true}
	spans, missing := &view.BarSpans{}, &view.BarCrosses{}
	topSpeed, topMean := 0.0, 0.0
	for i := range entrants {
		offset := width * vg.Length(float64(i)-float64(len(entrants)-1)/2)
		look := view.CurveStyle(i)
		fast := &plotter.BarChart{Width: width, Offset: offset, Color: look.Color, Values: make(plotter.Values, len(stops))}
		slow := &plotter.BarChart{Width: width, Offset: offset, Color: look.Color, Values: make(plotter.Values, len(stops))}
		any, failed := false, 0
		var first *Point
		for n, p := range groups[i] {
			at := slices.Index(stops, p.Axes[a.along])
			if p.Status != result.OK || !(p.Figures.GetsPerSecond > 0) || p.Figures.GetsPerSecond > 1e15 {
				missing.Add(at, offset, look.Color)
				failed++
				continue
			}
			any = true
			f := p.Figures
			fast.Values[at] = f.GetsPerSecond
			topSpeed = math.Max(topSpeed, f.GetsPerSecond)
			if l := f.ServiceNanos; l != nil && l.Mean > 0 && l.Mean < 1e15 {
				slow.Values[at] = l.Mean
				topMean = math.Max(topMean, l.Mean)
			}
			if r, ok := p.Spread["gets_per_second"]; ok && r.Low > 0 && r.High > r.Low {
				spans.Add(at, offset, view.Range(r))
				topSpeed = math.Max(topSpeed, r.High)
			}
			if a.along == "threads" {
				if first == nil {
					first = &p
				} else if from, err := strconv.ParseFloat(first.Axes["threads"], 64); err == nil && from > 0 {
					ideals.Add(at, offset, first.Figures.GetsPerSecond*float64(p.threads())/from)
				}
			}
			if ceilings != nil && ceilings[i][n].getsPerSecond > 0 {
				limits.Add(at, offset, ceilings[i][n].getsPerSecond)
				slowest.Add(at, offset, ceilings[i][n].nanosPerGet)
			}
		}
		name := entrants[i]
		if !any {
			pic.Add(name+" (failed)", view.EmptyThumb{Color: look.Color})
			continue
		}
		speed.Add(fast)
		mean.Add(slow)
		if failed > 0 {
			name += fmt.Sprintf(" (%d failed)", failed)
		}
		if name != "" {
			pic.Add(name, fast)
		}
	}
	top := 1.05 * topSpeed
	for _, v := range limits.Values() {
		if v < 1.6*topSpeed {
			top = math.Max(top, 1.05*v)
		}
	}
	for _, extra := range []plot.Plotter{spans, missing, ideals, limits} {
		speed.Add(extra)
	}
	mean.Add(missing, slowest)
	if len(ideals.At) > 0 {
		pic.Add("ideal", view.TickThumb{Of: ideals})
	}
	if len(limits.At) > 0 {
		pic.Add("disk's limit", view.TickThumb{Of: limits})
	}
	for panel, high := range map[*plot.Plot]float64{speed: top, mean: 1.05 * math.Max(topMean, 1)} {
		view.NameAxis(&panel.X, stops)
		view.LinearAxis(&panel.Y, high)
	}
	mean.X.Label.Text = a.along
	view.Relabel(&speed.Y, unit.ShortCount)
	view.Relabel(&mean.Y, view.ShortNanos)
	return pic
}
