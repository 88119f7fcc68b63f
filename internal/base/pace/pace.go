// Package pace says when an operation is due. It is pure: times are nanoseconds
// since the phase began.
package pace

import "time"

// Pace is the schedule of one worker. The zero value is a closed loop: the next
// operation is due when the one before has returned.
type Pace struct {
	interval float64 // between operations of this worker, ns
	due      float64
}

// Constant is an open loop: all workers together issue perSecond operations a
// second, evenly spaced, whether or not earlier ones have returned.
func Constant(perSecond float64, worker, workers int) Pace {
	step := float64(time.Second) / perSecond
	return Pace{interval: step * float64(workers), due: step * float64(worker)}
}

// Next returns when the next operation is due; open is false in a closed loop.
func (p *Pace) Next() (due int64, open bool) {
	if p.interval == 0 {
		return 0, false
	}
	now := p.due
	p.due += p.interval
	return int64(now), true
}
