package watched

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// TestADayIsShownByTheHour: a day of seconds becomes 24 rows whose block reads are those of all
// Gets of the hour, and a line with few points.
func TestADayIsShownByTheHour(t *testing.T) {
	w := Watched{Watch: &result.Watch{
		Process: result.WatchedProcess{Name: "geth", PID: 7, Engine: "pebble1"},
		Started: time.Date(2026, 3, 1, 22, 30, 0, 0, time.UTC),
		Gets:    1,
	}}
	w.Record(figure.BlockReadsPerGet, 1)
	w.Record(figure.GetsPerSecond, 1)
	for second := range 24 * 3600 {
		at := second / 3600
		tick := result.Tick{Seconds: float64(second + 1), P99: int64(at+1) * 1000}
		// In the second half of each hour there are three times as many Gets with twice the reads.
		tick.Ops, tick.BlockReadsPerOp = 100, new(float64(1+at))
		if second%3600 >= 1800 {
			tick.Ops, tick.BlockReadsPerOp = 300, new(2*float64(1+at))
		}

		tick.OpsPerSecond = float64(tick.Ops)
		w.Series = append(w.Series, tick)
	}

	rows := spans(w.Series, hour)
	if len(rows) != 24 {
		t.Fatalf("%d hours", len(rows))
	}

	for at, row := range rows {
		if want := 1.75 * float64(1+at); math.Abs(*row.reads-want) > 1e-9 ||
			math.Abs(row.gets-200) > 1e-9 || *row.worst != 2*float64(1+at) ||
			row.p99 != int64(at+1)*1000 {
			t.Errorf("hour %d: %+v, %g block reads per Get, want %g", at, row, *row.reads, want)
		}
	}

	if n := len(w.drawn()); n > maxDrawn+1 {
		t.Errorf("%d points are drawn", n)
	}

	var text strings.Builder
	if err := render.Markdown(&text, w.Document()); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"By the hour", "2026-03-01 22:30", "2026-03-02 21:30"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}

	w.Series = w.Series[:1800]
	if b := w.hours(); b.Title != "" || len(w.drawn()) > maxDrawn+1 {
		t.Errorf("half an hour has a table of hours")
	}
}
