package slurm

import (
	"testing"
	"time"
)

// TestQuestionsBecomeRarer: an hour in which nothing changes, seen each second.
func TestQuestionsBecomeRarer(t *testing.T) {
	var b backoff
	begin := time.Unix(1_000_000, 0)
	var at []int // seconds of the questions
	for second := range 3600 {
		now := begin.Add(time.Duration(second) * time.Second)
		if b.due(now) {
			at = append(at, second)
			b.asked(now)
		}
	}

	for i, want := range []int{0, 1, 3, 7, 15, 31, 61, 91} {
		if at[i] != want {
			t.Fatalf("asked at %v, want 0, 1, 3, 7, 15, 31, 61, 91, ...", at[:8])
		}
	}

	if len(at) > 125 {
		t.Errorf("%d questions in an hour", len(at))
	}

	b.changed()
	now := begin.Add(time.Hour)
	if !b.due(now) {
		t.Error("something has changed, and Slurm is not asked")
	}

	if b.asked(now); b.due(now) || !b.due(now.Add(tickEvery)) {
		t.Error("the second question after a change is not due after one tick")
	}
}

// TestWhatAsksSlurmAgain: what is seen of a task that leads to more, and what does not.
func TestWhatAsksSlurmAgain(t *testing.T) {
	w := &batch{}
	waiting, running := row{job: "1", state: "PD"}, row{job: "1", state: "R", node: "n1"}
	of := &task{Task: &Task{}, submitted: true}
	for _, c := range []struct {
		what    string
		now     *row
		changed bool
	}{
		{"it waits", &waiting, true},
		{"it waits still", &row{job: "1", state: "PD", reason: "Priority"}, false},
		{"it runs", &running, true},
		{"it runs on", &row{job: "1", state: "R", node: "n1"}, false},
		{"it runs elsewhere", &row{job: "1", state: "R", node: "n2"}, true},
		{"it is gone", nil, true},
		{"it is gone still", nil, true}, // until it is known what became of it
	} {
		if got := w.seen(of, c.now); got != c.changed {
			t.Errorf("%s: %v", c.what, got)
		}

		if of.missing.IsZero() != (c.now != nil) {
			t.Errorf("%s: missing since %v", c.what, of.missing)
		}
	}

	of.collects = true
	if w.seen(of, nil) {
		t.Error("its result comes by itself")
	}
}
