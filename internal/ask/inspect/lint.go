package inspect

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Finding is an option that is not in force, or that costs what its owner may not know.
type Finding struct {
	Code  string `json:"code"`
	Table string `json:"table,omitempty"`
	Text  string `json:"text"`
	// ExtraReads are block reads that a Get makes because of it, with a cache of CacheBytes; below
	// 0: that it saves.
	ExtraReads float64 `json:"extra_reads_per_get"`
	// ReadsUnknown: they are not priced, since what blocks take in a cache is not known.
	ReadsUnknown bool  `json:"reads_unknown,omitempty"`
	CacheBytes   int64 `json:"cache_bytes"`
	// that it takes beside the cache; below 0: that it saves
	MemoryBytes int64  `json:"memory_bytes"`
	DiskBytes   int64  `json:"disk_bytes,omitempty"` // that it takes, or that will be written
	Remedy      string `json:"remedy"`
}

// Codes of findings.
const (
	NoFilters       = "no_filters"
	NotParted       = "not_partitioned"
	OtherBits       = "other_filter_bits"
	OtherBlocks     = "other_block_size"
	Marked          = "marked_for_compaction"
	UnboundedMemory = "unbounded_metadata"
	UnaskedFilters  = "unasked_filters"
)

const (
	fewKeys   = 1000 // too few for a filter to tell how many bits a key has
	nearlyAll = 0.99
)

const rewrite = "rewrite the tables with a full compaction"

// family is a column family under examination, or a database of Pebble.
type family struct {
	name    string
	levels  []engine.Level
	written []blockbased.Written
	fresh   fresh
	cache   int64
	// price is block reads per Get with the cache; how they ask for blocks, nil for Pebble.
	price func(
		ctx context.Context, levels []engine.Level, reads *predict.BlockTables,
	) (float64, error)
	// Of RocksDB:
	options map[string]string // of its OPTIONS file, those of the whole database among them
	reads   *predict.BlockTables

	unpriced bool // what is looked at has a price that is not known
}

// fresh is what tables that are written from now on get.
type fresh struct {
	bits func(level int) float64 // of filters; 0: none
	// bloomBits are those of filters that tables may have on any level besides, such as a table
	// that was flushed before a compaction moved it as it is; 0: none.
	bloomBits  float64
	filters    string // its filter policy in words; "": none
	blockBytes func(level int) float64
	minKey     int64 // bytes of an entry beyond its value in a data block, at least
}

// Lint looks for options that are not in force, in the column families of a database of block-based
// tables, whose levels say what their blocks take in a cache (curve.Inspect); one table without a
// name is all of it. cacheBytes is the cache for which reads are counted, of each family alone.
func Lint(
	ctx context.Context, dir string, tables []engine.Table, cacheBytes int64,
) (findings []Finding, err error) {
	written, err := blockbased.ReadTableProperties(dir)
	if err != nil {
		return nil, err
	}

	_, sections, err := optionsfile.Read(dir)
	if err != nil || len(sections) == 0 {
		return nil, err
	}

	for _, w := range written {
		f := family{
			name:    unit.Printable(w.Name),
			written: w.Tables,
			options: map[string]string{},
			cache:   cacheBytes,
		}

		for _, s := range sections {
			if s.Kind == "DBOptions" || s.Name == w.Name {
				maps.Copy(f.options, s.Values)
			}
		}

		at := slices.IndexFunc(tables, func(t engine.Table) bool {
			return t.Name == f.name || len(tables) == 1 && t.Name == ""
		})
		if at < 0 || len(tables[at].Levels) == 0 {
			continue
		}

		if f.reads, err = rocksoptions.Reads(f.options); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}

		load, _, err := rocksoptions.ModelFromOptions(map[string]string{
			"block_size": f.options["block_size"],
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}

		policy := rocksoptions.ParseFilter(f.options["filter_policy"])
		f.fresh = fresh{
			bits:       policy.BitsOn,
			blockBytes: func(int) float64 { return float64(load.BlockBytes) },
			minKey:     8 + 3,
		}

		if policy.Ribbon {
			f.fresh.bloomBits = policy.Bits
		}

		if policy.Bits > 0 {
			f.fresh.filters = f.options["filter_policy"]
		}

		f.reads.PartedFilters = slices.ContainsFunc(w.Tables, func(t blockbased.Written) bool {
			return t.FilterParted
		})
		f.levels, f.price = uncharged(tables[at].Levels), f.firstReads
		found, err := f.examine(ctx, f.noFilters, f.notParted, f.otherBits, f.otherBlocks,
			f.marked, f.unasked, f.unbounded)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}

		findings = append(findings, found...)
	}

	return findings, nil
}

