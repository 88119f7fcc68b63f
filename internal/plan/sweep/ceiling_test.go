package sweep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func TestFlights(t *testing.T) {
	for threads, want := range map[string]string{
		"1,4":              "[1 4]",
		"8":                "[1 8]",
		"1,2,4,8,16,32,64": "[1 2 32 64]",
	} {
		s := Sweep{Axes: axesOf(t, "engine=mem", "threads="+threads)}
		s.Base.Threads = 8
		if got := fmt.Sprint(s.Flights()); got != want {
			t.Errorf("--threads %s: %s, want %s", threads, got, want)
		}
	}
}

// A probe that gave fewer reads than the sweep then made is marked, and no limit.
func TestContradictedCeilingIsMarked(t *testing.T) {
	out, reads := t.TempDir(), 1.0
	d := &result.Disk{Points: []result.DiskPoint{{
		InFlight:       4,
		ReadsPerSecond: 39,
		MeanNanos:      1e8,
		Spread:         result.Range{Low: 30, High: 50},
	}}}

	if err := result.WriteDisk(out, d); err != nil {
		t.Fatal(err)
	}

	figures := result.Figures{Set: figure.SetOf(map[figure.Figure]float64{
		figure.GetsPerSecond:     30_000,
		figure.DeviceReadsPerGet: reads,
	})}
	done := &result.Sweep{Points: []result.Point{{Figures: figures}}}
	s := Sweep{}
	s.Base.Threads = 4
	if err := s.JudgeCeiling(done, out); err != nil {
		t.Fatal(err)
	}

	if len(done.Warnings) != 1 || done.Warnings[0].Code != "disk_contradicted" ||
		!strings.Contains(done.Warnings[0].Text, "39 reads/s with 4 in flight") {
		t.Errorf("warnings %+v", done.Warnings)
	}

	if stored, err := result.ReadDisk(out); err != nil || stored.Contradicted == "" {
		t.Errorf("stored %+v, %v", stored, err)
	}

	if err := s.JudgeCeiling(&result.Sweep{}, t.TempDir()); err != nil {
		t.Errorf("a sweep without a limit: %v", err)
	}
}
