package main

import (
	"slices"
	"strings"
	"testing"
)

// Shells complete the values of flags, the last one of a list too, and the profiles of the
// engine that is named.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]struct{ has, lacks string }{
		"sweep --engine ":                     {"goleveldb", "random"},
		"sweep --engine pebble1,":             {"pebble1,goleveldb", "goleveldb"},
		"predict --engine ":                   {"pebble2", "goleveldb"},
		"sweep --engine goleveldb --profile ": {"cosmos", "bench-kvdb"},
		"sweep --profile ":                    {"bench-kvdb", "cosmos"},
		"changeset generate --profile bank,":  {"bank,lockup", "default"},
		"advise --profile ":                   {"geth-1.17-v1", "cosmos"},
		"simulate T --policy clockpro1,":      {"clockpro1,s3fifo", "lru"},
		"load --workload ":                    {"fillsorted", "readrandom"},
		"sweep --workload ":                   {"readwhilewriting", "fillsorted"},
		"compare --fail-if ":                  {"block_reads_per_get", "gets"},
		"replay --tree ":                      {"iavl1", "pebble1"},
		"layouts --layout ":                   {"flat-pebble", "pebble1"},
		"load --value-model ":                 {"table32", "mix"},
	} {
		args := strings.Split(line, " ") // the last word is what is typed so far
		got := strings.Split(must(t, append([]string{"__complete"}, args...)...).stdout, "\n")
		if !slices.Contains(got, want.has) || slices.Contains(got, want.lacks) {
			t.Errorf("%s: %q: wanted with %s and without %s", line, got, want.has, want.lacks)
		}
	}
}
