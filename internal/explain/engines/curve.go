package engines

import (
	"cmp"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// curve is points of a sweep that can be compared: they differ in the x axis and, in a
// sweep that is about engines, in what competes.
type curve struct {
	sweep *Sweep
	label string // the other axes, such as "threads 4"; "" if there are none
	x     string // the axis that varies, "cache" or another; "" for one point
	pts   []Point
}

// compares tells whether a sweep is about engines, threads or handles, not about
// cache sizes.
func (s *Sweep) compares() bool { return s.xAxis() != "cache" }

func competes(axis string) bool { return axis == "engine" || axis == "profile" }

// xAxis is the axis a sweep is looked at along first: the cache if it varies.
func (s *Sweep) xAxis() string {
	if slices.Contains(s.varied, "cache") || len(s.varied) == 0 {
		return "cache"
	}
	return s.varied[0]
}

// along is the axis that a table of competitors has its rows along.
func (s *Sweep) along() string {
	rest := slices.DeleteFunc(slices.Clone(s.varied), competes)
	for _, axis := range append([]string{"rate", "threads", "handles"}, rest...) {
		if slices.Contains(rest, axis) {
			return axis
		}
	}
	return ""
}

// varying are the axes with more than one value among the points.
func (s *Sweep) varying() []string {
	return doc.Where(
		doc.Each(s.Axes, func(axis result.Axis) string { return axis.Name }),
		func(name string) bool {
			return len(doc.Distinct(s.Points, func(p Point) string { return p.Axes[name] })) > 1
		},
	)
}

// values are those of an axis in their order.
func (s *Sweep) values(axis string) []string {
	for _, a := range s.Axes {
		if a.Name == axis {
			return a.Values
		}
	}
	return nil
}

// curves splits the sweep along x: one curve for every combination of the other axes.
func (s *Sweep) curves(x string) []curve {
	return s.split(x, func(axis string) bool { return axis != x })
}

// comparisons splits it along what a table has its rows along: in each, engines and
// profiles compete.
func (s *Sweep) comparisons() []curve {
	x := s.along()
	return s.split(x, func(axis string) bool { return axis != x && !competes(axis) })
}

// split makes a curve of the points with the same values on the axes held, ordered by
// cache or as the x axis lists its values.
func (s *Sweep) split(x string, held func(axis string) bool) []curve {
	var out []curve
	index := map[string]int{}
	for _, p := range s.Points {
		label := doc.List(doc.Where(s.varied, held), func(axis string) string {
			return axisValue(axis, p.Axes[axis])
		})
		i, known := index[label]
		if !known {
			i = len(out)
			index[label] = i
			out = append(out, curve{sweep: s, label: label, x: x})
		}

		out[i].pts = append(out[i].pts, p)
	}

	order := map[string]int{}
	for i, value := range s.values(x) {
		order[value] = i
	}

	for _, c := range out {
		slices.SortStableFunc(c.pts, func(a, b Point) int {
			if x == "cache" {
				return cmp.Compare(a.CacheBytes, b.CacheBytes)
			}
			return cmp.Compare(order[a.Axes[x]], order[b.Axes[x]])
		})
	}

	return out
}

// axisValue is a value with its axis where it does not speak for itself.
func axisValue(axis, value string) string {
	switch axis {
	case "engine", "profile":
		return value
	case "page-cache":
		return "page cache " + value
	}
	return axis + " " + value
}

// curves are those of all sweeps along their own x axes.
func (in Input) curves() []curve {
	return doc.Flat(in.Sweeps, func(s *Sweep) []curve { return s.curves(s.xAxis()) })
}

// name is how a legend calls the curve. alone: no other sweep in the picture.
func (c curve) name(alone bool) string {
	if alone {
		return cmp.Or(c.label, c.sweep.Name)
	}
	return c.heading(true)
}

func sameSweep(curves []curve) bool {
	return !slices.ContainsFunc(curves, func(c curve) bool { return c.sweep != curves[0].sweep })
}

// having are the points that fulfil a condition.
func (c curve) having(is func(Point) bool) []Point {
	return doc.Where(c.pts, is)
}

// measured are the points that did not fail, and whose run can be read.
func (c curve) measured() []Point { return measured(c.pts) }

func measured(pts []Point) []Point {
	return doc.Where(pts,
		func(p Point) bool { return p.Status == result.OK && !p.Figures.IsZero() })
}

// withReads are the measured points that have a place on a cache axis.
func (c curve) withReads() []Point {
	return c.having(func(p Point) bool {
		return p.Status == result.OK && p.Figures.Has(figure.BlockReadsPerGet) && p.CacheBytes > 0
	})
}

// at are the points with one value of the x axis, of those of one entrant.
func (c curve) at(stop string) []Point {
	return c.having(func(p Point) bool { return p.Axes[c.x] == stop })
}

func (c curve) of(entrant string) curve {
	c.pts = c.having(func(p Point) bool { return c.sweep.entrant(p) == entrant })
	return c
}

// entrant names what competes: "rocksdb:partitioned"; "" where nothing does.
func (s *Sweep) entrant(p Point) string {
	return strings.Join(doc.Each(doc.Where(s.varied, competes), func(axis string) string {
		return p.Axes[axis]
	}), " ")
}

// entrants are the names in the order of their axes, failed ones too; stops are the
// values of the x axis.
func (c curve) entrants() []string { return doc.Distinct(c.pts, c.sweep.entrant) }
func (c curve) stops() []string {
	return doc.Distinct(c.pts, func(p Point) string { return p.Axes[c.x] })
}

// comparesEngines tells whether engines or profiles compete, rather than threads alone.
func (c curve) comparesEngines() bool { return len(c.entrants()) > 1 }

// heading precedes what is said of a curve.
func (c curve) heading(named bool) string {
	if !named {
		return c.label
	}
	return strings.TrimSuffix(c.sweep.Name+", "+c.label, ", ")
}

// repeats is how often the points were measured at most.
func (c curve) repeats() (maximum int) {
	for _, p := range c.pts {
		maximum = max(maximum, len(p.Runs))
	}
	return maximum
}
