package trees

import (
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// hour is the window of the moving average that the IAVL comparison of 2023 shows, in
// ticks of a second.
const hour = 3600

// window is the rate over the last ticks of a tree: leaves over the time in the tree.
type window struct {
	ticks  int
	parts  []part
	before uint64 // leaves so far, at the last tick
}

type part struct{ leaves, seconds float64 }

// add takes the next tick and returns the rate over the window; nil while nothing was
// applied.
func (w *window) add(t *result.TreeTick) *float64 {
	p := part{leaves: float64(t.Leaves) - float64(w.before)}
	w.before = t.Leaves
	if t.LeavesPerSecond > 0 {
		p.seconds = p.leaves / t.LeavesPerSecond
	} else {
		p.seconds = 1 // a tick in which nothing was finished
	}
	if w.parts = append(w.parts, p); len(w.parts) > w.ticks {
		w.parts = w.parts[1:]
	}
	var sum part
	for _, p := range w.parts {
		sum.leaves, sum.seconds = sum.leaves+p.leaves, sum.seconds+p.seconds
	}
	if sum.leaves <= 0 || sum.seconds <= 0 {
		return nil
	}
	return view.Some(sum.leaves / sum.seconds)
}
