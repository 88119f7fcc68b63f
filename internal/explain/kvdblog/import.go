// Package kvdblog turns the published logs of bench_kvdb, the tool of the study
// "Demystifying Blockchain KV Lookups", into sweep and run folders, so that its
// figures and ours stand in one picture.
//
// Only what a log says is taken: what it cannot tell is absent with the reason,
// what is doubtful is a warning, and totals that two lines of a log both give
// are held against each other.
// Non-goals: logs of other tools; correcting what the tool measured.
package kvdblog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// loadDir is the run folder of a dataset's Write log, beside the points.
const loadDir = "load"

var readLogName = regexp.MustCompile(`^RadmonRead_([0-9]+[KMB])_([0-9]+)M\.log$`)

// dataset is what one database's logs say, keyed by the keys in their names.
type dataset struct {
	keys    uint64
	text    string // "200M"
	reads   []logFile
	levels  []engine.Level
	written *writeLog
}

type logFile struct {
	name       string
	cacheBytes int64
	log        *readLog
}

// Import reads the logs in dir and writes a sweep folder per dataset below out, named after its
// keys ("200M"). It returns the folders, smallest dataset first. Nothing is written unless every
// log could be read.
func Import(dir fs.FS, out string) ([]string, error) {
	sets, err := readAll(dir)
	if err != nil {
		return nil, err
	}

	var folders []string
	for _, set := range sets {
		folder := filepath.Join(out, set.text)
		if err := set.write(folder); err != nil {
			return folders, fmt.Errorf("import the %s-key logs: %w", set.text, err)
		}
		folders = append(folders, folder)
	}

	return folders, nil
}

// readAll parses every RadmonRead log with its properties and load logs.
func readAll(dir fs.FS) ([]*dataset, error) {
	names, err := fs.Glob(dir, "RadmonRead_*.log")
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}

	if len(names) == 0 {
		return nil, errors.New("no RadmonRead_<keys>_<cache>M.log here: these are what " +
			"bench_kvdb's run_bench writes")
	}

	byKeys := map[string]*dataset{}
	for _, name := range names {
		m := readLogName.FindStringSubmatch(name)
		if m == nil {
			return nil, fmt.Errorf("%s: the name does not say keys and cache, as in "+
				"RadmonRead_200M_135M.log", name)
		}

		set := byKeys[m[1]]
		if set == nil {
			if set, err = openDataset(dir, m[1]); err != nil {
				return nil, err
			}
			byKeys[m[1]] = set
		}

		file, err := openReadLog(dir, name, set.keys, m[2])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}

		set.reads = append(set.reads, file)
	}

	for _, set := range byKeys {
		slices.SortFunc(set.reads, func(a, b logFile) int {
			return cmp.Compare(a.cacheBytes, b.cacheBytes)
		})
	}

	return slices.SortedFunc(maps.Values(byKeys), func(a, b *dataset) int {
		return cmp.Compare(a.keys, b.keys)
	}), nil
}

// openDataset reads what is said of the database itself.
func openDataset(dir fs.FS, text string) (*dataset, error) {
	keys, err := unit.ParseCount(text)
	if err != nil || keys == 0 {
		return nil, fmt.Errorf("dataset %q: no number of keys", text)
	}

	set := &dataset{keys: keys, text: text}
	properties, load := "Properties_"+text+".log", "Write_"+text+".log"
	if set.levels, err = read(dir, properties, lsm.ParseProperties); err != nil {
		return nil, fmt.Errorf("%s, the layout of the %s-key database: %w", properties, text, err)
	}

	set.written, err = read(dir, load, parseWriteLog)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return set, nil
	case err == nil && set.written.keys != keys:
		err = fmt.Errorf("the log is of %d keys", set.written.keys)
	}

	if err != nil {
		return nil, fmt.Errorf("%s, the load of the %s-key database: %w", load, text, err)
	}

	return set, nil
}

