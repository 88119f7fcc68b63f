package engines

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/model/scaling"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// scales reports whether an axis is how many Gets are made at the same time.
func scales(axis string) bool { return axis == "threads" || axis == "in-flight" }

// lawSeed makes bands the same in every report of a folder.
const lawSeed = 1

// law is the Universal Scalability Law of a curve along threads or Gets in flight.
type law struct {
	curve
	scaling.USL
	place func(Point) *float64
}

// laws are those of every curve that has enough points.
func (s *Sweep) laws() (found []law) {
	for _, x := range s.varied {
		if !scales(x) {
			continue
		}

		curves := s.curves(x)
		place, _ := axisPlaces(x, curves)
		if place == nil {
			continue
		}

		for _, c := range curves {
			all := doc.Flat(c.measured(), func(p Point) []scaling.Sample {
				return samples(p, *place(p))
			})
			if fitted, err := scaling.Fit(all, lawSeed); err == nil {
				found = append(found, law{c, fitted, place})
			}
		}
	}

	return found
}

// samples are the throughputs of a point that its folder tells: the one that is shown,
// and the ends of the range of its repeats.
func samples(p Point, threads float64) []scaling.Sample {
	all := []scaling.Sample{{Threads: threads, Throughput: p.Figures.OrZero(figure.GetsPerSecond)}}
	if r, ok := p.Spread[figure.GetsPerSecond.Key]; ok && len(p.Runs) > 2 {
		all = append(
			all,
			scaling.Sample{Threads: threads, Throughput: r.Low},
			scaling.Sample{Threads: threads, Throughput: r.High},
		)
	}

	return all
}

// without is the fit to all points but those at some numbers of threads.
func (l law) without(left ...float64) (scaling.USL, error) {
	var others []scaling.Sample
	for _, other := range l.measured() {
		if at := *l.place(other); !slices.Contains(left, at) {
			others = append(others, samples(other, at)...)
		}
	}
	return scaling.Fit(others, lawSeed)
}

// withoutIt is how far a fit to the other points is off a point, in percent.
func (l law) withoutIt(p Point) *float64 {
	fitted, err := l.without(*l.place(p))
	if err != nil || p.Figures.OrZero(figure.GetsPerSecond) == 0 {
		return nil
	}
	return doc.Some(100 * (fitted.At(*l.place(p))/p.Figures.OrZero(figure.GetsPerSecond) - 1))
}

// heldOut says how far a fit to some points is off the others, which are every second
// one from the third on, without the last: of 1, 2, 4, 8, 16 and 32 they are 4 and 16.
// Too few points have no such sentence.
func (l law) heldOut(word string) []string {
	pts := l.measured()
	slices.SortStableFunc(pts,
		func(a, b Point) int { return cmp.Compare(*l.place(a), *l.place(b)) })
	var left []float64
	var fittedTo []string
	for i, p := range pts {
		if i >= 2 && i%2 == 0 && i+1 < len(pts) {
			left = append(left, *l.place(p))
		} else {
			fittedTo = append(fittedTo, doc.ShortCount(*l.place(p)))
		}
	}

	fitted, err := l.without(left...)
	if err != nil || len(left) == 0 {
		return nil
	}

	var off []string
	for _, p := range pts {
		at, measured := *l.place(p), p.Figures.OrZero(figure.GetsPerSecond)
		if slices.Contains(left, at) && measured > 0 {
			// no -0.0
			percent := math.Round(1000*(fitted.At(at)/measured-1))/10 + 0
			off = append(off,
				fmt.Sprintf("%s Gets/s at %s (measured: %s, off by %+.1f%%)",
					doc.ShortCount(fitted.At(at)), doc.ShortCount(at),
					doc.ShortCount(measured), percent))
		}
	}

	return []string{fmt.Sprintf("A fit to %s %s alone predicts %s.", strings.Join(fittedTo, ", "),
		word, strings.Join(off, ", "))}
}

