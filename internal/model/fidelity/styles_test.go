package fidelity

import (
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/optionsfile"
)

// Tables that FIFO compaction leaves in L0 for good, and levels of universal compaction, are no
// debt and not on their way to the sizes of leveled compaction: nothing would come true if one
// waited.
func TestCompactionStyles(t *testing.T) {
	options := func(style string) Options {
		text := "[CFOptions \"default\"]\ncompaction_style=" + style +
			"\nlevel0_file_num_compaction_trigger=4\n"
		sections, err := optionsfile.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}

		families, err := ParseRocksDB(sections, "OPTIONS-000007")
		if err != nil {
			t.Fatal(err)
		}
		return families["default"]
	}

	level := func(number, sublevels int, keys int64) engine.Level {
		return engine.Level{Level: number, Sublevels: sublevels, Files: sublevels, Keys: keys,
			Bytes: 130 * keys, DataBlocks: keys / 30, FilterKeys: keys, FilterBytes: keys * 10 / 8}
	}

	onlyL0 := []engine.Level{level(0, 127, 200_000)}
	spread := []engine.Level{level(0, 1, 4000), level(2, 1, 3000), level(3, 1, 8000),
		level(4, 1, 12_000), level(5, 1, 30_000), level(6, 1, 100_000)}
	for _, test := range []struct {
		style       string
		levels      []engine.Level
		debt, sizes bool
	}{
		{leveledStyle, onlyL0, true, true},
		{"kCompactionStyleFIFO", onlyL0, false, false},
		{"kCompactionStyleNone", onlyL0, false, false},
		{universalStyle, onlyL0, true, false},
		{leveledStyle, spread, false, true},
		{universalStyle, spread, false, false},
	} {
		table := Table{Levels: test.levels, Options: options(test.style)}
		if got := debt(table, nil) != nil; got != test.debt {
			t.Errorf("%s, %d levels: debt %v", test.style, len(test.levels), got)
		}
		if got := sizes(table, nil) != nil; got != test.sizes {
			t.Errorf("%s, %d levels: sizes %v", test.style, len(test.levels), got)
		}
	}

	// By levels alone, a small database has one.
	free := func([]engine.Level) (float64, error) { return 1, nil }
	for style, small := range map[string]bool{leveledStyle: true, universalStyle: false} {
		v, err := Compare(Table{
			Keys:    100_000,
			Levels:  []engine.Level{level(6, 1, 100_000)},
			Options: options(style),
		}, nil, free)
		if err != nil || (v.TooSmall > 0) != small {
			t.Errorf("%s: too small below %d bytes, %v", style, v.TooSmall, err)
		}
	}
}
