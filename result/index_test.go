package result

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/result/figure"
)

// row is the only row of a summary, as it is stored.
func row(t *testing.T, path, rows string) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(object(t, path)[rows].([]any)[0].(map[string]any)))
}

func storeRun(t *testing.T, dir string, f Figures) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(dir, 0o755),
		WriteRun(dir, &Run{Status: OK, Figures: f})); err != nil {
		t.Fatal(err)
	}
}

func TestAReplayIsAnIndexOfItsRuns(t *testing.T) {
	dir := t.TempDir()
	f := Figures{Replay: &Replay{Leaves: 7}}
	storeRun(t, filepath.Join(dir, "runs", "a"), f)
	r := &ReplayOf{Trees: []ReplayedTree{{Tree: "a", Run: "runs/a", Status: OK, Figures: f}}}
	if err := WriteReplay(dir, r); err != nil || r.Trees[0].Figures.Leaves != 7 {
		t.Fatal(err, r.Trees)
	}

	if names := row(t, filepath.Join(dir, ReplayFile), "trees"); slices.Contains(names, "figures") {
		t.Errorf("a tree has %q", names)
	}

	again, err := ReadReplay(dir)
	if err != nil || again.Trees[0].Figures.Leaves != 7 || again.Trees[0].Of == nil {
		t.Fatalf("%v, %+v", err, again)
	}

	// Versions before 0.2 stored figures too.
	if err := errors.Join(output.WriteJSON(filepath.Join(dir, ReplayFile), again),
		os.RemoveAll(filepath.Join(dir, "runs"))); err != nil {
		t.Fatal(err)
	}

	if old, err := ReadReplay(dir); err != nil || old.Trees[0].Figures.Leaves != 7 ||
		!errors.Is(old.Trees[0].Problem, fs.ErrNotExist) {
		t.Errorf("%v, %+v", err, old)
	}
}

func TestLayoutsAreAnIndexOfTheirRuns(t *testing.T) {
	dir := t.TempDir()
	reads := 3.0
	storeRun(t, filepath.Join(dir, "a", "build"), Figures{State: &State{
		Slots:     5,
		DiskBytes: 900,
		Root:      "r",
	}})

	storeRun(t, filepath.Join(dir, "a", "lookup"),
		Figures{Set: figure.SetOf(map[figure.Figure]float64{figure.PeakMemory: 44}),
			State: &State{OpenNanos: figure.Known(8), Lookups: []Lookups{
				{Kind: AccountLookup, Condition: HeldLookups, InFlight: 64, ReadCalls: 9},
				{Kind: AccountLookup, Condition: HeldLookups, InFlight: 1, ReadCalls: reads}}}})

	l := &Layouts{Rows: []LayoutRow{{Layout: "a", Status: OK, Build: "a/build", Read: "a/lookup",
		Accounts: 10, PredictedReads: figure.Known(reads), DiskBytes: figure.Known(1)}}}
	if err := WriteLayouts(dir, l); err != nil || l.Rows[0].DiskBytes.OrZero() != 1 {
		t.Fatal(err, l.Rows)
	}

	want := []string{"accounts", "build", "durability", "history", "layout",
		"predicted_reads_per_lookup", "read", "root_rule", "status", "version"}
	if names := row(t, filepath.Join(dir, LayoutsFile), "rows"); !slices.Equal(names, want) {
		t.Errorf("a row has %q", names)
	}

	again, err := ReadLayouts(dir)
	if err != nil {
		t.Fatal(err)
	}

	if r := again.Rows[0]; r.Slots != 5 || r.DiskBytes.OrZero() != 900 || r.Root != "r" ||
		r.OpenNanos.OrZero() != 8 || r.PeakRSSBytes.OrZero() != 44 || len(r.Lookups) != 2 ||
		r.BlockReads.OrZero() != reads || r.BlockReadSource != "read calls" || r.Status != OK {
		t.Errorf("%+v", r)
	}

	if err := os.RemoveAll(filepath.Join(dir, "a", "lookup")); err != nil {
		t.Fatal(err)
	}

	if again, err = ReadLayouts(dir); err != nil || again.Rows[0].Status != Failed {
		t.Errorf("%v, without the run of lookups: %+v", err, again)
	}
}
