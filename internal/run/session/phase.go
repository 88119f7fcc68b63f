package session

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// Snapshot is every counter at one moment.
type Snapshot[C any] struct {
	Subject *C // nil: not open
	Process result.ProcessIO
	at      time.Time
	device  *result.DeviceIO
}

// snapshotPatience is how long a snapshot waits for a read of the harness's own to end: its thread
// may wait for a processor meanwhile.
const snapshotPatience = time.Second

// devicePatience is how long the kernel may take to count a read that has returned. It is awaited
// whole only where others read or write without a pause.
const devicePatience = 10 * time.Millisecond

// Snapshot reads every counter. What that takes is not counted, nor what it takes to look after
// the limit on memory: how much that was and the kernel's count are of one moment, however long
// this thread waits for a processor between the two. If such a moment does not come within
// s.patience, the counters are taken as they are, and the run carries a warning (warnOfUnsettled).
func (s *Session[C]) Snapshot() (now Snapshot[C], err error) {
	for begun := time.Now(); ; {
		before, settled := s.ownReads()
		late := time.Since(begun) > s.patience
		if !settled && !late {
			time.Sleep(s.patience / 10_000)
			continue
		}

		if now, err = s.lookOnce(before); err != nil {
			return now, err
		}

		after, settledAfter := s.ownReads()
		if settled && settledAfter && after == before {
			return now, nil
		}

		if late {
			s.unsettled.Add(1)
			return now, nil
		}
	}
}

// warnOfUnsettled warns if snapshots were taken while the process was reading its own counters:
// those reads may be in the figures.
func (s *Session[C]) warnOfUnsettled() {
	n := s.unsettled.Load()
	if n == 0 {
		return
	}

	s.Warn(engine.Warning{Code: "counters_unsettled",
		Text: fmt.Sprintf("%s of the counters did not wait for statelab's reads of its own "+
			"process, which took longer than %s: read calls, bytes read and context switches of "+
			"the process may include them",
			unit.Plural(int(n), "snapshot"), unit.Seconds(s.patience.Seconds())),
		Remedy: "end other programs that use the processors, and measure again"})
}

// ownReads are what the process has read to watch itself, and those of them that look after its
// memory; settled: no read is under way.
type ownReads struct{ calls, chars, limit int64 }

func (s *Session[C]) ownReads() (own ownReads, settled bool) {
	own.calls, own.chars, settled = s.own.Now()
	if s.memory.limit != nil {
		calls, chars, too := s.memory.limit.Own.Now()
		own = ownReads{own.calls + calls, own.chars + chars, calls}
		settled = settled && too
	}
	return own, settled
}

func (s *Session[C]) lookOnce(own ownReads) (now Snapshot[C], err error) {
	now.Subject = s.subject.Now()
	if s.Device.Private {
		io, err := s.Device.Now()
		if err != nil {
			return now, err
		}
		now.device = &io
	}

	if s.Uncounted() == "" {
		if now.Process, err = host.ProcessNow(); err != nil {
			return now, fmt.Errorf("read the process's counters: %w", err)
		}

		now.Process.ReadCalls -= s.looks*s.look.ReadCalls + own.calls
		now.Process.ReadChars -= s.looks*s.look.ReadChars + own.chars
		now.Process.VoluntarySwitches -= own.limit // it sleeps between two reads
	}

	s.looks++
	now.at = time.Now()
	return now, nil
}

// OwnRead makes a read call of the harness itself, which no snapshot is to count.
func (s *Session[C]) OwnRead(read func() (chars int64)) { s.own.Call(read) }

// measureLook finds what a snapshot reads itself, from two that follow each other.
func (s *Session[C]) measureLook() error {
	var minimum result.ProcessIO
	for n := range 3 { // now and then something else reads as well
		between, err := s.Between(func() error { return nil })
		if err != nil {
			return err
		}

		if n == 0 || between.Process.ReadCalls < minimum.ReadCalls {
			minimum = between.Process
		}
	}

	s.look = minimum
	return nil
}

