package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCountersAreAddedAndSubtractedFieldByField(t *testing.T) {
	type counters struct {
		Name          string
		Reads, Writes int64
		Hits, Misses  *int64
	}

	n := func(v int64) *int64 { return &v }
	before, after := counters{"sda", 1, 2, n(3), n(4)}, counters{"sda", 10, 20, n(30), nil}
	if diff := cmp.Diff(counters{"sda", 9, 18, n(27), nil}, Between(before, after)); diff != "" {
		t.Error(diff)
	}

	if diff := cmp.Diff(counters{"sda", 11, 22, n(33), nil}, Sum(before, after)); diff != "" {
		t.Error(diff)
	}

	if *after.Hits != 30 || *before.Hits != 3 {
		t.Error("the counts themselves were changed")
	}
}
