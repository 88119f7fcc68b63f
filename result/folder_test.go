package result

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/result/figure"
)

func TestRunRoundTrip(t *testing.T) {
	dir := t.TempDir()
	reads := 1.25
	if err := WriteRun(dir, &Run{Status: OK,
		Figures: Figures{
			Set:  figure.SetOf(map[figure.Figure]float64{figure.BlockReadsPerGet: reads}),
			Gets: 10,
		}}); err != nil {
		t.Fatal(err)
	}

	run, err := ReadRun(dir)
	if err != nil || run.Schema != schema.Run ||
		run.Figures.OrZero(figure.BlockReadsPerGet) != 1.25 {
		t.Fatalf("%+v, %v", run, err)
	}

	text, err := os.ReadFile(filepath.Join(dir, RunFile))
	if err != nil {
		t.Fatal(err)
	}

	if !strings.Contains(string(text), `"warnings": []`) ||
		strings.Contains(string(text), "device_reads_per_get") {
		t.Errorf("no warning is a list of none, an absent figure is not there:\n%s", text)
	}

	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v left behind, %v", left, err)
	}
}

func TestFoldersWithoutARunSayWhy(t *testing.T) {
	begun, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(begun, SeriesFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}

	for dir, want := range map[string]string{
		begun: "has no run.json, which holds the figures of the run: " +
			"the run did not finish, or the file was deleted",
		other:                          "has no run.json: it is not the folder of a run",
		filepath.Join(other, "nobody"): ": there is no such folder",
	} {
		if _, err := ReadRun(dir); !errors.Is(err, fs.ErrNotExist) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestDamagedFoldersAreNamed(t *testing.T) {
	for name, text := range map[string]string{
		"cut":          `{"schema":"statelab.run/1","sta`,
		"other schema": `{"schema":"statelab.run/9"}`,
		"empty":        "",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, RunFile)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}

		if _, err := ReadRun(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeriesCutByAKill(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, SeriesFile)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	write(`{"phase":"warm","t":1,"ops":5}` + "\n" + `{"phase":"measure","t":1,"op`)
	if ticks, err := ReadSeries(dir); err != nil || len(ticks) != 1 || ticks[0].Ops != 5 {
		t.Errorf("%+v, %v", ticks, err)
	}

	write("nonsense\n" + `{"phase":"warm"}` + "\n")
	if _, err := ReadSeries(dir); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("damage in the middle: %v", err)
	}
}

func TestAnswersAreMeasuredPoints(t *testing.T) {
	point := func(cache int64, reads float64, status string) Point {
		return Point{CacheBytes: cache, Status: status,
			Figures: Figures{Set: figure.SetOf(map[figure.Figure]float64{
				figure.BlockReadsPerGet: reads,
			})}}
	}

	got := Answers([]Point{point(8, 1.05, OK), point(2, 2.5, OK), point(4, 1.7, OK),
		point(3, 0.5, Failed)}, 2, 1.1, 0.9)
	for i, want := range []struct{ at, not int64 }{{4, 2}, {8, 4}, {0, 8}} {
		if got[i].CacheBytes != want.at || got[i].NotAtCacheBytes != want.not {
			t.Errorf("%s: %+v, want at %d, not at %d", got[i].Question, got[i], want.at, want.not)
		}
	}
}
