package enginetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

// TestJudgeReads: an engine that keeps everything in memory reads nothing; one that does not count
// its reads is found out by its read calls.
func TestJudgeReads(t *testing.T) {
	for name, c := range map[string]struct {
		reads, data, calls int64
		noCache            bool
		want               string
	}{
		"in memory":        {0, 0, 3, true, ""},
		"forgets to count": {0, 0, blockGets, true, "simple.Reads.Add"},
		"of a cache":       {0, 0, 3, false, "cannot hold"},
		"no data":          {9, 0, 9, true, "0 of them of data"},
		"counts":           {9, 9, 9, true, ""},
	} {
		got := judgeReads(c.reads, c.data, c.calls, c.noCache)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestEmptyFields(t *testing.T) {
	got := emptyFields(engine.Info{Name: "mine", Version: "1", Route: "go module"})
	if !slices.Equal(got, []string{"Licence"}) {
		t.Error(got)
	}
}
