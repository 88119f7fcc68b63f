package plan

import (
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

// Repeat is a step of a point that is done, with what came of it.
type Repeat[T any] struct {
	Number int    // from 0
	Folder string // relative to the plan's
	Of     T
}

// Repeats are the steps of a point that are done, in the order of their numbers.
func Repeats[T any](p Plan, points []Point, point int, done map[Step]T) (repeats []Repeat[T]) {
	for number := range p.Repeats {
		step := Step{Point: point, Repeat: number}
		if of, is := done[step]; is {
			repeats = append(repeats, Repeat[T]{number, p.Folder(points, step), of})
		}
	}
	return repeats
}

// End is how something ended.
type End struct {
	Status string // of package result
	Error  string
	result.FailureInfo
}

// EndOfRun is how a run ended.
func EndOfRun(run *result.Run) End { return End{run.Status, run.Error, run.FailureInfo} }

// Summary is what all repeats of a point come to, for the index of any kind of result.
type Summary[T any] struct {
	// Shown stands for the point: of the repeats that are ok the one that the rule chooses; if none
	// is, the first.
	Shown  Repeat[T]
	Runs   []string                // folders of all
	End                            // of the first repeat that is not ok: the point is not, then
	Spread map[string]result.Range // over those that are ok; nil: fewer than two are
}

// Summarize is the one place that says what the repeats of a point come to, of which there is at
// least one. end is how a repeat ended.
func Summarize[T any](repeats []Repeat[T], rule result.RepeatRule[T], end func(T) End) Summary[T] {
	s := Summary[T]{Shown: repeats[0], End: End{Status: result.OK}}
	var ok []Repeat[T]
	var values []T // of ok
	for _, r := range repeats {
		s.Runs = append(s.Runs, r.Folder)
		switch e := end(r.Of); {
		case e.Status == result.OK:
			ok, values = append(ok, r), append(values, r.Of)
		case s.Status == result.OK:
			s.End = e
		}
	}

	if len(ok) == 0 {
		return s
	}

	cost := rule.Cost(values)
	s.Shown = result.Representative(ok, func(r Repeat[T]) float64 { return cost(r.Of) })
	s.Spread = rule.Spreads(values)
	return s
}

// AddWarning adds a warning of a run to those of its summary. label names what the run is of, such
// as an engine; "" where all runs of the summary are of one. There is one warning of a code for
// each label, as runs of one label differ in its figures only; one sentence that holds for several
// labels is there once, with all of them; and one about the machine is there once.
func AddWarning(all []engine.Warning, label string, w engine.Warning) []engine.Warning {
	if result.HasWarning(all, w) {
		return all
	}

	for i, known := range all {
		switch {
		case known.Code != w.Code:
		case slices.Contains(strings.Split(known.Of, labelSeparator), label):
			return all
		case known.Of != "" && known.Text == known.Of+": "+w.Text:
			all[i].Of = known.Of + labelSeparator + label
			all[i].Text = all[i].Of + ": " + w.Text
			return all
		}
	}

	if label != "" {
		w.Of, w.Text = label, label+": "+w.Text
	}

	return append(all, w)
}

// labelSeparator is between the labels of a warning.
const labelSeparator = ", "
