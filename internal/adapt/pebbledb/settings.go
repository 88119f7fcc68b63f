// Package pebbledb is the adapter of Pebble v1 and v2, but for what names a type of
// either module: profiles as plain data, overrides by Pebble's own option names, the
// recognition of a database directory, counters, writers and sorted builds.
//
// The adapters (engines/pebble1, engines/pebble2) supply a Library, which translates
// Settings into the options of their version and opens a Version. Their Get is their
// own, so that it calls Pebble without an interface between.
package pebbledb

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// Levels is the number of levels of a Pebble tree.
const Levels = 7

// maxMemTableBytes is the largest memtable both versions accept (their limit
// itself is refused).
const maxMemTableBytes = 1<<32 - 2

// minMemTableBytes is what Pebble starts its first memtable with; a cache of a
// few KiB must not make a memtable too small to hold one batch.
const minMemTableBytes = 256 << 10

// Settings are Pebble options as plain data. Zero is the library's default.
type Settings struct {
	CacheBytes   int64
	MaxOpenFiles int
	// MemTablesPerHalfCache sizes a memtable: the cache, halved, divided by it.
	// 0: MemTableSize stands.
	MemTablesPerHalfCache       int64
	MemTableSize                uint64
	MemTableStopWritesThreshold int
	L0CompactionThreshold       int
	L0CompactionFileThreshold   int
	L0StopWritesThreshold       int
	L0CompactionConcurrency     int
	CompactionDebtConcurrency   uint64
	LBaseMaxBytes               int64
	FlushSplitBytes             int64
	MaxConcurrentCompactions    int
	FormatMajorVersion          uint64
	DisableWAL                  bool
	DisableAutomaticCompactions bool
	BytesPerSync                int
	WALBytesPerSync             int
	ReadSamplingMultiplier      int64
	// look keys up with iterators that ask the last level's filters, too
	UseL6Filters bool
	Levels       [Levels]LevelSettings
	// whose keys are sampled; no option of Pebble's
	Table adapter.Sections
	Kept  dbformat.KeptByPebble // of another program's database
}

// LevelSettings are the options of one level.
type LevelSettings struct {
	BlockSize        int
	IndexBlockSize   int
	TargetFileSize   int64
	Compression      string // none, snappy, zstd; v2 also minlz
	FilterBitsPerKey int    // 0: what the library does when told nothing
	NoFilter         bool   // none, said explicitly
}

// AsksFilters reports whether a database that is open with s asks the filters of its
// tables: a policy on any level makes Pebble ask them on all but the last.
func (s *Settings) AsksFilters() bool {
	return slices.ContainsFunc(s.Levels[:], func(l LevelSettings) bool {
		return l.FilterBitsPerKey > 0
	})
}

// filterBits are the bits per key of the filters that the tables of a level get: one number where
// it is that of all levels, else one for each. A library's own text of its options has only the
// name of the policy.
func (s *Settings) filterBits(engineName string) string {
	texts, bits := make([]string, Levels), 0
	for i, l := range s.Levels {
		// A level that says nothing has, with v2, the filters of the level above.
		if l.FilterBitsPerKey > 0 || l.NoFilter || engineName == "pebble1" {
			bits = l.FilterBitsPerKey
		}
		texts[i] = strconv.Itoa(bits)
	}

	if len(slices.Compact(slices.Clone(texts))) == 1 {
		texts = texts[:1]
	}

	return strings.Join(texts, ",")
}

// passOverFilters makes Gets ask no filters, whatever tables have.
func (s *Settings) passOverFilters() {
	for i := range s.Levels {
		s.Levels[i].FilterBitsPerKey, s.Levels[i].NoFilter = 0, true
	}
}

// minBudgetBytes holds a memtable as it is first made, and some blocks.
const minBudgetBytes = 2 << 20

// Resolve returns the settings of o: its profile, then cache and handles, then
// the overrides. legal limits the overrides to those an engine version has.
func Resolve(profiles []Profile, o engine.Options) (Settings, []error) {
	s, err := adapter.Find(profiles, o.Profile)
	if err != nil {
		return Settings{}, []error{err}
	}

	if o.CacheBytes > 0 {
		s.CacheBytes = o.CacheBytes
	}

	if o.MemoryBytes > 0 {
		s.CacheBytes = o.MemoryBytes // memtables are charged to the cache
	}

	if o.Handles > 0 {
		s.MaxOpenFiles = o.Handles
	}

	if s.MemTablesPerHalfCache > 0 {
		bytes := s.CacheBytes / 2 / s.MemTablesPerHalfCache
		s.MemTableSize = uint64(min(max(bytes, minMemTableBytes), maxMemTableBytes))
	}

	errs := apply(&s, o.Overrides)
	if err := s.Table.Check(o); err != nil {
		errs = append(errs, err)
	}

	if o.CacheBytes < 0 {
		errs = append(errs, illegal("cache", o.CacheBytes, "64MiB"))
	}

	switch {
	case o.MemoryBytes > 0 && o.CacheBytes > 0:
		errs = append(errs,
			errors.New("a memory budget includes the cache: give only one of --memory and --cache"))
	case o.MemoryBytes < 0 || o.MemoryBytes > 0 && o.MemoryBytes < minBudgetBytes:
		errs = append(errs,
			fmt.Errorf("a memory budget of %s is too small for Pebble: it needs at least %s",
				unit.Bytes(o.MemoryBytes), unit.Bytes(minBudgetBytes)))
	}

	if o.Handles < 0 {
		errs = append(errs, illegal("handles", o.Handles, "1000"))
	}

	return s, errs
}

