package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func TestOneWarningIsToldOnce(t *testing.T) {
	fits := engine.Warning{Code: "fits_in_memory", Text: "it fits"}
	var got []engine.Warning
	for i, label := range []string{"a", "b:x", "a"} {
		got = AddWarning(got, label, fits)
		got = AddWarning(got, label, engine.Warning{
			Code: result.BusyMachine,
			Text: string(rune('0'+i)) + " % were taken",
		})
	}

	got = AddWarning(got, "a", engine.Warning{
		Code: "fits_in_memory",
		Text: "it fits at another size",
	})

	got = AddWarning(got, "c", engine.Warning{Code: "other", Text: "it fits"})
	want := []engine.Warning{
		{Code: "fits_in_memory", Text: "a, b:x: it fits", Of: "a, b:x"},
		{Code: result.BusyMachine, Text: "a: 0 % were taken", Of: "a"},
		{Code: "other", Text: "c: it fits", Of: "c"},
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	// Of runs of one thing there is no label to tell them by.
	got = AddWarning(nil, "", fits)
	got = AddWarning(got, "", engine.Warning{
		Code: "fits_in_memory",
		Text: "it fits at another size",
	})

	if diff := cmp.Diff([]engine.Warning{fits}, got); diff != "" {
		t.Error(diff)
	}
}

// TestRepeatsComeToOneSummary: whatever the subject, with repeats in any order that failed or were
// not done.
func TestRepeatsComeToOneSummary(t *testing.T) {
	ok := End{Status: result.OK}
	failed := End{
		Status:      result.Failed,
		Error:       "disk full",
		FailureInfo: result.FailureInfo{Code: engine.CodeDiskFull},
	}

	stopped := End{Status: result.Interrupted, Error: "stopped"}
	type came struct {
		cost float64
		end  End
	}

	rule := result.RepeatRule[came]{
		Cost: func([]came) func(came) float64 { return func(c came) float64 { return c.cost } },
		Ranges: map[string]func(came) figure.Value{
			"cost": func(c came) figure.Value { return figure.Known(c.cost) },
		},
	}

	points := []Point{{Name: "other"}, {Name: "p"}}

	for name, c := range map[string]struct {
		done   map[int]came // by repeat
		shown  string       // folder
		runs   int
		end    End
		spread map[string]result.Range
	}{
		"one": {map[int]came{0: {5, ok}}, "points/p-0", 1, ok, nil},
		"three: the one in the middle": {
			map[int]came{0: {5, ok}, 1: {1, ok}, 2: {3, ok}},
			"points/p-2",
			3,
			ok,
			map[string]result.Range{"cost": {Low: 1, High: 5}},
		},
		"two: the worse": {
			map[int]came{0: {1, ok}, 3: {2, ok}},
			"points/p-3",
			2,
			ok,
			map[string]result.Range{"cost": {Low: 1, High: 2}},
		},
		"one of three is ok: it stands for the point, which is not": {map[int]came{
			0: {9, stopped},
			1: {1, failed},
			2: {3, ok},
		},
			"points/p-2", 3, stopped, nil},
		"none is ok: the first": {map[int]came{1: {1, failed}, 2: {3, stopped}}, "points/p-1", 2,
			failed, nil},
	} {
		done := map[Step]came{{Point: 0, Repeat: 0}: {100, ok}} // of another point
		for repeat, of := range c.done {
			done[Step{Point: 1, Repeat: repeat}] = of
		}

		repeats := Repeats(Plan{Repeats: 4}, points, 1, done)
		s := Summarize(repeats, rule, func(c came) End { return c.end })
		if s.Shown.Folder != c.shown || len(s.Runs) != c.runs || s.End != c.end {
			t.Errorf("%s: %s is shown, of %v: %+v", name, s.Shown.Folder, s.Runs, s.End)
		}

		if diff := cmp.Diff(c.spread, s.Spread); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
