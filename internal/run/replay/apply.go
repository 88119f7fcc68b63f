package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/tree"
)

// totals are what was counted so far, and the time in the tree.
type totals struct {
	version                 int64 // the last that is committed
	versions                uint64
	leaves, removes         uint64
	userBytes               int64
	applyNanos, commitNanos int64
	syncNanos               int64
	waitNanos               int64 // for changes to be decoded
}

func (t totals) minus(earlier totals) totals {
	t.versions -= earlier.versions
	t.leaves -= earlier.leaves
	t.removes -= earlier.removes
	t.userBytes -= earlier.userBytes
	t.applyNanos -= earlier.applyNanos
	t.commitNanos -= earlier.commitNanos
	t.waitNanos -= earlier.waitNanos
	return t
}

// seconds in the tree's changes and commits.
func (t totals) seconds() float64 { return float64(t.applyNanos+t.commitNanos) / 1e9 }

// replay is the data path: wait for a batch, apply it, commit where the version
// ends, check what the commit returned. Only the tree is between clock readings.
func (r *run) replay(ctx context.Context) error {
	if err := r.ticks.begin(r); err != nil {
		return err
	}
	for {
		start := r.Clock.Ticks()
		batch, err := r.ahead.next()
		r.totals.waitNanos += r.Clock.Nanos(r.Clock.Ticks() - start)
		if err != nil {
			return err
		}
		if batch == nil {
			return r.lastTick()
		}
		for r.totals.version+1 < batch.Version { // the set leaves versions out: trees count them all the same
			if err := r.commit(ctx, changeset.Roots{}); err != nil {
				return err
			}
		}
		if err := r.apply(batch); err != nil {
			return err
		}
		if batch.Last {
			if err := r.commit(ctx, batch.Roots); err != nil {
				return err
			}
		}
		if now := time.Now(); r.ticks.Due(now) {
			if err := r.ticks.tick(r, now, batch.Last); err != nil {
				return err
			}
		}
		r.ahead.giveBack(batch)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// apply makes a batch's changes.
func (r *run) apply(batch *decoded) error {
	r.guard.enter("Set and Remove", batch.Version, time.Duration(r.spec.CommitLimitNanos))
	start := r.Clock.Ticks()
	n, err := change(r.forest, batch.Changes)
	nanos := r.Clock.Nanos(r.Clock.Ticks() - start)
	r.guard.leave() // nothing is touched before it: a call given up on must not come back
	r.totals.applyNanos += nanos
	r.totals.leaves += uint64(n)
	if err != nil {
		c := batch.Changes[n]
		return fmt.Errorf("version %d, store %s, key %x: %w", batch.Version, r.stores[c.Store], c.Key, err)
	}
	r.totals.removes += batch.removes
	r.totals.userBytes += batch.userBytes
	return nil
}

// change is all that is timed of the harness; n changes were made.
func change(forest tree.Forest, changes []changeset.Change) (n int, err error) {
	for i := range changes {
		c := &changes[i]
		if c.Delete {
			err = forest.Remove(c.Store, c.Key)
		} else {
			err = forest.Set(c.Store, c.Key, c.Value)
		}
		if err != nil {
			return i, err
		}
	}
	return len(changes), nil
}

// commit ends a version and checks the version and the roots that come back.
func (r *run) commit(ctx context.Context, expected changeset.Roots) error {
	want := r.totals.version + 1
	r.guard.enter("Commit", want, time.Duration(r.spec.CommitLimitNanos))
	start := r.Clock.Ticks()
	committed, err := r.forest.Commit(context.WithoutCancel(ctx)) // an interrupt comes between versions
	nanos := r.Clock.Nanos(r.Clock.Ticks() - start)
	r.guard.leave()
	if err != nil {
		return fmt.Errorf("commit version %d: %w", want, err)
	}
	r.commits.Add(nanos)
	r.ticks.commits.Add(nanos)
	r.totals.commitNanos += nanos
	if committed.Version != want {
		return tree.WrongVersion(committed.Version, want)
	}
	if err := r.ack.write(want); err != nil {
		return err
	}
	r.totals.version = want
	r.totals.versions++
	if err := r.rows.add(r.totals); err != nil {
		return err
	}
	return r.roots.add(want, committed.Roots, r.expected(expected))
}

// expected are the set's roots where they are roots of this tree's rule.
func (r *run) expected(roots changeset.Roots) changeset.Roots {
	if r.info.RootRule != r.tree.Info().RootRule {
		return changeset.Roots{}
	}
	return roots
}

// lastTick is for what came after the last whole second, unless it is too short
// for a rate.
func (r *run) lastTick() error {
	if r.totals.versions == 0 && !r.spec.Resume {
		return fmt.Errorf("%s holds no version from %d on: nothing was replayed", r.spec.Changes, r.first)
	}
	if r.ticks.TooShort() {
		return nil
	}
	return r.ticks.tick(r, time.Now(), true)
}
