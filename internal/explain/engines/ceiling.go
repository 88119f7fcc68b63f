package engines

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// fewestReads is the least number of device reads per Get with which the device
// says anything about Gets.
const fewestReads = 0.01

// limit is what the disk leaves to a point.
type limit struct {
	disk           result.DiskPoint
	inFlight       int     // threads: each has one Get, and that at most one read, under way
	getsPerSecond  float64 // the disk's reads a second / device reads per Get
	share          float64 // reached of it
	nanosPerGet    float64 // the mean Get is no shorter: in flight / getsPerSecond
	beyondMeasured bool    // more in flight than the disk was measured with
}

// limitOf is known where reads reach the device and were counted there.
func (s *Sweep) limitOf(p Point) (l limit, ok bool) {
	reads := p.Figures.DeviceReadsPerGet
	if s.Disk == nil || reads == nil || *reads < fewestReads || p.Status != result.OK {
		return l, false
	}
	l.inFlight = p.threads()
	if l.disk, ok = s.Disk.At(float64(l.inFlight)); !ok {
		return l, false
	}
	l.beyondMeasured = l.inFlight > s.Disk.Points[len(s.Disk.Points)-1].InFlight
	l.getsPerSecond = l.disk.ReadsPerSecond / *reads
	l.share = p.Figures.GetsPerSecond / l.getsPerSecond
	l.nanosPerGet = 1e9 * float64(l.inFlight) / l.getsPerSecond
	return l, !math.IsNaN(l.share) && !math.IsInf(l.share, 0) && l.getsPerSecond < 1e15
}

func (p Point) threads() int {
	if n, err := strconv.Atoi(p.Axes["threads"]); err == nil {
		return n
	}
	if p.Run != nil {
		return p.Run.Workload.Threads
	}
	return 0
}

// ceilingSentence says which part of the disk's limit is reached at the last stop.
func (a arena) ceilingSentence() string {
	stops := a.stops()
	var parts []string
	var at limit
	above := false
	for _, p := range a.at(stops[len(stops)-1]) {
		l, ok := a.sweep.limitOf(p)
		if !ok {
			continue
		}
		above = above || l.share > 1
		parts, at = append(parts, strings.TrimSpace(a.sweep.entrant(p)+" "+sharePercent(l.share))), l
	}
	if len(parts) == 0 {
		return ""
	}
	more := ""
	if at.beyondMeasured {
		more = " or more"
	}
	noise := fmt.Sprintf("%s reads/s, %s to %s over its repeats", unit.ShortCount(at.disk.ReadsPerSecond), unit.ShortCount(at.disk.Spread.Low), unit.ShortCount(at.disk.Spread.High))
	gives := fmt.Sprintf("of what this disk gives at %d%s in flight (%s)", at.disk.InFlight, more, noise)
	text := "Your engine reaches " + parts[0] + " " + gives + "."
	if a.rivals() {
		text = view.Upper(gives) + ": " + strings.Join(parts, ", ") + "."
	}
	if above {
		text += " More than 100%: the disk was busier when it was measured than under the engine; statelab disk --out measures it again, --disk takes that."
	}
	return text
}

// sharePercent prints a share that is known to a few percent.
func sharePercent(share float64) string {
	if share < 0.01 {
		return "< 1%"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}

// ceilingTable is the disk's own account.
func ceilingTable(s *Sweep) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "in flight"}, {Name: "reads", Unit: "per s"}, {Name: "lowest repeat", Unit: "per s"}, {Name: "highest repeat", Unit: "per s"}, {Name: "mean", Unit: "us"}, {Name: "p99", Unit: "us"}}}
	us := view.Scale{Name: "us", Size: 1e3}
	for _, p := range s.Disk.Points {
		t.Add(unit.Count(p.InFlight), view.Number(p.ReadsPerSecond), view.Number(p.Spread.Low), view.Number(p.Spread.High), us.In(p.MeanNanos), us.In(p.P99Nanos))
	}
	return t
}

// ceilingsDrawn are the limits of curves worth drawing: near enough to be seen.
func ceilingsDrawn(s *Sweep, groups [][]Point) [][]limit {
	top := 0.0
	for _, pts := range groups {
		for _, p := range pts {
			top = math.Max(top, p.Figures.GetsPerSecond)
		}
	}
	out := make([][]limit, len(groups))
	known := 0
	for i, pts := range groups {
		for _, p := range pts {
			l, ok := s.limitOf(p)
			if ok && l.getsPerSecond > 20*top {
				ok = false
			}
			if !ok {
				l = limit{}
			}
			out[i] = append(out[i], l)
		}
		if slices.ContainsFunc(out[i], func(l limit) bool { return l.getsPerSecond > 0 }) {
			known++
		}
	}
	if known == 0 {
		return nil
	}
	return out
}
