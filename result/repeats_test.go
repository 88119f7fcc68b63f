package result

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/result/figure"
)

// ranRuns are repeats with block reads, and with the device reads that are not negative.
func ranRuns(device ...float64) (runs []*Run) {
	for i, reads := range device {
		run := &Run{Status: OK}
		run.Figures.Record(figure.BlockReadsPerGet, float64(i+1))
		if reads >= 0 {
			run.Figures.Record(figure.DeviceReadsPerGet, reads)
		}

		runs = append(runs, run)
	}

	return runs
}

// A range is over repeats that have the figure: no repeat that lacks it counts as 0.
func TestSpreadsAreOfWhatWasMeasured(t *testing.T) {
	device := figure.DeviceReadsPerGet.Key
	reads := Range{Low: 1, High: 3}
	rule := PointRule()
	for name, c := range map[string]struct {
		device []float64
		want   map[string]Range
		old    map[string]Range // as versions before 0.3 stored it
	}{
		"none has it": {
			[]float64{-1, -1, -1},
			map[string]Range{},
			map[string]Range{device: {}},
		},
		"one of three has it": {
			[]float64{-1, 5, -1},
			map[string]Range{},
			map[string]Range{device: {Low: 0, High: 5}},
		},
		"two of three have it": {
			[]float64{4, -1, 2},
			map[string]Range{device: {Low: 2, High: 4}},
			map[string]Range{device: {Low: 0, High: 4}},
		},
		"0 is a number": {
			[]float64{0, 0, 0},
			map[string]Range{device: {}},
			map[string]Range{device: {}},
		},
	} {
		c.want[figure.BlockReadsPerGet.Key] = reads
		c.old[figure.BlockReadsPerGet.Key], c.old[figure.GetsPerSecond.Key] = reads, Range{}

		runs := ranRuns(c.device...)
		if got := rule.Spreads(runs); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}

		if !rule.Same(c.want, runs) {
			t.Errorf("%s: what is stored now contradicts its runs", name)
		}

		if !rule.Same(c.old, runs) {
			t.Errorf("%s: what an old version stored contradicts its runs", name)
		}

		c.want[figure.BlockReadsPerGet.Key] = Range{Low: 1, High: 2}
		if rule.Same(c.want, runs) {
			t.Errorf("%s: a wrong range is accepted", name)
		}
	}
}

// A folder of an old version has ranges of figures that no repeat had.
func TestOldRangesOfAbsentFiguresAreAbsent(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "points", "000")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}

	if err := WriteRun(folder, ranRuns(-1)[0]); err != nil {
		t.Fatal(err)
	}

	old := &Sweep{Status: OK, Points: []Point{{Run: "points/000", Runs: []string{"points/000"},
		Status: OK, Spread: map[string]Range{
			figure.BlockReadsPerGet.Key:  {Low: 1, High: 2},
			figure.DeviceReadsPerGet.Key: {},
		}}}}
	if err := WriteSweep(dir, old); err != nil {
		t.Fatal(err)
	}

	again, err := ReadSweep(dir)
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]Range{figure.BlockReadsPerGet.Key: {Low: 1, High: 2}}
	if got := again.Points[0].Spread; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
