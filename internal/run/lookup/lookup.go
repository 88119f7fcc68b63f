package lookup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// ColdLookups are few, so that hardly one finds what an earlier one has read.
const ColdLookups = 2000

// First lookups are a hundredth of the others or as many as the spec says, fewer if
// opening their states takes longer than firstPatience for each maxFirst of them.
const (
	minFirst      = 5
	maxFirst      = 50
	firstPatience = 30 * time.Second
)

// lookUp opens the state that was built and measures lookups of it.
func (r *run) lookUp(ctx context.Context) error {
	if _, err := r.phase("prepare",
		func() (uint64, error) { return 0, r.prepare(ctx) }); err != nil {
		return err
	}

	for _, kind := range r.kinds() {
		if err := r.first(ctx, kind); err != nil {
			return err
		}
	}

	for _, kind := range r.kinds() {
		l := lookups{
			kind:      kind,
			condition: result.ColdLookups,
			inFlight:  1,
			count:     min(ColdLookups, r.spec.Reads),
			reopens:   true,
		}

		if err := r.measure(ctx, l); err != nil {
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
	r.Result.Figures.Record(figure.HarnessTimePerGet, HarnessFloor(r.Clock))
	if err := r.evict(ctx); err != nil {
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
	f.OpenNanos = figure.Known(float64(r.Clock.Nanos(r.Clock.Ticks() - start)))
	if want := buildBlocks(r.spec.Chain) + r.spec.Chain.UpdateBlocks +
		r.traffic.trafficBlocks(r.spec.Chain); r.state.Block() != want {
		return fmt.Errorf("the state was left at block %d and is opened at block %d", want,
			r.state.Block())
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
		r.Warn(engine.Warning{
			Code: "peak_since_start",
			Text: fmt.Sprintf("the peak of memory includes opening and warming: %v", err),
		})
	}

	for _, inFlight := range InFlight() {
		if inFlight > 1 {
			r.LimitPageCache(inFlight)
		}

		for _, kind := range r.kinds() {
			if err := r.measure(ctx, lookups{
				kind:      kind,
				condition: result.HeldLookups,
				inFlight:  inFlight,
				count:     r.spec.Reads,
			}); err != nil {
				return err
			}
		}
	}

	r.judgeFit()
	if r.spec.Chain.ContractSlots == 0 {
		return nil
	}

	for _, kind := range []string{result.AccountLookup, result.SlotLookup} {
		if err := r.measure(ctx, lookups{
			kind:      kind,
			condition: result.AgainLookups,
			inFlight:  1,
			count:     min(ColdLookups, r.spec.Reads),
		}); err != nil {
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
		"a state of %d accounts fits in memory: warm lookups hardly read the disk, and say "+
			"nothing about a state that is larger than memory", f.Accounts),
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
	l := lookups{kind: kind, condition: result.FirstLookups, inFlight: 1, count: 1, apart: true}
	total := newOutcome()
	var each []float64
	begun, maximum, patience := time.Now(), min(max(r.spec.Reads/100, minFirst), maxFirst),
		firstPatience
	if r.spec.First > 0 {
		maximum, patience = r.spec.First,
			max(firstPatience, time.Duration(r.spec.First)*firstPatience/maxFirst)
	}

	err := r.PhaseOf(l.name(), func(ops *atomic.Uint64) (cost, error) {
		for l.skip < maximum && (l.skip < minFirst || time.Since(begun) < patience) {
			if err := r.openCold(ctx); err != nil {
				return total.cost, err
			}

			one := newOutcome()
			err := r.drive(ctx, l, one)
			total.add(one)
			if err != nil {
				return total.cost, err
			}

			each = append(each, readsOf(one.cost))
			l.skip++
			ops.Store(l.skip)
		}

		return total.cost, nil
	})
	if err != nil {
		return err
	}

	l.count = l.skip
	r.summarize(l, total)
	lookups := r.Result.Figures.State.Lookups
	lookups[len(lookups)-1].ReadsError = figure.If(standardError(each))
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

// evict drops the pages of the state. Of a state on a filesystem in memory there is nothing to
// drop: its block reads are counted all the same.
func (r *run) evict(ctx context.Context) error {
	inMemory, err := host.InMemory(r.spec.Dir)
	if err != nil {
		return err
	}

	if r.inMemory = inMemory; !inMemory {
		return r.Evict(ctx)
	}

	r.Warn(engine.Warning{
		Code: "not_cold",
		Text: r.spec.Dir + " is on a filesystem in memory: no lookup waits for a disk, and " +
			"times, page faults and device reads say nothing of one; block reads that the store " +
			"counts are right",
		Remedy: "put --db on a disk",
	})

	return nil
}

// openCold opens the state again, with no page of it in memory. Opening may write
// what the log held into files: only when that has settled are they at rest.
func (r *run) openCold(ctx context.Context) error {
	if err := r.close(); err != nil {
		return err
	}

	// A page that is in memory and beside one that opening touches would be mapped with it
	// (the kernel maps up to 64 KiB around a fault), and mapped pages are not given up.
	if err := r.evict(ctx); err != nil {
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

	return r.evict(ctx)
}

// kinds of lookups that the state has an answer to.
func (r *run) kinds() []string {
	if r.spec.Chain.Accounts == 0 {
		return nil
	}

	kinds := []string{result.AccountLookup, result.AbsentAccountLookup}
	if c := r.spec.Chain; c.SlotsPer > 0 && c.ContractShare > 0 || c.ContractSlots > 0 {
		kinds = append(kinds, result.SlotLookup, result.AbsentSlotLookup)
		if c.CodeBytes > 0 && r.keepsCode {
			kinds = append(kinds, result.CodeLookup, result.AbsentCodeLookup)
		}
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
	l := lookups{
		kind:      kind,
		condition: result.HeldLookups,
		inFlight:  inFlight,
		count:     r.spec.Reads,
		warming:   true,
	}

	if inFlight > 1 {
		l.count = min(l.count, fewWarming)
	}

	_, err := r.phaseOf(ctx, l)
	return err
}

func (r *run) measure(ctx context.Context, l lookups) error {
	out, err := r.phaseOf(ctx, l)
	if err != nil {
		return err
	}
	r.summarize(l, out)
	return nil
}

// phaseOf is a phase that makes lookups.
func (r *run) phaseOf(ctx context.Context, l lookups) (*outcome, error) {
	out := newOutcome()
	return out, r.PhaseOf(l.name(), func(ops *atomic.Uint64) (cost, error) {
		if l.reopens {
			if err := r.openCold(ctx); err != nil {
				return cost{}, err
			}
		}

		err := r.drive(ctx, l, out)
		ops.Store(out.service.N())
		return out.cost, err
	})
}

// outcome is what lookups cost, and how long each took.
type outcome struct {
	cost
	service *measure.Histogram
	touched layout.Touched
}

func newOutcome() *outcome {
	return &outcome{
		service: measure.NewHistogram(),
		touched: layout.Touched{Nodes: new(int64), Pages: new(int64), Bytes: new(int64)},
	}
}

// add adds lookups that came after.
func (o *outcome) add(next *outcome) {
	o.cost, o.touched = o.cost.Plus(next.cost), host.Sum(o.touched, next.touched)
	o.service.Merge(next.service)
}

// summarize makes figures of lookups and what they cost.
func (r *run) summarize(l lookups, of *outcome) {
	c := of.cost
	out := result.Lookups{
		Kind:        l.kind,
		Condition:   l.condition,
		InFlight:    l.inFlight,
		Count:       l.count,
		Seconds:     c.Seconds,
		PerSecond:   float64(l.count) / c.Seconds,
		BlockReads:  figure.If(each(c.Subject.Reads, l.count)),
		BlockBytes:  figure.If(each(c.Subject.ReadBytes, l.count)),
		ReadCalls:   float64(c.Process.ReadCalls) / float64(l.count),
		MajorFaults: float64(c.Process.MajorFaults) / float64(l.count),
		CPUNanos:    figure.Known(float64(c.CPUNanos()) / float64(l.count)),
		DeviceReads: figure.If(each(deviceReads(c), l.count)),
		DeviceBytes: float64(deviceReadBytes(c)) / float64(l.count),
	}

	if t := c.Subject; t.DataReads != nil {
		out.BlockTypes = &result.BlockTypes{
			Filter: *each(t.FilterReads, l.count),
			Index:  *each(t.IndexReads, l.count),
			Data:   *each(t.DataReads, l.count),
		}
	}

	out.NodeBytes = figure.If(each(of.touched.Bytes, l.count))
	// Reads of a few bytes are those by which threads of Go's runtime wake each other, and page
	// faults are of other files.
	few := float64(c.Process.ReadChars) < 64*(1+float64(c.Process.ReadCalls)+c.Seconds)
	out.ReadsUnknown = r.inMemory && !out.BlockReads.IsKnown() && !out.DeviceReads.IsKnown() && few
	out.Nodes, out.Pages, out.ServiceNanos = figure.If(each(of.touched.Nodes, l.count)),
		figure.If(each(of.touched.Pages, l.count)), r.summed(l.name(), of.service)
	r.Result.Figures.State.Lookups = append(r.Result.Figures.State.Lookups, out)
}

// drive makes the lookups, inFlight workers at once, and adds what they were to out.
func (r *run) drive(ctx context.Context, l lookups, out *outcome) (err error) {
	// A lookup that faults on a mapped page occupies its scheduler slot, and what limits
	// the memory needs one.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(l.inFlight, runtime.GOMAXPROCS(0)) + 1))
	tell := func(tick *timed.Tick[layout.Counters]) error {
		if tick.Gets > 0 {
			tick.BlockReadsPerOp = each(tick.Cost.Subject.Reads, tick.Gets)
		}

		if tick.Short {
			return nil
		}

		return r.WriteTick(tick.Tick)
	}

	if l.apart {
		tell = nil
	}

	out.cost, err = r.Between(func() error {
		team, readers, err := r.team(l)
		if err != nil {
			return err
		}

		err = timed.Run(ctx, r.Session, team, l.name(), l.count, timed.Times{Service: out.service},
			tell)
		for _, reader := range readers {
			out.touched = host.Sum(out.touched, reader.Touched())
		}

		return errors.Join(err, closeAll(readers))
	})

	return err
}

// team is workers that share the lookups.
func (r *run) team(l lookups) (*timed.Team, []*reader, error) {
	team, readers := new(timed.Team), []*reader(nil)
	for i := range l.inFlight {
		opened, err := r.state.Reader()
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("make a reader: %w", err), closeAll(readers))
		}

		readers = append(readers, &reader{Reader: opened})
		team.Workers = append(team.Workers,
			timed.NewWorker(r.Clock,
				&gets{lookups: l, reader: readers[i], generator: r.generator.Clone(),
					seed: l.series() + uint64(i), place: i, at: l.skip}, readers[i]))
	}

	return team, readers, nil
}

func closeAll(readers []*reader) (err error) {
	for _, r := range readers {
		err = errors.Join(err, r.Close())
	}
	return err
}
