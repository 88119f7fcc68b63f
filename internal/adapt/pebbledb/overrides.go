package pebbledb

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/unit"
)

// tableOption chooses whose keys are sampled.
const tableOption = "table"

// options are the overrides of s in the order they apply: a later one refines an
// earlier one.
func options(s *Settings) []adapter.Option {
	return []adapter.Option{
		adapter.Size("MemTableSize", "64MiB", &s.MemTableSize, 0),
		count("MemTableStopWritesThreshold", "2", &s.MemTableStopWritesThreshold),
		count("L0CompactionThreshold", "4", &s.L0CompactionThreshold),
		count("L0CompactionFileThreshold", "500", &s.L0CompactionFileThreshold),
		count("L0StopWritesThreshold", "12", &s.L0StopWritesThreshold),
		count("L0CompactionConcurrency", "10", &s.L0CompactionConcurrency),
		adapter.Size("CompactionDebtConcurrency", "1GiB", &s.CompactionDebtConcurrency, 0),
		adapter.Size("LBaseMaxBytes", "64MiB", &s.LBaseMaxBytes, 0),
		adapter.Size("FlushSplitBytes", "4MiB", &s.FlushSplitBytes, 0),
		count("MaxOpenFiles", "1000", &s.MaxOpenFiles),
		count("MaxConcurrentCompactions", "4", &s.MaxConcurrentCompactions),
		count("FormatMajorVersion", "13", &s.FormatMajorVersion),
		adapter.Switch("DisableWAL", &s.DisableWAL),
		adapter.Switch("DisableAutomaticCompactions", &s.DisableAutomaticCompactions),
		adapter.Size("BytesPerSync", "512KiB", &s.BytesPerSync, 0),
		adapter.Size("WALBytesPerSync", "512KiB", &s.WALBytesPerSync, 0),
		{Name: "ReadSamplingMultiplier", Example: "-1", Set: func(v string) (err error) {
			s.ReadSamplingMultiplier, err = strconv.ParseInt(v, 10, 64)
			return err
		}},
		everyLevel(s, "BlockSize", "4KiB"),
		everyLevel(s, "IndexBlockSize", "4KiB"),
		{Name: "TargetFileSize", Example: "2MiB", Set: s.setTargetFileSizes},
		everyLevel(s, "Compression", "snappy"),
		everyLevel(s, "FilterBitsPerKey", "10"),
		{Name: "FilterLevels", Example: "0-5", Set: s.setFilterLevels},
		{Name: tableOption, Example: "flat accounts", Set: s.Table.Set},
	}
}

// levelOptions may also be said of one level: Levels[3].BlockSize.
func levelOptions() map[string]func(*LevelSettings, string) error {
	return map[string]func(*LevelSettings, string) error{
		"BlockSize":        parseLevelSize(func(l *LevelSettings, n int64) { l.BlockSize = int(n) }),
		"IndexBlockSize":   parseLevelSize(func(l *LevelSettings, n int64) { l.IndexBlockSize = int(n) }),
		"TargetFileSize":   parseLevelSize(func(l *LevelSettings, n int64) { l.TargetFileSize = n }),
		"Compression":      setCompression,
		"FilterBitsPerKey": setFilterBits,
	}
}

var levelName = regexp.MustCompile(`^Levels\[([0-6])\]\.(\w+)$`)