// examine looks at a family in all these ways.
func (f *family) examine(
	ctx context.Context, looks ...func(context.Context) (*Finding, error),
) (findings []Finding, err error) {
	for _, look := range looks {
		f.unpriced = false
		found, err := look(ctx)
		if err != nil {
			return nil, err
		}

		if found != nil {
			found.Table, found.CacheBytes, found.ReadsUnknown = f.name, f.cache, f.unpriced
			findings = append(findings, *found)
		}
	}

	return findings, nil
}

// firstReads are those of Gets that began with an empty cache.
func (f *family) firstReads(
	ctx context.Context, levels []engine.Level, reads *predict.BlockTables,
) (float64, error) {
	points, err := predict.Run(ctx, predict.Input{
		Levels:     levels,
		Blocks:     reads,
		Cores:      1,
		WarmupGets: pricedGets,
		Gets:       pricedGets,
		Seeds:      []uint64{1},
		CacheBytes: []int64{f.cache},
	})
	if err != nil {
		return 0, err
	}

	return points[0].BlockReadsPerGet, nil
}

// lintPebble looks for options that are not in force in the database of Pebble of a run.
func lintPebble(ctx context.Context, run *result.Run, cacheBytes int64) ([]Finding, error) {
	dir, version := run.Database.Dir, subject.PebbleVersion(run.Engine.Name)
	_, sections, err := optionsfile.Read(dir)
	if err != nil || len(sections) == 0 {
		return nil, err
	}

	cacheBytes, _, err = pebbleCache(run, cacheBytes)
	if err != nil {
		return nil, err
	}

	written, err := resolve.ReadTableProperties(dir, version)
	if err != nil {
		return nil, err
	}

	f := family{
		levels: slices.Clone(run.Database.Levels),
		cache:  cacheBytes,
		fresh:  fresh{minKey: 3},
	}

	newest, bits := uint64(0), 0.0 // of filters, which the OPTIONS file does not tell
	for _, w := range written {
		f.written = append(f.written, blockbased.Written{
			Facts:         blockbased.Facts{File: w.File, Level: w.Level, Bytes: w.Bytes},
			Keys:          w.Keys,
			DataBlocks:    w.DataBlocks,
			RawBytes:      w.RawBytes,
			RawValueBytes: w.RawValueBytes,
			FilterBytes:   w.FilterBytes,
			FilterKeys:    w.Keys,
		})

		if w.FilterBytes > 0 && w.Keys > fewKeys && w.File > newest {
			newest, bits = w.File, 8*float64(w.FilterBytes)/float64(w.Keys)
		}

		at := slices.IndexFunc(f.levels, func(l engine.Level) bool { return l.Level == w.Level })
		if at < 0 {
			continue
		}

		l := &f.levels[at]
		l.RawKeyBytes, l.RawValueBytes = l.RawKeyBytes+w.RawBytes-w.RawValueBytes,
			l.RawValueBytes+w.RawValueBytes
		if w.FilterBytes > 0 {
			l.FilterKeys += w.Keys
		}
	}

	blocks := map[string]float64{}
	for _, s := range sections {
		if s.Kind != "Level" {
			continue
		}

		if policy := s.Values["filter_policy"]; policy != "none" {
			f.fresh.filters = policy
		}

		// 0, of which no table differs, where it is not a number
		blocks[s.Name], _ = strconv.ParseFloat(s.Values["block_size"], 64)
	}

	f.fresh.bits = func(int) float64 { return bits }
	f.fresh.blockBytes = func(level int) float64 { return blocks[strconv.Itoa(level)] }
	looks := []func(context.Context) (*Finding, error){f.otherBlocks, f.unaskedOfPebble}
	if f.fresh.filters == "" && run.Database.Written == "foreign" {
		for i := range f.levels {
			f.levels[i].FilterConsulted = false
		}
	} else {
		looks = append(looks, f.noFilters, f.otherBits)
	}

	in := pebbleReads(run, cacheBytes)
	in.FilterRate = func(l engine.Level) float64 {
		if l.FilterBytes == 0 {
			return 1
		}
		return resolve.FilterRate(max(1, math.Round(8*float64(l.FilterBytes)/float64(l.Keys))),
			float64(l.Keys)/float64(l.Files))
	}

	f.price = func(
		ctx context.Context, levels []engine.Level, _ *predict.BlockTables,
	) (float64, error) {
		return fidelity.Mixed(func(levels []engine.Level) (float64, error) {
			return steadyReads(ctx, in, levels)
		})(levels)
	}

	return f.examine(ctx, looks...)
}

