package nodemetrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/mutilate"
)

// TestMutilatedScrapes: the lines, and the metrics, of the second of two scrapes; and metrics of
// both.
func TestMutilatedScrapes(t *testing.T) {
	scrape := func(count int, both func([]string) []string) (lines []string) {
		var metrics []string
		for _, s := range sources {
			for _, same := range s.metrics {
				for _, name := range same {
					metrics = append(metrics, fmt.Sprintf("# TYPE %s counter\n%s %d\n\n", name,
						name, count))
				}
			}
		}

		for _, name := range []string{blockHits, blockMisses} {
			metrics = append(metrics, fmt.Sprintf("# TYPE %s counter\n%s %d\n\n", name, name,
				count))
		}

		for _, metric := range both(metrics) {
			lines = append(lines, strings.SplitAfter(metric, "\n")[:3]...)
		}

		return lines
	}

	imports := func(first, second []string) mutilate.Outcome {
		var scrapes [2]map[string]float64
		for i, lines := range [][]string{first, second} {
			var err error
			if scrapes[i], err = Read(strings.NewReader(strings.Join(lines, ""))); err != nil {
				return mutilate.Outcome{Err: err}
			}
		}

		n, err := Between(scrapes[0], scrapes[1], 10)
		if err != nil {
			return mutilate.Outcome{Err: err}
		}

		return mutilate.Outcome{Told: strings.Join(n.Block().Texts, " ")}
	}

	all := func(metrics []string) []string { return metrics }
	first, second := scrape(10, all), scrape(900, all)
	merged := func(a, b string) string { return strings.TrimSuffix(a, "\n") + b }
	ofSecond := func(lines []string) mutilate.Outcome { return imports(first, lines) }
	const orderSaysNothing = "their order says nothing"
	mutilate.Demand(t, second, 4, merged, ofSecond, map[string]string{
		mutilate.Dropped: "refused: state_snapshot_clean_account_miss is announced (# TYPE) and " +
			"has no value",
		mutilate.Doubled:   "refused: state_snapshot_clean_account_miss is there several times",
		mutilate.Merged:    orderSaysNothing, // with an empty line
		mutilate.Reordered: orderSaysNothing,
		mutilate.Sampled: "refused: chain_code_reads_cache_prefetch_miss is announced (# TYPE) " +
			"and has no value",
	})

	// Metrics without the lines around them.
	values := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			return line == "\n" || line[0] == '#'
		})
	}

	first = values(first)
	mutilate.Demand(t, values(second), 2, merged, ofSecond, map[string]string{
		mutilate.Dropped: "refused: state_snapshot_clean_storage_miss is in one of the two " +
			"scrapes alone",
		mutilate.Doubled:   "refused: state_snapshot_clean_storage_miss is there several times",
		mutilate.Merged:    "refused: line 3 (",
		mutilate.Reordered: orderSaysNothing,
		mutilate.Sampled:   "refused: is in one of the two scrapes alone",
	})

	// What is missing in both is named.
	without := func(metrics []string) []string { return metrics[3:] }
	got := imports(scrape(10, without), scrape(900, without))
	if got.Err != nil || !strings.Contains(got.Told, "or its lines are missing: "+
		"pathdb_clean_state_miss, state_snapshot_clean_account_miss") {
		t.Error(got)
	}
}
