package engines

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// The knee is the first rate that an engine does not keep up with: its response p99 is
// more than kneeTimes that of the lowest rate, or it achieves less than
// kneeShare of what was offered.
const (
	kneeTimes = 2.0
	kneeShare = result.SustainedShare
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

// bears tells whether an engine keeps up with a rate, where the lowest rate has p99 base.
func (p Point) bears(base float64) bool {
	l := p.Figures.ResponseNanos
	return l != nil && float64(l.P99) <= kneeTimes*base &&
		p.Figures.OrZero(figure.GetsPerSecond) >= kneeShare*p.offered()
}

// kneeSentences tell for every entrant the first rate that it does not keep up with.
func (c curve) kneeSentences() []string {
	var out []string
	for _, name := range c.entrants() {
		pts := c.of(name).measured()
		if len(pts) == 0 {
			continue
		}

		name = before(name, ": ")
		at := knee(pts)
		last := pts[len(pts)-1]
		if at < 0 {
			text := fmt.Sprintf("%sno knee up to %s Gets/s offered", name,
				doc.ShortCount(last.offered()))
			if l := last.Figures.ResponseNanos; l != nil {
				text += ", response p99 " + doc.Nanos(l.P99) + " there"
			}

			out = append(out, doc.Upper(text)+".")
			continue
		}

		p, base := pts[at], pts[0].Figures.ResponseNanos
		text := fmt.Sprintf("%sknee at %s Gets/s offered: %s achieved, response p99 %s", name,
			doc.ShortCount(p.offered()),
			doc.ShortCount(p.Figures.OrZero(figure.GetsPerSecond)),
			doc.Nanos(p.Figures.ResponseNanos.P99))

		if at > 0 && base != nil {
			text += fmt.Sprintf(" (%s at %s)", doc.Nanos(base.P99),
				doc.ShortCount(pts[0].offered()))
		} else {
			text += ", at the lowest rate offered already"
		}

		again := func(q Point) bool { return base != nil && q.bears(float64(base.P99)) }
		if i := slices.IndexFunc(pts[at+1:], again); i >= 0 {
			text += "; but " + doc.ShortCount(pts[at+1+i].offered()) +
				", a higher rate, was sustained: likely noise, increase --gets"
		}

		out = append(out, doc.Upper(text)+".")
	}

	return out
}

// loadFigure is latency against load: where waiting begins.
func (c curve) loadFigure() doc.Block {
	if c.x != "rate" {
		return doc.Block{}
	}

	offered := column{Value: func(p Point) *float64 {
		return doc.When(p.offered() > 0,
			p.offered())
	}}

	chart, panel := doc.OnePanel("response time by offered rate",
		doc.Places("Gets per second offered", offered.Values(c.measured()), doc.AsCount),
		orLog(timeOf("response")))
	p50, p99 := latency("", response, p50Of), latency("", response, p99Of)
	for i, name := range c.entrants() {
		look, pts := doc.CurveStyle(i), c.of(name).measured()
		name = before(name, " ")
		if !panel.Line(name+"p99", p99.Against(offered, pts), look) {
			panel.Failed(strings.TrimSpace(name), look.Color)
		}

		dots := look
		dots.Dash, dots.Width = doc.Dashed(), 1.2
		panel.Line(name+"p50", p50.Against(offered, pts), dots)
		if at := knee(pts); at >= 0 {
			chart.Marks = append(chart.Marks, doc.Mark{
				X:      pts[at].offered(),
				Name:   name + "knee",
				Color:  look.Color,
				Dashed: true,
			})
		}
	}

	if !chart.Drawn() {
		return doc.Block{}
	}

	low, high := chart.SpanX()
	for _, p := range c.measured() {
		if l, ok := c.sweep.limitOf(p); ok && l.getsPerSecond > low && l.getsPerSecond < 2*high {
			chart.Marks = append(chart.Marks, doc.Mark{
				X:     l.getsPerSecond,
				Name:  "disk's limit",
				Color: doc.Muted,
			})

			break
		}
	}

	note := fmt.Sprintf("Response time: from when the schedule wanted the call. Knee: the first "+
		"rate whose response p99 is over %g times that of the lowest rate, or that is achieved to "+
		"less than %.0f%%.",
		kneeTimes, 100*kneeShare)

	return doc.Block{
		Title:  "Latency against load",
		Note:   note,
		Method: "scaling.md",
		Chart:  chart,
		Table:  c.loadTable(),
	}
}

func (c curve) loadTable() doc.Table {
	knees := map[string]bool{}
	for _, name := range c.entrants() {
		pts := c.of(name).measured()
		if at := knee(pts); at >= 0 {
			knees[pointLabel(pts[at])] = true
		}
	}

	return c.table(
		gets.Named("achieved", "per s"),
		column{Name: "achieved", Unit: "% of offered", Value: func(p Point) *float64 {
			rate := p.offered()
			return doc.When(rate > 0, 100*p.Figures.OrZero(figure.GetsPerSecond)/rate)
		}},
		latency("response p50", response, p50Of),
		latency("response p99", response, p99Of),
		latency("service p50", service, p50Of),
		latency("service p99",
			service, p99Of),
		column{Left: true, Words: func(p Point) string {
			if knees[pointLabel(p)] {
				return "knee"
			}
			return ""
		}},
	)
}
