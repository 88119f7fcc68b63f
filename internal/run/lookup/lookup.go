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
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// ColdLookups are few, so that hardly one finds what an earlier one has read.
const ColdLookups = 2000

// First lookups are a hundredth of the others or as many as the spec says, fewer if
// opening their states takes longer than firstPatience for each mostFirst of them.
const (
	leastFirst    = 5
	mostFirst     = 50
	firstPatience = 30 * time.Second
)

// lookUp opens the state that was built and measures lookups of it.
func (r *run) lookUp(ctx context.Context) error {
	if _, err := r.phase("prepare", func() (uint64, error) { return 0, r.prepare(ctx) }); err != nil {
		return err
	}
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
	if r.spec.Chain.Accounts == 0 {
		return r.playTraffic(ctx)
	}
	debug.FreeOSMemory() // what states that are closed have left
	for _, inFlight := range slices.Backward(InFlight()) {
		for _, kind := range r.kinds() {
			if err := r.warm(ctx, kind, inFlight); err != nil {
				return err
			}
		}
	}
	if err := r.measureWarm(ctx); err != nil {
		return err
	}
	return r.playTraffic(ctx)
}

// prepare opens the state with no page of it in memory.
func (r *run) prepare(ctx context.Context) error {
	r.floor()
	if err := r.Evict(ctx); err != nil {
		return err
	}
	if err := r.BeginBudget(ctx, r.spec.MemoryBytes); err != nil {
		return err
	}
	start := r.Clock.Ticks()
	if err := r.open(ctx); err != nil {
		return err
	}
	f := r.Result.Figures.State
	f.OpenNanos = r.Clock.Nanos(r.Clock.Ticks() - start)
	if want := buildBlocks(r.spec.Chain) + r.spec.Chain.UpdateBlocks + r.traffic.trafficBlocks(r.spec.Chain); r.state.Block() != want {
		return fmt.Errorf("the state was left at block %d and is opened at block %d", want, r.state.Block())
	}
	f.Block = r.state.Block()
	r.noteRoot(r.state.Root())
	r.generator = NewGenerator(r.spec.Chain, r.spec.Chain.UpdateBlocks)
	return nil
}

// measureWarm measures lookups with warm caches under the memory budget: the peak of
// memory is of what comes after it is set.
func (r *run) measureWarm(ctx context.Context) error {
	r.Result.Memory.Shares = r.state.Memory()
	r.LimitPageCache(1)
	if err := host.ResetPeakRSS(); err != nil {
		r.Warn(engine.Warning{Code: "peak_since_start", Text: fmt.Sprintf("the peak of memory includes opening and warming: %v", err)})
	}
	for _, inFlight := range InFlight() {
		if inFlight > 1 {
			r.LimitPageCache(inFlight)
		}
		for _, kind := range r.kinds() {
			if err := r.measure(ctx, lookups{kind: kind, condition: result.HeldLookups, inFlight: inFlight, count: r.spec.Reads}); err != nil {
				return err
			}
		}
	}
	r.judgeFit()
	if r.spec.Chain.ContractSlots == 0 {
		return nil
	}
	for _, kind := range []string{result.AccountLookup, result.SlotLookup} {
		if err := r.measure(ctx, lookups{kind: kind, condition: result.AgainLookups, inFlight: 1, count: min(ColdLookups, r.spec.Reads)}); err != nil {
			return err
		}
	}
	return nil
}

