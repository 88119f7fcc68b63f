package measure

import (
	"sync"
	"testing"
	"time"
)

// Run with -race: the point of the recorder.
func TestIntervalsAddUpWhileWritersRun(t *testing.T) {
	const writers, perWriter = 4, 200_000
	recorders := make([]*Recorder, writers)
	var running sync.WaitGroup
	for i := range recorders {
		r := NewRecorder()
		recorders[i] = r
		running.Go(func() {
			for v := range int64(perWriter) {
				r.Add(v)
			}
		})
	}
	stopped := make(chan struct{})
	go func() { running.Wait(); close(stopped) }()

	total, interval := NewHistogram(), NewHistogram()
	intervals := 0
	for done := false; !done; {
		select {
		case <-stopped:
			done = true
		case <-time.After(time.Millisecond):
		}
		interval.Reset()
		Interval(recorders, 5*time.Millisecond, interval)
		total.Merge(interval)
		intervals++
	}
	Rest(recorders, total)

	want := NewHistogram()
	for range writers {
		for v := range int64(perWriter) {
			want.Add(v)
		}
	}
	if *total != *want {
		t.Errorf("%d durations in %d intervals, want %d", total.N(), intervals, want.N())
	}
}

func TestIntervalDoesNotWaitForAStuckWriter(t *testing.T) {
	stuck, busy := NewRecorder(), NewRecorder()
	both := []*Recorder{stuck, busy}
	stuck.Add(10)
	busy.Add(20)
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-quit:
				return
			default:
				busy.Add(20)
			}
		}
	}()
	first := NewHistogram()
	Interval(both, 100*time.Millisecond, first)
	if first.N() == 0 || first.Quantile(0) != 20 {
		t.Errorf("the first interval holds %d durations from %d ns; want the busy writer's alone", first.N(), first.Quantile(0))
	}
	close(quit)
	<-stopped

	stuck.Add(11) // hands 10 over
	second := NewHistogram()
	Interval([]*Recorder{stuck}, 0, second)
	if second.N() != 1 || second.Max() != 10 {
		t.Errorf("the second interval holds %d durations to %d ns; want the 10", second.N(), second.Max())
	}
	rest := NewHistogram()
	Rest([]*Recorder{stuck}, rest)
	if rest.N() != 1 || rest.Max() != 11 {
		t.Errorf("the rest holds %d durations to %d ns; want the 11", rest.N(), rest.Max())
	}

	stuck.Add(12) // a stopped recorder can be used again
	Rest([]*Recorder{stuck}, rest)
	if rest.N() != 2 || rest.Max() != 12 || stuck.spare == nil {
		t.Errorf("after another use the rest holds %d durations to %d ns", rest.N(), rest.Max())
	}
}
