package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/pace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/result"
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
	b := &batches{gets: gets{keySource: source}, sorted: r.spec.BatchSorted, answers: make([]engine.Answer, r.spec.BatchGets)}
	if b.many, err = manyOf(reader, r.spec.InFlight, r.db.Reader); err != nil {
		return errors.Join(fmt.Errorf("open the readers of thread %d: %w", len(t.Workers), err), reader.Close())
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
			if t.parted = r.inParts(source, session.Share(r.spec.Gets, i, r.spec.Threads)); t.parted != nil {
				source = t.parted
			}
		}
		if err := r.addReader(t, source, r.spec.BatchGets > 0); err != nil {
			return nil, errors.Join(err, t.close.all())
		}
		if rate > 0 {
			t.Workers[i].OnSchedule(pace.Constant(rate, i, r.spec.Threads))
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
	return timed.Run(ctx, r.Session, &t.Team, s.phase, s.gets, timed.Times{Service: s.service, Response: s.response, Beside: r.putLatency},
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
		})
}

// complete adds to a line of the series what is told of engines alone.
func (r *run) complete(tick *timed.Tick[engine.Counters], puts uint64) {
	if reads := tick.Cost.Subject.Reads; reads != nil && tick.Gets > 0 {
		tick.BlockReadsPerOp, tick.ByType = ratio(reads.Total().Count, float64(tick.Gets)), perGet(byType(reads), tick.Gets)
	}
	tick.PutsPerSecond = float64(puts) / tick.Cost.Seconds
	if reserved := r.db.Counters().CacheReservedBytes; reserved != nil {
		tick.CacheReserved = *reserved
		r.reservedMax = max(r.reservedMax, tick.CacheReserved)
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
