package lookup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// maxRoots is how many roots of a build are stored, evenly spread, besides those of
// the update blocks.
const maxRoots = 100

// build makes the state and then measures updates of it.
func (r *run) build(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	if r.state.Block() != 0 {
		return fmt.Errorf("a new state is at block %d", r.state.Block())
	}
	f := r.result.Figures.State
	created, err := r.phase("build", func() (uint64, error) { return r.create(ctx) })
	if err != nil {
		return err
	}
	f.BuildSeconds = created.seconds
	if _, err := r.phase("settle", func() (uint64, error) { return 0, r.settle(ctx) }); err != nil {
		return err
	}
	if r.spec.Chain.UpdateBlocks*r.spec.Chain.UpdateAccounts > 0 {
		if err := r.updates(ctx); err != nil {
			return err
		}
	}
	f.Block = r.state.Block()
	return nil
}

// create makes all accounts, block by block.
func (r *run) create(ctx context.Context) (uint64, error) {
	g, chain := NewGenerator(r.spec.Chain, 0), r.spec.Chain
	every := buildBlocks(chain)/maxRoots + 1
	var change layout.Change
	var account layout.Account
	for index := range chain.Accounts {
		g.creation(index, &change, &account)
		r.result.Figures.State.Slots += uint64(len(change.Slots))
		if err := r.state.Change(change); err != nil {
			return index, err
		}
		last := index+1 == chain.Accounts
		if (index+1)%chain.BlockAccounts != 0 && !last {
			continue
		}
		root, err := r.state.Commit(ctx)
		if err != nil {
			return index, err
		}
		if want := index/chain.BlockAccounts + 1; r.state.Block() != want {
			return index, fmt.Errorf("the commit of block %d returned at block %d", want, r.state.Block())
		}
		if r.state.Block()%every == 0 || last {
			r.noteRoot(root)
		}
		r.tell(result.Event{Phase: "build", Done: index + 1, Total: chain.Accounts, Unit: "accounts"})
		if ctx.Err() != nil {
			return index, context.Cause(ctx)
		}
	}
	return chain.Accounts, nil
}

// updates measures the update blocks, and what they leave to background work.
func (r *run) updates(ctx context.Context) error {
	u := &result.StateUpdates{Blocks: r.spec.Chain.UpdateBlocks}
	commits := measure.NewHistogram()
	var inside int64
	changed, err := r.phase("update", func() (uint64, error) {
		var err error
		inside, err = r.updateBlocks(ctx, u, commits)
		return u.Updates, err
	})
	if err != nil {
		return err
	}
	settled, err := r.phase("settle", func() (uint64, error) { return 0, r.settle(ctx) })
	if err != nil {
		return err
	}
	n, whole := float64(u.Updates), changed
	whole.add(settled)
	written, source := whole.written()
	u.UpdateNanos, u.CommitNanos = float64(inside)/n, r.summed("commit", commits)
	u.ReadCallsPerUpdate = float64(changed.process.ReadCalls) / n
	u.NodesPerUpdate = each(changed.layout.NodesNew, u.Updates)
	u.DeviceReadsPerUpdate = each(changed.deviceReads(), u.Updates)
	u.DeviceReadBytes = float64(changed.deviceReadBytes()) / n
	u.WriteBytes, u.WriteSource = float64(written)/n, source
	u.WriteAmplification = float64(written) / float64(u.UserBytes)
	r.result.Figures.State.Updates = u
	return nil
}

// updateBlocks makes the update blocks and returns the nanoseconds in the layout.
func (r *run) updateBlocks(ctx context.Context, u *result.StateUpdates, commits *measure.Histogram) (inside int64, err error) {
	g, chain := NewGenerator(r.spec.Chain, 0), r.spec.Chain
	var change layout.Change
	var account layout.Account
	for n := range chain.UpdateBlocks {
		block := buildBlocks(chain) + 1 + n
		var changeErr error
		g.eachUpdate(block, func(index uint64) {
			if changeErr != nil {
				return
			}
			g.update(index, block, &change, &account)
			u.Updates++
			u.UserBytes += changeBytes(&change)
			start := r.clock.Ticks()
			changeErr = r.state.Change(change)
			inside += r.clock.Nanos(r.clock.Ticks() - start)
		})
		if changeErr != nil {
			return inside, changeErr
		}
		start := r.clock.Ticks()
		root, err := r.state.Commit(ctx)
		nanos := r.clock.Nanos(r.clock.Ticks() - start)
		if err != nil {
			return inside, err
		}
		inside += nanos
		commits.Add(nanos)
		r.noteRoot(root)
		r.tell(result.Event{Phase: "update", Done: n + 1, Total: chain.UpdateBlocks, Unit: "blocks"})
		if ctx.Err() != nil {
			return inside, context.Cause(ctx)
		}
	}
	return inside, nil
}

func (r *run) storeLatencies() error {
	f, err := os.Create(filepath.Join(r.spec.Out, result.LatencyFile))
	if err != nil {
		return err
	}
	return errors.Join(measure.WriteLog(f, r.result.Started, r.log), f.Close())
}
