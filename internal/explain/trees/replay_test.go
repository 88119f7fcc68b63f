package trees

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/web"
)

// replayFolder is a replay of two trees that disagree, one that failed and one
// that keeps nothing, with hostile names.
func replayFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	height := 12
	of := result.ReplayOf{
		Status:  result.Failed,
		Error:   "trees disagree on roots",
		Started: time.Unix(0, 0),
		Command: []string{"statelab", "replay"},
		Changes: result.ChangeSet{
			Path:   "set.slcs",
			Format: "slcs",
			Order:  "insertion",
			Stores: []string{"bank<script>"},
			First:  1,
			Last:   100,
		},
		Roots: []result.RootsVerdict{{
			RootRule:        "iavl",
			Trees:           []string{"one", "two"},
			Verdict:         result.Different,
			Compared:        100,
			FirstDifference: 42,
			LastAgreement:   41,
			ByRoot: map[string][]string{
				strings.Repeat("ab", 32): {"one"},
				strings.Repeat("cd", 32): {"two"},
			},
			DifferingStores: []string{"bank<script>"},
		}},
		Counters: []result.CountersAgree{{
			Tree:    "one",
			Verdict: result.Different,
			Values:  map[string][]int64{"nodes": {300, 301}},
			Differ:  []string{"nodes"},
		}},
		Warnings: []engine.Warning{{
			Code:   "lost_versions",
			Text:   "two: 3 versions were lost",
			Remedy: "none",
		}},
	}

	for i, name := range []string{"one", "two", "broken", "null"} {
		figures := result.Figures{
			Set: figure.SetOf(map[figure.Figure]float64{figure.PeakMemory: 1 << 30,
				figure.LeavesPerSecond: 1000 * float64(i+1), figure.TreeSize: 900,
				figure.TreeHeight: float64(height), figure.DiskBytes: 5 << 20,
				figure.NodesPerSecond: 3000, figure.CacheHits: 10, figure.HarnessTimePerLeaf: 3,
				figure.HarnessPercent: .3}),
			Replay: &result.Replay{Leaves: 1000},
		}

		tree := result.ReplayedTree{
			Tree:       name,
			RootRule:   "iavl",
			Durability: "kill: nothing",
			History:    "all",
			Status:     result.OK,
			Run:        "runs/" + name,
			Figures:    figures,
		}

		switch name {
		case "broken":
			tree.Status, tree.Error = result.Failed,
				"Commit at version 13 did not return within 1m0s"
		case "null":
			tree.RootRule = "none"
		}

		of.Trees = append(of.Trees, tree)
		folder := filepath.Join(dir, "runs", name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}

		if err := result.WriteRun(folder, &result.Run{Status: tree.Status, Figures: figures,
			Engine: result.Engine{Options: map[string]string{"cache": "<b>"}}}); err != nil {
			t.Fatal(err)
		}

		var lines bytes.Buffer
		for s := range 100 {
			tick := result.Tick{
				Phase:   "replay",
				Seconds: float64(s + 1),
				Ops:     10,
				P50:     1e6,
				P99:     int64(5e6 + s),
				Tree: &result.TreeTick{
					Version:         int64(s + 1),
					LeavesPerSecond: figure.Known(float64(2000 - 10*s)),
					TreeSize:        new(int64(9 * s)),
					RSSBytes:        figure.Known(float64(int64(s) << 23)),
					WriteBytes:      figure.Known(100),
					UserBytes:       figure.Known(50),
					DiskBytes:       new(int64(s) << 16),
				},
			}

			if err := json.NewEncoder(&lines).Encode(tick); err != nil {
				t.Fatal(err)
			}
		}

		if err := os.WriteFile(filepath.Join(folder, result.SeriesFile), lines.Bytes(),
			0o644); err != nil {
			t.Fatal(err)
		}
	}

	if err := result.WriteReplay(dir, &of); err != nil {
		t.Fatal(err)
	}

	return dir
}

