package engines

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/result"
)

// The curve drawn is the histogram's: its medians are those the harness summed
// up, and it never falls.
func TestQuantiles(t *testing.T) {
	dir := fixture(t, "demo", []float64{1}, "", nil, -1)
	h := read(t, dir).Sweeps[0].Points[0].Service
	if h.TotalCount() != 20_000 {
		t.Fatalf("%d samples, 20,000 were written", h.TotalCount())
	}

	xys := quantiles(h)
	for i, p := range xys {
		if i > 0 && (p.Y < xys[i-1].Y || p.X < xys[i-1].X) {
			t.Errorf("the curve falls at %v", p)
		}

		if p.X == 1 && math.Abs(p.Y-float64(h.ValueAtQuantile(90))) > 0.01*p.Y {
			t.Errorf("p90 is drawn at %v, the histogram says %d", p.Y, h.ValueAtQuantile(90))
		}
	}

	if last := xys[len(xys)-1]; last.Y != float64(h.Max()) {
		t.Errorf("the curve ends at %v, the longest is %d", last.Y, h.Max())
	}
}

func FuzzReadLatencies(f *testing.F) {
	folder := filepath.Join(fixture(f, "demo", []float64{1}, "", nil, -1), "points", "001")
	seed, err := os.ReadFile(filepath.Join(folder, result.LatencyFile))
	must(f, err)
	f.Add(seed)
	f.Add([]byte("#[StartTime: 1]\nTag=response,0.1,1.0,2.7,HISTFAAA\n"))
	f.Add([]byte("\n\nTag=,\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := ReadLatencies(bytes.NewReader(text))
		if service := found[""]; err == nil && service != nil && service.TotalCount() > 0 {
			quantiles(service)
		}
	})
}