// judgeFit warns of a state that needs no disk once it is warm.
func (r *run) judgeFit() {
	f := r.Result.Figures.State
	if !fits(f, r.spec.MemoryBytes) {
		return
	}
	r.Warn(engine.Warning{Code: "fits_in_memory", Text: fmt.Sprintf(
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
	l := lookups{kind: kind, condition: result.FirstLookups, inFlight: 1, count: 1}
	var total cost
	var workers []*worker
	var each []float64
	begun, most, patience := time.Now(), min(max(r.spec.Reads/100, leastFirst), mostFirst), firstPatience
	if r.spec.First > 0 {
		most, patience = r.spec.First, max(firstPatience, time.Duration(r.spec.First)*firstPatience/mostFirst)
	}
	err := r.PhaseOf(l.name(), func(ops *atomic.Uint64) (cost, error) {
		for l.skip < most && (l.skip < leastFirst || time.Since(begun) < patience) {
			if err := r.openCold(ctx); err != nil {
				return total, err
			}
			one, c, err := r.drive(ctx, l)
			if l.skip == 0 {
				total = c
			} else {
				total = sum(total, c)
			}
			if err != nil {
				return total, err
			}
			workers, each = append(workers, one...), append(each, readsOf(c))
			l.skip++
			ops.Store(l.skip)
		}
		return total, nil
	})
	if err != nil {
		return err
	}
	l.count = l.skip
	r.summarize(l, workers, total)
	lookups := r.Result.Figures.State.Lookups
	lookups[len(lookups)-1].ReadsError = standardError(each)
	return nil
}

// readsOf are the reads of a cost by the best count there is.
func readsOf(c cost) float64 {
	switch reads := deviceReads(c); {
	case reads != nil:
		return float64(*reads)
	case c.Subject.Reads != nil:
		return float64(*c.Subject.Reads)
	}
	return float64(max(c.Process.ReadCalls, c.Process.MajorFaults))
}

// standardError of a mean; nil of fewer than two values.
func standardError(values []float64) *float64 {
	n := float64(len(values))
	if n < 2 {
		return nil
	}
	mean, squares := 0.0, 0.0
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return new(math.Sqrt(squares / (n - 1) / n))
}

// cold measures lookups of a state that was just opened.
func (r *run) cold(ctx context.Context, kind string) error {
	l := lookups{kind: kind, condition: result.ColdLookups, inFlight: 1, count: min(ColdLookups, r.spec.Reads), reopens: true}
	return r.measure(ctx, l)
}

// openCold opens the state again, with no page of it in memory. Opening may write
// what the log held into files: only when that has settled are they at rest.
func (r *run) openCold(ctx context.Context) error {
	if err := r.close(); err != nil {
		return err
	}
	// A page that is in memory and beside one that opening touches would be mapped with it
	// (the kernel maps up to 64 KiB around a fault), and mapped pages are not given up.
	if err := r.Evict(ctx); err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	settle := r.settle
	if r.Result.Figures.State.DiskBytes > 0 { // measured once; Evict syncs the state's own files
		settle = r.state.Settle
	}
	if err := settle(ctx); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return r.Evict(ctx)
}

// kinds of lookups that the state has an answer to.
func (r *run) kinds() []string {
	if r.spec.Chain.Accounts == 0 {
		return nil
	}
	kinds := []string{result.AccountLookup, result.AbsentAccountLookup}
	if c := r.spec.Chain; c.SlotsPer > 0 && c.ContractShare > 0 || c.ContractSlots > 0 {
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
	reopens         bool    // the state, first
	apart           bool    // of a sequence of openings: no series
	touches         []touch // of blocks, instead of random choices
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
	case l.condition == result.AgainLookups:
		return 1 << 21 * apart
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
	_, _, err := r.phaseOf(ctx, l)
	return err
}

func (r *run) measure(ctx context.Context, l lookups) error {
	workers, c, err := r.phaseOf(ctx, l)
	if err != nil {
		return err
	}
	r.summarize(l, workers, c)
	return nil
}

// phaseOf is a phase that makes lookups.
func (r *run) phaseOf(ctx context.Context, l lookups) (workers []*worker, c cost, err error) {
	err = r.PhaseOf(l.name(), func(ops *atomic.Uint64) (cost, error) {
		if l.reopens {
			if err := r.openCold(ctx); err != nil {
				return cost{}, err
			}
		}
		workers, c, err = r.drive(ctx, l)
		for _, w := range workers {
			ops.Add(w.done.Load())
		}
		return c, err
	})
	return workers, c, err
}

// summarize makes figures of lookups and what they cost.
func (r *run) summarize(l lookups, workers []*worker, c cost) {
	out := result.Lookups{Kind: l.kind, Condition: l.condition, InFlight: l.inFlight, Count: l.count, Seconds: c.Seconds, PerSecond: float64(l.count) / c.Seconds,
		BlockReads: each(c.Subject.Reads, l.count), BlockBytes: each(c.Subject.ReadBytes, l.count),
		ReadCalls:   float64(c.Process.ReadCalls) / float64(l.count),
		MajorFaults: float64(c.Process.MajorFaults) / float64(l.count), CPUNanos: float64(c.Process.UserNanos+c.Process.SystemNanos) / float64(l.count),
		DeviceReads: each(deviceReads(c), l.count), DeviceBytes: float64(deviceReadBytes(c)) / float64(l.count)}
	service := measure.NewHistogram()
	touched := layout.Touched{Nodes: new(int64), Pages: new(int64)}
	for _, w := range workers {
		for _, nanos := range w.nanos {
			service.Add(nanos)
		}
		touched.Nodes, touched.Pages = plus(touched.Nodes, w.touched.Nodes), plus(touched.Pages, w.touched.Pages)
	}
	out.Nodes, out.Pages, out.ServiceNanos = each(touched.Nodes, l.count), each(touched.Pages, l.count), r.summed(l.name(), service)
	r.Result.Figures.State.Lookups = append(r.Result.Figures.State.Lookups, out)
}

// plus adds counts; one that is unknown makes the sum unknown.
func plus(sum, n *int64) *int64 {
	if sum == nil || n == nil {
		return nil
	}
	return new(*sum + *n)
}

// drive makes the lookups, inFlight workers at once, and returns what that cost.
func (r *run) drive(ctx context.Context, l lookups) (workers []*worker, c cost, err error) {
	// A lookup that faults on a mapped page occupies its scheduler slot, and what limits
	// the memory needs one.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(l.inFlight, runtime.GOMAXPROCS(0)) + 1))
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	var series *watcher
	c, err = r.Between(func() error {
		if workers, err = r.workers(l, &stop); err != nil {
			return err
		}
		if l.condition != result.FirstLookups && !l.apart {
			if series, err = r.follow(l.name(), workers); err != nil {
				return errors.Join(err, closeAll(workers))
			}
		}
		errs := make([]error, len(workers))
		var group sync.WaitGroup
		for i, w := range workers {
			group.Go(func() {
				if errs[i] = w.runInParts(); errs[i] != nil {
					stop.Store(true)
				}
				w.touched = w.reader.Touched()
			})
		}
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		watched := series.watch(done)
		if watched != nil {
			stop.Store(true)
			<-done
		}
		err := errors.Join(append(errs, watched)...)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return errors.Join(err, closeAll(workers))
	})
	if series != nil && err == nil && !series.interval.TooShort() {
		err = series.tick()
	}
	return workers, c, err
}

// workers share the lookups.
func (r *run) workers(l lookups, stop *atomic.Bool) ([]*worker, error) {
	workers := make([]*worker, l.inFlight)
	for i := range workers {
		reader, err := r.state.Reader()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make a reader: %w", err), closeAll(workers[:i]))
		}
		workers[i] = &worker{reader: reader, clock: r.Clock, stop: stop, lookups: l, seed: l.series() + uint64(i), place: i,
			generator: r.generator.Clone(), nanos: make([]int64, 0, session.Share(l.count, i, l.inFlight))}
	}
	return workers, nil
}

func closeAll(workers []*worker) (err error) {
	for _, w := range workers {
		err = errors.Join(err, w.reader.Close())
		w.reader = nil // would keep a closed state's caches
	}
	return err
}

// watcher turns what workers do into lines of the series.
type watcher struct {
	*run
	interval *session.Interval[layout.Counters]
	workers  []*worker
	times    [][]int64 // of each worker: as many as it has done are written
	seen     []uint64
}

func (r *run) follow(phase string, workers []*worker) (*watcher, error) {
	w := &watcher{run: r, workers: workers, seen: make([]uint64, len(workers))}
	for _, of := range workers {
		w.times = append(w.times, of.nanos[:cap(of.nanos)])
	}
	var err error
	w.interval, err = r.Interval(phase)
	return w, err
}

// watch writes a line a second until the workers are done.
func (w *watcher) watch(done <-chan struct{}) error {
	if w == nil {
		<-done
		return nil
	}
	ticker := time.NewTicker(session.TickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-ticker.C:
			if err := w.tick(); err != nil {
				return err
			}
		}
	}
}

func (w *watcher) tick() error {
	times := measure.NewHistogram()
	for i, of := range w.workers {
		done := of.done.Load()
		for _, nanos := range w.times[i][w.seen[i]:done] {
			times.Add(nanos)
		}
		w.seen[i] = done
	}
	tick, cost, err := w.interval.End(times.N())
	if err != nil {
		return err
	}
	if n := times.N(); n > 0 {
		tick.P50, tick.P99, tick.BlockReadsPerOp = times.Quantile(0.5), times.Quantile(0.99), each(cost.Subject.Reads, n)
	}
	return w.WriteTick(tick)
}

// worker makes the lookups of one goroutine. Nothing in it is shared while it runs
// but the stop flag and how many are done.
type worker struct {
	reader    layout.Reader
	generator *Generator
	clock     *measure.Clock
	stop      *atomic.Bool
	lookups   lookups
	place     int // among the workers
	seed      uint64
	nanos     []int64
	done      atomic.Uint64
	touched   layout.Touched
	value     []byte
	want      []byte
}

// partLookups are made between two times that a worker says how many it has done.
const partLookups = 64

// runInParts makes as many lookups as there is room for their times.
func (w *worker) runInParts() error {
	for left := uint64(cap(w.nanos)); left > 0; {
		part := min(left, partLookups)
		if err := w.run(part); err != nil {
			return err
		}
		w.done.Store(uint64(len(w.nanos)))
		w.lookups.skip += part
		left -= part
	}
	return nil
}

// run is the data path: choose, call, record, check. Only the call is between the
// clock reads.
func (w *worker) run(count uint64) error {
	for n := range count {
		if w.stop.Load() {
			return nil
		}
		if touches := w.lookups.touches; touches != nil { // taken in turn
			i := int(w.lookups.skip+n)*w.lookups.inFlight + w.place
			if err := w.touch(&touches[i]); err != nil {
				return fmt.Errorf("look up %x %x: %w", touches[i].account, touches[i].key, err)
			}
			continue
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
	random := g.word(lookupStream, w.seed, n)
	c := choice{index: random % g.chain.Accounts}
	switch w.lookups.kind {
	case result.AbsentAccountLookup:
		c.index, c.absent = g.chain.Accounts+random%(1<<40), true
		return c
	case result.AccountLookup:
		return c
	}
	c.slot = true
	if g.chain.ContractSlots > 0 {
		c.index = 0
	}
	for try := uint64(0); !g.HasStorage(c.index); try++ {
		c.index = g.word(contractStream, w.seed, n, try) % g.chain.Accounts
	}
	slots := g.slotsOf(c.index)
	c.j = g.word(lookupSlotStream, w.seed, n) % slots
	if w.lookups.kind == result.AbsentSlotLookup {
		c.j, c.absent = c.j+slots, true
	}
	return c
}

func (w *worker) account(c choice) error {
	hash := w.generator.Hash(c.index)
	if w.lookups.condition == result.AgainLookups {
		if _, _, err := w.reader.Account(hash); err != nil {
			return err
		}
	}
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
	if w.lookups.condition == result.AgainLookups {
		var err error
		if w.value, _, err = w.reader.Slot(hash, key, w.value); err != nil {
			return err
		}
	}
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