// openReadLog reads one point and holds the log against its name.
func openReadLog(dir fs.FS, name string, keys uint64, mebibytes string) (logFile, error) {
	log, err := read(dir, name, parseReadLog)
	if err != nil {
		return logFile{}, err
	}

	cache, err := strconv.ParseInt(mebibytes, 10, 32)
	switch {
	case err != nil || cache == 0:
		return logFile{}, fmt.Errorf("%s MiB is not a cache size", mebibytes)
	case log.keys != keys:
		return logFile{}, fmt.Errorf("the log is of %d keys", log.keys)
	case float64(log.cacheUsedBytes) > 1.1*float64(cache<<20):
		// both are rounded to two or three digits
		return logFile{},
			fmt.Errorf("the log's cache holds %s at the end", unit.Bytes(log.cacheUsedBytes))
	}

	return logFile{name: name, cacheBytes: cache << 20, log: log}, nil
}

// maxLogBytes bounds a log: the published ones have 3 kB.
const maxLogBytes = 1 << 20

func read[T any](dir fs.FS, name string, parse func(io.Reader) (T, error)) (log T, err error) {
	info, err := fs.Stat(dir, name)
	if err != nil {
		return log, err
	}

	if info.Size() > maxLogBytes {
		return log, fmt.Errorf("longer than %s: no log of this tool", unit.Bytes(maxLogBytes))
	}

	content, err := fs.ReadFile(dir, name)
	if err != nil {
		return log, err
	}

	return parse(bytes.NewReader(content))
}

// write makes the sweep folder.
func (s *dataset) write(folder string) error {
	database := s.database()
	inflection := lsm.Inflect(s.levels, nil, database.Bytes)
	sweep := &result.Sweep{
		Status:     result.OK,
		Source:     fmt.Sprintf("imported from the published logs of bench_kvdb, %s keys", s.text),
		Name:       "study " + s.name(),
		Command:    []string{},
		Database:   database,
		Inflection: &inflection,
		Warnings:   warnings(),
	}

	axis := result.Axis{Name: "cache"}
	for i, file := range s.reads {
		run := file.run(database)
		run.Inflection = &inflection
		dir := path.Join(result.PointsDir, fmt.Sprintf("%03d", i+1))
		if err := writeRun(filepath.Join(folder, filepath.FromSlash(dir)), run); err != nil {
			return err
		}

		axis.Values = append(axis.Values, run.Cache.Requested)
		point := result.Point{
			Axes:   map[string]string{"cache": run.Cache.Requested},
			Run:    dir,
			Runs:   []string{dir},
			Status: result.OK,
		}

		point.Show(run)
		sweep.Points = append(sweep.Points, point)
	}

	sweep.Axes = []result.Axis{axis}
	sweep.Answers = result.Answers(sweep.Points, 2, 1.1)
	if s.written != nil {
		if err := writeRun(filepath.Join(folder, loadDir), s.written.run(s.text)); err != nil {
			return err
		}
	}

	return result.WriteSweep(folder, sweep)
}

func writeRun(dir string, run *result.Run) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make run folder: %w", err)
	}
	return result.WriteRun(dir, run)
}

// name is what the study calls the dataset.
func (s *dataset) name() string {
	return cmp.Or(map[string]string{"200M": "Small", "2B": "Medium", "20B": "Large"}[s.text],
		s.text)
}

