package lookup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// traffic is an access list that is played: the state that it needs lies beside the generated
// accounts. Its reads are of that state; what its blocks write comes after all reads, in order.
type traffic struct {
	blocks   []accesses.Block // without accesses
	asked    [][]touch        // of each block: accounts and slots, each once, in order
	player   *accesses.StateReplayer
	initial  []layout.Change
	slots    uint64
	complete bool
}

// coldBlocks are played each after an opening: as many as give ColdLookups, but not many.
const coldBlocks = 20

func readTraffic(path string) (*traffic, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the access list: %w", err)
	}

	list, err := accesses.OpenContainer(file, path)
	if err != nil {
		return nil, err
	}

	defer list.Close() // it is only read
	t := &traffic{player: accesses.NewStateReplayer(list.Info()), complete: list.Info().Complete}
	var first [][]accesses.Aged
	var ages accesses.Ages
	err = accesses.Each(list, func(b *accesses.Block) error {
		t.player.Before(b)
		var of []accesses.Aged
		ages.Block(b, func(a accesses.Aged) {
			if a.First {
				of = append(of, a)
			}
		})

		first = append(first, of)
		b.Accesses, b.Before = nil, nil
		t.blocks = append(t.blocks, *b)
		return nil
	})
	if err != nil {
		return nil, err
	}

	t.initial = t.player.Initial()
	for _, c := range t.initial {
		t.slots += uint64(len(c.Slots))
	}

	for _, of := range first {
		t.asked = append(t.asked, t.touches(of))
	}

	return t, nil
}

// touches are lookups of the state before the list.
func (t *traffic) touches(of []accesses.Aged) (all []touch) {
	for _, a := range of {
		q := touch{account: t.player.Name(a.Address), slot: a.Kind == accesses.Slot}
		q.kinds = kindsOf(a, q.slot)
		if q.slot {
			q.key, q.value = t.player.Key(a.Slot), bytes.Clone(t.player.Slot(a.Address, a.Slot))
			q.absent = q.value == nil
		} else {
			var exists bool
			q.want, exists = t.player.Account(a.Address)
			q.absent = !exists
		}

		all = append(all, q)
	}

	return all
}

func kindsOf(a accesses.Aged, slot bool) []string {
	age := func(young bool, is, isNot string) string {
		if young {
			return result.AgedAccess(is, slot)
		}
		return result.AgedAccess(isNot, slot)
	}

	kinds := []string{age(a.Touched > 0 && a.Touched <= accesses.WarmBlocks, result.Recurring,
		result.Lapsed)}
	if a.Write {
		kinds = append(kinds, age(a.Written > 0, result.Rewritten, result.Unwritten))
	}

	return kinds
}

// trafficBlocks are the blocks that make the state before the list.
func (t *traffic) trafficBlocks(c protocol.Chain) uint64 {
	if t == nil {
		return 0
	}
	return (uint64(len(t.initial)) + c.BlockAccounts - 1) / c.BlockAccounts
}

// createTraffic makes the state before the list.
func (r *run) createTraffic(ctx context.Context) error {
	if r.traffic == nil {
		return nil
	}

	_, err := r.phase("build_traffic", func() (uint64, error) {
		var n uint64
		for i, c := range r.traffic.initial {
			if err := r.state.Change(c); err != nil {
				return n, err
			}

			n++
			if n%r.spec.Chain.BlockAccounts != 0 && i+1 < len(r.traffic.initial) {
				continue
			}

			root, err := r.state.Commit(ctx)
			if err != nil {
				return n, err
			}

			r.noteRoot(root)
			if ctx.Err() != nil {
				return n, context.Cause(ctx)
			}
		}

		return n, nil
	})
	if err != nil {
		return err
	}

	r.Result.Figures.State.Slots += r.traffic.slots
	_, err = r.phase("settle", func() (uint64, error) { return 0, r.settle(ctx) })
	return err
}

