package engines

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/internal/model/difference"
)

// ranking is who may be called fastest: everybody who is not certainly slower than the
// fastest, by more than the usual margin. Nothing is ordered by too few runs.
type ranking struct {
	leaders []Point
	repeats int      // the least of any
	of      int      // that are ranked
	needs   int      // repeats that could rank so many
	kinds   []string // of the machines, where times on them cannot be compared; else one or none
}

// rank compares every point with the fastest by the rule of statelab compare. The repeats of a sweep take
// turns, and ask for the same keys. ok is false where they were not repeated enough.
func rank(pts []Point) (r ranking, ok bool) {
	if len(pts) < 2 {
		return r, false
	}
	rule := difference.Rule{Alpha: difference.Alpha / float64(len(pts)-1), Machine: true, Turns: true, Edge: func(bool) float64 { return difference.Margin }}
	r.of, r.needs, r.kinds = len(pts), difference.Needs(rule.Alpha), mixedKinds(pts)
	r.repeats = len(slices.MinFunc(pts, func(a, b Point) int { return cmp.Compare(len(a.speeds), len(b.speeds)) }).speeds)
	if r.repeats < r.needs || len(r.kinds) > 1 {
		return r, false
	}
	best := slices.MaxFunc(pts, func(a, b Point) int { return cmp.Compare(a.Figures.GetsPerSecond, b.Figures.GetsPerSecond) })
	for _, p := range pts {
		found := difference.Decide(difference.Sample{Values: p.speeds}, difference.Sample{Values: best.speeds}, rule)
		if !found.Matters || found.Change <= 0 {
			r.leaders = append(r.leaders, p)
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
	return view.Without(append(out, c.ceilingSentence(), strings.TrimSpace(c.left())))
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
		outcome := r.unranked()
		if ok && len(r.leaders) == 1 {
			outcome = c.sweep.entrant(r.leaders[0]) + " is fastest"
		} else if ok {
			outcome = "cannot tell who is fastest of " + view.List(r.leaders, c.sweep.entrant)
		}
		if stops[outcome] == nil {
			outcomes = append(outcomes, outcome)
		}
		stops[outcome] = append(stops[outcome], stop)
	}
	var out []string
	for _, outcome := range outcomes {
		at, text := stops[outcome], outcome
		last := at[len(at)-1]
		if c.x != "" && (len(outcomes) > 1 || len(c.stops()) > 1) {
			text = "With " + counted1(c.x, at) + ", " + text
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

// mixedKinds are the kinds of machines that points were measured on. Where the hardware class
// is an axis they are those of one class, if any class has several.
func mixedKinds(pts []Point) (kinds []string) {
	pts = slices.DeleteFunc(slices.Clone(pts), func(p Point) bool { return p.Run == nil })
	known := view.Without(view.Distinct(pts, func(p Point) string { return p.Run.Host.Class }))
	byClass := map[string][]string{}
	for _, p := range pts {
		h, class := p.Run.Host, p.Axes["class"]
		kind := h.Kind()
		if class == "" && h.Class != "" && len(known) > 1 {
			kind = "class " + h.Class + ": " + kind
		}
		if !slices.Contains(byClass[class], kind) {
			byClass[class] = append(byClass[class], kind)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		if len(byClass[class]) > len(kinds) {
			kinds = byClass[class]
		}
	}
	return kinds
}

// unranked says why nobody is called faster, and what would help.
func (r ranking) unranked() string {
	if len(r.kinds) > 1 {
		return "runs on machines of different kinds cannot be ranked (" + strings.Join(r.kinds, "; ") + ")"
	}
	return fmt.Sprintf("too few runs to rank them (%d each; to rank %d, %d are needed: --repeats %d)", max(1, r.repeats), r.of, r.needs, r.needs)
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
			text += ", " + speed(last) + "; " + r.unranked()
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