// lint adds the findings of a run of inspect.
func (i *Inspection) lint(ctx context.Context, run *result.Run, cacheBytes int64) (err error) {
	if subject.Descriptor(run.Engine.Name).SimulatesLevels() {
		i.Findings, err = lintPebble(ctx, run, cacheBytes)
		return err
	}

	if cacheBytes == 0 {
		cacheBytes, _ = advice.RocksDBCache(RocksClient(run), 0)
	}

	tables := i.Database.Tables
	if len(tables) == 0 {
		tables = []engine.Table{{Levels: i.Levels}}
	}

	i.Findings, err = Lint(ctx, run.Database.Dir, tables, cacheBytes)
	return err
}

// uncharged are levels with what their blocks take in a cache less what the cache adds to each,
// which the model of reads adds again.
func uncharged(levels []engine.Level) []engine.Level {
	levels = slices.Clone(levels)
	charge := int64(cachesim.PooledCharge(false))
	for i := range levels {
		l := &levels[i]
		l.DataCacheBytes, l.FilterCacheBytes = rawBytes(l), l.FilterBytes
		l.IndexCacheBytes = max(0, l.IndexCacheBytes-charge*(l.IndexBlocks+l.SingleIndexes))
		l.SingleIndexCacheBytes = max(0, l.SingleIndexCacheBytes-charge*l.SingleIndexes)
		l.TopIndexCacheBytes = max(0, l.TopIndexCacheBytes-charge*int64(l.Files))
	}

	return levels
}

// extra are the block reads of a Get as the family is, less those with other levels, asked in
// another way. 0 where what blocks take in a cache is not known.
func (f *family) extra(
	ctx context.Context, levels []engine.Level, reads *predict.BlockTables,
) (float64, error) {
	if slices.ContainsFunc(f.levels, func(l engine.Level) bool {
		return l.Files > 0 && !l.InCacheKnown
	}) {
		f.unpriced = true
		return 0, nil
	}

	now, err := f.price(ctx, f.levels, f.reads)
	if err != nil {
		return 0, err
	}

	then, err := f.price(ctx, levels, reads)
	return now - then, err
}

// outside: filters and indexes are kept beside the cache.
func (f *family) outside() bool { return f.reads != nil && !f.reads.MetadataInCache }

func (f *family) last() int { return predict.Deepest(f.levels) }

// withBits are the levels with filters of so many bits on all that are, where are says so.
func (f *family) withBits(
	bits func(level int) float64, are func(i int) bool,
) (levels []engine.Level, bytes int64) {
	levels = slices.Clone(f.levels)
	for i := range levels {
		if l := &levels[i]; l.Files > 0 && are(i) {
			bytes -= l.FilterBytes
			l.FilterBytes = int64(float64(l.Keys) * bits(l.Level) / 8)
			l.FilterKeys, l.FilterConsulted = l.Keys, true
			l.FilterCacheBytes = l.FilterBytes
			bytes += l.FilterBytes
		}
	}

	return levels, bytes
}

// tables counts tables for which is holds, and their bytes.
func (f *family) tables(is func(blockbased.Written) bool) (n int, bytes int64) {
	for _, t := range f.written {
		if is(t) {
			n, bytes = n+1, bytes+t.Bytes
		}
	}
	return n, bytes
}

func (f *family) of(n int) string {
	return fmt.Sprintf("%d of %s", n, unit.Plural(len(f.written), "table"))
}

