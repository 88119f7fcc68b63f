package engines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/view"
)

// rankRepeats is the least number of runs that rank anything: the ranges of
// three runs each of two equal engines are apart 1 time in 10.
const rankRepeats = 3

// ranking is who may be called fastest: whoever's range of Gets a second reaches
// that of the best. Nothing is ordered by one run.
type ranking struct {
	leaders []Point
	behind  *Point // the best of those that are certainly slower
	repeats int    // the least of any
}

// rank holds measured points against each other. ok is false where they were not
// repeated enough.
func rank(pts []Point) (r ranking, ok bool) {
	r.repeats = -1
	for _, p := range pts {
		if r.repeats < 0 || len(p.Runs) < r.repeats {
			r.repeats = len(p.Runs)
		}
		spread, known := p.Spread["gets_per_second"]
		if !known || !(spread.Low > 0) || spread.High < spread.Low {
			r.repeats = min(r.repeats, 1)
		}
	}
	if len(pts) < 2 || r.repeats < rankRepeats {
		return r, false
	}
	best := slices.MaxFunc(pts, func(a, b Point) int { return cmp.Compare(a.Figures.GetsPerSecond, b.Figures.GetsPerSecond) })
	for _, p := range pts {
		if p.Spread["gets_per_second"].High >= best.Spread["gets_per_second"].Low {
			r.leaders = append(r.leaders, p)
		} else if r.behind == nil || p.Figures.GetsPerSecond > r.behind.Figures.GetsPerSecond {
			r.behind = &p
		}
	}
	return r, true
}

// sentences are the answer of a comparison: who is fastest, and what the disk leaves.
func (c curve) sentences() []string {
	if len(c.measured()) == 0 {
		return []string{"Nothing was measured: " + c.whyNothing() + "."}
	}
	var out []string
	switch {
	case c.x == "rate":
		out = append(out, c.kneeSentences()...)
	case c.rivals():
		out = append(out, c.rankRivals()...)
	default:
		out = append(out, c.rankStops())
	}
	if line := c.ceilingSentence(); line != "" {
		out = append(out, line)
	}
	if left := c.left(); left != "" {
		out = append(out, strings.TrimSpace(left))
	}
	return out
}

// rankRivals is a sentence for each outcome, with the stops at which it came.
func (c curve) rankRivals() []string {
	var outcomes []string
	stops := map[string][]string{}
	for _, stop := range c.stops() {
		pts := measured(c.at(stop))
		if len(pts) < 2 {
			continue
		}
		r, ok := rank(pts)
		outcome := unranked(r.repeats)
		if ok && len(r.leaders) == 1 {
			outcome = c.sweep.entrant(r.leaders[0]) + " is fastest"
		} else if ok {
			outcome = "cannot tell who is fastest of " + view.List(r.leaders, c.sweep.entrant)
		}
		if !slices.Contains(outcomes, outcome) {
			outcomes = append(outcomes, outcome)
		}
		stops[outcome] = append(stops[outcome], stop)
	}
	var out []string
	for _, outcome := range outcomes {
		at, text := stops[outcome], outcome
		last := at[len(at)-1]
		if c.x != "" && (len(outcomes) > 1 || len(c.stops()) > 1) {
			text = "With " + counted1(c.x, at) + " " + text
		}
		out = append(out, view.Upper(text)+": "+c.speeds(measured(c.at(last)), last)+".")
	}
	if len(out) == 0 {
		out = append(out, "Only one was measured: "+c.speeds(c.measured(), "")+".")
	}
	return out
}

// counted1 is "4 threads", "1, 2, 4 threads", "page-cache cold".
func counted1(along string, stops []string) string {
	if along == "threads" || along == "handles" || along == "keys" {
		if len(stops) == 1 && stops[0] == "1" {
			return "1 " + strings.TrimSuffix(along, "s")
		}
		return strings.Join(stops, ", ") + " " + along
	}
	return along + " " + strings.Join(stops, ", ")
}

// unranked says why nobody is called faster, and what would help.
func unranked(repeats int) string {
	if repeats <= 1 {
		return fmt.Sprintf("one run each cannot rank (--repeats %d can)", rankRepeats)
	}
	return fmt.Sprintf("%d runs each cannot rank (--repeats %d can)", repeats, rankRepeats)
}

// speeds lists Gets a second with their ranges, in the order of the axes.
func (c curve) speeds(pts []Point, stop string) string {
	text := view.List(pts, func(p Point) string {
		return c.sweep.entrant(p) + " " + view.ShortCount(p.Figures.GetsPerSecond) + p.getsRange()
	}) + " Gets/s"
	if stop != "" && c.x != "" && len(c.stops()) > 1 {
		text += " with " + counted1(c.x, []string{stop})
	}
	return text
}

// getsRange is the range of Gets a second over the repeats, in brackets.
func (p Point) getsRange() string {
	if r := p.Spread["gets_per_second"]; r.Low < r.High {
		return " (" + view.ShortCount(r.Low) + " to " + view.ShortCount(r.High) + ")"
	}
	return ""
}

// rankStops is the answer where threads, handles or sizes vary alone.
func (c curve) rankStops() string {
	ok := c.measured()
	at := func(p Point) string { return counted1(c.x, []string{p.Axes[c.x]}) }
	speed := func(p Point) string {
		return view.ShortCount(p.Figures.GetsPerSecond) + " Gets/s" + p.getsRange() + " with " + at(p)
	}
	r, ranked := rank(ok)
	if !ranked {
		text := speed(ok[0])
		if last := ok[len(ok)-1]; len(ok) > 1 {
			text += ", " + speed(last) + "; " + unranked(r.repeats)
		}
		return text + "; " + readsAt(ok[len(ok)-1]) + "."
	}
	// Of those that cannot be told apart the first: the fewest threads, the least
	// memory.
	best := r.leaders[0]
	text := speed(best)
	if first := ok[0]; first.Figures.GetsPerSecond > 0 && best.Axes[c.x] != first.Axes[c.x] {
		text += fmt.Sprintf(", %s times those with %s", view.Number(best.Figures.GetsPerSecond/first.Figures.GetsPerSecond), at(first))
	}
	if len(r.leaders) > 1 {
		text += "; cannot tell " + view.List(r.leaders[1:], func(p Point) string { return p.Axes[c.x] }) + " from it"
	}
	return text + "; " + readsAt(best) + "."
}
