package statelab_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/result/figure"
)

// namesakes are keys of figures that name something else, too, and what.
var namesakes = map[string]string{
	"in_flight":            "how many reads or Gets a setting allows at a time",
	"disk_bytes":           "a size of what is no state: an inflection point, an estimate",
	"cache_hits":           "a counter that a subject reports",
	"cache_misses":         "a counter that a subject reports",
	"db_gets":              "a counter that a subject reports",
	"db_sets":              "a counter that a subject reports",
	"db_bytes":             "a counter that a subject reports",
	"log_cache_hits":       "a counter that a subject reports",
	"commit_ns":            "the time of one commit, in versions.jsonl",
	"commit_seconds":       "the time of all commits, in run.json",
	"write_stalls":         "a counter that a subject reports",
	"cache_reserved_bytes": "a counter that a subject reports",
}

// derivations are the keys that methods of a figure make.
func derivations(f figure.Figure) []figure.Figure {
	return []figure.Figure{
		f, f.Predicted(), f.Measured(), f.Floor(), f.Data(), f.First(), f.Seen(), f.SteadyState(),
		f.Settled(), f.Held(), f.Held().Predicted(), f.Low(), f.High(), f.Error(), f.Spread(),
		f.StandardError(), f.ByType(), f.ByLevel(), f.OfValues(), f.AtRest(), f.FromDevice(),
		f.Before(), f.Last(), f.P50(), f.P99(), f.OfAccount(), f.OfSlot(), f.P50().OfAccount(),
		f.P50().OfSlot(),
	}
}

var keyWords = regexp.MustCompile(`[a-z0-9_]+`)

// metricParts are what a name of Prometheus has around that of a figure.
var metricParts = regexp.MustCompile(`^statelab_(run|replay)_|_total$`)

// A key of a figure, and of one that is derived from it, is written in package figure alone: a
// name in JSON, in a message, in a list or in Prometheus is taken from there. A key that is a
// single word is a word of English as well, and is not looked for, unless it stands in a name of
// Prometheus.
func TestKeysOfFiguresStandInOnePlace(t *testing.T) {
	keys, metrics := map[string]bool{}, map[string]bool{}
	for _, f := range figure.All() {
		for _, one := range derivations(f) {
			keys[one.Key] = strings.Contains(one.Key, "_") && namesakes[one.Key] == ""
			metrics[one.MetricName()] = true
			if name := one.MetricName(); name != one.Key {
				keys[name] = namesakes[name] == ""
			}
		}
	}

	text, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}

	for _, path := range strings.Fields(string(text)) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "result/figure/") ||
			strings.Contains(path, "testdata/") || strings.HasPrefix(path, "fixtures/") {
			continue
		}

		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}

		ast.Inspect(file, func(n ast.Node) bool {
			literal, is := n.(*ast.BasicLit) // of strings, and of tags
			if !is || literal.Kind != token.STRING {
				return true
			}

			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}

			for _, word := range keyWords.FindAllString(value, -1) {
				name := metricParts.ReplaceAllString(word, "")
				if keys[word] || name != word && metrics[name] {
					t.Errorf("%s: %q is the key of a figure: take it from package figure",
						files.Position(literal.Pos()), word)
				}
			}

			return true
		})
	}
}
