// Package pace says when an operation is due. It is pure: times are nanoseconds
// since the phase began.
package pace

import "time"

// Pacer is the schedule of one worker, which has one operation outstanding at a time. The zero
// value is a closed loop: the next operation is due when the one before has returned.
type Pacer struct {
	interval float64 // between operations of this worker, ns
	due      float64
}

// ConstantRate is an open loop with a constant arrival rate: perSecond operations a second are due
// for all workers together, evenly spaced, however long earlier ones take. An operation that is due
// while its worker waits for the one before starts late, so no more are outstanding than there are
// workers. Its response time still counts from when it was due: without that, a stall would hide
// the operations that it delayed (coordinated omission).
func ConstantRate(perSecond float64, worker, workers int) Pacer {
	step := float64(time.Second) / perSecond
	return Pacer{interval: step * float64(workers), due: step * float64(worker)}
}

// Next returns when the next operation is due, its intended start; open is false in a closed loop.
func (p *Pacer) Next() (due int64, open bool) {
	if p.interval == 0 {
		return 0, false
	}
	now := p.due
	p.due += p.interval
	return int64(now), true
}
