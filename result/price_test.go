package result

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/result/figure"
)

// A row has a CPU time or the reason why it has none, and then no price; so it is stored.
func TestPriceRowsWithoutCPUTimeHaveNoPrice(t *testing.T) {
	dir := t.TempDir()
	reads := Estimate{Value: 2, Low: 1, High: 3}
	rows := []PriceRow{
		{Parameter: "measured", Reads: reads, CPUNanos: figure.Known(5000), AloneGas: reads,
			Share: figure.Known(0), Binds: "CPU"},
		{Parameter: "no CPU time", Reads: reads, CPUNanos: figure.Unavailable("not counted")},
		{Parameter: "surcharge", Basis: DerivedBasis("old - recent"),
			CPUNanos: figure.Known(0), AloneGas: reads},
	}
	if err := WritePrice(dir, &Price{Status: OK, Rows: rows}); err != nil {
		t.Fatal(err)
	}

	again, err := ReadPrice(dir)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(rows, again.Rows, cmp.AllowUnexported(figure.Value{})); diff != "" {
		t.Error(diff)
	}
}

// Version 0.2.0 stored a CPU time of 0 where the layouts that it priced had none.
func TestOldPricesWithoutCPUTimeAreAbsent(t *testing.T) {
	dir := t.TempDir()
	const old = `{"schema": "statelab.price/1", "status": "ok", "rows": [
		{"parameter": "p", "basis": "measured", "cpu_ns": 0, "accesses": 3, "binds": "device",
			"reads": {"value": 2, "low": 2, "high": 2},
			"alone_gas": {"value": 7, "low": 7, "high": 7}},
		{"parameter": "q", "basis": "measured", "cpu_ns": 4, "binds": "device",
			"alone_gas": {"value": 7, "low": 7, "high": 7}}]}`
	if err := os.WriteFile(filepath.Join(dir, PriceFile), []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}

	p, err := ReadPrice(dir)
	if err != nil {
		t.Fatal(err)
	}

	without, with := p.Rows[0], p.Rows[1]
	if without.IsPriced() || without.CPUNanos.Reason() != figure.NotRecorded ||
		without.AloneGas != (Estimate{}) || without.Binds != "" ||
		without.Accesses != figure.Known(3) || without.Reads.Value != 2 {
		t.Errorf("%+v", without)
	}

	if !with.IsPriced() || with.CPUNanos != figure.Known(4) || with.AloneGas.Value != 7 ||
		with.Accesses.IsKnown() || with.Bytes.IsKnown() {
		t.Errorf("%+v", with)
	}
}
