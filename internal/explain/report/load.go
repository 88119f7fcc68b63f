package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
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
			out = append(out, upper(text)+".")
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
		out = append(out, upper(text)+".")
	}
	return out
}

// loadFigure is latency against load: where waiting begins.
func (a arena) loadFigure() (figure, bool) {
	if a.along != "rate" {
		return figure{}, false
	}
	panel := newPanel("response time")
	pic := &picture{about: "response time by offered rate", panels: []*plot.Plot{panel}, height: pictureHeight, marks: &marks{}}
	var all []plotter.XYs
	var rates []float64
	for i, name := range a.entrants() {
		look := curveStyle(i)
		var p50, p99 plotter.XYs
		pts := curve{pts: a.of(name)}.measured()
		for _, p := range pts {
			if l := p.Figures.ResponseNanos; l != nil {
				p50 = append(p50, plotter.XY{X: p.offered(), Y: float64(l.P50)})
				p99 = append(p99, plotter.XY{X: p.offered(), Y: float64(l.P99)})
				rates = append(rates, p.offered())
			}
		}
		p50, p99 = finite(p50, true, true), finite(p99, true, true)
		all = append(all, p50, p99)
		label := name
		if label != "" {
			label += " "
		}
		if thumb := line(panel, p99, look); thumb != nil {
			pic.add(label+"p99", thumb...)
		} else {
			pic.add(label+"(failed)", emptyThumb{look.color})
		}
		dots := look
		dots.dash, dots.width = dashed(), vg.Points(1.2)
		if thumb := line(panel, p50, dots); thumb != nil {
			pic.add(label+"p50", thumb...)
		}
		if at := knee(pts); at >= 0 {
			pic.marks.list = append(pic.marks.list, mark{x: pts[at].offered(), name: label + "knee", color: look.color, dashed: true})
		}
	}
	if len(rates) == 0 || !anyPoints(all) {
		return figure{}, false
	}
	slices.Sort(rates)
	values(&panel.X, slices.Compact(rates), unit.ShortCount)
	panel.X.Label.Text = "Gets per second offered"
	note := fmt.Sprintf("Response time: from when the schedule wanted the call. Knee: the first rate whose response p99 is over %g times that of the lowest rate, or that is achieved to less than %.0f%%.", kneeTimes, 100*kneeShare)
	for _, p := range a.measured() {
		if l, ok := a.sweep.limitOf(p); ok && l.getsPerSecond > panel.X.Min && l.getsPerSecond < 2*panel.X.Max {
			panel.X.Max = math.Max(panel.X.Max, 1.05*l.getsPerSecond)
			pic.marks.list = append(pic.marks.list, mark{x: l.getsPerSecond, name: "disk's limit", color: muted})
			break
		}
	}
	panel.Add(pic.marks)
	scaleY(&panel.Y, all, true, shortNanos)
	return figure{title: "Latency against load", note: note, method: "engines.md", pic: pic, table: a.loadTable()}, true
}

func (a arena) loadTable() table {
	us := scale{"us", 1e3}
	t := table{Columns: append(a.keys(), column{Name: "achieved", Unit: "per s"}, column{Name: "achieved", Unit: "% of offered"}, column{Name: "response p50", Unit: "us"}, column{Name: "response p99", Unit: "us"},
		column{Name: "service p50", Unit: "us"}, column{Name: "service p99", Unit: "us"}, column{Name: "", Text: true})}
	knees := map[string]bool{}
	for _, name := range a.entrants() {
		pts := curve{pts: a.of(name)}.measured()
		if at := knee(pts); at >= 0 {
			knees[pts[at].Point.Run] = true
		}
	}
	a.add(&t, func(p Point) []string {
		cells := []string{number(p.Figures.GetsPerSecond), none}
		if rate := p.offered(); rate > 0 {
			cells[1] = number(100 * p.Figures.GetsPerSecond / rate)
		}
		for _, l := range []*result.Latency{p.Figures.ResponseNanos, p.Figures.ServiceNanos} {
			if l == nil {
				cells = append(cells, none, none)
			} else {
				cells = append(cells, us.in(float64(l.P50)), us.in(float64(l.P99)))
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
