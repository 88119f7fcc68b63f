package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/measure"
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
	var err error
	r.ticks.commits = measure.NewHistogram()
	if r.ticks.Interval, err = r.Interval(replayPhase); err != nil {
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

		// the set leaves versions out: trees count them all the same
		for r.totals.version+1 < batch.Version {
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

		r.ahead.free <- batch
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
		return fmt.Errorf("version %d, store %s, key %x: %w", batch.Version, r.stores[c.Store],
			c.Key, err)
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
	// an interrupt comes between versions
	committed, err := r.forest.Commit(context.WithoutCancel(ctx))
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
		return fmt.Errorf("%s holds no version from %d on: nothing was replayed", r.spec.Changes,
			r.first)
	}
	if r.ticks.TooShort() {
		return nil
	}
	return r.ticks.tick(r, time.Now(), true)
}

// The ring bounds what is decoded ahead of the tree, whatever a block's size: a
// version larger than a batch comes in several.
const (
	ringBatches = 64
	batchBytes  = 256 << 10
)

// decoded is one batch with what is counted of it, so that the tree's side
// counts nothing per change.
type decoded struct {
	changeset.Batch
	removes   uint64
	userBytes int64
}

// ahead reads and decodes batches in a goroutine of its own.
type ahead struct {
	full, free chan *decoded
	stop       chan struct{}
	stopped    chan struct{}
	err        error // once full is closed
}

// window is the part of a set that is wanted.
type window struct {
	above, last int64          // versions
	stores      map[string]int // number in the tree, by name
	sample      *sample        // sees changes of earlier versions too; nil: none wanted
}

func readAhead(source changeset.Source, w window) *ahead {
	a := &ahead{
		full:    make(chan *decoded, ringBatches),
		free:    make(chan *decoded, ringBatches),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}

	for range ringBatches {
		a.free <- &decoded{Batch: changeset.Batch{MaxBytes: batchBytes}}
	}

	go a.run(source, w)
	return a
}

func (a *ahead) run(source changeset.Source, w window) {
	defer close(a.stopped)
	defer close(a.full)
	var numbers []int // in the tree, by number in the source; -1: not wanted
	for {
		var d *decoded
		select {
		case d = <-a.free:
		case <-a.stop:
			return
		}

		for wanted := false; !wanted; {
			if err := source.Next(&d.Batch); err == io.EOF {
				return
			} else if err != nil {
				a.err = fmt.Errorf("read the change set: %w", err)
				return
			}

			if d.Version > w.last {
				return
			}

			numbers = w.number(numbers, source.Info().Stores)
			d.renumber(numbers)
			if w.sample != nil {
				w.sample.see(d.Changes)
			}

			wanted = d.Version > w.above
		}

		select {
		case a.full <- d:
		case <-a.stop:
			return
		}
	}
}

// number extends numbers to the stores that the source has come across.
func (w window) number(numbers []int, stores []string) []int {
	for _, name := range stores[len(numbers):] {
		at, wanted := w.stores[name]
		if !wanted {
			at = -1
		}
		numbers = append(numbers, at)
	}
	return numbers
}

// renumber gives changes and roots the tree's numbers and drops those of stores
// that are not wanted.
func (d *decoded) renumber(numbers []int) {
	d.removes, d.userBytes = 0, 0
	kept := d.Changes[:0]
	for _, c := range d.Changes {
		if c.Store = numbers[c.Store]; c.Store < 0 {
			continue
		}

		if c.Delete {
			d.removes++
		}

		d.userBytes += int64(len(c.Key) + len(c.Value))
		kept = append(kept, c)
	}

	d.Changes = kept
	if d.Roots.Stores == nil {
		return
	}

	roots := make([][]byte, 0, len(numbers))
	for from, to := range numbers {
		if from >= len(d.Roots.Stores) || to < 0 {
			continue
		}

		for len(roots) <= to {
			roots = append(roots, nil)
		}

		roots[to] = d.Roots.Stores[from]
	}

	d.Roots.Stores = roots
}

// next is the next batch, nil at the end. It must be given back to free.
func (a *ahead) next() (*decoded, error) {
	d, more := <-a.full
	if !more {
		return nil, a.err
	}
	return d, nil
}

// close ends the reading; batches handed out are lost.
func (a *ahead) close() {
	close(a.stop)
	<-a.stopped
}

// storesOf is what to replay of a set: the names in the order that numbers them
// in the tree, the set's own where none are asked for.
func storesOf(info changeset.Info, asked []string) ([]string, map[string]int, error) {
	stores := info.Stores
	if len(asked) > 0 {
		stores = asked
	} else if !info.Complete && info.Damage == nil { // of a damaged set, what can be read
		return nil, nil, errors.New("the list of stores of this change set is not known before " +
			"it is read: name those to replay with --stores, or convert the set first: statelab " +
			"changeset import SET --out NEW.slcs")
	}

	if len(stores) == 0 {
		return nil, nil, errors.Join(errors.New("the change set has no stores"), info.Damage)
	}

	numbers := map[string]int{}
	for i, name := range stores {
		if _, twice := numbers[name]; twice {
			return nil, nil, fmt.Errorf("store %q is named twice", name)
		}
		numbers[name] = i
	}

	if info.Complete {
		known := map[string]bool{}
		for _, name := range info.Stores {
			known[name] = true
		}

		for _, name := range asked {
			if !known[name] {
				return nil, nil, fmt.Errorf("the change set has no store %q, only %q", name,
					info.Stores)
			}
		}
	}

	return stores, numbers, nil
}