// evidence is what a point tells of the resource that binds.
func (l law) evidence(p Point) scaling.Evidence {
	saturated, _ := l.Saturation()
	f := p.Figures
	e := scaling.Evidence{Threads: int(*l.place(p)), InFlight: f.OrZero(figure.InFlight),
		CPUShare:     f.OrZero(figure.CPUPercent) / 100,
		FaultsPerGet: f.OrZero(figure.MajorFaultsPerGet),
		Saturated:    *l.place(p) >= float64(saturated)}

	if f.ServiceNanos != nil {
		e.ServiceNanos = f.ServiceNanos.Mean
	}

	if reads := f.Pointer(figure.DeviceReadsPerGet); reads != nil {
		e.ReadsPerGet, e.ReadsPerSecond = *reads, *reads*f.OrZero(figure.GetsPerSecond)
	}

	if run := p.Run; run != nil {
		e.Procs, e.FaultsAreInCode = run.Host.Gomaxprocs, run.Engine.FaultsInGo
		if run.Machine != nil && run.Machine.CPUOthersShare != nil {
			e.OthersShare = *run.Machine.CPUOthersShare
		}
	}

	if d := l.sweep.Disk; d != nil && d.Contradicted == "" {
		for _, at := range d.Points {
			e.DeviceMax = max(e.DeviceMax, at.ReadsPerSecond)
		}

		if d.Points[0].InFlight == 1 {
			e.DeviceOneNanos = d.Points[0].MeanNanos
		}
	}

	return e
}

// sentences say where a curve stops to grow, what stops it, and what the published rule
// for the size of a pool is worth here.
func (l law) sentences() []string {
	pts := l.measured()
	last := pts[len(pts)-1]
	at, maximum := l.Saturation()
	low, high := l.SaturationBand()
	measured := *l.place(last)
	word := strings.ReplaceAll(l.x, "-", " ")
	var where string
	if float64(at) > measured {
		where = fmt.Sprintf("Throughput still grows at %s %s, the most that was measured",
			doc.ShortCount(measured), word)
	} else {
		where = fmt.Sprintf("%d %s give 90%% of the peak throughput of %s Gets/s (95%% of the "+
			"fits: %d to %d %s)", at, word, doc.ShortCount(maximum), low, high, word)
	}

	resource, why := l.evidence(last).Bottleneck()
	out := []string{before(l.heading(false), ": ") + where + ". Bottleneck at " +
		doc.ShortCount(measured) + ": " + string(resource) + " (" + why + ")."}
	out = append(out, l.heldOut(word)...)
	half := l.At(measured) / 2
	if advised, needed, ok := l.AdviceAt(half); ok {
		verdict := "is right here"
		if needed > 1.25*advised+1 {
			verdict = "gives too few here"
		}

		out = append(out,
			fmt.Sprintf("The published rule for the size of a pool of readers, S*N/T (time of "+
				"one read x number of reads / time available), %s: for %s Gets/s, half of what "+
				"the fit gives with %s %s, the rule asks for %s %s and the fit for %s.",
				verdict, doc.ShortCount(half), doc.ShortCount(measured), word, doc.Number(advised),
				word, doc.ShortCount(needed)))
	}

	return out
}

// scalingBlocks are a chart and a table for each law.
func (s *Sweep) scalingBlocks() (out []doc.Block) {
	for _, l := range s.laws() {
		out = append(out, doc.Block{
			Title: strings.TrimSuffix("Bottleneck: "+l.label, ": "),
			Texts: l.sentences(),
		})

		out = append(out, doc.Block{
			Title:  strings.TrimSuffix("How it scales: "+l.label, ": "),
			Method: "scaling.md",
			Detail: true,
			Chart:  l.chart(),
			Table:  l.table(),
			Note: fmt.Sprintf("Universal Scalability Law: %s Gets/s of one, contention %.3g, "+
				"coherency %.2g. Shaded: where 95 of 100 measurements are expected. "+
				"Dotted: the disk's limit.", doc.ShortCount(l.Lambda), l.Sigma, l.Kappa),
		})
	}

	return out
}

func (l law) chart() *doc.Chart {
	_, places := axisPlaces(l.x, []curve{l.curve})
	chart, panel := doc.OnePanel("Gets per second by "+l.x+", with the Universal Scalability Law",
		doc.Places(l.x, places, doc.AsCount), orLog(getsASecond))
	at := column{Value: l.place}
	pts := l.measured()
	first, last := *l.place(pts[0]), *l.place(pts[len(pts)-1])
	var fit doc.XYs
	for n := first; ; n *= 1.15 {
		n = min(n, last)
		low, high := l.Band(n)
		fit = append(fit, doc.XY{X: n, Y: l.At(n), Low: low, High: high})
		if n == last {
			break
		}
	}

	look := doc.CurveStyle(0)
	panel.Line("fit, with its 95% band", fit, doc.Style{
		Color: doc.Muted,
		Dash:  doc.Dashed(),
		Band:  true,
	})

	panel.Line(diskLimit, l.ceiling(at, 20*l.At(last)), doc.Style{
		Color: look.Color,
		Dash:  doc.Dotted(),
	})

	if !panel.Line("measured", spread(pts, at, gets, figure.GetsPerSecond.Key), look) {
		return nil
	}

	return chart
}

