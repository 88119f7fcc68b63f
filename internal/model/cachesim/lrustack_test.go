package cachesim

import (
	"slices"
	"testing"
)

// TestStackAfterItsPast: what caches hold, read from the accesses before, is what
// they hold after playing them, to the block.
func TestStackAfterItsPast(t *testing.T) {
	sizes := []int64{6000, 40_000, 40_000, 250_000, 1 << 30}
	for _, unit := range []int{1, 1000} { // with multiples of 1000 caches are often exactly full
		trace := mixedTrace(t, 4, 3000, 2000, 6000, unit)
		played := newLRUStack(trace, sizes, nil)
		for n := range trace.Accesses {
			if n%97 == 0 {
				past := newLRUStack(trace, sizes, trace.Accesses[:n])
				outside := func(a, b lruPage) bool { return a.outside == b.outside }
				if !slices.Equal(past.usedBytes, played.usedBytes) ||
					!slices.Equal(past.oldest, played.oldest) || past.newest != played.newest ||
					!slices.EqualFunc(past.pages, played.pages, outside) {
					t.Fatalf("after %d accesses: %v used, oldest %v; played: %v, %v", n,
						past.usedBytes, past.oldest, played.usedBytes, played.oldest)
				}
			}

			played.play(trace.Accesses[n : n+1])
		}
	}
}