// playTraffic measures the list's reads and then its writes.
func (r *run) playTraffic(ctx context.Context) error {
	t := r.traffic
	if t == nil {
		return nil
	}

	r.Result.Figures.State.Traffic = &result.StateTraffic{Blocks: uint64(len(t.blocks))}
	if err := r.coldTraffic(ctx); err != nil {
		return err
	}

	if err := r.playAges(ctx); err != nil {
		return err
	}

	// The first half of the blocks warms the caches for the other.
	half := len(t.asked) / 2
	warm, measured := slices.Concat(t.asked[:half]...), slices.Concat(t.asked[half:]...)
	r.LimitPageCache(1)
	for _, inFlight := range InFlight() {
		if inFlight > 1 {
			r.LimitPageCache(inFlight)
		}

		l := lookups{
			kind:      result.BlockAccess,
			condition: result.HeldLookups,
			inFlight:  inFlight,
			touches:   warm,
			count:     uint64(len(warm)),
			warming:   true,
		}

		if len(warm) > 0 {
			if _, err := r.phaseOf(ctx, l); err != nil {
				return err
			}
		}

		l.touches, l.count, l.warming = measured, uint64(len(measured)), false
		if err := r.measure(ctx, l); err != nil {
			return err
		}
	}

	return r.playWrites(ctx)
}

// coldTraffic plays blocks each of a state that was just opened.
func (r *run) coldTraffic(ctx context.Context) error {
	step := max(1, len(r.traffic.asked)/coldBlocks)
	l := lookups{kind: result.BlockAccess, condition: result.ColdLookups, inFlight: 1, apart: true}
	total := newOutcome()
	if _, err := r.phase("cold_block_access_1", func() (uint64, error) {
		for i := 0; i < len(r.traffic.asked); i += step {
			if len(r.traffic.asked[i]) == 0 {
				continue
			}

			if err := r.openCold(ctx); err != nil {
				return l.count, err
			}

			l.touches = r.traffic.asked[i]
			one, out := l, newOutcome()
			one.count = uint64(len(l.touches))
			if err := r.drive(ctx, one, out); err != nil {
				return l.count, err
			}

			total.add(out)
			l.count += one.count
		}

		return l.count, nil
	}); err != nil || l.count == 0 {
		return err
	}

	r.summarize(l, total)
	return nil
}

// maxAged is how many lookups are measured one by one: the counters are read around each, which
// takes some 50 us.
const maxAged = 50_000

// playAges measures what the last blocks touch by its age, of states that are priced. The blocks
// before, at least half of them, warm the caches of a state that was just opened: what no block has
// touched, no lookup has.
func (r *run) playAges(ctx context.Context) error {
	asked := r.traffic.asked
	if r.spec.Chain.ContractSlots == 0 || len(asked) < 2 {
		return nil
	}

	from, n := len(asked)-1, len(asked[len(asked)-1])
	for from > (len(asked)+1)/2 && n+len(asked[from-1]) <= maxAged {
		from--
		n += len(asked[from])
	}

	if err := r.openCold(ctx); err != nil {
		return err
	}

	r.LimitPageCache(1)
	warm := slices.Concat(asked[:from]...)
	l := lookups{
		kind:      "aged_access",
		condition: result.HeldLookups,
		inFlight:  1,
		touches:   warm,
		count:     uint64(len(warm)),
		warming:   true,
	}

	if len(warm) > 0 {
		if _, err := r.phaseOf(ctx, l); err != nil {
			return err
		}
	}

	l.touches, l.warming = slices.Concat(asked[from:]...), false
	costs, reads := map[string]*outcome{}, map[string][]float64{}
	if _, err := r.phase(l.name(), func() (done uint64, err error) {
		team, readers, err := r.team(l)
		if err != nil {
			return 0, err
		}

		defer func() { err = errors.Join(err, closeAll(readers)) }()
		for _, q := range l.touches {
			c, err := r.Between(func() error { return team.Workers[0].Run(1) })
			if err != nil {
				return done, err
			}

			for _, kind := range q.kinds {
				if costs[kind] == nil {
					costs[kind] = newOutcome()
				}
				costs[kind].cost = costs[kind].Plus(c)
				reads[kind] = append(reads[kind], readsOf(c))
			}

			if done++; ctx.Err() != nil {
				return done, context.Cause(ctx)
			}
		}

		return done, nil
	}); err != nil {
		return err
	}

	for _, kind := range slices.Sorted(maps.Keys(costs)) {
		l.kind, l.count = kind, uint64(len(reads[kind]))
		r.summarize(l, costs[kind])
		of := &r.Result.Figures.State.Lookups[len(r.Result.Figures.State.Lookups)-1]
		of.ReadsError, of.CPUNanos = figure.If(standardError(reads[kind])),
			figure.Value{} // that includes reading the counters
		of.Nodes, of.Pages, of.NodeBytes = figure.Value{}, figure.Value{}, figure.Value{}
	}

	return nil
}