func (l law) table() doc.Table {
	of := func(name, unit string, value func(n float64) float64) column {
		return doc.Figure(name, unit, doc.ShortCount, func(p Point) float64 {
			return value(*l.place(p))
		})
	}

	return doc.TableOf(l.pts, failure, axis(l.x), gets, of("fit", "Gets/s", l.At),
		of("low", "95%", func(n float64) float64 { low, _ := l.Band(n); return low }),
		of("high", "95%", func(n float64) float64 { _, high := l.Band(n); return high }),
		column{Name: "fit without it", Unit: "off by %", Value: l.withoutIt},
		columnOf(figure.InFlight), cpuPercent,
		latency("p50", service, p50Of), latency("p99", service, p99Of),
		column{Name: "binds", Left: true, Words: func(p Point) string {
			if p.Status != result.OK {
				return doc.None
			}
			r, _ := l.evidence(p).Bottleneck()
			return string(r)
		}})
}

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
	clock   = doc.Column[moment]{Value: func(m moment) *float64 { return &m.at }}
	speed   = doc.Column[moment]{Value: func(m moment) *float64 { return &m.ops }}
	perTick = doc.Column[moment]{Value: func(m moment) *float64 { return m.reads }}
)

// seriesChart is what happened second by second in the warm and the measured
// phase. some says how many of the points are drawn, if not all are.
func seriesChart(c curve) (chart *doc.Chart, all []timed, some string) {
	with := c.having(func(p Point) bool { return len(p.Ticks) > 1 })
	chart = doc.NewChart(
		"operations per second and block reads per operation over time",
		doc.Linear("seconds since measuring began", doc.AsNumber),
		doc.Axis{Label: "operations per second", Format: doc.AsCount},
		doc.Axis{Label: "block reads per op"},
	)

	speeds, reads := chart.Panels[0], chart.Panels[1]
	for n, i := range doc.Spaced(len(with), seriesPoints) {
		t := seriesOf(with[i])
		if len(t.ticks) < 2 {
			continue
		}

		look := doc.RampStyle(n*3, doc.MaxLines)
		speeds.Line(c.pointName(t.point), doc.Thin(speed.Against(clock, t.ticks)), look)
		perOp := perTick.Against(clock, t.ticks)
		if slices.ContainsFunc(perOp, func(at doc.XY) bool { return at.Y > 0 }) {
			reads.Line(c.pointName(t.point), doc.Thin(perOp), look)
		}

		all = append(all, t)
	}

	if !chart.Drawn() {
		return nil, nil, ""
	}

	if first, _ := chart.SpanX(); first < 0 {
		chart.Marks = []doc.Mark{{X: 0, Color: doc.Muted, Dashed: true}}
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
	measured := slices.ContainsFunc(p.Ticks, func(tick result.Tick) bool {
		return tick.Phase == "measure"
	})
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
		if m.ops == 0 { // it only writes
			m.ops = tick.PutsPerSecond.OrZero()
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
func seriesTable(c curve, all []timed) doc.Table {
	parts := doc.Flat(all, byPhase)
	rate := func(name string, pick func(sorted []float64) float64) doc.Column[timed] {
		return doc.Figure(name, "ops/s", nil, func(t timed) float64 {
			return pick(slices.Sorted(slices.Values(speed.Values(t.ticks))))
		})
	}

	read := func(name string, pick func([]float64) float64) doc.Column[timed] {
		return doc.Optional(name, "block reads/op", doc.PerGet, func(t timed) *float64 {
			if reads := perTick.Values(t.ticks); len(reads) > 0 {
				return doc.Some(pick(reads))
			}
			return nil
		})
	}

	return doc.TableOf(
		parts,
		nil,
		doc.Words("point", func(t timed) string { return c.pointName(t.point) }),
		doc.Words("phase", func(t timed) string { return t.ticks[0].phase }),
		doc.Figure("samples", "", doc.Digits,
			func(t timed) float64 { return float64(len(t.ticks)) }),
		rate("slowest", func(s []float64) float64 { return s[0] }),
		rate("median", func(s []float64) float64 { return s[len(s)/2] }),
		rate("fastest", func(s []float64) float64 { return s[len(s)-1] }),
		read("first", func(of []float64) float64 { return of[0] }),
		read("last", func(of []float64) float64 { return of[len(of)-1] }),
	)
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