// noFilters: tables above the last level that every Get reads a block of.
func (f *family) noFilters(ctx context.Context) (*Finding, error) {
	last := f.last()
	without := map[int]bool{}
	lacking := func(i int) bool {
		// one of Pebble's may have filters in some tables; one of RocksDB's has them in all or in
		// none
		l := f.levels[i]
		lacks := l.FilterBytes == 0 ||
			f.reads == nil && float64(l.FilterKeys) < nearlyAll*float64(l.Keys)
		return lacks && l.Files > 0 && (i != last || l.Level == 0 && l.Sublevels > 1)
	}

	for i, l := range f.levels {
		without[l.Level] = lacking(i)
	}

	n, _ := f.tables(func(t blockbased.Written) bool {
		return t.FilterBytes == 0 && without[t.Level]
	})
	if n == 0 {
		return nil, nil
	}

	bits := func(level int) float64 { return max(10, f.fresh.bits(level)) }
	levels, bytes := f.withBits(bits, lacking)
	extra, err := f.extra(ctx, levels, f.reads)
	found := &Finding{
		Code: NoFilters,
		Text: f.of(n) + " above the last level have no filter, so a Get that passes them " +
			"reads a block of each level",
		ExtraReads: extra,
		Remedy:     "set a filter policy, then " + rewrite,
	}

	if f.fresh.filters != "" {
		found.Remedy = "new tables get filters (" + f.fresh.filters + "); " + rewrite
	}

	if f.outside() {
		found.MemoryBytes = -bytes
	}

	return found, err
}

// notParted: partitions that are asked for, and whole filters or indexes in tables.
func (f *family) notParted(ctx context.Context) (*Finding, error) {
	asked, twoLevels := f.options["partition_filters"] == "true",
		f.options["index_type"] == "kTwoLevelIndexSearch"
	whole, _ := f.tables(func(t blockbased.Written) bool {
		return asked && t.FilterBytes > 0 && !t.FilterParted || twoLevels && t.IndexParts == 0
	})
	if whole == 0 {
		return nil, nil
	}

	parted := *f.reads
	parted.PartedFilters = asked
	levels := slices.Clone(f.levels)
	var memory int64
	for i := range levels {
		l := &levels[i]
		// an index of partitions comes with partitioned filters
		if l.SingleIndexes > 0 && l.Files > 0 {
			l.IndexBlocks += max(l.SingleIndexes, l.SingleIndexCacheBytes/int64(parted.PartBytes))
			memory += l.SingleIndexCacheBytes
			l.SingleIndexes, l.SingleIndexCacheBytes, l.SingleIndexBytes = 0, 0, 0
		}

		memory += l.FilterBytes
	}

	extra, err := f.extra(ctx, levels, &parted)
	found := &Finding{
		Code:       NotParted,
		ExtraReads: extra,
		Text: f.of(whole) + " have unpartitioned filters or indexes although partitioning " +
			"is configured",
		Remedy: "tables that are written from now on have partitions; " + rewrite,
	}

	if asked && !twoLevels {
		found.Text += ": RocksDB ignores partition_filters without index_type=kTwoLevelIndexSearch"
		found.Remedy = "set index_type=kTwoLevelIndexSearch and " + rewrite +
			", or remove partition_filters"
	}

	if f.outside() {
		found.MemoryBytes = memory
	}

	return found, err
}

// otherBits: filters of other sizes than new ones have.
func (f *family) otherBits(ctx context.Context) (*Finding, error) {
	const far = 0.2
	others, bits := map[int]bool{}, 0.0
	n, _ := f.tables(func(t blockbased.Written) bool {
		want := f.fresh.bits(t.Level)
		bits = max(bits, want)
		differs := func(want float64) bool {
			return math.Abs(8*float64(t.FilterBytes)/float64(t.FilterKeys)/want-1) > far
		}
		is := t.FilterBytes > 0 && t.FilterKeys > fewKeys && want > 0 && differs(want) &&
			(f.fresh.bloomBits == 0 || differs(f.fresh.bloomBits))
		others[t.Level] = others[t.Level] || is
		return is
	})

	if n == 0 {
		return nil, nil
	}

	levels, bytes := f.withBits(f.fresh.bits, func(i int) bool {
		return others[f.levels[i].Level] && f.levels[i].FilterConsulted
	})
	extra, err := f.extra(ctx, levels, f.reads)
	found := &Finding{Code: OtherBits, ExtraReads: extra, Remedy: rewrite,
		Text: fmt.Sprintf("%s have filters of other sizes than those of new ones, of %s bits per "+
			"key", f.of(n), unit.Significant(bits, 3))}
	if f.outside() {
		found.MemoryBytes = -bytes
	}

	return found, err
}

