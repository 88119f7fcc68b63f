package compare

import (
	"testing"

	"github.com/statelab/statelab/result"
)

// TestMixOfWatches: kinds of keys and absent keys whose share of the Gets differs by five points
// are named, the largest difference first.
func TestMixOfWatches(t *testing.T) {
	watch := func(accounts, slots uint64, absent float64) *result.Watch {
		return &result.Watch{
			Gets:   accounts + slots,
			Absent: absent,
			Keys: []result.WatchedKeys{
				{Kind: "accounts", Gets: accounts},
				{Kind: "slots", Gets: slots},
			},
		}
	}

	for _, c := range []struct {
		a, b *result.Watch
		want string
	}{
		{nil, watch(1, 1, 0), ""},
		{watch(500, 500, .1), watch(960, 1040, .14), ""},
		{watch(500, 500, .1), watch(400, 1600, .18), "Their Gets differ, and with them the reads " +
			"per Get: 50 % and 80 % are of slots, 50 % and 20 % are of accounts, 10 % and 18 % " +
			"find nothing"},
		{watch(500, 500, .1), watch(500, 500, .2), "Their Gets differ, and with them the reads " +
			"per Get: 10 % and 20 % find nothing"},
	} {
		if got := mixNote(c.a, c.b); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
