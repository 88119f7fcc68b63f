package slurm

import "time"

// How often Slurm's controller is asked. It serves many users: one question is for all tasks of a
// batch, and questions become rarer while nothing changes. What tasks write to the shared folders
// is read each second all the same: that costs the controller nothing.
const (
	tickEvery = time.Second // folders and logs; Slurm at most as often
	askRarely = 30 * time.Second
)

// backoff spaces questions: tickEvery after a change, then each time twice as long after the one
// before, up to askRarely. So a change is seen at the latest after twice the time that it took to
// come, or after askRarely. The zero value asks at once.
type backoff struct {
	next time.Time     // when the next question is due
	wait time.Duration // between the last two; 0: something has changed
}

// due reports whether to ask.
func (b *backoff) due(now time.Time) bool { return !now.Before(b.next) }

// asked is called after a question.
func (b *backoff) asked(now time.Time) {
	b.wait = min(max(2*b.wait, tickEvery), askRarely)
	b.next = now.Add(b.wait)
}

// changed makes the next question due at the next tick: something has happened that leads to more.
func (b *backoff) changed() { *b = backoff{} }
