package lookup

import (
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/internal/run/timed"
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
	return session.Floor(clock, floorLookups, nullWorker(clock).Run)
}

// nullWorker looks up absent accounts in no layout.
func nullWorker(clock *measure.Clock) *timed.Worker {
	const accounts = 1 << 20
	return workerOn(clock, &reader{Reader: nothing{}}, NewGenerator(protocol.Chain{Seed: 1, Accounts: accounts, BlockAccounts: accounts}, 0),
		result.AbsentAccountLookup)
}

// workerOn makes random lookups of a kind alone.
func workerOn(clock *measure.Clock, r *reader, g *Generator, kind string) *timed.Worker {
	return timed.NewWorker(clock, &gets{lookups: lookups{kind: kind, inFlight: 1}, reader: r, generator: g}, r)
}

// nothing is a layout's reader without a layout.
type nothing struct{ layout.Reader }

func (nothing) Account(layout.Hash) (layout.Account, bool, error) {
	return layout.Account{}, false, nil
}