// Cost is the difference of two snapshots.
type Cost[C any] struct {
	Seconds float64
	Subject C
	Process result.ProcessIO
	Device  *result.DeviceIO // of a private device
	counted bool
}

func (s *Session[C]) cost(before, after Snapshot[C]) Cost[C] {
	c := Cost[C]{
		counted: true,
		Seconds: after.at.Sub(before.at).Seconds(),
		Process: host.Between(before.Process, after.Process),
	}

	switch {
	case after.Subject == nil:
	case before.Subject == nil:
		c.Subject = *after.Subject
	default:
		c.Subject = s.subject.Between(*before.Subject, *after.Subject)
	}

	if before.device != nil && after.device != nil {
		c.Device = new(host.Between(*before.device, *after.device))
	}

	return c
}

// Plus is a cost and one that came after it, of counters that host.Sum adds.
func (c Cost[C]) Plus(next Cost[C]) Cost[C] {
	if !c.counted {
		return next
	}

	c.Seconds += next.Seconds
	c.Process, c.Subject = host.Sum(c.Process, next.Process), host.Sum(c.Subject, next.Subject)
	if c.Device != nil && next.Device != nil {
		c.Device = new(host.Sum(*c.Device, *next.Device))
	}

	return c
}

// CPUNanos is the time on processors, in the kernel included.
func (c Cost[C]) CPUNanos() int64 { return c.Process.UserNanos + c.Process.SystemNanos }

// Known are the counters that are not nil, as run.json has them.
func Known(counters map[string]*int64) map[string]int64 {
	known := map[string]int64{}
	for name, n := range counters {
		if n != nil {
			known[name] = *n
		}
	}
	return known
}

// Per is n over by, nil where n is not known or by is nothing.
func Per(n *int64, by float64) *float64 {
	if n == nil || by <= 0 {
		return nil
	}
	return new(float64(*n) / by)
}

// settledDevice is what the device has counted once it has all reads that have returned; nil where
// it is not private.
func (s *Session[C]) settledDevice() (*result.DeviceIO, error) {
	if !s.Device.Private {
		return nil, nil
	}

	settled, err := s.Device.Settled(&s.own, devicePatience)
	return &settled, err
}

// Between runs work and returns what every counter counted meanwhile, also where
// work fails. The time that the device is given to settle is not part of it.
func (s *Session[C]) Between(work func() error) (Cost[C], error) {
	if _, err := s.settledDevice(); err != nil {
		return Cost[C]{}, err
	}

	before, err := s.Snapshot()
	if err != nil {
		return Cost[C]{}, err
	}

	workErr := work()
	ended := time.Now()
	after, err := s.Snapshot()
	if err == nil {
		after.device, err = s.settledDevice()
	}

	if err != nil {
		c := Cost[C]{Seconds: ended.Sub(before.at).Seconds()}
		if workErr != nil {
			return c, fmt.Errorf("%w (and %w)", workErr, err)
		}
		return c, err
	}

	return s.cost(before, after), workErr
}

// Phase runs work as a named phase: event, counters, the entry in run.json. work may
// add to ops while it runs. The error names the phase.
func (s *Session[C]) Phase(
	name string, work func(ops *atomic.Uint64) error,
) (c Cost[C], err error) {
	err = s.PhaseOf(name, func(ops *atomic.Uint64) (Cost[C], error) {
		c, err = s.Between(func() error { return work(ops) })
		return c, err
	})
	return c, err
}

// PhaseOf is Phase for work that counts its own cost, as a part of what it does.
func (s *Session[C]) PhaseOf(name string, work func(ops *atomic.Uint64) (Cost[C], error)) error {
	s.Tell(result.Event{Phase: name})
	s.phase, s.phaseBegan = name, time.Now()
	var ops atomic.Uint64
	var c Cost[C]
	var err error
	if s.looks == 0 {
		err = s.measureLook()
	}

	if err == nil {
		c, err = work(&ops)
	}

	p := result.Phase{
		Name:     name,
		Seconds:  c.Seconds,
		Ops:      ops.Load(),
		CPUNanos: c.CPUNanos(),
		Device:   c.Device,
	}

	if c.counted && s.Uncounted() == "" {
		p.Process = &c.Process
	}

	s.subject.Note(c.Subject, &p)
	s.Result.Phases, s.phase = append(s.Result.Phases, p), ""
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	return nil
}

