package engines

import (
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/result"
)

// arena is the points of a sweep that may be held against each other: they
// differ in what competes (engine, profile) and in one more setting.
type arena struct {
	sweep *Sweep
	label string // the settings that are held, such as "page-cache cold"
	along string // the axis that varies besides: threads, rate, ...; "" if none
	pts   []Point
}

// compares tells whether a sweep is about engines, threads or handles, not about
// cache sizes.
func (s *Sweep) compares() bool { return s.xAxis() != "cache" }

func competes(axis string) bool { return axis == "engine" || axis == "profile" }

// along is the axis that a table of competitors has its rows along.
func (s *Sweep) along() string {
	var rest []string
	for _, axis := range s.varying() {
		if !competes(axis) {
			rest = append(rest, axis)
		}
	}
	for _, axis := range []string{"rate", "threads", "handles"} {
		if slices.Contains(rest, axis) {
			return axis
		}
	}
	if len(rest) > 0 {
		return rest[0]
	}
	return ""
}

// arenas splits a sweep by the axes that neither compete nor are along; points
// are ordered along, then as the axes list what competes.
func (s *Sweep) arenas() []arena {
	along := s.along()
	order := s.order(along)
	index := map[string]int{}
	var out []arena
	for _, p := range s.Points {
		var held []string
		for _, axis := range s.varying() {
			if !competes(axis) && axis != along {
				held = append(held, axisValue(axis, p.Axes[axis]))
			}
		}
		label := strings.Join(held, ", ")
		i, known := index[label]
		if !known {
			i = len(out)
			index[label] = i
			out = append(out, arena{sweep: s, label: label, along: along})
		}
		out[i].pts = append(out[i].pts, p)
	}
	for _, a := range out {
		slices.SortStableFunc(a.pts, func(p, q Point) int { return order[p.Axes[along]] - order[q.Axes[along]] })
	}
	return out
}

// order is the place of each value of an axis.
func (s *Sweep) order(axis string) map[string]int {
	order := map[string]int{}
	for _, a := range s.Axes {
		if a.Name == axis {
			for i, value := range a.Values {
				order[value] = i
			}
		}
	}
	return order
}

// entrant names what competes: "rocksdb:partitioned"; "" where nothing does.
func (s *Sweep) entrant(p Point) string {
	var parts []string
	for _, axis := range s.varying() {
		if competes(axis) {
			parts = append(parts, p.Axes[axis])
		}
	}
	return strings.Join(parts, " ")
}

// entrants are the names in the order of their axes, failed ones too.
func (a arena) entrants() []string {
	var names []string
	for _, p := range a.pts {
		if name := a.sweep.entrant(p); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// stops are the values along, in order.
func (a arena) stops() []string {
	var values []string
	for _, p := range a.pts {
		if value := p.Axes[a.along]; !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// at are the points with one value along.
func (a arena) at(stop string) []Point {
	var pts []Point
	for _, p := range a.pts {
		if p.Axes[a.along] == stop {
			pts = append(pts, p)
		}
	}
	return pts
}

// of is the points of one entrant.
func (a arena) of(entrant string) []Point {
	var pts []Point
	for _, p := range a.pts {
		if a.sweep.entrant(p) == entrant {
			pts = append(pts, p)
		}
	}
	return pts
}

func (a arena) measured() []Point { return curve{pts: a.pts}.measured() }

// rivals tells whether engines or profiles compete, rather than threads alone.
func (a arena) rivals() bool { return len(a.entrants()) > 1 }

// heading precedes what is said of an arena.
func (a arena) heading(named bool) string {
	parts := []string{}
	if named {
		parts = append(parts, a.sweep.Name)
	}
	if a.label != "" {
		parts = append(parts, a.label)
	}
	return strings.Join(parts, ", ")
}

// failures tells who failed, where and why, each reason once.
func (a arena) failures() []string {
	var lines, reasons []string
	stops, whole := map[string][]string{}, map[string]string{}
	for _, p := range a.pts {
		if p.Status == result.OK {
			continue
		}
		name := a.sweep.entrant(p)
		if name == "" {
			name = "points"
		}
		key := name + "\x00" + shortReason(reason(p))
		if !slices.Contains(reasons, key) {
			reasons = append(reasons, key)
		}
		whole[key] = reason(p)
		stops[key] = append(stops[key], p.Axes[a.along])
	}
	for _, key := range reasons {
		name, why, _ := strings.Cut(key, "\x00")
		if len(stops[key]) == 1 {
			why = whole[key]
		}
		where := ""
		if a.along != "" {
			where = fmt.Sprintf(" (%s %s)", a.along, strings.Join(stops[key], ", "))
		}
		lines = append(lines, name+" failed"+where+": "+why)
	}
	return lines
}

// shortReason leaves out at which operation a run was killed: the same reason at
// several points is told once.
func shortReason(text string) string {
	if before, _, found := strings.Cut(text, " at op "); found {
		return before
	}
	return text
}
