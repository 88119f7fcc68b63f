package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/pace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// team is the workers of a phase with what they ask for.
type team struct {
	timed.Team
	gets    []*gets
	parted  *parted // of the first worker; nil: its reads are not noted
	writers []*writer
	close   closers
}

type closers []func() error

func (c closers) all() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one())
	}
	return errors.Join(errs...)
}

// addReader adds a worker that asks for the keys of a source, in batches or one by one.
func (r *run) addReader(t *team, source keySource, inBatches bool) error {
	reader, err := r.db.Reader()
	if err != nil {
		return fmt.Errorf("open reader %d: %w", len(t.Workers), err)
	}

	if !inBatches {
		g := &gets{keySource: source}
		t.gets, t.close = append(t.gets, g), append(t.close, reader.Close)
		t.Workers = append(t.Workers, timed.NewWorker(r.Clock, g, reader))
		return nil
	}

	b := &batches{
		gets:    gets{keySource: source},
		sorted:  r.spec.BatchSorted,
		answers: make([]engine.Answer, r.spec.BatchGets),
	}

	if b.many, err = manyOf(reader, r.spec.InFlight, r.db.Reader); err != nil {
		return errors.Join(fmt.Errorf("open the readers of thread %d: %w", len(t.Workers), err),
			reader.Close())
	}

	t.gets, t.close = append(t.gets, &b.gets), append(t.close, b.many.Close)
	t.Workers = append(t.Workers, timed.NewWorker(r.Clock, b, b))
	return nil
}

// team makes the workers of a phase.
func (r *run) team(keys *keyset, phase int, rate float64) (*team, error) {
	t := new(team)
	for i := range r.spec.Threads {
		source := keys.source(phase, i)
		if phase == workload.MeasurePhase && i == 0 {
			if t.parted = r.inParts(source,
				session.Share(r.spec.Gets, i, r.spec.Threads)); t.parted != nil {
				source = t.parted
			}
		}

		if err := r.addReader(t, source, r.spec.BatchGets > 0); err != nil {
			return nil, errors.Join(err, t.close.all())
		}

		if rate > 0 {
			t.Workers[i].SetPacer(pace.ConstantRate(rate, i, r.spec.Threads))
		}
	}

	return t, nil
}

// stretch is what a team does at once: a phase, or a window of one.
type stretch struct {
	phase             string
	gets              uint64
	ops               *atomicCount
	service, response *measure.Histogram
}

// drive runs the team until every worker has done its share of the stretch's Gets,
// writing a line a second to the series.
func (r *run) drive(ctx context.Context, t *team, s stretch) error {
	before, total := t.puts(), s.gets
	if s.phase == "warm" && r.spec.WarmupAuto { // it ends by itself
		total = 0
	}

	t.Broken = r.backgroundError
	err := timed.Run(
		ctx,
		r.Session,
		&t.Team,
		s.phase,
		s.gets,
		timed.Times{Service: s.service, Response: s.response, Background: r.putLatency},
		func(tick *timed.Tick[engine.Counters]) error {
			s.ops.Add(tick.Gets)
			r.complete(tick, tick.BesideDone-before)
			before = tick.BesideDone
			e := result.Event{Phase: s.phase, Done: s.ops.Load(), Total: total, Unit: "Gets"}
			if tick.Short {
				r.Tell(e)
				return nil
			}

			e.Tick = &tick.Tick
			r.Tell(e)
			return r.WriteTick(tick.Tick)
		},
	)

	if errors.As(err, new(*backgroundFailure)) {
		t.close = nil // threads may still wait with what it would close
	}

	return err
}

// complete adds to a line of the series what is told of engines alone.
func (r *run) complete(tick *timed.Tick[engine.Counters], puts uint64) {
	if reads := tick.Cost.Subject.Reads; reads != nil && tick.Gets > 0 {
		tick.BlockReadsPerOp, tick.ByType = ratio(reads.Total().Count, float64(tick.Gets)),
			perGet(byType(reads), tick.Gets)
	}

	if puts > 0 {
		tick.PutsPerSecond = figure.Known(float64(puts) / tick.Cost.Seconds)
	}

	if reserved := r.db.Counters().CacheReservedBytes; reserved != nil {
		tick.CacheReserved = figure.Known(float64(*reserved))
		r.reservedMax = max(r.reservedMax, *reserved)
	}
}

func (t *team) puts() (n uint64) {
	for _, w := range t.writers {
		n += w.done.Load()
	}
	return n
}

func perGet(types map[string]engine.Tally, gets uint64) map[string]float64 {
	each := map[string]float64{}
	for name, tally := range types {
		each[name] = float64(tally.Count) / float64(gets)
	}
	return each
}

