package kvdblog

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/statelab/statelab/internal/base/mutilate"
	"github.com/statelab/statelab/result"
)

// importedLog is what an import of a log of reads tells.
func importedLog(t *testing.T) func(lines []string) mutilate.Outcome {
	properties := readFixture(t, "Properties_3M.log")

	return func(lines []string) (got mutilate.Outcome) {
		folders, err := Import(fstest.MapFS{
			"Properties_3M.log":    {Data: []byte(properties)},
			"RadmonRead_3M_2M.log": {Data: []byte(strings.Join(lines, ""))},
		}, t.TempDir())
		if err != nil {
			return mutilate.Outcome{Err: err}
		}

		run, err := result.ReadRun(filepath.Join(folders[0], result.PointsDir, "001"))
		if err != nil {
			t.Fatal(err)
		}

		for _, c := range run.Checks {
			if !c.OK {
				got.Told += "self-check failed: " + c.Name + "; "
			}
		}

		for _, w := range run.Warnings {
			got.Told += w.Text + "; "
		}

		return got
	}
}

// TestMutilatedLogs: each line of a log is there once, in its place; the rows of its tables add up
// to the cache's own counters.
func TestMutilatedLogs(t *testing.T) {
	lines := strings.SplitAfter(strings.TrimSpace(readFixture(t, "RadmonRead_3M_2M.log")), "\n")
	imports := importedLog(t)
	merged := func(a, b string) string { return strings.TrimSpace(a) + b }
	at := func(begins string) int {
		return slices.IndexFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, begins)
		})
	}

	cut := "refused: RadmonRead_3M_2M.log: "
	mutilate.Demand(t, lines, at("BlockCache"), merged, imports, map[string]string{
		mutilate.Dropped:   `refused: the log ends without its "BlockCache" line`,
		mutilate.Doubled:   `refused: a second "BlockCache", the first is in line 16`,
		mutilate.Merged:    cut + "line 16: ",
		mutilate.Reordered: `refused: "BlockCache" comes after "TableCache"`,
		mutilate.Sampled:   cut,
	})

	// Of every line that is read, each mutilation is refused or told.
	read := []string{"Threads", "Total data", "Random read", "Filter:", "BlockCache", "TableCache",
		"Avg I/O", "Block cache:", "Cache Statistics", "github.com"}
	for i, line := range lines[:len(lines)-1] {
		if !slices.ContainsFunc(read, func(begins string) bool {
			return strings.HasPrefix(line, begins)
		}) {
			continue
		}

		for _, c := range mutilate.Of(t, lines, i, merged) {
			// a line behind it that is not read is Pebble's own: nothing is lost with it
			moved := c.Name == mutilate.Reordered || c.Name == mutilate.Merged
			if moved && !slices.ContainsFunc(read, func(begins string) bool {
				return strings.HasPrefix(lines[i+1], begins)
			}) {
				continue
			}

			got := imports(c.Records)
			if got.Err == nil && !strings.Contains(got.Told, "self-check failed") &&
				!strings.Contains(got.Told, "or its line is missing") {
				t.Errorf("%s at line %d (%s) passes for the whole", c.Name, i+1,
					fmt.Sprintf("%.60s", strings.TrimSpace(line)))
			}
		}
	}
}
