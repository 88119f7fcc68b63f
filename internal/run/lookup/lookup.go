package lookup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// ColdLookups are few, so that hardly one finds what an earlier one has read.
const ColdLookups = 2000

// First lookups are a hundredth of the others, fewer if opening their states takes
// longer than firstPatience.
const (
	leastFirst    = 5
	mostFirst     = 50
	firstPatience = 30 * time.Second
)

// lookUp opens the state that was built and measures lookups of it.
func (r *run) lookUp(ctx context.Context) error {
	if err := r.evict(ctx); err != nil {
		return err
	}
	r.hold()
	start := r.clock.Ticks()
	if err := r.open(ctx); err != nil {
		return err
	}
	f := r.result.Figures.State
	f.OpenNanos = r.clock.Nanos(r.clock.Ticks() - start)
	if want := buildBlocks(r.spec.Chain) + r.spec.Chain.UpdateBlocks; r.state.Block() != want {
		return fmt.Errorf("the state was left at block %d and is opened at block %d", want, r.state.Block())
	}
	f.Block = r.state.Block()
	r.noteRoot(r.state.Root())
	r.generator = NewGenerator(r.spec.Chain, r.spec.Chain.UpdateBlocks)
	for _, kind := range r.kinds() {
		if err := r.first(ctx, kind); err != nil {
			return err
		}
	}
	for _, kind := range r.kinds() {
		if err := r.cold(ctx, kind); err != nil {
			return err
		}
	}
	debug.FreeOSMemory() // what states that are closed have left
	for _, inFlight := range slices.Backward(InFlight()) {
		for _, kind := range r.kinds() {
			if err := r.warm(ctx, kind, inFlight); err != nil {
				return err
			}
		}
	}
	r.confine()
	for _, inFlight := range InFlight() {
		if err := r.makeRoom(inFlight); err != nil {
			return err
		}
		for _, kind := range r.kinds() {
			if err := r.measure(ctx, lookups{kind: kind, condition: result.HeldLookups, inFlight: inFlight, count: r.spec.Reads}); err != nil {
				return err
			}
		}
	}
	r.judgeFit()
	return nil
}

// judgeFit warns of a state that needs no disk once it is warm.
func (r *run) judgeFit() {
	f := r.result.Figures.State
	if !fits(f, r.spec.MemoryBytes) {
		return
	}
	r.warn(engine.Warning{Code: "fits_in_memory", Text: fmt.Sprintf(
		"a state of %d accounts fits in memory: warm lookups hardly read the disk, and say nothing about a state that is larger than memory", f.Accounts),
		Remedy: "use more --accounts, or a smaller --memory"})
}

// fits tells whether warm lookups read nothing, or the state is smaller than its budget.
// 0: none.
func fits(f *result.State, budget int64) bool {
	read := 0.0
	for _, l := range f.Lookups {
		if l.Condition == result.HeldLookups {
			read += l.DeviceBytes
		}
	}
	return read == 0 || f.DiskBytes <= budget
}