func TestReplayTellsWhatItsFolderHolds(t *testing.T) {
	in, err := Read(replayFolder(t))
	if err != nil {
		t.Fatal(err)
	}

	var text, page bytes.Buffer
	if err := render.Terminal(&text, in.Document()); err != nil {
		t.Fatal(err)
	}

	flat := strings.Join(strings.Fields(text.String()), " ")
	for _, says := range []string{
		"two applies 2,000 leaves/s, one 1,000, from too few runs to rank them (4 are needed of " +
			"each: --repeats 4).",
		"1 of 4 trees failed.",
		"DIFFERENT, first seen at version 42: abababababab… of one against cdcdcdcdcdcd… of two; " +
			"stores bank<script>. All agree at version 41.",
		"broken failed: Commit at version 13 did not return within 1m0s",
		"one: nodes differ between passes",
		"Statelab's own work: 3.00 ns per leaf, at most 0.30% of the time of a tree (one)",
	} {
		if !strings.Contains(flat, says) {
			t.Errorf("the text does not say %q:\n%s", says, text.String())
		}
	}

	for n, line := range strings.Split(text.String(), "\n") {
		if len([]rune(line)) > 100 {
			t.Errorf("line %d has %d columns: %s", n+1, len([]rune(line)), line)
		}
	}

	if err := render.Page(&page, in.Document()); err != nil {
		t.Fatal(err)
	}

	html := strings.NewReplacer("<script>"+web.ReportScript+"</script>", "",
		"<script>"+web.ChartLibrary+"\n"+web.ChartScript+"</script>", "").Replace(page.String())
	if strings.Contains(html, "<script>") || strings.Contains(html, "<b>&lt;") ||
		strings.Contains(html, "src=") {
		t.Error("the page runs or loads what a folder says")
	}

	for _, title := range []string{"Leaves per second", "Commit time, p99", "Memory", "Disk",
		"Write amplification"} {
		if !strings.Contains(html, fmt.Sprintf("<h3>%s</h3>", title)) {
			t.Errorf("the page has no %q", title)
		}
	}

	if n := strings.Count(html, `class="chart-data"`); n != 5 {
		t.Errorf("%d charts: what no tree tells has none", n)
	}

	if !strings.Contains(html, "leaves in the tree") {
		t.Error("the charts are not over the tree's size")
	}
}

// Trees are ranked among those that keep the same, and only by enough repeats.
func TestOnlyEqualsAreRanked(t *testing.T) {
	tree := func(name, durability string, speeds ...float64) replayed {
		return replayed{
			speeds: speeds,
			ReplayedTree: result.ReplayedTree{Tree: name, Durability: durability, History: "all",
				Figures: result.Figures{
					Set: figure.SetOf(map[figure.Figure]float64{
						figure.LeavesPerSecond: speeds[0],
					}),
					Replay: &result.Replay{},
				}},
		}
	}

	fast, slow := tree("fast", "kill: all", 400, 401, 402, 403),
		tree("slow", "kill: all", 200, 201, 202, 203)
	elsewhere := slow
	elsewhere.folder = 1
	for want, trees := range map[string][]replayed{
		"fast applies 400 leaves/s; not compared with slow, whose runs were not interleaved with " +
			"it.": {fast, elsewhere},
		"fast applies 400 leaves/s, 2.00 times slow.": {fast, slow},
		"fast applies 400 leaves/s; not significantly different: near.": {fast,
			tree("near", "kill: all", 397, 396, 398,
				399)},
		"loses applies 900 leaves/s (kill: everything lost; history: all). fast applies 400 " +
			"leaves/s (kill: all; history: all). " +
			"Only trees with equal durability and history are ranked: " +
			"a tree that keeps less can be faster.": {tree("loses", "kill: everything lost", 900,
			901, 902, 903), fast},
	} {
		if got := ranked(trees); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