// otherBlocks: data blocks of another size than those of new tables.
func (f *family) otherBlocks(ctx context.Context) (*Finding, error) {
	const far = 1.5
	n, _ := f.tables(func(t blockbased.Written) bool {
		// A block has at most this, where no keys share prefixes, and at least its values with a
		// number and lengths for each.
		size, blocks := f.fresh.blockBytes(t.Level), math.Max(1, float64(t.DataBlocks))
		maximum, minimum := float64(t.RawBytes)/blocks,
			float64(t.RawValueBytes+f.fresh.minKey*t.Keys)/blocks
		entry := float64(t.RawBytes) / math.Max(1, float64(t.Keys))
		return t.DataBlocks >= 8 && entry < size/4 && (minimum > far*size || maximum < size/far)
	})

	if n == 0 {
		return nil, nil
	}

	levels := slices.Clone(f.levels)
	for i := range levels {
		if l := &levels[i]; l.DataBlocks > 1 {
			share := float64(l.RawKeyBytes+
				l.RawValueBytes) / float64(l.DataBlocks) / f.fresh.blockBytes(
				l.Level,
			)

			for _, sum := range []*int64{&l.DataBlocks, &l.IndexBlocks, &l.IndexBytes,
				&l.IndexCacheBytes, &l.SingleIndexBytes, &l.SingleIndexCacheBytes} {
				*sum = int64(float64(*sum) * share)
			}

			l.IndexBlocks = max(l.IndexBlocks, min(1, f.levels[i].IndexBlocks))
		}
	}

	extra, err := f.extra(ctx, levels, f.reads)
	return &Finding{Code: OtherBlocks, ExtraReads: extra, Remedy: rewrite,
		Text: fmt.Sprintf("%s have data blocks of another size than those of new ones, of %s",
			f.of(n),
			unit.Bytes(int64(f.fresh.blockBytes(f.levels[f.last()].Level))))}, err
}

// marked: tables that RocksDB will compact by itself, which it does not with those of the last
// level.
func (f *family) marked(context.Context) (*Finding, error) {
	deepest := 0
	for _, t := range f.written {
		deepest = max(deepest, t.Level)
	}

	n, bytes := f.tables(func(t blockbased.Written) bool { return t.Marked && t.Level < deepest })
	if n == 0 {
		return nil, nil
	}

	return &Finding{
		Code:      Marked,
		DiskBytes: bytes,
		Remedy:    "let the compactions end before measuring",
		Text: f.of(n) + " are marked for compaction: a program that opens the database for " +
			"writing rewrites them",
	}, nil
}

// unasked: filters that no Get consults, of all tables, since there is no filter policy, or of the
// last level, which optimize_filters_for_hits passes over.
func (f *family) unasked(ctx context.Context) (*Finding, error) {
	if f.options["filter_policy"] == "nullptr" {
		return f.noPolicy(ctx)
	}

	last := f.last()
	if last < 0 || f.options["optimize_filters_for_hits"] != "true" ||
		f.levels[last].FilterBytes == 0 {
		return nil, nil
	}

	return &Finding{
		Code:      UnaskedFilters,
		DiskBytes: f.levels[last].FilterBytes,
		Remedy:    rewrite + ", which leaves them out",
		Text: "bottommost-level filters are never consulted by Gets, because " +
			"optimize_filters_for_hits is set",
	}, nil
}

