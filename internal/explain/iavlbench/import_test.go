package iavlbench

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// The figures are those of the lines themselves, counted with jq.
func TestImportsWhatIavlBenchWrites(t *testing.T) {
	out := t.TempDir()
	if err := Import(os.DirFS("testdata"), out); err != nil {
		t.Fatal(err)
	}

	of, err := result.ReadReplay(out)
	if err != nil {
		t.Fatal(err)
	}

	if len(of.Trees) != 2 || of.Status != result.Failed ||
		of.Trees[0].Tree != "iavl-bench iavl-v1" || of.Trees[1].Version != "memiavl" {
		t.Fatalf("trees %+v", of.Trees)
	}

	if v1 := of.Trees[0]; v1.Status != result.Failed ||
		!strings.Contains(v1.Error, "ends at version 39 of 120") {
		t.Errorf("a log that was cut off is %s: %s", v1.Status, v1.Error)
	}

	whole := of.Trees[1]
	f := whole.Figures
	if whole.Status != result.OK || f.Versions != 120 || f.Leaves != 502752 ||
		math.Abs(f.ApplySeconds-62.781222743) > 1e-9 || !f.Has(figure.DiskBytes) ||
		f.OrZero(figure.DiskBytes) != 3_400_000_000 {
		t.Errorf("memiavl: %s, %+v, disk %v", whole.Status, *f.Replay, f.Pointer(figure.DiskBytes))
	}

	if w := f.LastWindow; w == nil || w.Leaves == 0 || w.Leaves >= f.Leaves/2 ||
		w.Seconds > f.Seconds/2 {
		t.Errorf("last window %+v", w)
	}

	dir := filepath.Join(out, filepath.FromSlash(whole.Run))
	versions, err := result.ReadVersions(dir)
	if err != nil || len(versions) != 120 || versions[0].Leaves != 105_000 ||
		versions[0].ApplyNanos != 10_210_149_261 {
		t.Errorf("%d rows, %+v, %v", len(versions), versions[0], err)
	}

	events, err := result.ReadEvents(dir)
	if err != nil || len(events) != 7 || events[0].Step != result.StepBegun ||
		events[0].Version != 20 {
		t.Errorf("events %+v, %v", events, err)
	}

	ticks, err := result.ReadSeries(dir)
	if err != nil || len(ticks) != 56 || *ticks[0].Tree.GoHeapBytes != 224_000_000 {
		t.Errorf("%d ticks, %v", len(ticks), err)
	}
}

func TestForeignLogsAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\n":              "--log-type json",
		"{\"msg\":\"hello\"}\n":                                     "starting run",
		"{\"msg\":7}\n":                                             "line 1",
		starting + `{"msg":"committed version","version":0}` + "\n": "no log of one run",
		starting + `{"msg":"mem stats","alloc":"many"}` + "\n":      "many",
		starting + `{"msg":"` + strings.Repeat("x", maxLineBytes+1): "longer than",
	} {
		err := Import(fstest.MapFS{"a.jsonl": {Data: []byte(text)}}, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), says) ||
			!strings.HasPrefix(err.Error(), "a.jsonl: ") {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

const starting = `{"time":"2026-11-22T15:21:43Z","msg":"starting run","tree_type":"memiavl"}` + "\n"

func FuzzLog(f *testing.F) {
	f.Add(
		[]byte(starting + `{"msg":"committed version","version":1,"count":3,"duration":5}` + "\n"),
	)
	f.Fuzz(func(_ *testing.T, text []byte) {
		if l, err := parse(bytes.NewReader(text)); err == nil {
			l.run()
		}
	})
}