// memory keeps the process to its budget: docs/comparing-engines.md says by which rule,
// the same one for engines, trees and layouts.
type memory struct {
	limit *host.MemoryLimit // nil: none
	base  int64             // anonymous memory before the subject was opened: the harness's own
}

const (
	// slackBytes are what the process may grow by before its limit follows, and pages of
	// the kernel's that belong to nobody's budget.
	slackBytes = 12 << 20
	// workerBytes are what each worker but the first is left: stacks, buffers and garbage,
	// which so many threads make faster than the limit can follow.
	workerBytes = 256 << 10
	// collectorBytes are what the collector of garbage is left for each worker.
	collectorBytes = 1 << 20
)

// BeginBudget moves the process into a memory control group, without a limit yet.
// Pages belong to the group that reads them first, so it comes before the subject is
// opened, and those that are there already are dropped.
func (s *Session[C]) BeginBudget(ctx context.Context, bytes int64) error {
	s.Result.Memory = &result.Memory{BudgetBytes: bytes, Shares: []engine.MemoryShare{}}
	if bytes == 0 {
		return nil
	}

	memory, err := host.InMemory(s.dir)
	if err == nil && memory { // there is nothing to drop
		s.Warn(engine.Warning{
			Code: "budget_without_files",
			Text: s.dir + " is on a filesystem in memory: the memory budget does not include " +
				"its files, which need no other cache",
			Remedy: "put the database on a disk",
		})
	} else if err := s.Evict(ctx); err != nil {
		return err
	}

	if s.memory.limit, err = host.LimitMemory(); err == nil {
		s.memory.base, _, err = host.AnonymousBytes()
	}

	if err != nil {
		s.cannotLimit(err)
		return nil
	}

	if minimum := s.memory.limit.Within; minimum > 0 && minimum < bytes {
		s.Warn(engine.Warning{Code: "memory_limit_below_budget",
			Text: fmt.Sprintf("the budget is %s, but a limit of %s was already in force (of a "+
				"Slurm job or a container)", unit.Bytes(bytes), unit.Bytes(minimum)),
			Remedy: "allow the process more memory (Slurm: --sbatch=--mem=0 asks for all of the " +
				"node's), or choose a smaller --memory"})
	}

	return nil
}

// LimitPageCache leaves the page cache what the subject has not spent of its budget,
// by the shares in run.json, while workers are at work.
func (s *Session[C]) LimitPageCache(workers int) {
	if s.memory.limit == nil {
		return
	}
	if err := s.limitPageCache(workers); err != nil {
		s.cannotLimit(err)
	}
}

func (s *Session[C]) limitPageCache(workers int) error {
	debug.FreeOSMemory() // what earlier workers have left
	anonymous, _, err := host.AnonymousBytes()
	if err != nil {
		return err
	}

	m, spent := s.Result.Memory, int64(0)
	for _, share := range m.Shares {
		if share.Use != engine.PageCacheUse {
			spent += share.Bytes
		}
	}

	// Caches that are not full yet may still grow.
	own := max(anonymous, s.memory.base+spent)
	debug.SetMemoryLimit(collectorLimit(anonymous, own) + int64(workers)*collectorBytes)
	pages := max(0, m.BudgetBytes-spent) + slackBytes + int64(workers-1)*workerBytes
	if err := s.memory.limit.TrackAnonRSS(pages); err != nil {
		return err
	}

	if m.PageCacheBytes == nil || *m.PageCacheBytes > pages {
		m.PageCacheBytes = &pages
	}

	m.HeldBy = s.memory.limit.How
	return nil
}

// collectorLimit is what the Go heap may grow to: a garbage collector needs room, and
// must not outgrow it. Caches may lie in C's memory, which the collector does not see:
// then what is still to grow is theirs as well.
func collectorLimit(anonymous, own int64) int64 {
	memory := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}

	metrics.Read(memory)
	heap := min(int64(memory[0].Value.Uint64()-memory[1].Value.Uint64()), anonymous)
	if anonymous-heap > slackBytes {
		return heap + own/8
	}

	return own + own/8
}