// Profile is a named set of settings.
type Profile = adapter.Profile[Settings]

const (
	kib = 1 << 10
	mib = 1 << 20

	filterBits = 10
)

// BenchKVDB are the options of bench_kvdb, the tool of the published study. One
// difference: the tool raises a cache below 16 MiB to 16 MiB; here the cache
// asked for is the cache there is, or the low end of a curve could not be seen.
func BenchKVDB() Profile {
	s := Settings{
		CacheBytes:                  512 * mib,
		MaxOpenFiles:                100_000,
		MemTablesPerHalfCache:       2,
		MemTableStopWritesThreshold: 2,
		MaxConcurrentCompactions:    runtime.NumCPU(),
		WALBytesPerSync:             5 * 100 * kib,
		ReadSamplingMultiplier:      -1,
	}

	for i := range s.Levels {
		s.Levels[i] = LevelSettings{TargetFileSize: 2 * mib << i, FilterBitsPerKey: filterBits}
	}

	return adapter.Named("bench-kvdb", "options of bench_kvdb, the published study's tool", s)
}

// geth are the options go-ethereum 1.17.10 gives both versions of Pebble, with
// its default database cache of 2048 MiB. The number of handles it derives from
// the process limit; its usual outcome stands here.
func geth() Settings {
	s := Settings{
		CacheBytes:                  2048 * mib,
		MaxOpenFiles:                262_144,
		MemTablesPerHalfCache:       4,
		MemTableStopWritesThreshold: 8,
		MaxConcurrentCompactions:    runtime.NumCPU(),
		WALBytesPerSync:             5 * 100 * kib,
		L0CompactionThreshold:       2,
		L0CompactionConcurrency:     1,
		CompactionDebtConcurrency:   256 * mib,
		ReadSamplingMultiplier:      -1,
	}

	for i, size := range []int64{16, 4, 8, 16, 32, 64, 128} {
		s.Levels[i] = LevelSettings{TargetFileSize: size * mib, FilterBitsPerKey: filterBits}
	}

	// The last level is left empty, which v1 reads as no filter and v2 as that
	// of the level above.
	s.Levels[Levels-1].FilterBitsPerKey = 0
	return s
}

// GethV1 is what geth 1.17 does with a database of the old format.
func GethV1() Profile {
	return adapter.Named("geth-1.17-v1", "go-ethereum 1.17 on a database made before its move to "+
		"Pebble v2", geth()).OfClient(clients.Geth)
}

// GethV2 is what geth 1.17 does with a new database.
func GethV2() Profile {
	s := geth()
	s.FormatMajorVersion = 13
	return adapter.Named("geth-1.17-v2", "go-ethereum 1.17 on a new database", s).
		OfClient(clients.Geth)
}

// Columnar is bench-kvdb with the newest table format of v2.
func Columnar(newestFormat uint64) Profile {
	p := BenchKVDB()
	p.Profile = engine.Profile{
		Name:  "columnar",
		About: "bench-kvdb in the newest table format (columnar blocks)",
	}
	p.Settings.FormatMajorVersion = newestFormat
	return p
}

// Default are the library's defaults, nothing said.
func Default() Profile {
	s := Settings{CacheBytes: 8 * mib, MaxOpenFiles: 1000}
	return adapter.Named("default", "the library's own defaults", s)
}

// tableOption chooses whose keys are sampled.
const tableOption = "table"

