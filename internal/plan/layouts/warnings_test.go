package layouts

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

func TestOneWarningIsToldOnce(t *testing.T) {
	var got []engine.Warning
	for i, label := range []string{"a", "b:x", "a"} {
		got = labelled(got, label, engine.Warning{Code: "fits_in_memory", Text: "it fits"})
		got = labelled(got, label, engine.Warning{Code: result.BusyMachine, Text: string(rune('0'+i)) + " % were taken"})
	}
	got = labelled(got, "a", engine.Warning{Code: "fits_in_memory", Text: "it fits at another size"})
	got = labelled(got, "c", engine.Warning{Code: "other", Text: "it fits"})
	want := []engine.Warning{{Code: "fits_in_memory", Text: "a, b:x: it fits", Of: "a, b:x"}, {Code: result.BusyMachine, Text: "a: 0 % were taken", Of: "a"},
		{Code: "other", Text: "c: it fits", Of: "c"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
