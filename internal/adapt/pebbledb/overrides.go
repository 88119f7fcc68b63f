package pebbledb

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
)

// option is an override: Pebble's name, a legal example and what it does.
type option struct {
	name, example string
	set           func(s *Settings, value string) error
}

// tableOption chooses whose keys are sampled.
const tableOption = "table"

// options are the overrides in the order they apply: a later one refines an
// earlier one.
func options() []option {
	return []option{
		size("MemTableSize", "64MiB", func(s *Settings, n int64) { s.MemTableSize = uint64(n) }),
		count("MemTableStopWritesThreshold", "2", func(s *Settings, n int) { s.MemTableStopWritesThreshold = n }),
		count("L0CompactionThreshold", "4", func(s *Settings, n int) { s.L0CompactionThreshold = n }),
		count("L0CompactionFileThreshold", "500", func(s *Settings, n int) { s.L0CompactionFileThreshold = n }),
		count("L0StopWritesThreshold", "12", func(s *Settings, n int) { s.L0StopWritesThreshold = n }),
		count("L0CompactionConcurrency", "10", func(s *Settings, n int) { s.L0CompactionConcurrency = n }),
		size("CompactionDebtConcurrency", "1GiB", func(s *Settings, n int64) { s.CompactionDebtConcurrency = uint64(n) }),
		size("LBaseMaxBytes", "64MiB", func(s *Settings, n int64) { s.LBaseMaxBytes = n }),
		size("FlushSplitBytes", "4MiB", func(s *Settings, n int64) { s.FlushSplitBytes = n }),
		count("MaxOpenFiles", "1000", func(s *Settings, n int) { s.MaxOpenFiles = n }),
		count("MaxConcurrentCompactions", "4", func(s *Settings, n int) { s.MaxConcurrentCompactions = n }),
		count("FormatMajorVersion", "13", func(s *Settings, n int) { s.FormatMajorVersion = uint64(n) }),
		flag("DisableWAL", func(s *Settings, on bool) { s.DisableWAL = on }),
		flag("DisableAutomaticCompactions", func(s *Settings, on bool) { s.DisableAutomaticCompactions = on }),
		size("BytesPerSync", "512KiB", func(s *Settings, n int64) { s.BytesPerSync = int(n) }),
		size("WALBytesPerSync", "512KiB", func(s *Settings, n int64) { s.WALBytesPerSync = int(n) }),
		{"ReadSamplingMultiplier", "-1", func(s *Settings, v string) (err error) {
			s.ReadSamplingMultiplier, err = strconv.ParseInt(v, 10, 64)
			return err
		}},
		everyLevel("BlockSize", "4KiB"),
		everyLevel("IndexBlockSize", "4KiB"),
		{"TargetFileSize", "2MiB", setTargetFileSizes},
		everyLevel("Compression", "snappy"),
		everyLevel("FilterBitsPerKey", "10"),
		{"FilterLevels", "0-5", setFilterLevels},
		{tableOption, "flat accounts", func(s *Settings, v string) error { return s.Table.Set(v) }},
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
	for _, o := range options() {
		value, given := left[o.name]
		if !given {
			continue
		}
		delete(left, o.name)
		if err := o.set(s, strings.TrimSpace(value)); err != nil {
			if o.name != tableOption { // whose errors say what is wrong
				err = illegal(o.name, value, o.example)
			}
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		match := levelName.FindStringSubmatch(name)
		if match == nil || levelOptions()[match[2]] == nil {
			errs = append(errs, fmt.Errorf("unknown option %q: use one of %s", name, strings.Join(OptionNames(), ", ")))
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
	for _, o := range options() {
		names = append(names, o.name)
	}
	for _, name := range slices.Sorted(maps.Keys(levelOptions())) {
		names = append(names, "Levels[0-6]."+name)
	}
	return names
}

func illegal(name string, value any, example string) error {
	return fmt.Errorf("option %s=%v is illegal: write %s=%s", name, value, name, example)
}

func size(name, example string, set func(*Settings, int64)) option {
	return option{name, example, func(s *Settings, v string) error {
		n, err := unit.ParseBytes(unit.WithUnit(v))
		if err == nil {
			set(s, n)
		}
		return err
	}}
}

func count(name, example string, set func(*Settings, int)) option {
	return option{name, example, func(s *Settings, v string) error {
		n, err := strconv.ParseUint(v, 10, 31)
		if err == nil {
			set(s, int(n))
		}
		return err
	}}
}

func flag(name string, set func(*Settings, bool)) option {
	return option{name, "true", func(s *Settings, v string) error {
		on, err := strconv.ParseBool(v)
		if err == nil {
			set(s, on)
		}
		return err
	}}
}

// everyLevel is an option of a level, said of all of them.
func everyLevel(name, example string) option {
	set := levelOptions()[name]
	return option{name, example, func(s *Settings, v string) error {
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
func setTargetFileSizes(s *Settings, v string) error {
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
func setFilterLevels(s *Settings, v string) error {
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
