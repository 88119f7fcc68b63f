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
			r.Finish()
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
		Offer(recorders, interval)
		Collect(recorders, 5*time.Millisecond, interval)
		total.Merge(interval)
		intervals++
	}

	CollectRest(recorders, total)

	want := NewHistogram()
	for range writers {
		for v := range int64(perWriter) {
			want.Add(v)
		}
	}

	if !same(total, want) {
		t.Errorf("%d durations in %d intervals, want %d", total.N(), intervals, want.N())
	}
}

func TestTakeDoesNotWaitForAStuckWriter(t *testing.T) {
	stuck, busy := NewRecorder(), NewRecorder()
	both := []*Recorder{stuck, busy}
	stuck.Add(10)
	busy.Add(20)
	first := NewHistogram()
	Offer(both, first)
	busy.Add(20) // hands the first over
	Collect(both, 100*time.Millisecond, first)
	if first.N() == 0 || first.Quantile(0) != 20 {
		t.Errorf("the first interval holds %d durations from %d ns; want the busy writer's alone",
			first.N(), first.Quantile(0))
	}

	stuck.Add(11) // hands 10 over
	second := NewHistogram()
	Offer([]*Recorder{stuck}, second)
	if second.N() != 1 || second.Max() != 10 {
		t.Errorf("the second interval holds %d durations to %d ns; want the 10", second.N(),
			second.Max())
	}

	rest := NewHistogram()
	CollectRest([]*Recorder{stuck}, rest)
	if rest.N() != 1 || rest.Max() != 11 {
		t.Errorf("the rest holds %d durations to %d ns; want the 11", rest.N(), rest.Max())
	}

	stuck.Add(12) // a stopped recorder can be used again
	CollectRest([]*Recorder{stuck}, rest)
	if rest.N() != 2 || rest.Max() != 12 || stuck.spare == nil {
		t.Errorf("after another use the rest holds %d durations to %d ns", rest.N(), rest.Max())
	}
}

// A thread that has made its Gets hands nothing over any more: what it counted belongs
// to the second in which it made them, as the block reads do.
func TestAFinishedWriterIsNotWaitedFor(t *testing.T) {
	r := NewRecorder()
	one := []*Recorder{r}
	h := NewHistogram()
	for range 2 { // used again after Rest
		r.Add(10)
		r.Finish()
		h.Reset()
		Offer(one, h)
		Collect(one, time.Hour, h)
		if h.N() != 1 {
			t.Errorf("the interval holds %d durations, want the finished writer's 1", h.N())
		}

		CollectRest(one, h)
		if h.N() != 1 || r.spare == nil {
			t.Errorf("with the rest it is %d durations, want 1", h.N())
		}
	}
}

// What counters show between Offer and Take is the cost of the durations that Take gets.
func TestTakeGetsWhatWasCountedBeforeOffer(t *testing.T) {
	r := NewRecorder()
	one := []*Recorder{r}
	interval, next := NewHistogram(), NewHistogram()
	r.Add(1)
	r.Add(2)
	Offer(one, interval)
	r.Add(3) // hands over
	r.Add(4)
	Collect(one, time.Hour, interval)
	CollectRest(one, next)
	if interval.N() != 2 || interval.Max() != 2 || next.N() != 2 {
		t.Errorf("the interval holds %d durations to %d ns and the next one %d; want 2, 2 and 2",
			interval.N(), interval.Max(), next.N())
	}
}
