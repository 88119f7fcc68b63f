package watch

import (
	"context"
	"errors"
	"time"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/result"
)

// rolling predicts other caches while a watch goes on, for its metrics: a collector of its own
// keeps the Gets of one period after the other, and each period is simulated before the next one
// begins. The collector of the watch, which keeps its first Gets until the end, gets everything
// too.
type rolling struct {
	*collector
	explain func(context.Context, *collector) (*result.WatchPredicted, error)

	period *collector // that goes on; nil: none
	ends   time.Time  // of the period
	length time.Duration
	next   time.Time     // when one begins, if none goes on or is worked on
	took   time.Duration // to prepare it

	ready   chan prepared
	done    chan predicted
	working bool // a period is prepared or simulated
	stop    context.CancelFunc
	ctx     context.Context
}

type prepared struct {
	*collector
	took time.Duration
}

type predicted struct {
	*result.WatchPredicted
	took time.Duration
}

// Periods are short at first, so that there is a prediction soon, and longer each time: the larger
// a cache is, the more Gets it takes to tell what it would read.
const (
	firstPeriod   = 15 * time.Second
	longestPeriod = 8 * time.Minute
	periodGets    = 500_000 // end a period early
	// pauseTimes what preparing a period and working it out took is the pause behind it: 2 % of a
	// processor.
	pauseTimes = 50
)

func newRolling(
	ctx context.Context, c *collector,
	explain func(context.Context, *collector) (*result.WatchPredicted, error),
) *rolling {
	r := &rolling{
		collector: c,
		explain:   explain,
		length:    firstPeriod,
		next:      time.Now(),
		ready:     make(chan prepared, 1),
		done:      make(chan predicted, 1),
	}

	r.ctx, r.stop = context.WithCancel(ctx)

	return r
}

// Get implements probe.Events. What began before the period is not whole in it.
func (r *rolling) Get(g *probe.Get) {
	r.collector.Get(g)
	if r.period != nil && g.Start >= r.period.opened {
		r.period.Get(g)
	}
}

// Together implements probe.Events.
func (r *rolling) Together(t *probe.Together) {
	r.collector.Together(t)
	if r.period != nil {
		r.period.Together(t)
	}
}

// Seek implements probe.Events.
func (r *rolling) Seek(s *probe.Seek) {
	r.collector.Seek(s)
	if r.period != nil {
		r.period.Seek(s)
	}
}

// Read implements probe.Events.
func (r *rolling) Read(read *probe.Read) {
	r.collector.Read(read)
	if r.period != nil {
		r.period.Read(read)
	}
}

// Window implements probe.Events.
func (r *rolling) Window(open bool, at time.Duration) {
	r.collector.Window(open, at)
	if r.period != nil {
		r.period.Window(open, at)
	}
}

// Second implements probe.Events.
func (r *rolling) Second() error {
	select {
	case p := <-r.ready:
		r.period, r.took = p.collector, p.took
		r.working, r.ends = false, time.Now().Add(r.length)
		if !r.since.IsZero() {
			r.period.Window(true, probe.Now())
		}
	case p := <-r.done:
		r.working, r.next = false, time.Now().Add(pauseTimes*(r.took+p.took))
		if p.WatchPredicted != nil {
			r.live.Predicted = p.WatchPredicted
		}
	default:
	}

	switch now := time.Now(); {
	case r.working:
	case r.period == nil && now.After(r.next):
		r.prepare()
	case r.period != nil && (now.After(r.ends) || len(r.period.gets) >= periodGets):
		r.work()
	}

	return r.collector.Second()
}

// prepare begins to follow the database, which takes a while if it is large.
func (r *rolling) prepare() {
	r.working = true
	of := r.collector
	go func() {
		began, seen := time.Now(), &Seen{Latency: measure.NewHistogram()}
		c := newCollector(of.target, of.dir, of.layout, of.layouts, seen, Options{})
		r.ready <- prepared{c, time.Since(began)}
	}()
}

// work ends a period, and simulates it meanwhile.
func (r *rolling) work() {
	period := r.period
	r.period, r.working, r.length = nil, true, min(2*r.length, longestPeriod)
	if !period.since.IsZero() {
		period.Window(false, probe.Now())
	}

	go func() {
		began := time.Now()
		p, _ := r.explain(r.ctx, period) // the answer at the end says why there is none
		r.done <- predicted{p, time.Since(began)}
	}()
}

// close ends what goes on.
func (r *rolling) close() error {
	r.stop()
	period := r.period
	if r.working {
		select {
		case p := <-r.ready:
			period = p.collector
		case <-r.done:
		}
	}

	if period == nil {
		return nil
	}

	return errors.Join(period.finish(), period.follow.close())
}

// close ends following, which has ended.
func (f *followed) close() error {
	if f.following == nil {
		return nil
	}
	return f.Close()
}

// predict simulates a period of Gets. Nothing of it is told before the end but what comes out.
func (a *analysis) predict(ctx context.Context) (_ *result.WatchPredicted, err error) {
	if err := a.finish(); err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, a.follow.close()) }()
	a.order = a.inOrder()
	a.w.Watched, a.w.Why = a.watched.Seconds(), map[string]string{}
	a.w.Seconds = time.Since(a.second.began).Seconds()
	a.w.Process.Memory = new(host.MemoryOf(a.target.PID))
	a.count()
	if err := a.resolve(ctx); err != nil || a.w.Simulated == nil {
		return nil, err
	}

	return &result.WatchPredicted{
		Gets:    a.w.Resolved,
		Caches:  append([]result.WatchSimulated{*a.w.Simulated}, a.w.WhatIf...),
		Seconds: a.w.Watched,
	}, nil
}
