package view

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// form is the paper that a picture is drawn for. One description of a picture serves both:
// what depends on the width is decided as it is drawn.
type form struct {
	width                    vg.Length
	tick, label, names, mark float64   // sizes of type, in points
	hit                      float64   // radius of what a mouse or a finger finds
	bars                     vg.Length // their widths and distances, of those they were made with
	narrow                   bool      // legend below, panels above each other, fewer ticks
}

// A page shows a wide picture at about its own size, and a narrow one at that of a phone.
var (
	wideForm   = form{width: PictureWidth, tick: 10, label: 10.5, names: 10, mark: 9.5, hit: 7, bars: 1}
	narrowForm = form{width: narrowWidth, tick: 12, label: 12, names: 12, mark: 11.5, hit: 12, bars: narrowWidth / vg.Length(PictureWidth), narrow: true}
)

const (
	narrowWidth = 340
	narrowPanel = 240 // height of a panel with its axis
	yAxisWidth  = 60  // of a panel, about
	besidePad   = 16  // between panels side by side
	fewestRunes = 6   // that are left of a name
)

// size is how large the picture is in a form.
func (p *Picture) size(f form) (width, height vg.Length) {
	if !f.narrow {
		return f.width, p.Height
	}
	return f.width, vg.Length(len(p.Panels))*narrowPanel + 30 + p.legendBelow(f, nil)
}

// suited gives all panels the type and the ticks of a form. The function that it returns
// takes them back.
func (p *Picture) suited(f form, area draw.Canvas) (restore func()) {
	var undo []func()
	for _, panel := range p.Panels {
		x, y := panel.X, panel.Y
		undo = append(undo, func() { panel.X, panel.Y = x, y })
		for _, axis := range []*plot.Axis{&panel.X, &panel.Y} {
			axis.Tick.Label.Font.Size, axis.Label.TextStyle.Font.Size = font.Points(f.tick), font.Points(f.label)
		}
		width := area.Max.X - area.Min.X
		if p.Beside && !f.narrow {
			width = (width - besidePad) / vg.Length(len(p.Panels))
		}
		switch _, names := panel.X.Tick.Marker.(nameTicks); {
		case names:
			nameGroups(&panel.X, width-yAxisWidth, f.narrow)
		case f.narrow:
			thin(&panel.X, width-yAxisWidth)
		}
	}
	for _, bar := range p.bars {
		width, offset := bar.Width, bar.Offset
		undo = append(undo, func() { bar.Width, bar.Offset = width, offset })
		scale := p.barScale(f)
		bar.Width, bar.Offset = width*scale, offset*scale
	}
	return func() {
		for _, back := range undo {
			back()
		}
	}
}

// barScale is the width of bars in a form, of that they were made with for one wide panel.
func (p *Picture) barScale(f form) vg.Length {
	if p.Beside && !f.narrow {
		return f.bars / vg.Length(len(p.Panels))
	}
	return f.bars
}

// nameGroups names the groups of an axis of a width, of which none can be left out: names are
// cut to their room, or turned on a phone.
func nameGroups(axis *plot.Axis, width vg.Length, turn bool) {
	ticks := slices.Clone(axis.Tick.Marker.Ticks(axis.Min, axis.Max))
	room := width/vg.Length(len(ticks)) - 6
	touch := slices.ContainsFunc(ticks, func(t plot.Tick) bool { return labelWidth(axis.Tick.Label, t.Label)*typeSlack > room })
	if touch && turn {
		axis.Tick.Label.Rotation = math.Pi / 2
		axis.Tick.Label.XAlign, axis.Tick.Label.YAlign = draw.XRight, draw.YCenter
		room = narrowPanel * 0.42
	}
	for i, t := range ticks {
		for n := len([]rune(t.Label)); n > fewestRunes && labelWidth(axis.Tick.Label, ticks[i].Label)*typeSlack > room; n-- {
			ticks[i].Label = Clip(t.Label, n)
		}
	}
	axis.Tick.Marker = fixedTicks(ticks)
}

// thin leaves out ticks whose labels would touch on an axis of a width.
func thin(axis *plot.Axis, width vg.Length) {
	if axis.Tick.Marker == nil {
		return
	}
	ticks := axis.Tick.Marker.Ticks(axis.Min, axis.Max)
	for every := 1; every <= len(ticks); every++ {
		var some fixedTicks
		right, fits := vg.Length(math.Inf(-1)), true
		for i := 0; i < len(ticks); i += every {
			at, half := vg.Length(axis.Norm(ticks[i].Value))*width, labelWidth(axis.Tick.Label, ticks[i].Label)*typeSlack/2
			fits = fits && at-half > right
			some, right = append(some, ticks[i]), at+half+6
		}
		if fits {
			axis.Tick.Marker = some
			return
		}
	}
}

func labelWidth(style text.Style, label string) (widest vg.Length) {
	for line := range strings.SplitSeq(label, "\n") {
		widest = max(widest, style.Width(line))
	}
	return widest
}

// nameTicks are the names of groups.
type nameTicks struct{ fixedTicks }

// legendBelow lays the legend out in rows of a width and, given a canvas, draws it at its
// bottom. It returns the height of the rows.
func (p *Picture) legendBelow(f form, c *draw.Canvas) (height vg.Length) {
	row := vg.Points(f.names + 6)
	x, rows := vg.Length(0), 0
	type at struct {
		legend plot.Legend
		x      vg.Length
		row    int
	}
	var all []at
	for _, e := range p.shown() {
		one := newLegend(f)
		one.Add(Clip(e.name, legendRunes), e.thumb...)
		wide := vg.Points(22) + one.TextStyle.Width(Clip(e.name, legendRunes))*typeSlack + 14
		if rows == 0 || x+wide > f.width {
			x, rows = 0, rows+1
		}
		all = append(all, at{one, x, rows})
		x += wide
	}
	height = vg.Length(rows) * row
	if c != nil {
		for _, a := range all {
			top := c.Min.Y + height - vg.Length(a.row-1)*row
			a.legend.Draw(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: c.Min.X + 4 + a.x, Y: c.Min.Y},
				Max: vg.Point{X: c.Max.X, Y: top}}})
		}
	}
	return height
}

func newLegend(f form) plot.Legend {
	legend := plot.NewLegend()
	legend.TextStyle.Font = sans(f.names)
	legend.TextStyle.Color = Ink
	legend.Top, legend.Left = true, true
	legend.ThumbnailWidth = vg.Points(18)
	legend.Padding = vg.Points(5)
	return legend
}

// typeSlack is how much wider than ours a reader's sans-serif may be.
const typeSlack = 1.12
