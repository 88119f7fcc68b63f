package pebbledb

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// effective are all options in force: those that Pebble prints, and those that
// shape a measurement by names of ours. It is to be called when the database
// was just opened: GOMAXPROCS at that time decided on the shards of the cache,
// so a process that wants more threads raises it afterwards.
func effective(c Config) map[string]string {
	gomaxprocs := runtime.GOMAXPROCS(0)
	options := parseOptions(c.Options)
	options["cache_bytes"] = strconv.FormatInt(c.CacheBytes, 10)
	options["cache_shards"] = strconv.Itoa(cachesim.ShardCount(c.CacheBytes, gomaxprocs))
	options["handles"] = strconv.Itoa(c.Handles)
	options["tables_kept_open"] = strconv.Itoa(max(c.Handles-otherHandles, minTablesKeptOpen))
	options["memtable_size"] = strconv.FormatUint(c.MemTableBytes, 10)
	options["format_major_version"] = strconv.FormatUint(c.FormatMajorVersion, 10)
	options["gomaxprocs_at_open"] = strconv.Itoa(gomaxprocs)
	options[engine.BuildOption] = BuiltAs
	if c.table.Text != "" {
		options[tableOption] = c.table.Text
	}
	return options
}

// Both versions keep some handles for other files than tables, and never fewer
// tables open than this.
const (
	otherHandles      = 10
	minTablesKeptOpen = 64
)

// parseOptions reads the text both versions print their options as: sections
// of key=value lines. Options of a level are named Levels[0].block_size and so
// on.
func parseOptions(text string) map[string]string {
	options := map[string]string{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "["); is {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		key, value, is := strings.Cut(line, "=")
		if !is {
			continue
		}
		if level, is := strings.CutPrefix(section, "Level "); is {
			key = "Levels[" + strings.Trim(level, `"`) + "]." + key
		}
		options[key] = value
	}
	return options
}
