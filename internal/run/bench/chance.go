package bench

import (
	"math"

	"github.com/statelab/statelab/internal/observe/host"
)

// parts are how many equal parts of a run tell how much chance there is in what it counts.
const parts = 32

// parted is a source of keys that notes the block reads so far each time that another part of
// the Gets begins. That happens outside the timed call.
type parted struct {
	keySource
	every, left uint64
	now         func() int64
	reads       []int64
}

func (p *parted) next(c *choice) {
	if p.left == 0 {
		p.note()
		p.left = p.every
	}
	p.left--
	p.keySource.next(c)
}

func (p *parted) note() {
	if len(p.reads) < cap(p.reads) {
		p.reads = append(p.reads, p.now())
	}
}

// generated is the source of keys that statelab wrote, which writers change.
func (g *gets) generated() *generated {
	if p, is := g.keySource.(*parted); is {
		return p.keySource.(*generated)
	}
	return g.keySource.(*generated)
}

// inParts is source, with notes of the reads while gets of it are asked for; nil if they are too few.
func (r *run) inParts(source keySource, gets uint64) *parted {
	p := &parted{keySource: source, every: gets / parts, reads: make([]int64, 0, parts+1)}
	if p.every < 10 {
		return nil
	}
	counts := r.db.Counters().Reads != nil
	if !counts && !r.usesPageCache() {
		return nil
	}
	p.now = func() int64 {
		if counts {
			return r.db.Counters().Reads.Total().Count
		}
		return host.MajorFaults()
	}
	return p
}

// chance is the standard error of the reads per Get that the choice of keys gives them. Each
// part is an observation. What a cache remembers from one part to the next makes neighbours
// alike, or unlike, so parts are added up to twice and four times their length as well, and the
// largest of the three errors counts (batch means: Law and Kelton, Simulation Modeling and
// Analysis). gets are those of one part, of all threads together.
func (p *parted) chance(gets float64) *float64 {
	if p == nil || len(p.reads) <= parts {
		return nil
	}
	total := float64(p.reads[parts] - p.reads[0])
	largest := 0.0
	for long := 1; long <= 4; long *= 2 {
		n, squares := float64(parts/long), 0.0
		for i := 0; i < parts; i += long {
			off := float64(p.reads[i+long]-p.reads[i]) - total/n
			squares += off * off
		}
		largest = max(largest, math.Sqrt(squares/(n-1)/n)/float64(long))
	}
	error := largest / gets
	if total < 100 { // so rare that parts without any would hide them
		error = max(error, math.Sqrt(total+1)/(gets*parts))
	}
	return &error
}
