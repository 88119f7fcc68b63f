package lsm

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/mutilate"
)

// TestMutilatedProperties: of a table of `pebble db properties`, each row that is read is there
// once, under its own heading, and its levels add up to its total. What is accepted has the same
// levels: a heading that is there twice, or rows in another order, lose nothing.
func TestMutilatedProperties(t *testing.T) {
	parse := func(lines []string) (any, error) {
		return ParseProperties(strings.NewReader(strings.Join(lines, "")))
	}

	lines := strings.SplitAfter(strings.TrimSuffix(smallTable, "\n"), "\n")
	valid, err := parse(lines)
	if err != nil {
		t.Fatal(err)
	}

	merged := func(a, b string) string { return strings.TrimSuffix(a, "\n") + b }
	needed := func(i int) bool {
		var without []string
		without = append(append(without, lines[:i]...), lines[i+1:]...)
		_, err := parse(without)
		return err != nil
	}

	read := 0
	for i := range lines[:len(lines)-1] {
		if !needed(i) {
			continue // a row that is not read
		}

		read++
		for _, c := range mutilate.Of(t, slices.Clone(lines), i, merged) {
			got, err := parse(c.Records)
			if err == nil && !reflect.DeepEqual(got, valid) {
				t.Errorf("%s at line %d passes for the whole: %.60q", c.Name, i+1, lines[i])
			}
		}
	}

	if read < 10 {
		t.Errorf("%d rows are needed", read)
	}
}