func (s *dataset) database() result.Database {
	d := result.Database{Levels: s.levels, Written: "bench_kvdb", Format: "pebble v1.1.5"}
	for _, level := range s.levels {
		d.Bytes += level.Bytes
		d.Files += level.Files
	}
	return d
}

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
		Command: []string{"bench_kvdb", "-T", strconv.FormatUint(l.keys, 10), "-t",
			strconv.Itoa(l.threads), "-r", strconv.FormatUint(l.gets, 10), "-c",
			strconv.FormatInt(f.cacheBytes>>20, 10)},
		Engine: result.Engine{Name: "pebble1", Version: pebbleVersion, Profile: "bench_kvdb",
			Options: map[string]string{"cache_bytes": strconv.FormatInt(f.cacheBytes, 10)}},
		Workload: result.Workload{
			Name:       "readrandom",
			Keys:       l.keys,
			KeyBytes:   keyBytes,
			ValueBytes: valueBytes,
			KeyOrder:   "hashed",
			Threads:    l.threads,
			Gets:       l.gets,
			WarmupGets: warmup,
			WarmupRule: "0.05% of the keys, as the study says; not in the log",
		},
		Cache: result.Cache{
			Requested: strconv.FormatInt(f.cacheBytes>>20, 10) + "MiB",
			Effective: f.cacheBytes,
		},
		PageCache: "asis",
		Database:  database,
		Phases: []result.Phase{
			{
				Name:  "warm",
				Ops:   warmup,
				Reads: reads(func(kind engine.BlockType) int64 { return l.warm[kind].misses }),
			},
			{Name: "measure", Seconds: l.millis / 1e3, Ops: l.gets,
				Reads: reads(func(kind engine.BlockType) int64 {
					s, _ := l.measured(kind)
					return s.misses
				}),
				Engine: map[string]int64{
					"block_cache_hits":   l.blockCache.hits,
					"block_cache_misses": l.blockCache.misses,
					"table_cache_hits":   l.tableCache.hits,
					"table_cache_misses": l.tableCache.misses,
					"filter_negative":    l.filter.hits,
					"filter_positive":    l.filter.misses,
				}},
		},
		Figures:  l.figures(),
		Absent:   unknown(),
		Checks:   l.checks(),
		Warnings: append(warnings(), l.doubts()...),
	}
}

// figures are those of the measured window.
func (l *readLog) figures() result.Figures {
	gets := float64(l.gets)
	f := result.Figures{
		Gets:                      l.gets,
		Seconds:                   l.millis / 1e3,
		BlockReadsPerGetByType:    map[string]float64{},
		BlockAccessesPerGetByType: map[string]float64{},
		HitRate:                   map[string]float64{},
	}

	f.Record(figure.GetsPerSecond, gets/(l.millis/1e3))
	f.Record(figure.BlockReadsPerGet, float64(l.blockCache.misses)/gets)
	f.Record(figure.BlockAccessesPerGet, float64(l.blockCache.hits+l.blockCache.misses)/gets)
	f.Record(figure.TableOpensPerGet, float64(l.tableCache.misses)/gets)
	absent(&f)
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
		check("block-cache misses: call sites summed, against the cache's counter",
			float64(all.misses), float64(l.blockCache.misses), 1e-4, ""),
		check("block-cache hits: call sites summed, against the cache's counter",
			float64(all.hits), float64(l.blockCache.hits), 1e-4, ""),
		check("block reads per Get: misses / Gets, against the line printed",
			float64(l.blockCache.misses+l.tableCache.misses)/float64(l.gets), l.ioPerGet, 1e-4,
			"printed with 4 decimals; the tool adds table-cache misses"),
	}
}

