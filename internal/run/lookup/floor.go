package lookup

import (
	"sync/atomic"

	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// floor measures the harness by itself: the same loop on a layout that answers
// "absent" at once.
func (r *run) floor() {
	r.Result.Figures.HarnessNanosPerGet = new(HarnessFloor(r.Clock))
}

// floorLookups is short enough to go before every run: some 50 ms.
const floorLookups = 100_000

// HarnessFloor is the cost of the loop around a lookup of an absent account, in
// nanoseconds: choosing and naming it, two clock reads, recording.
func HarnessFloor(clock *measure.Clock) float64 {
	w := nullWorker(clock, floorLookups)
	return session.Floor(clock, floorLookups, func(count uint64) error {
		w.nanos = w.nanos[:0]
		return w.run(count)
	})
}

// nullWorker looks up absent accounts in no layout.
func nullWorker(clock *measure.Clock, most uint64) *worker {
	const accounts = 1 << 20
	return &worker{reader: nothing{}, generator: NewGenerator(protocol.Chain{Seed: 1, Accounts: accounts, BlockAccounts: accounts}, 0), clock: clock,
		stop: new(atomic.Bool), lookups: lookups{kind: result.AbsentAccountLookup}, nanos: make([]int64, 0, most)}
}

// nothing is a layout's reader without a layout.
type nothing struct{ layout.Reader }

func (nothing) Account(layout.Hash) (layout.Account, bool, error) {
	return layout.Account{}, false, nil
}
