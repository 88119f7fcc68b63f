package replay

import (
	"context"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/tree"
)

// floor measures the harness by itself: the same batches into no tree.
func (r *run) floor() {
	r.Result.Figures.Replay.HarnessNanos = new(HarnessFloor(r.Clock))
}

// floorLeaves is short enough to go before every run: some milliseconds.
const floorLeaves = 1_000_000

// HarnessFloor is what the timed part of the harness costs per leaf, in
// nanoseconds: the loop, the call through the interface and, once a batch, the
// clock. Batches hold 100 changes, fewer than blocks of a busy chain.
func HarnessFloor(clock *measure.Clock) float64 {
	changes := make([]changeset.Change, 100)
	for i := range changes {
		changes[i] = changeset.Change{Key: []byte("key"), Value: []byte("value"), Delete: i%4 == 0}
	}
	var forest tree.Forest = nothing{}
	return session.Floor(clock, floorLeaves, func(leaves uint64) error {
		var timed int64
		for range leaves / uint64(len(changes)) {
			begin := clock.Ticks()
			if _, err := change(forest, changes); err != nil {
				return err
			}
			timed += clock.Ticks() - begin
		}
		return nil
	})
}

// nothing is a forest without a tree.
type nothing struct{ tree.Forest }

func (nothing) Set(int, []byte, []byte) error { return nil }

func (nothing) Remove(int, []byte) error { return nil }

func (nothing) Commit(context.Context) (tree.Commit, error) { return tree.Commit{}, nil }