// options are the overrides of s in the order they apply: a later one refines an
// earlier one. A default of 0 is Pebble's own.
func options(s *Settings) []adapter.Option {
	const aSize, ofLevels = "a size", "; of one level: Levels[3].NAME"
	l0 := s.Levels[0]
	return []adapter.Option{
		adapter.Size("MemTableSize", "64MiB", &s.MemTableSize, 0).
			Means("size of a memtable"),
		count("MemTableStopWritesThreshold", "2", &s.MemTableStopWritesThreshold).
			Means("memtables that may wait for a flush before writes stop"),
		count("L0CompactionThreshold", "4", &s.L0CompactionThreshold).
			Means("sublevels of L0 that start a compaction"),
		count("L0CompactionFileThreshold", "500", &s.L0CompactionFileThreshold).
			Means("tables in L0 that start a compaction"),
		count("L0StopWritesThreshold", "12", &s.L0StopWritesThreshold).
			Means("sublevels of L0 at which writes stop"),
		count("L0CompactionConcurrency", "10", &s.L0CompactionConcurrency).
			Means("sublevels of L0 for each further compaction at the same time"),
		adapter.Size("CompactionDebtConcurrency", "1GiB", &s.CompactionDebtConcurrency, 0).
			Means("bytes to compact for each further compaction at the same time"),
		adapter.Size("LBaseMaxBytes", "64MiB", &s.LBaseMaxBytes, 0).
			Means("size of the first level below L0"),
		adapter.Size("FlushSplitBytes", "4MiB", &s.FlushSplitBytes, 0).
			Means("where a flush ends one table of L0 and begins the next"),
		count("MaxOpenFiles", "1000", &s.MaxOpenFiles).
			Means("open files, as --max-open-files"),
		count("MaxConcurrentCompactions", "4", &s.MaxConcurrentCompactions).
			Means("compactions at the same time"),
		count("FormatMajorVersion", "13", &s.FormatMajorVersion).
			Means("format of the database and its tables"),
		adapter.Switch("DisableWAL", &s.DisableWAL).
			Means("no write-ahead log"),
		adapter.Switch("DisableAutomaticCompactions", &s.DisableAutomaticCompactions).
			Means("no compactions"),
		adapter.Size("BytesPerSync", "512KiB", &s.BytesPerSync, 0).
			Means("bytes of a table between two syncs while it is written"),
		adapter.Size("WALBytesPerSync", "512KiB", &s.WALBytesPerSync, 0).
			Means("bytes of the write-ahead log between two syncs"),
		adapter.NewOption("ReadSamplingMultiplier", "-1", "a whole number; below 0: never",
			numberOf(s.ReadSamplingMultiplier), func(v string) (err error) {
				s.ReadSamplingMultiplier, err = strconv.ParseInt(v, 10, 64)
				return err
			}).Means("how often reads of iterators may start a compaction"),
		adapter.Switch("UseL6Filters", &s.UseL6Filters).
			Means("Gets are iterators, which consult the filters of the bottommost level, too"),
		everyLevel(s, "BlockSize", "4KiB", aSize, bytesOf(l0.BlockSize)).
			Means("size of a data block before compression" + ofLevels),
		everyLevel(s, "IndexBlockSize", "4KiB", aSize, bytesOf(l0.IndexBlockSize)).
			Means("size of an index block before compression" + ofLevels),
		adapter.NewOption("TargetFileSize", "2MiB", aSize, bytesOf(l0.TargetFileSize),
			s.setTargetFileSizes).
			Means("size of a table of L0; each level below has tables twice as large" + ofLevels),
		everyLevel(s, "Compression", "snappy", "none, snappy, zstd; of v2 also minlz",
			l0.Compression).Means("compression of blocks" + ofLevels),
		everyLevel(s, "FilterBitsPerKey", "10", "0 to 63", numberOf(l0.FilterBitsPerKey)).
			Means("bits per key of Bloom filters; 0: no filters" + ofLevels),
		adapter.NewOption("FilterLevels", "0-5", "all, none, or levels such as 0-5", "",
			s.setFilterLevels).Means("levels whose tables have filters"),
		s.Table.Option(),
	}
}

// bytesOf and numberOf are a default as text; "", where 0 leaves it to Pebble.
func bytesOf[N int | int64](n N) string {
	if n == 0 {
		return ""
	}
	return unit.ExactBytes(int64(n))
}

func numberOf[N int | int64 | uint64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// levelOptions may also be said of one level: Levels[3].BlockSize.
func levelOptions() map[string]func(*LevelSettings, string) error {
	return map[string]func(*LevelSettings, string) error{
		"BlockSize": parseLevelSize(func(l *LevelSettings, n int64) {
			l.BlockSize = int(n)
		}),
		"IndexBlockSize": parseLevelSize(func(l *LevelSettings, n int64) {
			l.IndexBlockSize = int(n)
		}),
		"TargetFileSize": parseLevelSize(func(l *LevelSettings, n int64) {
			l.TargetFileSize = n
		}),
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
			errs = append(errs, adapter.Unknown(name, OptionNames()))
			continue
		}

		level := match[1][0] - '0'
		if err := levelOptions()[match[2]](&s.Levels[level],
			strings.TrimSpace(left[name])); err != nil {
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
	return adapter.NewOption(name, example, "a number", numberOf(*to), func(v string) error {
		n, err := strconv.ParseUint(v, 10, 31)
		if err == nil {
			*to = N(n)
		}
		return err
	})
}

// everyLevel is an option of a level, said of all of them: once, or once for each.
func everyLevel(s *Settings, name, example, values, initial string) adapter.Option {
	set := levelOptions()[name]
	return adapter.NewOption(name, example, values, initial, func(v string) error {
		parts := strings.Split(v, ":")
		if len(parts) != 1 && len(parts) != Levels {
			return fmt.Errorf("%d values, not 1 or %d", len(parts), Levels)
		}

		for i := range s.Levels {
			if err := set(&s.Levels[i],
				strings.TrimSpace(parts[min(i, len(parts)-1)])); err != nil {
				return err
			}
		}

		return nil
	})
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
		if n, err := fmt.Sscanf(v, "%d-%d", &first, &last); n != 2 || err != nil || first < 0 ||
			first > last || last >= Levels {
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
