// Package mutilate makes incomplete inputs out of a complete one, for tests of importers: what an
// importer reads must be refused, or its answer must say what could not be checked.
//
// Non-goals: damaged bytes (fuzz tests and the tests of damage make those); formats. A test cuts a
// valid file into records and puts records together again.
package mutilate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Names of the mutilations, in the order of [Of].
const (
	Dropped   = "dropped"   // a record in the middle is not there
	Doubled   = "doubled"   // a record in the middle is there twice
	Merged    = "merged"    // two neighbours in the middle have become one record
	Reordered = "reordered" // two neighbours in the middle have changed places
	Sampled   = "sampled"   // only one record in sampleEvery is there
)

const (
	sampleEvery = 10
	// minRecords leaves a sample of two.
	minRecords = sampleEvery + 1
)

// Case is a valid input after one mutilation.
type Case[R any] struct {
	Name    string
	Records []R
}

// Of returns the five mutilations of the records of a valid input, which has at least 11. merge
// makes one record of two. The record at the index middle and the one behind it are those that
// change.
func Of[R any](t testing.TB, records []R, middle int, merge func(a, b R) R) []Case[R] {
	t.Helper()
	if len(records) < minRecords || middle < 0 || middle+2 > len(records) {
		t.Fatalf("%d records, of which %d changes: at least %d are needed", len(records), middle,
			minRecords)
	}

	before, a, b, after := records[:middle], records[middle], records[middle+1], records[middle+2:]
	var sample []R
	for i := 0; i < len(records); i += sampleEvery {
		sample = append(sample, records[i])
	}

	return []Case[R]{
		{Dropped, slices.Concat(before, []R{b}, after)},
		{Doubled, slices.Concat(before, []R{a, a, b}, after)},
		{Merged, slices.Concat(before, []R{merge(a, b)}, after)},
		{Reordered, slices.Concat(before, []R{b, a}, after)},
		{Sampled, sample},
	}
}

// Outcome is what a user sees of an import.
type Outcome struct {
	Err  error  // nil: it was accepted
	Told string // warnings and sentences of the answer that tell what is missing or not checked
}

// Demand imports a valid input and its mutilations. The valid one must be accepted. Of each
// mutilation the error, or what the user is told, must contain the text that says has for it;
// texts for an error begin with "refused: ".
func Demand[R any](
	t *testing.T, records []R, middle int, merge func(a, b R) R, imports func([]R) Outcome,
	says map[string]string,
) {
	t.Helper()
	if valid := imports(records); valid.Err != nil {
		t.Fatalf("the valid input is refused: %v", valid.Err)
	}

	for _, c := range Of(t, records, middle, merge) {
		want, got := says[c.Name], imports(c.Records)
		text, refused := strings.CutPrefix(want, "refused: ")
		refusal := fmt.Sprint(got.Err)
		switch {
		case text == "":
			t.Errorf("%s: the test demands nothing", c.Name)
		case refused && (got.Err == nil || !strings.Contains(refusal, text)):
			t.Errorf("%s: error %v\nshould contain %q\ntold: %s", c.Name, got.Err, text, got.Told)
		case !refused && (got.Err != nil || !strings.Contains(got.Told, text)):
			t.Errorf("%s: error %v, told %q\nshould contain %q", c.Name, got.Err, got.Told, text)
		default:
			t.Logf("%s: %s", c.Name, want)
		}
	}
}