// apply changes s by overrides and reports all that are wrong.
func apply(s *Settings, overrides map[string]string) (errs []error) {
	left := maps.Clone(overrides)
	for _, o := range options(s) {
		value, given := left[o.Name]
		if !given {
			continue
		}
		delete(left, o.Name)
		if err := o.Set(strings.TrimSpace(value)); err != nil {
			if o.Name != tableOption { // whose errors say what is wrong
				err = illegal(o.Name, value, o.Example)
			}
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		match := levelName.FindStringSubmatch(name)
		if match == nil || levelOptions()[match[2]] == nil {
			errs = append(errs, engine.Fail(engine.CodeOption, "unknown option %q: use one of %s", name, strings.Join(OptionNames(), ", ")))
			continue
		}
		level := match[1][0] - '0'
		if err := levelOptions()[match[2]](&s.Levels[level], strings.TrimSpace(left[name])); err != nil {
			errs = append(errs, fmt.Errorf("option %s=%q: %w", name, left[name], err))
		}
	}
	return errs
}

// OptionNames are the legal overrides.
func OptionNames() []string {
	var names []string
	for _, o := range options(new(Settings)) {
		names = append(names, o.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(levelOptions())) {
		names = append(names, "Levels[0-6]."+name)
	}
	return names
}

func illegal(name string, value any, example string) error {
	return fmt.Errorf("option %s=%v is illegal: write %s=%s", name, value, name, example)
}

func count[N int | uint64](name, example string, to *N) adapter.Option {
	return adapter.Option{Name: name, Example: example, Set: func(v string) error {
		n, err := strconv.ParseUint(v, 10, 31)
		if err == nil {
			*to = N(n)
		}
		return err
	}}
}

// everyLevel is an option of a level, said of all of them.
func everyLevel(s *Settings, name, example string) adapter.Option {
	set := levelOptions()[name]
	return adapter.Option{Name: name, Example: example, Set: func(v string) error {
		for i := range s.Levels {
			if err := set(&s.Levels[i], v); err != nil {
				return err
			}
		}
		return nil
	}}
}

func parseLevelSize(set func(*LevelSettings, int64)) func(*LevelSettings, string) error {
	return func(l *LevelSettings, v string) error {
		n, err := unit.ParseBytes(unit.WithUnit(v))
		if err == nil && n > 1<<31-1 {
			err = fmt.Errorf("%s is beyond 2 GiB", v)
		}
		if err == nil {
			set(l, n)
		}
		return err
	}
}

// setTargetFileSizes takes one size, doubled from level to level, or seven.
func (s *Settings) setTargetFileSizes(v string) error {
	parts := strings.Split(v, ",")
	if len(parts) != 1 && len(parts) != Levels {
		return fmt.Errorf("%d sizes, not 1 or %d", len(parts), Levels)
	}
	for i := range s.Levels {
		part, shift := parts[0], i
		if len(parts) > 1 {
			part, shift = parts[i], 0
		}
		n, err := unit.ParseBytes(unit.WithUnit(part))
		if err != nil {
			return err
		}
		s.Levels[i].TargetFileSize = n << shift
	}
	return nil
}

func setCompression(l *LevelSettings, v string) error {
	switch v {
	case "none", "snappy", "zstd", "minlz":
		l.Compression = v
		return nil
	}
	return fmt.Errorf("unknown compression %q: use none, snappy, zstd or, with v2, minlz", v)
}

func setFilterBits(l *LevelSettings, v string) error {
	bits, err := strconv.ParseUint(v, 10, 6)
	if err == nil {
		l.FilterBitsPerKey, l.NoFilter = int(bits), bits == 0
	}
	return err
}

// setFilterLevels takes "all", "none" or a range such as "0-5": the levels
// that have filters.
func (s *Settings) setFilterLevels(v string) error {
	first, last := 0, Levels-1
	switch v {
	case "all":
	case "none":
		last = -1
	default:
		if n, err := fmt.Sscanf(v, "%d-%d", &first, &last); n != 2 || err != nil || first < 0 || first > last || last >= Levels {
			return fmt.Errorf("%q is not a range of levels", v)
		}
	}
	for i := range s.Levels {
		l := &s.Levels[i]
		l.NoFilter = i < first || i > last
		if l.NoFilter {
			l.FilterBitsPerKey = 0
		} else if l.FilterBitsPerKey == 0 {
			l.FilterBitsPerKey = filterBits
		}
	}
	return nil
}
