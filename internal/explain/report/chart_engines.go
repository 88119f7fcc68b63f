package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// enginesChart has a group of bars per stop and a bar per entrant, above Gets a
// second, below the mean service time. Over each bar stand its ideal, the first
// stop's speed scaled by the threads, and what the disk leaves to it.
func (a arena) enginesChart() *picture {
	if len(a.measured()) == 0 {
		return nil
	}
	speed, mean := newPanel("Gets per second"), newPanel("mean service time")
	pic := &picture{about: "Gets per second and mean service time by engine", panels: []*plot.Plot{speed, mean}, height: 1.2 * twoPanels}
	stops, entrants := a.stops(), a.entrants()
	groups := make([][]Point, len(entrants))
	for i, name := range entrants {
		groups[i] = a.of(name)
	}
	ceilings := ceilingsDrawn(a.sweep, groups)
	width := vg.Points(math.Min(30, 470/float64(len(stops)*(len(entrants)+1))))
	ideals, limits := &barTicks{width: width, color: ink}, &barTicks{width: width, color: limitColor, dashed: true}
	slowest := &barTicks{width: width, color: limitColor, dashed: true}
	spans, missing := &barSpans{}, &barCrosses{}
	topSpeed, topMean := 0.0, 0.0
	for i := range entrants {
		offset := width * vg.Length(float64(i)-float64(len(entrants)-1)/2)
		look := curveStyle(i)
		fast := &plotter.BarChart{Width: width, Offset: offset, Color: look.color, Values: make(plotter.Values, len(stops))}
		slow := &plotter.BarChart{Width: width, Offset: offset, Color: look.color, Values: make(plotter.Values, len(stops))}
		any, failed := false, 0
		var first *Point
		for n, p := range groups[i] {
			at := slices.Index(stops, p.Axes[a.along])
			if p.Status != result.OK || !(p.Figures.GetsPerSecond > 0) || p.Figures.GetsPerSecond > 1e15 {
				missing.add(at, offset, look.color)
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
				spans.add(at, offset, r)
				topSpeed = math.Max(topSpeed, r.High)
			}
			if a.along == "threads" {
				if first == nil {
					first = &p
				} else if from, err := strconv.ParseFloat(first.Axes["threads"], 64); err == nil && from > 0 {
					ideals.add(at, offset, first.Figures.GetsPerSecond*float64(p.threads())/from)
				}
			}
			if ceilings != nil && ceilings[i][n].getsPerSecond > 0 {
				limits.add(at, offset, ceilings[i][n].getsPerSecond)
				slowest.add(at, offset, ceilings[i][n].nanosPerGet)
			}
		}
		name := entrants[i]
		if !any {
			pic.add(name+" (failed)", emptyThumb{look.color})
			continue
		}
		speed.Add(fast)
		mean.Add(slow)
		if failed > 0 {
			name += fmt.Sprintf(" (%d failed)", failed)
		}
		if name != "" {
			pic.add(name, fast)
		}
	}
	top := 1.05 * topSpeed
	for _, v := range limits.values() {
		if v < 1.6*topSpeed {
			top = math.Max(top, 1.05*v)
		}
	}
	for _, extra := range []plot.Plotter{spans, missing, ideals, limits} {
		speed.Add(extra)
	}
	mean.Add(missing, slowest)
	if len(ideals.at) > 0 {
		pic.add("ideal", tickThumb{ideals})
	}
	if len(limits.at) > 0 {
		pic.add("disk's limit", tickThumb{limits})
	}
	for panel, high := range map[*plot.Plot]float64{speed: top, mean: 1.05 * math.Max(topMean, 1)} {
		names(&panel.X, stops)
		linear(&panel.Y, high)
	}
	mean.X.Label.Text = a.along
	relabel(&speed.Y, unit.ShortCount)
	relabel(&mean.Y, shortNanos)
	return pic
}

// relabel prints an axis' round steps in other words.
func relabel(axis *plot.Axis, label func(float64) string) {
	ticks, ok := axis.Tick.Marker.(fixedTicks)
	if !ok {
		return
	}
	for i, t := range ticks {
		if ticks[i].Label = label(t.Value); t.Value == 0 {
			ticks[i].Label = "0"
		}
	}
}

var limitColor = color.RGBA{0xb0, 0x00, 0x20, 0xff}

// place on a bar chart: the group, and the bar's offset from its middle.
type barPlace struct {
	group  int
	offset vg.Length
	y      float64
}

// barTicks draws a short line across the place of a bar; those above the panel
// are left out.
type barTicks struct {
	width  vg.Length
	color  color.RGBA
	dashed bool
	at     []barPlace
}

func (b *barTicks) add(group int, offset vg.Length, y float64) {
	b.at = append(b.at, barPlace{group, offset, y})
}

func (b *barTicks) values() (ys []float64) {
	for _, p := range b.at {
		ys = append(ys, p.y)
	}
	return ys
}

func (b *barTicks) style() draw.LineStyle {
	s := draw.LineStyle{Color: b.color, Width: vg.Points(1.6)}
	if b.dashed {
		s.Dashes = []vg.Length{vg.Points(3), vg.Points(1.5)}
	}
	return s
}

func (b *barTicks) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, at := range b.at {
		if at.y <= p.Y.Max {
			x, y := toX(float64(at.group))+at.offset, toY(at.y)
			edge := draw.LineStyle{Color: paper, Width: vg.Points(3.2)} // seen on a bar of its colour
			c.StrokeLine2(edge, x-b.width/2, y, x+b.width/2, y)
			c.StrokeLine2(b.style(), x-b.width/2, y, x+b.width/2, y)
		}
	}
}

// tickThumb is a barTicks in a legend.
type tickThumb struct{ of *barTicks }

func (t tickThumb) Thumbnail(c *draw.Canvas) {
	c.StrokeLine2(t.of.style(), c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
}

// barSpans draws the range over repeats of a bar.
type barSpans struct {
	at     []barPlace
	ranges []result.Range
}

func (b *barSpans) add(group int, offset vg.Length, r result.Range) {
	b.at, b.ranges = append(b.at, barPlace{group: group, offset: offset}), append(b.ranges, r)
}

func (b *barSpans) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	look := draw.LineStyle{Color: muted, Width: vg.Points(1)}
	for i, at := range b.at {
		x := toX(float64(at.group)) + at.offset
		c.StrokeLine2(look, x, toY(b.ranges[i].Low), x, toY(math.Min(b.ranges[i].High, p.Y.Max)))
	}
}

// barCrosses mark where a bar is missing since its point failed.
type barCrosses struct {
	at     []barPlace
	colors []color.RGBA
}

func (b *barCrosses) add(group int, offset vg.Length, look color.RGBA) {
	b.at, b.colors = append(b.at, barPlace{group: group, offset: offset}), append(b.colors, look)
}

func (b *barCrosses) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for i, at := range b.at {
		c.DrawGlyph(draw.GlyphStyle{Color: b.colors[i], Radius: vg.Points(4), Shape: draw.CrossGlyph{}}, vg.Point{X: toX(float64(at.group)) + at.offset, Y: toY(0) + 5})
	}
}

// emptyThumb is a cross in a legend: nothing was measured.
type emptyThumb struct{ color color.RGBA }

func (e emptyThumb) Thumbnail(c *draw.Canvas) {
	c.DrawGlyph(draw.GlyphStyle{Color: e.color, Radius: vg.Points(4), Shape: draw.CrossGlyph{}}, c.Center())
}
