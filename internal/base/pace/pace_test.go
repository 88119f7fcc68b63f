package pace

import "testing"

func TestConstantInterleavesWorkers(t *testing.T) {
	// 1000 a second over 4 workers: worker w is due at w, w+4, w+8 ms.
	for worker := range 4 {
		p := ConstantRate(1000, worker, 4)
		for turn := range 3 {
			due, open := p.Next()
			if want := int64(worker+4*turn) * 1_000_000; !open || due != want {
				t.Errorf("worker %d turn %d: due %d (open %v), want %d", worker, turn, due, open,
					want)
			}
		}
	}
}

func TestZeroIsAClosedLoop(t *testing.T) {
	var p Pacer
	if due, open := p.Next(); open || due != 0 {
		t.Errorf("zero pace: due %d open %v, want a closed loop", due, open)
	}
}
