package lookup

import (
	"context"
	"fmt"

	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// maxRoots is how many roots of a build are stored, evenly spread, besides those of
// the update blocks.
const maxRoots = 100

// build makes the state and then measures updates of it.
func (r *run) build(ctx context.Context) error {
	if _, err := r.phase("prepare", func() (uint64, error) {
		if err := r.open(ctx); err != nil {
			return 0, err
		}

		if r.state.Block() != 0 {
			return 0, fmt.Errorf("a new state is at block %d", r.state.Block())
		}

		return 0, nil
	}); err != nil {
		return err
	}

	f := r.Result.Figures.State
	if r.spec.Chain.Accounts == 0 {
		err := r.createTraffic(ctx)
		f.Block = r.state.Block()
		return err
	}

	created, err := r.phase("build", func() (uint64, error) { return r.create(ctx) })
	if err != nil {
		return err
	}

	f.BuildSeconds = created.Seconds
	if _, err := r.phase("settle", func() (uint64, error) { return 0, r.settle(ctx) }); err != nil {
		return err
	}

	if r.spec.Chain.UpdateBlocks*r.spec.Chain.UpdateAccounts > 0 {
		if err := r.updates(ctx); err != nil {
			return err
		}
	}

	err = r.createTraffic(ctx)
	f.Block = r.state.Block()
	return err
}

// create makes all accounts, block by block.
func (r *run) create(ctx context.Context) (uint64, error) {
	g, chain := NewGenerator(r.spec.Chain, 0), r.spec.Chain
	every := buildBlocks(chain)/maxRoots + 1
	var change layout.Change
	var account layout.Account
	series, err := r.Interval("build")
	if err != nil {
		return 0, err
	}

	for index := range chain.Accounts {
		g.creation(index, &change, &account)
		r.Result.Figures.State.Slots += uint64(len(change.Slots))
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
			return index, fmt.Errorf("the commit of block %d returned at block %d", want,
				r.state.Block())
		}

		if r.state.Block()%every == 0 || last {
			r.noteRoot(root)
		}

		r.Tell(result.Event{
			Phase: "build",
			Done:  index + 1,
			Total: chain.Accounts,
			Unit:  "accounts",
		})

		if err := series.Progress(index+1, last); err != nil {
			return index, err
		}

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

	n := float64(u.Updates)
	bytes, source := written(changed.Plus(settled))
	u.UpdateNanos, u.CommitNanos = float64(inside)/n, r.summed("commit", commits)
	u.ReadCallsPerUpdate = float64(changed.Process.ReadCalls) / n
	u.NodesPerUpdate, u.HashNanos = figure.If(each(changed.Subject.NodesNew, u.Updates)),
		figure.If(each(changed.Subject.HashNanos, u.Updates))
	u.CPUNanos = figure.Known(float64(changed.CPUNanos()) / n)
	u.DeviceReadsPerUpdate = figure.If(each(deviceReads(changed), u.Updates))
	u.DeviceReadBytes = float64(deviceReadBytes(changed)) / n
	u.WriteBytes, u.WriteSource = float64(bytes)/n, source
	u.WriteAmplification = float64(bytes) / float64(u.UserBytes)
	r.Result.Figures.State.Updates = u
	return nil
}

// updateBlocks makes the update blocks and returns the nanoseconds in the layout.
func (r *run) updateBlocks(
	ctx context.Context, u *result.StateUpdates, commits *measure.Histogram,
) (inside int64, err error) {
	g, chain := NewGenerator(r.spec.Chain, 0), r.spec.Chain
	series, err := r.Interval("update")
	if err != nil {
		return 0, err
	}

	var accounts, slots writes
	for n := range chain.UpdateBlocks {
		block := buildBlocks(chain) + 1 + n
		before, of := u.Updates, &accounts
		if g.changesContract(block) {
			of = &slots
		}

		var nanos int64
		c, err := r.Between(func() (err error) {
			nanos, err = r.updateBlock(ctx, g, block, u, commits)
			return err
		})
		if err != nil {
			return inside, err
		}

		inside += nanos
		of.add(u.Updates-before, nanos, c)
		r.Tell(
			result.Event{Phase: "update", Done: n + 1, Total: chain.UpdateBlocks, Unit: "blocks"},
		)
		if err := series.Progress(u.Updates, n+1 == chain.UpdateBlocks); err != nil {
			return inside, err
		}

		if ctx.Err() != nil {
			return inside, context.Cause(ctx)
		}
	}

	if chain.ContractSlots > 0 {
		u.Accounts, u.Slots = accounts.cost(), slots.cost()
	}

	return inside, nil
}

// updateBlock makes one update block and returns the nanoseconds in the layout.
func (r *run) updateBlock(
	ctx context.Context, g *Generator, block uint64, u *result.StateUpdates,
	commits *measure.Histogram,
) (inside int64, err error) {
	var change layout.Change
	var account layout.Account
	apply := func(writes int) {
		u.Updates += uint64(writes)
		u.UserBytes += changeBytes(&change)
		start := r.Clock.Ticks()
		err = r.state.Change(change)
		inside += r.Clock.Nanos(r.Clock.Ticks() - start)
	}

	if g.changesContract(block) {
		g.contractUpdate(block, &change, &account)
		apply(len(change.Slots))
	} else {
		g.eachUpdate(block, func(index uint64) {
			if err == nil {
				g.update(index, block, &change, &account)
				apply(1)
			}
		})
	}

	if err != nil {
		return inside, err
	}

	start := r.Clock.Ticks()
	root, err := r.state.Commit(ctx)
	nanos := r.Clock.Nanos(r.Clock.Ticks() - start)
	if err != nil {
		return inside, err
	}

	commits.Add(nanos)
	r.noteRoot(root)
	return inside + nanos, nil
}

// writes are blocks of one kind of write.
type writes struct {
	result.StateWrites
	total cost
	each  []float64 // nanoseconds of a write, by block
}

func (w *writes) add(n uint64, nanos int64, c cost) {
	w.Writes += n
	w.Blocks++
	w.total = w.total.Plus(c)
	w.each = append(w.each, float64(nanos)/float64(n))
}

// cost is nil of no blocks.
func (w *writes) cost() *result.StateWrites {
	if w.Writes == 0 {
		return nil
	}

	n, mean, off := float64(w.Writes), 0.0, 0.0
	for _, v := range w.each {
		mean += v / float64(len(w.each))
	}

	if e := standardError(w.each); e != nil {
		off = 2 * *e
	}

	bytes, _ := written(w.total)
	w.Nanos, w.Spread = mean, result.Range{Low: max(0, mean-off), High: mean + off}
	w.CPUNanos = float64(w.total.CPUNanos()) / n
	w.Reads, w.WriteBytes = float64(max(w.total.Process.ReadCalls, w.total.Process.MajorFaults))/n,
		float64(bytes)/n
	return &w.StateWrites
}