func (s *Session[C]) cannotLimit(err error) {
	s.NotKnown(fmt.Sprintf("the page cache cannot be limited: %v", err), "page_cache_bytes")
	s.Warn(engine.Warning{
		Code: "page_cache_unlimited",
		Text: fmt.Sprintf("the page cache is not limited to the budget: %v", err),
		Remedy: "run as root where memory control groups are, or --page-cache direct for the " +
			"engines that can",
	})
}

func (s *Session[C]) releaseMemory() error {
	if s.memory.limit == nil {
		return nil
	}
	debug.SetMemoryLimit(math.MaxInt64)
	err := s.memory.limit.Release()
	s.memory.limit = nil
	return err
}

// TickEvery is how often a line is added to the series.
const TickEvery = time.Second

// OpenSeries begins series.jsonl. A run that continues an earlier one appends.
func (s *Session[C]) OpenSeries(continues bool) error {
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if continues {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}

	f, err := os.OpenFile(filepath.Join(s.out, result.SeriesFile), mode, 0o644)
	if err != nil {
		return fmt.Errorf("open the series: %w", err)
	}

	s.series = f
	return nil
}

// WriteTick adds a line to the series at once: a kill loses a second.
func (s *Session[C]) WriteTick(t result.Tick) error {
	if err := json.NewEncoder(s.series).Encode(t); err != nil {
		return fmt.Errorf("write series: %w", err)
	}
	return nil
}

// Interval is the part of a phase that the next line of the series is of.
type Interval[C any] struct {
	session *Session[C]
	phase   string
	began   time.Time
	last    Snapshot[C]
	done    uint64 // operations before it
}

// Interval begins at this moment; the line's time counts from the phase's beginning.
func (s *Session[C]) Interval(phase string) (*Interval[C], error) {
	now, err := s.Snapshot()
	return &Interval[C]{session: s, phase: phase, began: s.phaseBegan, last: now}, err
}

// Due reports whether it is time for a line.
func (i *Interval[C]) Due(now time.Time) bool { return now.Sub(i.last.at) >= TickEvery }

// TooShort reports whether a phase's last interval is too short for a rate.
func (i *Interval[C]) TooShort() bool {
	return time.Since(i.last.at) <= TickEvery/4 && time.Since(i.began) >= TickEvery
}

// End is the line of the interval in which ops operations were done, and what it cost.
// The next interval begins.
func (i *Interval[C]) End(ops uint64) (result.Tick, Cost[C], error) {
	cost, err := i.Cut()
	if err != nil {
		return result.Tick{}, cost, err
	}
	return i.Tick(ops, cost), cost, nil
}

// Cut ends the interval, begins the next one, and returns what the ended one cost.
func (i *Interval[C]) Cut() (Cost[C], error) {
	now, err := i.session.Snapshot()
	if err != nil {
		return Cost[C]{}, err
	}
	cost := i.session.cost(i.last, now)
	i.last = now
	return cost, nil
}

// Tick is the line of the interval that was cut last, in which ops operations were done.
func (i *Interval[C]) Tick(ops uint64, cost Cost[C]) result.Tick {
	return result.Tick{
		Phase:           i.phase,
		Seconds:         i.last.at.Sub(i.began).Seconds(),
		Ops:             ops,
		OpsPerSecond:    float64(ops) / cost.Seconds,
		DeviceReadBytes: cost.Process.ReadBytes,
	}
}

// Progress writes a line where it is time for one, and at the end of the work unless
// that is too short for a rate. done are the operations since the first interval began.
func (i *Interval[C]) Progress(done uint64, ended bool) error {
	if !i.Due(time.Now()) && (!ended || i.TooShort()) {
		return nil
	}

	tick, _, err := i.End(done - i.done)
	if err != nil {
		return err
	}

	i.done = done
	return i.session.WriteTick(tick)
}
