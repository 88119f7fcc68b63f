package pebbledb

import "strings"

// ParseOptions reads the text both versions print their options as: sections
// of key=value lines. Options of a level are named Levels[0].block_size and so
// on.
func ParseOptions(text string) map[string]string {
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

// minCacheShardBytes is the size of a shard below which both versions make
// four shards only.
const minCacheShardBytes = 4 << 20

// CacheShards is the number of shards of a block cache, which both versions
// derive from GOMAXPROCS when it is made.
func CacheShards(cacheBytes int64, gomaxprocs int) int {
	shards := 4 * gomaxprocs
	if shards > 4 && cacheBytes/int64(shards) < minCacheShardBytes {
		return 4
	}
	return shards
}