// batches are the Gets of one thread, several in a call. Their keys have a memory of
// their own: a source's key lasts until its next one. A Get of a batch takes as long as
// the batch.
type batches struct {
	gets
	sorted  bool
	many    getMany
	answers []engine.Answer // as many as a batch has keys
	choices []choice
	keys    [][]byte
	bytes   []byte
	ends    []int
}

func (b *batches) Next(maximum uint64) (key []byte, n uint64) {
	n = min(maximum, uint64(len(b.answers)))
	b.take(int(n))
	return nil, n
}

func (b *batches) Get(_, dst []byte) (value []byte, found bool, err error) {
	return dst, false, b.many.GetMany(b.keys, b.sorted, b.answers[:len(b.keys)])
}

func (b *batches) Check([]byte, bool) error {
	for i := range b.choices {
		b.asked = b.choices[i]
		if err := b.gets.Check(b.answers[i].Value, b.answers[i].Found); err != nil {
			return fmt.Errorf("%s: %w", b.gets.LastRequest(), err)
		}
	}
	return nil
}

func (b *batches) LastRequest() string { return fmt.Sprintf("get %d keys", len(b.keys)) }

// take draws n keys; sorted, in ascending order.
func (b *batches) take(n int) []choice {
	b.choices, b.keys, b.bytes, b.ends = b.choices[:0], b.keys[:0], b.bytes[:0], b.ends[:0]
	for range n {
		b.next(&b.asked)
		b.choices, b.bytes = append(b.choices, b.asked), append(b.bytes, b.asked.key...)
		b.ends = append(b.ends, len(b.bytes))
	}

	from := 0
	for i, to := range b.ends {
		b.choices[i].key, from = b.bytes[from:to], to
	}

	if b.sorted {
		slices.SortFunc(b.choices, func(x, y choice) int { return bytes.Compare(x.key, y.key) })
	}

	for _, c := range b.choices {
		b.keys = append(b.keys, c.key)
	}

	return b.choices
}

// getMany answers the keys of one batch.
type getMany interface {
	GetMany(keys [][]byte, sorted bool, answers []engine.Answer) error
	Close() error
}

// sequential makes the Gets of a batch one after another.
type sequential struct{ engine.Reader }

func (r sequential) GetMany(keys [][]byte, _ bool, answers []engine.Answer) error {
	for i, key := range keys {
		a := &answers[i]
		var err error
		if a.Value, a.Found, err = r.Get(key, a.Value); err != nil {
			return fmt.Errorf("get key %x: %w", key, err)
		}
	}
	return nil
}

// pool makes the Gets of a batch in several goroutines: the caller's and helpers that
// live as long as it does. Whoever is free takes the next key.
type pool struct {
	readers []engine.Reader // the caller's first
	work    chan struct{}   // a token for each helper and batch
	done    sync.WaitGroup
	next    atomic.Int64
	keys    [][]byte
	answers []engine.Answer
	errs    []error // of each reader
}

func newPool(readers []engine.Reader) *pool {
	p := &pool{readers: readers, work: make(chan struct{}), errs: make([]error, len(readers))}
	for i := range readers[1:] {
		go func() {
			for range p.work {
				p.help(i + 1)
				p.done.Done()
			}
		}()
	}

	return p
}

func (p *pool) GetMany(keys [][]byte, _ bool, answers []engine.Answer) error {
	p.keys, p.answers = keys, answers
	p.next.Store(0)
	helpers := min(len(p.readers), len(keys)) - 1
	p.done.Add(max(0, helpers))
	for range helpers {
		p.work <- struct{}{}
	}

	p.help(0)
	p.done.Wait()
	for _, err := range p.errs {
		if err != nil {
			return err
		}
	}

	return nil
}

// help takes keys until none is left.
func (p *pool) help(who int) {
	for {
		i := int(p.next.Add(1)) - 1
		if i >= len(p.keys) {
			return
		}

		a := &p.answers[i]
		var err error
		if a.Value, a.Found, err = p.readers[who].Get(p.keys[i], a.Value); err != nil {
			p.errs[who] = fmt.Errorf("get key %x: %w", p.keys[i], err)
			return
		}
	}
}

func (p *pool) Close() error {
	close(p.work)
	var errs []error
	for _, r := range p.readers {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// manyOf is how a worker whose reader is first makes its batches: in so many goroutines,
// or, of 0, with the engine's own GetMany where it has one.
func manyOf(
	first engine.Reader, inFlight int, open func() (engine.Reader, error),
) (getMany, error) {
	if own, has := first.(engine.ManyGetter); has && inFlight == 0 {
		return own, nil
	}

	if inFlight <= 1 {
		return sequential{first}, nil
	}

	readers := []engine.Reader{first}
	for range inFlight - 1 {
		reader, err := open()
		if err != nil {
			for _, r := range readers[1:] {
				err = errors.Join(err, r.Close())
			}
			return nil, err
		}

		readers = append(readers, reader)
	}

	return newPool(readers), nil
}
