package engines

import (
	"fmt"
	"math"
	"strconv"
	"strings"

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
	if s.Disk == nil || s.Disk.Contradicted != "" || reads == nil || *reads < fewestReads || p.Status != result.OK {
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
func (c curve) ceilingSentence() string {
	stops := c.stops()
	var parts []string
	var at limit
	for _, p := range c.at(stops[len(stops)-1]) {
		l, ok := c.sweep.limitOf(p)
		if !ok {
			continue
		}
		parts, at = append(parts, strings.TrimSpace(c.sweep.entrant(p)+" "+sharePercent(l.share))), l
	}
	if len(parts) == 0 {
		return ""
	}
	more := ""
	if at.beyondMeasured {
		more = " or more"
	}
	noise := fmt.Sprintf("%s reads/s, %s to %s over its repeats", view.ShortCount(at.disk.ReadsPerSecond), view.ShortCount(at.disk.Spread.Low),
		view.ShortCount(at.disk.Spread.High))
	gives := fmt.Sprintf("of this disk's limit at %d%s in flight (%s)", at.disk.InFlight, more, noise)
	if c.rivals() {
		return view.Upper(gives) + ": " + strings.Join(parts, ", ") + "."
	}
	return "Your engine reaches " + parts[0] + " " + gives + "."
}

// sharePercent prints a share that is known to a few percent.
func sharePercent(share float64) string {
	if share < 0.01 {
		return "< 1%"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}
