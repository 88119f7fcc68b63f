package engines

import (
	"fmt"
	"math"
	"slices"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// The knee is the first rate that an engine does not bear: its response p99 is
// more than kneeTimes that of the lowest rate, or it achieves less than
// kneeShare of what was offered.
const (
	kneeTimes = 2.0
	kneeShare = 0.98
)

// offered is the rate that a schedule asked for.
func (p Point) offered() float64 {
	if n, err := unit.ParseCount(p.Axes["rate"]); err == nil && n > 0 {
		return float64(n)
	}
	if p.Run != nil {
		return p.Run.Workload.Rate
	}
	return 0
}

// knee is the place of the knee in points of ascending rate; -1: none measured.
func knee(pts []Point) int {
	base := math.NaN()
	for i, p := range pts {
		l := p.Figures.ResponseNanos
		if l == nil {
			continue
		}
		if math.IsNaN(base) {
			base = float64(l.P99)
		}
		if !p.bears(base) {
			return i
		}
	}
	return -1
}

// bears tells whether a rate is borne, where the lowest rate has p99 base.
func (p Point) bears(base float64) bool {
	l := p.Figures.ResponseNanos
	return l != nil && float64(l.P99) <= kneeTimes*base && p.Figures.GetsPerSecond >= kneeShare*p.offered()
}

// kneeSentences tell for every entrant which rate it does not bear any more.
func (a arena) kneeSentences() []string {
	var out []string
	for _, name := range a.entrants() {
		pts := curve{pts: a.of(name)}.measured()
		if len(pts) == 0 {
			continue
		}
		if name != "" {
			name += ": "
		}
		at := knee(pts)
		last := pts[len(pts)-1]
		if at < 0 {
			text := fmt.Sprintf("%sno knee up to %s Gets/s offered", name, unit.ShortCount(last.offered()))
			if l := last.Figures.ResponseNanos; l != nil {
				text += ", response p99 " + unit.Nanos(float64(l.P99)) + " there"
			}
			out = append(out, view.Upper(text)+".")
			continue
		}
		p, first := pts[at], pts[0]
		text := fmt.Sprintf("%sknee at %s Gets/s offered: %s achieved, response p99 %s", name, unit.ShortCount(p.offered()), unit.ShortCount(p.Figures.GetsPerSecond), unit.Nanos(float64(p.Figures.ResponseNanos.P99)))
		if at > 0 && first.Figures.ResponseNanos != nil {
			text += fmt.Sprintf(" (%s at %s)", unit.Nanos(float64(first.Figures.ResponseNanos.P99)), unit.ShortCount(first.offered()))
		} else {
			text += ", at the lowest rate offered already"
		}
		if first.Figures.ResponseNanos != nil {
			for _, q := range pts[at+1:] {
				if q.bears(float64(first.Figures.ResponseNanos.P99)) {
					text += "; but " + unit.ShortCount(q.offered()) + " was borne: noise, more --gets would tell"
					break
				}
			}
		}
		out = append(out, view.Upper(text)+".")
	}
	return out
}

// loadFigure is latency against load: where waiting begins.
func (a arena) loadFigure() (view.Figure, bool) {
	if a.along != "rate" {
		return view.Figure{}, false
	}
	panel := view.NewPanel("response time")
	pic := &view.Picture{About: "response time by offered rate", Panels: []*plot.Plot{panel}, Height: view.PictureHeight, Marks: &view.Marks{}}
	var all []plotter.XYs
	var rates []float64
	for i, name := range a.entrants() {
		look := view.CurveStyle(i)
		var p50, p99 plotter.XYs
		pts := curve{pts: a.of(name)}.measured()
		for _, p := range pts {
			if l := p.Figures.ResponseNanos; l != nil {
				p50 = append(p50, plotter.XY{X: p.offered(), Y: float64(l.P50)})
				p99 = append(p99, plotter.XY{X: p.offered(), Y: float64(l.P99)})
				rates = append(rates, p.offered())
			}
		}
		p50, p99 = view.Finite(p50, true, true), view.Finite(p99, true, true)
		all = append(all, p50, p99)
		label := name
		if label != "" {
			label += " "
		}
		if thumb := view.Line(panel, p99, look); thumb != nil {
			pic.Add(label+"p99", thumb...)
		} else {
			pic.Add(label+"(failed)", view.EmptyThumb{Color: look.Color})
		}
		dots := look
		dots.Dash, dots.Width = view.Dashed(), vg.Points(1.2)
		if thumb := view.Line(panel, p50, dots); thumb != nil {
			pic.Add(label+"p50", thumb...)
		}
		if at := knee(pts); at >= 0 {
			pic.Marks.List = append(pic.Marks.List, view.Mark{X: pts[at].offered(), Name: label + "knee", Color: look.Color, Dashed: true})
		}
	}
	if len(rates) == 0 || !view.AnyPoints(all) {
		return view.Figure{}, false
	}
	slices.Sort(rates)
	view.ValueAxis(&panel.X, slices.Compact(rates), unit.ShortCount)
	panel.X.Label.Text = "Gets per second offered"
	note := fmt.Sprintf("Response time: from when the schedule wanted the call. Knee: the first rate whose response p99 is over %g times that of the lowest rate, or that is achieved to less than %.0f%%.", kneeTimes, 100*kneeShare)
	for _, p := range a.measured() {
		if l, ok := a.sweep.limitOf(p); ok && l.getsPerSecond > panel.X.Min && l.getsPerSecond < 2*panel.X.Max {
			panel.X.Max = math.Max(panel.X.Max, 1.05*l.getsPerSecond)
			pic.Marks.List = append(pic.Marks.List, view.Mark{X: l.getsPerSecond, Name: "disk's limit", Color: view.Muted})
			break
		}
	}
	panel.Add(pic.Marks)
	view.ScaleY(&panel.Y, all, true, view.ShortNanos)
	return view.Figure{Title: "Latency against load", Note: note, Method: "engines.md", Pic: pic, Table: a.loadTable()}, true
}

func (a arena) loadTable() view.Table {
	us := view.Scale{Name: "us", Size: 1e3}
	t := view.Table{Columns: append(a.keys(), view.Column{Name: "achieved", Unit: "per s"}, view.Column{Name: "achieved", Unit: "% of offered"}, view.Column{Name: "response p50", Unit: "us"}, view.Column{Name: "response p99", Unit: "us"},
		view.Column{Name: "service p50", Unit: "us"}, view.Column{Name: "service p99", Unit: "us"}, view.Column{Name: "", Text: true})}
	knees := map[string]bool{}
	for _, name := range a.entrants() {
		pts := curve{pts: a.of(name)}.measured()
		if at := knee(pts); at >= 0 {
			knees[pts[at].Point.Run] = true
		}
	}
	a.add(&t, func(p Point) []string {
		cells := []string{view.Number(p.Figures.GetsPerSecond), view.None}
		if rate := p.offered(); rate > 0 {
			cells[1] = view.Number(100 * p.Figures.GetsPerSecond / rate)
		}
		for _, l := range []*result.Latency{p.Figures.ResponseNanos, p.Figures.ServiceNanos} {
			if l == nil {
				cells = append(cells, view.None, view.None)
			} else {
				cells = append(cells, us.In(float64(l.P50)), us.In(float64(l.P99)))
			}
		}
		said := ""
		if knees[p.Point.Run] {
			said = "knee"
		}
		return append(cells, said)
	})
	return t
}
