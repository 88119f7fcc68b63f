package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/result/figure"
)

// The curve worked out from filters and indexes is the measured one, to the last
// read: with one thread nothing is left to chance.
func TestPredictedCurveIsTheMeasuredOne(t *testing.T) {
	testring.Outer(t, "it measures a whole curve")
	t.Parallel()
	for _, c := range []struct{ name, engine, loaded, opened string }{
		{"pebble1", "pebble1", "bench-kvdb", "bench-kvdb"},
		{"pebble1 passes over filters", "pebble1", "bench-kvdb", "default"},
		{"pebble2 row blocks", "pebble2", "geth-1.17-v2", "geth-1.17-v2"},
		{"pebble2 columnar", "pebble2", "columnar", "columnar"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, out := small(t, "200k", "--engine", c.engine, "--profile", c.loaded),
				filepath.Join(t.TempDir(), "S")
			must(t, "sweep", "--db", db, "--profile", c.opened, "--cache", "1MiB,1500KiB,12MiB",
				"--gets", "15k", "--missing", "20%",
				"--access-gets", "0", "--out", out)
			s := readSweep(t, out)
			if warned := slices.ContainsFunc(s.Warnings, func(w engine.Warning) bool {
				return w.Code == "profile_of_the_load"
			}); warned != (c.loaded != c.opened) {
				t.Errorf("loaded with %s, opened with %s: warnings %+v", c.loaded, c.opened,
					s.Warnings)
			}

			if len(s.Predicted) != len(s.Points) {
				t.Fatalf("%d points, %d predicted: %+v", len(s.Points), len(s.Predicted),
					s.Warnings)
			}

			for i, p := range s.Points {
				if measured, predicted := p.Figures.OrZero(figure.BlockReadsPerGet),
					s.Predicted[i].BlockReadsPerGet; measured != predicted {
					t.Errorf("cache %s: measured %.6f block reads per Get, predicted %.6f",
						p.Axes["cache"], measured, predicted)
				}
			}
		})
	}
}
