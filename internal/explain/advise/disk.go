package advise

import (
	"fmt"
	"math"
	"time"

	"github.com/statelab/statelab/internal/base/unit"
)

// Disk is what a probe of random reads found.
type Disk struct {
	Points []ProbePoint `json:"points,omitempty"` // by reads in flight
	Absent string       `json:"absent,omitempty"` // why there are none
}

// ProbePoint is what the disk gives to so many reads in flight.
type ProbePoint struct {
	InFlight       int     `json:"in_flight"`
	ReadsPerSecond float64 `json:"reads_per_second"`
	MeanNanos      float64 `json:"mean_ns"`
	P99Nanos       int64   `json:"p99_ns"`
}

// most is the point of the most reads a second.
func (d Disk) most() (best ProbePoint) {
	for _, p := range d.Points {
		if p.ReadsPerSecond > best.ReadsPerSecond {
			best = p
		}
	}
	return best
}

// feeding is the first point that gives so many reads a second; the one that
// gives most where none does.
func (d Disk) feeding(readsPerSecond float64) ProbePoint {
	for _, p := range d.Points {
		if p.ReadsPerSecond >= readsPerSecond {
			return p
		}
	}
	return d.most()
}

// The share of a disk's reads from which it is close, and beyond, its limit:
// queues grow long before all of it is used.
const (
	closeToLimit = 0.5
	atLimit      = 1.0
)

// verdict says whether the disk can give so many reads a second.
func (d Disk) verdict(readsPerSecond float64) string {
	p := d.feeding(readsPerSecond)
	if most := d.most(); readsPerSecond > closeToLimit*p.ReadsPerSecond && most.ReadsPerSecond > p.ReadsPerSecond {
		p = most
	}
	needs := fmt.Sprintf("needs %s reads/s of this disk's %s at %d in flight", unit.ShortCount(readsPerSecond), unit.ShortCount(p.ReadsPerSecond), p.InFlight)
	switch share := readsPerSecond / p.ReadsPerSecond; {
	case share > atLimit:
		return needs + ": the disk is the limit"
	case share > closeToLimit:
		return needs + ": close to the disk's limit"
	}
	return needs + ": not the disk"
}

// latency is the device time of a Get: its block reads follow one another.
func (d Disk) latency(readsPerGet, readsPerSecond float64) time.Duration {
	return time.Duration(math.Round(readsPerGet * d.feeding(readsPerSecond).MeanNanos))
}