// playWrites makes the blocks' changes, then looks up what they leave.
func (r *run) playWrites(ctx context.Context) error {
	t, f := r.traffic, r.Result.Figures.State.Traffic
	commits := measure.NewHistogram()
	var inside int64
	alone := t.complete && r.spec.Chain.Accounts == 0
	if _, err := r.phase("write_traffic", func() (uint64, error) {
		for i := range t.blocks {
			b := &t.blocks[i]
			changes, err := t.player.Changes(b)
			if err != nil {
				return f.Writes, err
			}

			start := r.Clock.Ticks()
			for _, c := range changes {
				if err := r.state.Change(c); err != nil {
					return f.Writes, fmt.Errorf("block %d: %w", b.Number, err)
				}
				f.Writes += 1 + uint64(len(c.Slots))
			}

			before := r.Clock.Ticks()
			root, err := r.state.Commit(ctx)
			end := r.Clock.Ticks()
			if err != nil {
				return f.Writes, fmt.Errorf("block %d: %w", b.Number, err)
			}

			inside += r.Clock.Nanos(end - start)
			commits.Add(r.Clock.Nanos(end - before))
			r.noteRootAfter(root)
			if alone && b.Root != nil && r.layout.Info().Root == layout.EthereumRoot {
				f.RootsCompared++
				if root != *b.Root {
					return f.Writes, fmt.Errorf("block %d: the layout's root is %x, the block's "+
						"header says %v", b.Number, root, *b.Root)
				}
			}

			if ctx.Err() != nil {
				return f.Writes, context.Cause(ctx)
			}
		}

		return f.Writes, nil
	}); err != nil {
		return err
	}

	if f.Writes > 0 {
		f.WriteNanos, f.CommitNanos = float64(inside)/float64(f.Writes),
			r.summed("traffic_commit", commits)
	}

	_, err := r.phase("read_back", func() (n uint64, err error) {
		n, f.ReadBackRoot, err = r.readBack()
		return n, err
	})
	if err != nil {
		return err
	}

	if last := t.blocks[len(t.blocks)-1].Root; alone && last != nil &&
		f.ReadBackRoot != hex.EncodeToString(last[:]) {
		return fmt.Errorf("what the layout holds after the last block makes the root %s, its "+
			"header says %v", f.ReadBackRoot, *last)
	}

	if !alone {
		f.ReadBackRoot = ""
		r.NotKnown("roots are held against the blocks' where the list tells the whole state "+
			"before it and nothing is beside it (--accounts 0)",
			"traffic_roots")
	}

	return nil
}

// readBack looks up all that the list touched, or made, and returns the root of what the layout
// says: of layouts that have no root of Ethereum's, too.
func (r *run) readBack() (lookups uint64, root string, err error) {
	reader, err := r.state.Reader()
	if err != nil {
		return 0, "", fmt.Errorf("make a reader: %w", err)
	}

	reference := mpt.NewReference()
	err = r.traffic.player.Each(func(
		a accesses.Address, want layout.Account, slots map[accesses.Word]accesses.Word,
	) error {
		name := r.traffic.player.Name(a)
		got, found, err := reader.Account(name)
		if lookups++; err != nil || !found || got != want {
			return fmt.Errorf("after the last block, account %v: %+v, %v, not %+v: %w", a, got,
				found, want, cmp.Or(err, errWrong))
		}

		c := layout.Change{Account: name, New: &got}
		for slot := range slots {
			wanted := r.traffic.player.Slot(a, slot)
			value, found, err := reader.Slot(name, r.traffic.player.Key(slot), nil)
			if lookups++; err != nil || found != (wanted != nil) || !bytes.Equal(value, wanted) {
				return fmt.Errorf("after the last block, slot %v of account %v: %x, not %x: %w",
					slot, a, value, wanted, cmp.Or(err, errWrong))
			}

			if found {
				c.Slots = append(c.Slots,
					layout.Slot{Key: r.traffic.player.Key(slot), Value: value})
			}
		}

		return reference.Change(c)
	})

	if closed := reader.Close(); err == nil {
		err = closed
	}

	made := reference.Root()
	return lookups, hex.EncodeToString(made[:]), err
}

var errWrong = errors.New("wrong answer")