// noPolicy: filters of tables whose owner has lost its filter policy. The levels have none, since
// they are as Gets see them.
func (f *family) noPolicy(ctx context.Context) (*Finding, error) {
	has := func(t blockbased.Written) bool { return t.FilterBytes > 0 }
	n, _ := f.tables(has)
	if n == 0 {
		return nil, nil
	}

	disk, keys, filtered := int64(0), int64(0), map[int]bool{}
	for _, t := range f.written {
		if has(t) {
			disk, keys = disk+t.FilterBytes, keys+t.FilterKeys
			filtered[t.Level] = true
		}
	}

	bits := 8 * float64(disk) / float64(max(1, keys))
	levels, memory := f.withBits(func(int) float64 { return bits },
		func(i int) bool { return filtered[f.levels[i].Level] })
	extra, err := f.extra(ctx, levels, f.reads)
	found := &Finding{
		Code:       UnaskedFilters,
		ExtraReads: extra,
		DiskBytes:  disk,
		Text: f.of(n) + " have filters, which no Get consults, because the options name no " +
			"filter policy",
		Remedy: fmt.Sprintf("set filter_policy=bloomfilter:%d:false in the options of its tables",
			advice.WholeBits(bits)),
	}

	if f.outside() {
		found.MemoryBytes = -memory
	}

	return found, err
}

// unaskedOfPebble: filters of the last level, which Pebble passes over by its number, or of all,
// where no level has a policy.
func (f *family) unaskedOfPebble(ctx context.Context) (found *Finding, err error) {
	above := func(i int) bool { return f.levels[i].Level != lsm.ModelLevels-1 }
	bytes, all := int64(0), false
	for i, l := range f.levels {
		if !l.FilterConsulted && l.FilterBytes > 0 {
			bytes, all = bytes+l.FilterBytes, all || above(i)
		}
	}

	switch {
	case bytes == 0:
		return nil, nil
	case !all:
		return &Finding{
			Code:      UnaskedFilters,
			DiskBytes: bytes,
			Text:      "bottommost-level filters are never consulted by Gets",
			Remedy:    "leave the last level without a filter policy, then " + rewrite,
		}, nil
	}

	levels, _ := f.withBits(func(level int) float64 { return max(10, f.fresh.bits(level)) }, above)
	found = &Finding{
		Code:      UnaskedFilters,
		DiskBytes: bytes,
		Text: "filters of tables are never consulted by Gets, because no level has a filter " +
			"policy",
		Remedy: "set a filter policy, then " + rewrite,
	}

	found.ExtraReads, err = f.extra(ctx, levels, f.reads)
	return found, err
}

// unbounded: metadata beside the cache that take more memory than the cache.
func (f *family) unbounded(context.Context) (*Finding, error) {
	var bytes, keys int64
	for _, l := range f.levels {
		bytes += l.IndexCacheBytes + l.TopIndexCacheBytes + l.FilterCacheBytes
		keys += l.Keys
	}

	if f.reads.PartedFilters || f.reads.MetadataInCache || f.options["max_open_files"] != "-1" ||
		bytes <= f.cache {
		return nil, nil
	}

	return &Finding{Code: UnboundedMemory, MemoryBytes: bytes,
			Text: fmt.Sprintf("filters and indexes are kept outside the block cache without a "+
				"limit: %s bytes per key, in all more than the cache",
				unit.Significant(float64(bytes)/float64(keys), 3)),
			Remedy: "set cache_index_and_filter_blocks, or max_open_files below the number of " +
				"tables"},
		nil
}

// findingBlock is one thing that was found of the configuration.
func (i *Inspection) findingBlock(f Finding) doc.Block {
	name := ""
	if len(i.Database.Tables) > 0 {
		name = f.Table + ": "
	}

	if math.Abs(f.ExtraReads) < 0.0005 {
		f.ExtraReads = 0
	}

	costs := signed(f.ExtraReads)
	if f.ReadsUnknown {
		costs = "an unknown number of"
	}

	costs += " block reads per Get with a cache of " + unit.Bytes(f.CacheBytes)
	switch {
	case f.MemoryBytes > 0:
		costs += ", " + unit.Bytes(f.MemoryBytes) + " of memory"
	case f.MemoryBytes < 0:
		costs += "; saves " + unit.Bytes(-f.MemoryBytes) + " of memory"
	}

	if f.DiskBytes > 0 {
		costs += ", " + unit.Bytes(f.DiskBytes) + " on disk"
	}

	return doc.Block{Facts: [][2]string{
		{"configuration", name + f.Text},
		{"costs", costs},
		{"remedy", f.Remedy},
	}}
}