// first measures lookups one by one, each of a state that was just opened.
func (r *run) first(ctx context.Context, kind string) error {
	own, err := r.ownReadCalls()
	if err != nil {
		return err
	}
	l := lookups{kind: kind, condition: result.FirstLookups, inFlight: 1, count: 1}
	r.tell(result.Event{Phase: l.name()})
	var total cost
	var workers []*worker
	begun, most := time.Now(), min(max(r.spec.Reads/100, leastFirst), mostFirst)
	for l.skip < most && (l.skip < leastFirst || time.Since(begun) < firstPatience) {
		if err := r.openCold(ctx); err != nil {
			return err
		}
		var one []*worker
		c, err := r.between(func() (err error) {
			one, err = r.drive(ctx, l)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", l.name(), err)
		}
		c.process.ReadCalls -= own
		if l.skip == 0 {
			total = c
		} else {
			total.add(c)
		}
		workers = append(workers, one...)
		l.skip++
	}
	l.count = l.skip
	r.notePhase(l.name(), l.count, total)
	r.summarize(l, workers, total)
	return nil
}

// ownReadCalls are the read calls that counting makes itself.
func (r *run) ownReadCalls() (int64, error) {
	least := int64(math.MaxInt64)
	for range 3 { // now and then something else reads as well
		nothing, err := r.between(func() error { return nil })
		if err != nil {
			return 0, err
		}
		least = min(least, nothing.process.ReadCalls)
	}
	return least, nil
}

// cold measures lookups of a state that was just opened.
func (r *run) cold(ctx context.Context, kind string) error {
	if err := r.openCold(ctx); err != nil {
		return err
	}
	return r.measure(ctx, lookups{kind: kind, condition: result.ColdLookups, inFlight: 1, count: min(ColdLookups, r.spec.Reads)})
}

// openCold opens the state again, with no page of it in memory. Opening may write
// what the log held into files: only when that has settled are they at rest.
func (r *run) openCold(ctx context.Context) error {
	old := r.state
	r.state = nil
	if err := old.Close(); err != nil {
		return fmt.Errorf("close %s: %w", r.spec.Dir, err)
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	return r.evict(ctx)
}

// kinds of lookups that the state has an answer to.
func (r *run) kinds() []string {
	kinds := []string{result.AccountLookup, result.AbsentAccountLookup}
	if r.spec.Chain.SlotsPer > 0 && r.spec.Chain.ContractShare > 0 {
		kinds = append(kinds, result.SlotLookup, result.AbsentSlotLookup)
	}
	return kinds
}

// lookups are some of one kind in one condition.
type lookups struct {
	kind, condition string
	inFlight        int
	count           uint64
	skip            uint64 // random choices that others made
	warming         bool
}

func (l lookups) name() string {
	if l.warming {
		return fmt.Sprintf("warm_%s_%d", l.kind, l.inFlight)
	}
	return fmt.Sprintf("%s_%s_%d", l.condition, l.kind, l.inFlight)
}

// series keeps the random choices of different lookups apart, by more than the
// workers of each.
func (l lookups) series() uint64 {
	const apart = 1 << 32
	switch {
	case l.warming && l.inFlight > 1:
		return 1 << 20 * apart
	case l.warming:
		return apart
	case l.condition == result.ColdLookups:
		return 2 * apart
	case l.condition == result.FirstLookups:
		return 0
	}
	return uint64(2+l.inFlight) * apart
}

// fewWarming are enough for many workers to take the memory they need.
const fewWarming = 10_000

// warm fills the caches as the measured lookups will, with others of the same kind. Many
// in flight come first, and are few: the caches are left as one in flight fills them.
func (r *run) warm(ctx context.Context, kind string, inFlight int) error {
	l := lookups{kind: kind, condition: result.HeldLookups, inFlight: inFlight, count: r.spec.Reads, warming: true}
	if inFlight > 1 {
		l.count = min(l.count, fewWarming)
	}
	_, err := r.phase(l.name(), func() (uint64, error) {
		_, err := r.drive(ctx, l)
		return l.count, err
	})
	return err
}

func (r *run) measure(ctx context.Context, l lookups) error {
	var workers []*worker
	c, err := r.phase(l.name(), func() (uint64, error) {
		var err error
		workers, err = r.drive(ctx, l)
		return l.count, err
	})
	if err != nil {
		return err
	}
	r.summarize(l, workers, c)
	return nil
}

// summarize makes figures of lookups and what they cost.
func (r *run) summarize(l lookups, workers []*worker, c cost) {
	out := result.Lookups{Kind: l.kind, Condition: l.condition, InFlight: l.inFlight, Count: l.count, Seconds: c.seconds, PerSecond: float64(l.count) / c.seconds,
		BlockReads: each(c.layout.Reads, l.count), BlockBytes: each(c.layout.ReadBytes, l.count),
		ReadCalls:   float64(c.process.ReadCalls) / float64(l.count),
		MajorFaults: float64(c.process.MajorFaults) / float64(l.count),
		DeviceReads: each(c.deviceReads(), l.count), DeviceBytes: float64(c.deviceReadBytes()) / float64(l.count)}
	service := measure.NewHistogram()
	touched := layout.Touched{Nodes: new(int64), Pages: new(int64)}
	for _, w := range workers {
		for _, nanos := range w.nanos {
			service.Add(nanos)
		}
		touched.Nodes, touched.Pages = plus(touched.Nodes, w.touched.Nodes), plus(touched.Pages, w.touched.Pages)
	}
	out.Nodes, out.Pages, out.ServiceNanos = each(touched.Nodes, l.count), each(touched.Pages, l.count), r.summed(l.name(), service)
	r.result.Figures.State.Lookups = append(r.result.Figures.State.Lookups, out)
}

// plus adds counts; one that is unknown makes the sum unknown.
func plus(sum, n *int64) *int64 {
	if sum == nil || n == nil {
		return nil
	}
	total := *sum + *n
	return &total
}

// drive runs the lookups, inFlight workers at once.
func (r *run) drive(ctx context.Context, l lookups) ([]*worker, error) {
	// A lookup that faults on a mapped page holds its scheduler slot, and what holds the
	// memory needs one.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(l.inFlight, runtime.GOMAXPROCS(0)) + 1))
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	workers := make([]*worker, l.inFlight)
	for i := range workers {
		share := l.count / uint64(l.inFlight)
		if uint64(i) < l.count%uint64(l.inFlight) {
			share++
		}
		reader, err := r.state.Reader()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make a reader: %w", err), closeAll(workers[:i]))
		}
		workers[i] = &worker{reader: reader, clock: r.clock, stop: &stop, lookups: l, seed: l.series() + uint64(i),
			generator: r.generator.Clone(), nanos: make([]int64, 0, share)}
	}
	errs := make([]error, len(workers))
	var group sync.WaitGroup
	for i, w := range workers {
		group.Go(func() {
			if errs[i] = w.run(uint64(cap(w.nanos))); errs[i] != nil {
				stop.Store(true)
			}
			w.touched = w.reader.Touched()
		})
	}
	group.Wait()
	err := errors.Join(errs...)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return workers, errors.Join(err, closeAll(workers))
}

func closeAll(workers []*worker) (err error) {
	for _, w := range workers {
		err = errors.Join(err, w.reader.Close())
		w.reader = nil // would keep a closed state's caches
	}
	return err
}

// worker makes the lookups of one goroutine. Nothing in it is shared while it runs
// but the stop flag.
type worker struct {
	reader    layout.Reader
	generator *Generator
	clock     *measure.Clock
	stop      *atomic.Bool
	lookups   lookups
	seed      uint64
	nanos     []int64
	touched   layout.Touched
	value     []byte
	want      []byte
}

// run is the data path: choose, call, record, check. Only the call is between the
// clock reads.
func (w *worker) run(count uint64) error {
	for n := range count {
		if w.stop.Load() {
			return nil
		}
		c := w.choose(w.lookups.skip + n)
		var err error
		if c.slot {
			err = w.slot(c)
		} else {
			err = w.account(c)
		}
		if err != nil {
			return fmt.Errorf("look up %s %d of account %d: %w", w.lookups.kind, c.j, c.index, err)
		}
	}
	return nil
}

// choice is what to look up.
type choice struct {
	index, j uint64
	slot     bool
	absent   bool
}

func (w *worker) choose(n uint64) choice {
	g := w.generator
	random := g.word(9, w.seed, n)
	c := choice{index: random % g.chain.Accounts}
	switch w.lookups.kind {
	case result.AbsentAccountLookup:
		c.index, c.absent = g.chain.Accounts+random%(1<<40), true
		return c
	case result.AccountLookup:
		return c
	}
	c.slot = true
	for try := uint64(0); !g.HasStorage(c.index); try++ {
		c.index = g.word(10, w.seed, n, try) % g.chain.Accounts
	}
	c.j = g.word(11, w.seed, n) % g.chain.SlotsPer
	if w.lookups.kind == result.AbsentSlotLookup {
		c.j, c.absent = c.j+g.chain.SlotsPer, true
	}
	return c
}

func (w *worker) account(c choice) error {
	hash := w.generator.Hash(c.index)
	start := w.clock.Ticks()
	got, found, err := w.reader.Account(hash)
	end := w.clock.Ticks()
	w.nanos = append(w.nanos, w.clock.Nanos(end-start))
	if err != nil {
		return err
	}
	if err := judge(found, c.absent); err != nil || c.absent {
		return err
	}
	if want := w.generator.Account(c.index); got != want {
		return fmt.Errorf("wrong answer: %+v, not %+v", got, want)
	}
	return nil
}

func (w *worker) slot(c choice) error {
	hash, key := w.generator.Hash(c.index), w.generator.SlotHash(c.index, c.j)
	start := w.clock.Ticks()
	got, found, err := w.reader.Slot(hash, key, w.value)
	end := w.clock.Ticks()
	w.nanos = append(w.nanos, w.clock.Nanos(end-start))
	if err != nil {
		return err
	}
	w.value = got[:0]
	if err := judge(found, c.absent); err != nil || c.absent {
		return err
	}
	if w.want = w.generator.Slot(w.want[:0], c.index, c.j); !bytes.Equal(got, w.want) {
		return fmt.Errorf("wrong answer: %x, not %x", got, w.want)
	}
	return nil
}

func judge(found, absent bool) error {
	switch {
	case found && absent:
		return errors.New("wrong answer: a value for what was never written")
	case !found && !absent:
		return errors.New("wrong answer: what was written is missing")
	}
	return nil
}
