package kvdblog

import (
	"fmt"
	"math"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// Facts of the study's text that its logs do not repeat.
const (
	keyBytes    = 32
	valueBytes  = 110
	warmupShare = 0.0005 // of the keys
)

// pebbleVersion is what the study ran, with a patch that counts block reads by
// call site.
const pebbleVersion = "v1.1.5, patched to count"

// run is the run folder of one read log.
func (f logFile) run(database result.Database) *result.Run {
	l := f.log
	warmup := uint64(math.Round(float64(l.keys) * warmupShare))
	return &result.Run{
		Status: result.OK,
		Verb:   "read",
		Command: []string{"bench_kvdb", "-T", strconv.FormatUint(l.keys, 10), "-t", strconv.Itoa(l.threads), "-r", strconv.FormatUint(l.gets, 10), "-c",
			strconv.FormatInt(f.cacheBytes>>20, 10)},
		Engine: result.Engine{Name: "pebble1", Version: pebbleVersion, Profile: "bench_kvdb",
			Options: map[string]string{"cache_bytes": strconv.FormatInt(f.cacheBytes, 10)}},
		Workload: result.Workload{
			Name: "readrandom", Keys: l.keys, KeyBytes: keyBytes, ValueBytes: valueBytes, KeyOrder: "hashed",
			Threads: l.threads, Gets: l.gets, WarmupGets: warmup, WarmupRule: "0.05% of the keys, as the study says; not in the log",
		},
		Cache:     result.Cache{Requested: strconv.FormatInt(f.cacheBytes>>20, 10) + "MiB", Effective: f.cacheBytes},
		PageCache: "asis",
		Database:  database,
		Phases: []result.Phase{
			{Name: "warm", Ops: warmup, Reads: reads(func(kind engine.BlockType) int64 { return l.warm[kind].misses })},
			{Name: "measure", Seconds: l.millis / 1e3, Ops: l.gets,
				Reads: reads(func(kind engine.BlockType) int64 { s, _ := l.measured(kind); return s.misses }),
				Engine: map[string]int64{
					"block_cache_hits": l.blockCache.hits, "block_cache_misses": l.blockCache.misses,
					"table_cache_hits": l.tableCache.hits, "table_cache_misses": l.tableCache.misses,
					"filter_negative": l.filterNegative, "filter_positive": l.filterPositive,
				}},
		},
		Figures:  l.figures(),
		Absent:   absent(),
		Checks:   l.checks(),
		Warnings: warnings(),
	}
}

// figures are those of the measured window.
func (l *readLog) figures() result.Figures {
	gets := float64(l.gets)
	perGet := func(n int64) *float64 { return new(float64(n) / gets) }
	f := result.Figures{
		Gets:                      l.gets,
		Seconds:                   l.millis / 1e3,
		GetsPerSecond:             gets / (l.millis / 1e3),
		BlockReadsPerGet:          perGet(l.blockCache.misses),
		BlockAccessesPerGet:       perGet(l.blockCache.hits + l.blockCache.misses),
		TableOpensPerGet:          perGet(l.tableCache.misses),
		BlockReadsPerGetByType:    map[string]float64{},
		BlockAccessesPerGetByType: map[string]float64{},
		HitRate:                   map[string]float64{},
	}
	rate := func(name string, s served) {
		if calls := s.hits + s.misses; calls > 0 {
			f.HitRate[name] = float64(s.hits) / float64(calls)
		}
	}
	for _, c := range classes() {
		s, known := l.measured(c.kind)
		if !known {
			continue
		}
		name := c.kind.String()
		f.BlockReadsPerGetByType[name] = float64(s.misses) / gets
		f.BlockAccessesPerGetByType[name] = float64(s.hits+s.misses) / gets
		rate(name, s)
	}
	rate("all", l.blockCache)
	return f
}

// checks hold what the call sites counted against the cache's own counters and
// the printed average.
func (l *readLog) checks() []result.Check {
	var all served
	for _, c := range classes() {
		s, _ := l.measured(c.kind)
		all.hits += s.hits
		all.misses += s.misses
	}
	return []result.Check{
		check("block-cache misses: call sites summed, against the cache's counter", float64(all.misses), float64(l.blockCache.misses), 1e-4, ""),
		check("block-cache hits: call sites summed, against the cache's counter", float64(all.hits), float64(l.blockCache.hits), 1e-4, ""),
		check("block reads per Get: misses / Gets, against the line printed",
			float64(l.blockCache.misses+l.tableCache.misses)/float64(l.gets), l.ioPerGet, 1e-4,
			"printed with 4 decimals; the tool adds table-cache misses"),
	}
}

func check(name string, ours, theirs, limit float64, note string) result.Check {
	return result.Check{Name: name, Ours: ours, Theirs: theirs, Limit: limit, Note: note,
		OK: math.Abs(ours-theirs) <= limit*math.Max(math.Abs(theirs), 1e-9)}
}

// run is the run folder of a load.
func (l *writeLog) run(text string) *result.Run {
	var warnings []engine.Warning
	if l.debtBytes > 0 {
		warnings = append(warnings, engine.Warning{
			Code:   "unsettled",
			Text:   fmt.Sprintf("Write_%s.log ends with %s of compactions owed: write amplification is what was written by then", text, unit.Bytes(l.debtBytes)),
			Remedy: "statelab load waits for compactions before it reports",
		})
	}
	return &result.Run{
		Status:    result.OK,
		Verb:      "load",
		Command:   []string{"bench_kvdb", "-i", "-T", strconv.FormatUint(l.keys, 10), "-t", strconv.Itoa(l.threads)},
		Engine:    result.Engine{Name: "pebble1", Version: pebbleVersion, Profile: "bench_kvdb"},
		Workload:  result.Workload{Name: "fillrandom", Keys: l.keys, KeyBytes: keyBytes, ValueBytes: valueBytes, KeyOrder: "hashed", Threads: l.threads},
		PageCache: "asis",
		Phases:    []result.Phase{{Name: "load", Seconds: l.millis / 1e3, Ops: l.puts, Engine: map[string]int64{"compaction_debt_bytes": l.debtBytes}}},
		Figures: result.Figures{
			Seconds: l.millis / 1e3, Puts: l.puts, PutsPerSecond: float64(l.puts) / (l.millis / 1e3), WriteAmplification: new(l.writeAmplification),
		},
		Absent: map[string]string{
			"put_service_ns":             "the log holds no latencies",
			"seed":                       "the tool takes it from the clock and does not record it",
			"host":                       "the log does not describe the machine",
			"device_write_amplification": "the log holds no device counters",
		},
		Warnings: warnings,
	}
}

func reads(misses func(engine.BlockType) int64) map[string]engine.Tally {
	m := map[string]engine.Tally{}
	for _, c := range classes() {
		if n := misses(c.kind); n > 0 {
			m[c.kind.String()] = engine.Tally{Count: n}
		}
	}
	return m
}

// absent names the figures these logs cannot give.
func absent() map[string]string {
	const noDevice = "the tool counts block-cache misses and nothing below the engine"
	return map[string]string{
		"device_reads_per_get":         noDevice,
		"device_read_bytes_per_get":    noDevice,
		"agreement":                    noDevice,
		"block_read_bytes_per_get":     "the tool counts block reads, not their bytes",
		"block_reads_per_get_by_level": "the tool counts by call site, not by level",
		"service_ns":                   "the tool measures the time of the whole run only",
		"response_ns":                  "the tool runs a closed loop",
		"cpu_ns_per_get":               "the log holds no CPU time",
		"peak_rss_bytes":               "the log holds no memory figures",
		"harness_ns_per_get":           "the tool's own cost was not measured",
		"found":                        "the tool ignores what a Get returns",
		"missing":                      "the tool ignores what a Get returns",
		"seed":                         "the tool takes it from the clock and does not record it",
		"host":                         "the log does not describe the machine",
	}
}

// warnings are what is known to limit these figures.
func warnings() []engine.Warning {
	return []engine.Warning{
		{Code: "call_sites", Text: "reads are counted by call site, not by block type: readIndex is the top level of two-level indexes and the whole index of " +
			"small tables",
			Remedy: "measure with statelab, which classifies by the block's place in its file"},
		{Code: "warmup_subtracted", Text: "the logs' tables of classes include the warm-up: the first table is subtracted from the second",
			Remedy: "none needed: the self-check holds the difference against the cache's own counters"},
		{Code: "page_cache", Text: "the page cache was not bypassed: block reads may have cost no device read, and Gets/s does not tell what a disk would give",
			Remedy: "compare block reads per Get, not speed; measure device reads with --page-cache direct"},
		{Code: "tool_overhead", Text: "the patched engine takes one lock and walks the stack at every block read: Gets/s include that cost",
			Remedy: "compare block reads per Get, not speed"},
		{Code: "values_unchecked", Text: "errors and values of Gets were ignored: a failed Get counts as a cheap one",
			Remedy: "statelab sweep checks every value against the generator"},
		{Code: "no_repeats", Text: "every point was measured once: its spread is unknown",
			Remedy: "--repeats 3"},
	}
}
