package iavlbench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/statelab/statelab/internal/base/mutilate"
	"github.com/statelab/statelab/result"
)

// TestMutilatedLogs: iavl-bench numbers the versions; of its other lines only those that are there
// twice are seen, and the run says so.
func TestMutilatedLogs(t *testing.T) {
	text, err := os.ReadFile("testdata/memiavl.jsonl")
	if err != nil {
		t.Fatal(err)
	}

	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"),
		func(line string) bool { return line == "" })
	imports := func(lines []string) mutilate.Outcome {
		out := t.TempDir()
		dir := fstest.MapFS{"a.jsonl": {Data: []byte(strings.Join(lines, ""))}}
		if err := Import(dir, out); err != nil {
			return mutilate.Outcome{Err: err}
		}

		of, err := result.ReadReplay(out)
		if err != nil {
			t.Fatal(err)
		}

		run, err := result.ReadRun(filepath.Join(out, filepath.FromSlash(of.Trees[0].Run)))
		if err != nil {
			t.Fatal(err)
		}

		told := []string{run.Error}
		for _, w := range run.Warnings {
			told = append(told, w.Text)
		}

		return mutilate.Outcome{Told: strings.Join(told, "; ")}
	}

	merged := func(a, b string) string { return strings.TrimSuffix(a, "\n") + b }
	at := func(message string, next func(string) bool) int {
		later := lines[len(lines)/2 : len(lines)-1]
		return len(lines)/2 + slices.IndexFunc(later, func(l string) bool {
			return strings.Contains(l, message) && next(lines[slices.Index(lines, l)+1])
		})
	}

	const version = `"msg":"committed version"`
	isVersion := func(line string) bool { return strings.Contains(line, version) }
	mutilate.Demand(t, lines, at(version, isVersion), merged, imports, map[string]string{
		mutilate.Dropped:   "refused: the lines of the versions between them are missing",
		mutilate.Doubled:   "refused: it is there twice",
		mutilate.Merged:    "refused: several lines in one",
		mutilate.Reordered: "refused: a.jsonl: line ",
		mutilate.Sampled:   "refused: the lines of the versions between them are missing",
	})

	const notSeen = "lines about memory, the disk and snapshots that are missing or have changed " +
		"places cannot be seen"
	mutilate.Demand(t, lines, at(`"msg":"mem stats"`, isVersion), merged, imports,
		map[string]string{
			mutilate.Dropped:   notSeen,
			mutilate.Doubled:   "refused: it is there twice",
			mutilate.Merged:    "refused: several lines in one",
			mutilate.Reordered: notSeen,
			mutilate.Sampled:   "refused: the lines of the versions between them are missing",
		})

	for _, c := range []struct {
		what  string
		lines []string
		want  string
	}{
		{"two runs", slices.Concat(lines, lines), "a second run starts"},
		{"the last versions", append(slices.Clone(lines[:len(lines)/2]), lines[len(lines)-1]),
			"lines of versions are missing"},
	} {
		if got := imports(c.lines); got.Err == nil || !strings.Contains(got.Err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, got, c.want)
		}
	}

	cut := slices.Clone(lines[:len(lines)/2])
	cut[len(cut)-1] = cut[len(cut)-1][:20]
	if got := imports(cut); got.Err != nil || !strings.Contains(got.Told, "is cut short") {
		t.Errorf("a log that is cut short: %v", got)
	}
}