// doubts are warnings that lines of this log may be missing.
func (l *readLog) doubts() (all []engine.Warning) {
	for _, caller := range l.unseen() {
		all = append(all, engine.Warning{Code: "incomplete_log",
			Text: fmt.Sprintf("%s is in the last table of the log and not in the first: nothing "+
				"called it during the warm-up, or its line is missing and the warm-up counts as "+
				"measured", caller)})
	}
	return all
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
			Code: "unsettled",
			Text: fmt.Sprintf("Write_%s.log ends with %s of compactions owed: write "+
				"amplification is what was written by then", text, unit.Bytes(l.debtBytes)),
			Remedy: "statelab load waits for compactions before it reports",
		})
	}

	figures := result.Figures{Seconds: l.millis / 1e3, Puts: l.puts}
	figures.Record(figure.PutsPerSecond, float64(l.puts)/(l.millis/1e3))
	figures.Record(figure.WriteAmplification, l.writeAmplification)
	figures.Unavailable("the log holds no latencies", figure.PutServiceTime)
	figures.Unavailable("the log holds no device counters", figure.DeviceWriteAmplification)

	return &result.Run{
		Status: result.OK,
		Verb:   "load",
		Command: []string{"bench_kvdb", "-i", "-T", strconv.FormatUint(l.keys, 10), "-t",
			strconv.Itoa(l.threads)},
		Engine: result.Engine{Name: "pebble1", Version: pebbleVersion, Profile: "bench_kvdb"},
		Workload: result.Workload{
			Name:       "fillrandom",
			Keys:       l.keys,
			KeyBytes:   keyBytes,
			ValueBytes: valueBytes,
			KeyOrder:   "hashed",
			Threads:    l.threads,
		},
		PageCache: "asis",
		Phases: []result.Phase{{
			Name:    "load",
			Seconds: l.millis / 1e3,
			Ops:     l.puts,
			Engine:  map[string]int64{"compaction_debt_bytes": l.debtBytes},
		}},
		Figures: figures,
		Absent: map[string]string{
			"seed": "the tool takes it from the clock and does not record it",
			"host": "the log does not describe the machine",
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

// absent says why these logs cannot give figures of Gets.
func absent(f *result.Figures) {
	f.Unavailable("the tool counts block-cache misses and nothing below the engine",
		figure.DeviceReadsPerGet, figure.DeviceReadBytesPerGet, figure.Agreement)
	f.Unavailable("the tool counts block reads, not their bytes", figure.BlockReadBytesPerGet)
	f.Unavailable("the tool counts by call site, not by level", figure.BlockReadsPerGet.ByLevel())
	f.Unavailable("the tool measures the time of the whole run only", figure.ServiceTime)
	f.Unavailable("the tool runs a closed loop", figure.ResponseTime)
	f.Unavailable("the log holds no CPU time", figure.CPUTimePerGet)
	f.Unavailable("the log holds no memory figures", figure.PeakMemory)
	f.Unavailable("the tool's own cost was not measured", figure.HarnessTimePerGet)
}

// unknown are facts of a run that these logs do not tell.
func unknown() map[string]string {
	const ignored = "the tool ignores what a Get returns"

	return map[string]string{
		"found":   ignored,
		"missing": ignored,
		"seed":    "the tool takes it from the clock and does not record it",
		"host":    "the log does not describe the machine",
	}
}

// warnings are what is known to limit these figures.
func warnings() []engine.Warning {
	return []engine.Warning{
		{
			Code: "call_sites",
			Text: "reads are counted by call site, not by block type: readIndex is the top level " +
				"of two-level indexes and the whole index of small tables",
			Remedy: "measure with statelab, which classifies by the block's place in its file",
		},
		{
			Code: "warmup_subtracted",
			Text: "the logs' tables of classes include the warm-up: the first table is " +
				"subtracted from the second",
			Remedy: "none needed: the self-check holds the difference against the cache's own " +
				"counters",
		},
		{
			Code: "page_cache",
			Text: "the page cache was not bypassed: block reads may have cost no device read, " +
				"and Gets/s does not tell what a disk would give",
			Remedy: "compare block reads per Get, not speed; measure device reads with " +
				"--page-cache direct",
		},
		{
			Code: "tool_overhead",
			Text: "the patched engine takes one lock and walks the stack at every block read: " +
				"Gets/s include that cost",
			Remedy: "compare block reads per Get, not speed",
		},
		{
			Code:   "values_unchecked",
			Text:   "errors and values of Gets were ignored: a failed Get counts as a cheap one",
			Remedy: "statelab sweep checks every value against the generator",
		},
		{Code: "no_repeats", Text: "every point was measured once: its spread is unknown",
			Remedy: "--repeats 3"},
	}
}
