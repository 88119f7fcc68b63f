package result

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/result/figure"
)

// Ticks of imported logs in folders of old versions have 0 where nothing was measured, and those of
// runs have true zeros.
func TestOldTicksOfTreesReadAsMeasured(t *testing.T) {
	dir := t.TempDir()
	const lines = `{"tree": {"version": 1, "leaves_so_far": 5, "rss_bytes": 0, ` +
		`"device_write_bytes": 0, "user_bytes": 0, "leaves_per_second": 3}}` + "\n" +
		`{"tree": {"version": 2, "leaves_so_far": 9, "rss_bytes": 4096, ` +
		`"device_write_bytes": 0, "user_bytes": 0, "leaves_per_second": 0}}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, SeriesFile), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}

	ticks, err := ReadSeries(dir)
	if err != nil || len(ticks) != 2 {
		t.Fatalf("%v, %v", ticks, err)
	}

	zero := figure.Known(0)
	want := []*TreeTick{
		{Version: 1, Leaves: 5, LeavesPerSecond: figure.Known(3)},
		{Version: 2, Leaves: 9, RSSBytes: figure.Known(4096), WriteBytes: zero, UserBytes: zero,
			LeavesPerSecond: zero},
	}
	for i, tick := range ticks {
		if diff := cmp.Diff(want[i], tick.Tree, cmp.AllowUnexported(figure.Value{})); diff != "" {
			t.Errorf("tick %d: %s", i, diff)
		}
	}
}
