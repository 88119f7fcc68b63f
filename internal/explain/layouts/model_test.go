package layouts

import (
	"slices"
	"testing"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func TestPredictedReadsStandBesideMeasuredOnes(t *testing.T) {
	some := func(v float64) *float64 { return &v }
	l := &result.Layouts{Rows: []result.LayoutRow{
		{Layout: "pagetrie", Accounts: 1e6, Status: result.OK, BlockReads: figure.If(some(.8)),
			PredictedHeldReads: figure.If(some(.88)), DeviceReads: figure.If(some(.01)),
			PredictedDeviceReads: figure.If(some(.03))},
		{Layout: "mapped", Accounts: 1e6, Status: result.OK, DeviceReads: figure.If(some(.5)),
			PredictedDeviceReads: figure.If(some(.4))},
		{Layout: "unmodelled", Accounts: 1e6, Status: result.OK, BlockReads: figure.If(some(1))},
		{Layout: "failed", Accounts: 1e6, Status: result.Failed, Error: "killed"},
	}}

	got := (of(l)).model()
	want := [][]string{
		{"pagetrie 1M", "0.800", "0.880", "+10 %", "0.010", "0.030", doc.None},
		{"mapped 1M", doc.None, doc.None, doc.None, "0.500", "0.400", "-20 %"},
	}

	if len(got.Rows) != len(want) {
		t.Fatalf("%d rows: %+v", len(got.Rows), got.Rows)
	}

	for i, row := range got.Rows {
		if !slices.Equal(row.Cells, want[i]) {
			t.Errorf("%q, want %q", row.Cells, want[i])
		}
	}
}
