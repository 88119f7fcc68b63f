package result_test

import (
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// stored has folders of this version and older ones.
const stored = "../internal/explain/kinds/testdata"

func ExamplePoints() {
	points, err := result.Points(filepath.Join(stored, "0.1.0/sweep"))
	if err != nil {
		log.Fatal(err)
	}

	for p := range points {
		reads := p.Value(figure.BlockReadsPerGet)
		if number, known := reads.Number(); known {
			fmt.Printf("cache %s: %.3g %s\n", p.Axes["cache"], number, figure.BlockReadsPerGet.Noun)
		} else {
			fmt.Printf("cache %s: not known: %s\n", p.Axes["cache"], reads.Reason())
		}
	}

	// A figure by its key in run.json, of the first point.
	f, _ := figure.ByKey("service_ns")
	for p := range points {
		nanos, _ := p.Value(f.P99()).Number()
		fmt.Printf("%s: %.0f %s\n", f.P99().Noun, nanos, f.Unit)
		break
	}

	// Output:
	// cache 128KiB: 4 block reads per Get
	// cache 1MiB: 0.752 block reads per Get
	// p99 service time: 109759 ns
}

// TestPoints: every kind of folder, of the oldest version too, gives its settings and figures.
func TestPoints(t *testing.T) {
	for _, c := range []struct {
		folder string
		points int
		last   map[string]string // axes of the last
		figure figure.Figure     // of the last
		want   float64
	}{
		{"0.1.0/read", 1, map[string]string{}, figure.ServiceTime.P99(), 113471},
		{"0.1.0/load", 1, map[string]string{}, figure.WriteAmplification, 2.1098161971830987},
		{"0.1.0/sweep", 2, map[string]string{"cache": "1MiB", "threads": "1",
			"profile": "bench-kvdb"}, figure.BlockReadsPerGet, 0.75215},
		{"0.1.0/imported", 2, map[string]string{"cache": "225MiB"}, figure.BlockReadsPerGet,
			1.02702},
		{"0.1.0/replay", 1, map[string]string{"tree": "null"}, figure.CommitTime.P50(), 85},
		{"0.1.0/layouts", 6, map[string]string{"layout": "chunktrie", "accounts": "2000"},
			figure.PagesPerLookup, 9.298},
		{"0.1.0/layouts", 6, map[string]string{"layout": "chunktrie", "accounts": "2000"},
			figure.ServiceTime.OfAccount().P50(), 782},
		{"stored/watch", 1, map[string]string{}, figure.BlockReadsPerGet, 0.523206171839609},
	} {
		points, err := result.Points(filepath.Join(stored, c.folder))
		if err != nil {
			t.Error(err)
			continue
		}

		n := 0
		var last result.Measured
		for p := range points {
			n, last = n+1, p
		}

		if got := last.Value(c.figure); n != c.points || fmt.Sprint(last.Axes) !=
			fmt.Sprint(c.last) || got.OrZero() != c.want || last.Err != nil {
			t.Errorf("%s: %d points, the last with %v: %s %v %q, error %v", c.folder, n, last.Axes,
				c.figure.Key, got.OrZero(), got.Reason(), last.Err)
		}
	}
}

// TestPointsThatFailed: a setting that failed is there, and its figures have that reason.
func TestPointsThatFailed(t *testing.T) {
	points, err := result.Points(filepath.Join(stored, "stored/failed"))
	if err != nil {
		t.Fatal(err)
	}

	n := 0
	for p := range points {
		n++
		v := p.Value(figure.DiskBytes)
		if p.Err == nil || v.IsKnown() || !strings.Contains(v.Reason(), "file too large") {
			t.Errorf("error %v, %s %v: %q", p.Err, figure.DiskBytes.Key, v.OrZero(), v.Reason())
		}
	}

	if n != 1 {
		t.Errorf("%d points, want 1", n)
	}

	if _, err := result.Points(t.TempDir()); engine.CodeOf(err) != engine.CodeNoResult {
		t.Errorf("of a folder without results: %v", err)
	}
}

// TestPointsOfRepeats: ranges are by figure, and only of those that have one.
func TestPointsOfRepeats(t *testing.T) {
	points, err := result.Points(filepath.Join(stored, "0.1.0/sweep"))
	if err != nil {
		t.Fatal(err)
	}

	for p := range points {
		r, ok := p.Range(figure.GetsPerSecond)
		if v := p.Value(figure.GetsPerSecond).OrZero(); !ok || r.Low >= r.High || v < r.Low ||
			v > r.High {
			t.Errorf("%v Gets per second of %v", v, r)
		}

		if r, ok := p.Range(figure.PeakMemory); ok {
			t.Errorf("range %v of peak memory, which none is stored of", r)
		}
	}
}
