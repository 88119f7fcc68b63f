package engines

import (
	"cmp"
	"slices"

	"github.com/statelab/statelab/result"
)

// curve is the points of a sweep that differ in their x axis alone.
type curve struct {
	sweep *Sweep
	label string // the other axes, such as "threads 4"; "" if there are none
	x     string // the axis that varies, "cache" or another; "" for one point
	pts   []Point
}

// name is how a legend calls the curve. alone: no other sweep in the picture.
func (c curve) name(alone bool) string {
	switch {
	case c.label == "":
		return c.sweep.Name
	case alone:
		return c.label
	}
	return c.sweep.Name + ", " + c.label
}

// measured are the points that did not fail.
func (c curve) measured() []Point {
	var ok []Point
	for _, p := range c.pts {
		if p.Status == result.OK {
			ok = append(ok, p)
		}
	}
	return ok
}

// place is where a point stands among all of its curve, failed ones too: its
// colour.
func (c curve) place(p Point) int {
	return slices.IndexFunc(c.pts, func(q Point) bool { return q.Axes[c.x] == p.Axes[c.x] })
}

// xAxis is the axis a sweep is looked at along first: the cache if it varies.
func (s *Sweep) xAxis() string {
	varying := s.varying()
	if slices.Contains(varying, "cache") || len(varying) == 0 {
		return "cache"
	}
	return varying[0]
}

// varying are the axes with more than one value among the points.
func (s *Sweep) varying() []string {
	var names []string
	for _, axis := range s.Axes {
		values := map[string]bool{}
		for _, p := range s.Points {
			values[p.Axes[axis.Name]] = true
		}
		if len(values) > 1 {
			names = append(names, axis.Name)
		}
	}
	return names
}

// curves splits the sweep along x: one curve for every combination of the other
// axes, points ordered by cache or as the axis lists its values.
func (s *Sweep) curves(x string) []curve {
	var out []curve
	index := map[string]int{}
	varying := s.varying()
	for _, p := range s.Points {
		label := ""
		for _, axis := range varying {
			if axis == x {
				continue
			}
			if label != "" {
				label += ", "
			}
			label += axisValue(axis, p.Axes[axis])
		}
		i, known := index[label]
		if !known {
			i = len(out)
			index[label] = i
			out = append(out, curve{sweep: s, label: label, x: x})
		}
		out[i].pts = append(out[i].pts, p)
	}
	order := s.order(x)
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
	var all []curve
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		all = append(all, s.curves(s.xAxis())...)
	}
	return all
}
