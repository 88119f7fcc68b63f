// Package tablemodel says what Gets would have accessed if the tables of a database had been
// written with other settings.
//
// It starts from the accesses of Gets to the tables as they are (model/trace) and from the sizes of
// their levels. The keys stay where they are: a block of another size is cut from the same sorted
// data, so which one a key is in follows from where its present block begins and from its rank
// among the keys that were asked for therein. Indexes and filters change their sizes with it; a
// filter of other bits lets other Gets pass, which a hash of key and table decides.
//
// Non-goals: how many levels and tables there are, which stay as they are; caches (model/cachesim);
// the traces themselves.
package tablemodel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/trace"
)

// TableOptions are the settings of tables that decide which blocks a Get accesses. Sizes are in
// bytes, before compression.
type TableOptions struct {
	BlockBytes int64 // at which a data block is closed
	// at which an index is divided into blocks, as one of them is closed; 0: it never is
	IndexBytes int64
	FilterBits float64 // of a key; 0: no filters

	// LastFilters: a Get asks the filters of the last level, too.
	LastFilters      bool
	PartitionFilters bool // divided as indexes are
	// filters and indexes that are not divided are in memory beside the cache
	MetadataOutsideCache bool

	// Compression of blocks, in small letters; "": that of the present ones.
	Compression string
	// ExtraBitsPerLevel are those of a key that each level has beyond the one below it; the last
	// one has FilterBits. The same memory lets fewer Gets pass in vain, as a level has fewer keys
	// the higher it is (Monkey: Dayan, Athanassoulis, Idreos, SIGMOD 2017).
	ExtraBitsPerLevel float64

	BufferBytes int64 // of a memtable, which changes no tables; 0: memtables do not fill
}

// ForLevel returns the settings of the tables of a level.
func (t TableOptions) ForLevel(level int) TableOptions {
	if t.FilterBits > 0 {
		t.FilterBits += t.ExtraBitsPerLevel * float64(lsm.ModelLevels-1-level)
	}
	t.ExtraBitsPerLevel = 0
	return t
}

// NoCompression is the Compression of blocks that are stored as they are, and DefaultCompression
// that of an engine that is told nothing.
const (
	NoCompression      = "none"
	DefaultCompression = "snappy"
)

// Compression is the name here of an engine's word for a compression, such as kNoCompression.
func Compression(word string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(word), "k"), "compression")
	switch name {
	case "", "default":
		return DefaultCompression
	case "no":
		return NoCompression
	}
	return name
}

// FilterRate is the share of keys that a filter lets pass although its table lacks them, in a table
// of so many keys.
type FilterRate func(to TableOptions, keys float64) float64

// TableModel is how an engine writes tables, asks for their blocks and keeps them in its cache, and
// what it calls their options. The zero value is Pebble's.
type TableModel struct {
	Charge int64 // that the cache adds to each block; 0: the model of the cache does
	Rate   FilterRate
	// BlockBytes is the mean size of a data block of a level, in which entries have so many bytes.
	BlockBytes func(l engine.Level, entryBytes float64, to TableOptions) float64
	// FilterBytes is what a table's filter takes for so many bytes of bits; nil: as many.
	FilterBytes func(bits, dataBlocks, dataBytes float64) float64
	// Cached is what the cache takes for a block with so much content; nil: as much.
	Cached func(kind engine.BlockType, bytes float64, to TableOptions) float64
	// Stored is the share of a data block's bytes that it has when it is stored; nil: it is the
	// same for all sizes.
	Stored       func(blockBytes int64, compression string) float64
	Compression  string   // the present one
	Compressions []string // that may take its place

	// NoEarlyExit: what asks the last level's filters looks into all levels below the one that has
	// the key, as Pebble's iterators do. Of other engines those filters are a matter of options.
	NoEarlyExit       bool
	FilterBeforeIndex bool // the index is asked only if the filter lets the Get pass
	AlwaysTop         bool // an index that may be divided has a top, even of one part
	// SeparatorGap is how far a block reaches, by its index, into the gap behind its last key: a
	// Get of a key therein reads the next block, too. It is measured where enough of the Gets that
	// are read show it.
	SeparatorGap      float64
	CoupledPartitions bool    // where a filter is divided, the index is, too
	PartFull          float64 // how full parts of filters are
	// bytes behind a stored block; 0: sizes of stored indexes are not known
	Trailer       int
	Filters       cachesim.Marks
	Indexes       cachesim.Marks // and the tops of filters
	PinTop, PinL0 bool           // what stays in the cache: tops, all of level 0
	// bytes beside the cache, while the program writes; 0: they are in it
	MemTables    int64
	BufferOption string // sets the size of one

	Options   []Option
	OptionMap func(TableOptions) map[string]string
	// Snippet sets the options, and the size of the cache.
	Snippet func(to TableOptions, cacheBytes int64) string
	// what looks a key up and asks the last level's filters, where that is not a Get
	Lookup  string
	Rewrite string  // what in the engine rewrites all tables
	Error   float64 // share by which predictions were off when they were tested
}

// Option is one that is varied: all tables that differ from those given in it.
type Option func(from TableOptions) []TableOptions

// Values is an option with these values, which set puts into tables.
func Values[T any](set func(*TableOptions, T), values ...T) Option {
	return func(from TableOptions) []TableOptions {
		all := make([]TableOptions, len(values))
		for i, v := range values {
			all[i] = from
			set(&all[i], v)
		}
		return all
	}
}

// Gets are accesses as they are.
type Gets struct {
	present TableOptions
	model   TableModel
	asIs    *cachesim.Trace // exact, if the accesses that were read show more than the cache sees
	levels  []level
	shapes  map[shape]float64
	files   []file

	blocks   []place
	accesses []uint32
	ends     []uint32 // of each Get's accesses
	keys     []uint32 // the rank of each Get's key among all of them
	// of each access to a data block: the share of the block that lies before the key
	within       []float32
	found        []bool
	separatorGap float64 // see Kind
	warmup       int
	opening      bool
	spans        [][]span // see below; nil: not looked for yet
}

// shape is a level with tables of some settings.
type shape struct {
	level int
	to    TableOptions
}

// level is what the tables of a level have in common.
type level struct {
	engine.Level
	last         bool    // no other lies below it
	entryBytes   float64 // of a key and its value in a data block
	rawPerStored float64
	indexEntry   float64 // of a data block in an index block
	indexRatio   float64 // stored/raw
	cut          float64 // measured mean bytes of a data block over those of the rule
	keysPerByte  float64 // stored
	// measured mean bytes that the cache takes for a data block, where there is a rule; 0: not
	// known
	cached   float64
	filterOf float64 // measured bytes of filters over bits x keys
	// gaps is the share of the Gets that a filter lets pass in vain which ask for the first block
	// of the table: those of keys in a gap before it (Pebble v1).
	gaps float64
	// passed is the share of the Gets that do not find their key in a table which its filter lets
	// pass, measured; 0: too few show it.
	passed float64
	// passedOver: Gets do not ask the filters.
	passedOver bool
}

// file is a table.
type file struct {
	number     uint64
	level      int
	dataBytes  float64 // stored
	filterKeys float64 // as its filter tells; 0: no filter was asked
}

// place is a block as it is.
type place struct {
	cachesim.Block
	file int32
}

// New returns no Gets yet, of a database with these levels. What their blocks take in a cache
// includes the charge of the kind.
func New(levels []engine.Level, kind TableModel, present TableOptions) (*Gets, error) {
	g := &Gets{present: present, model: kind}
	return g, g.measure(levels)
}

// AsIs are the accesses of the Gets with the present settings, where those that Read gets show
// more: all blocks, whether they are in the cache or beside it.
func (g *Gets) AsIs(t *cachesim.Trace) {
	g.asIs = t
	bytes, blocks := make([]float64, len(g.levels)), make([]float64, len(g.levels))
	for _, b := range t.Blocks {
		if int(b.Level) < len(bytes) && b.Type == engine.Data {
			bytes[b.Level], blocks[b.Level] = bytes[b.Level]+float64(b.Bytes), blocks[b.Level]+1
		}
	}

	for i := range g.levels {
		if g.model.Cached != nil && blocks[i] > 0 {
			g.levels[i].cached = bytes[i] / blocks[i]
		}
	}
}

// Read adds the Gets of a trace. keys has the rank of the key of each of them but that of the
// opening among all keys, equal ones with equal ranks; nil where keys are not known: then all are
// taken for different ones.
func (g *Gets) Read(r *trace.Reader, keys []uint32) error {
	h := r.Header()
	g.warmup, g.opening, g.levels = h.WarmupGets, h.Opening, slices.Clone(g.levels)
	if h.Opening && keys != nil {
		keys = append([]uint32{0}, keys...)
	}

	var numbers []uint32
	for {
		var found bool
		var err error
		numbers, found, err = r.Next(numbers)
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return err
		}

		g.accesses = append(g.accesses, numbers...)
		g.ends, g.found = append(g.ends, uint32(len(g.accesses))), append(g.found, found)
	}

	switch {
	case keys == nil:
		g.keys = make([]uint32, len(g.ends))
		for i := range g.keys {
			g.keys[i] = uint32(mix(uint64(i)))
		}
	case len(keys) != len(g.ends):
		return fmt.Errorf("tablemodel: %d keys of %d Gets", len(keys), len(g.ends))
	default:
		g.keys = keys
	}

	at := map[uint64]int32{}
	for _, b := range r.Blocks() {
		n, known := at[b.File]
		if !known {
			n = int32(len(g.files))
			at[b.File] = n
			g.files = append(g.files, file{number: b.File, level: int(b.Level)})
		}

		g.blocks = append(g.blocks, place{b, n})
	}

	if err := g.measureData(); err != nil {
		return err
	}

	g.measureIndexes()
	g.place()
	g.measureFiles()
	g.measureGaps()
	return nil
}

// Absent is the share of the Gets that find nothing.
func (g *Gets) Absent() float64 {
	absent := 0
	for _, found := range g.found[g.warmup:] {
		if !found {
			absent++
		}
	}
	return float64(absent) / float64(max(1, len(g.found)-g.warmup))
}

// measureData measures data blocks where the levels do not tell what their content takes.
func (g *Gets) measureData() error {
	raw, stored := make([]float64, len(g.levels)), make([]float64, len(g.levels))
	for _, b := range g.blocks {
		if int(b.Level) < len(raw) && b.Type == engine.Data {
			raw[b.Level], stored[b.Level] = raw[b.Level]+float64(b.Bytes),
				stored[b.Level]+float64(b.DiskBytes)
		}
	}

	var levels []engine.Level
	unknown := false
	for i, l := range g.levels {
		if l.Files > 0 && l.DataCacheBytes == 0 {
			unknown = true
			if l.DataCacheBytes = l.DataBytes; stored[i] > 0 {
				l.DataCacheBytes = int64(float64(l.DataBytes) * raw[i] / stored[i])
			}
		}

		levels = append(levels, l.Level)
	}

	if !unknown {
		return nil
	}

	return g.measure(levels)
}

// measureIndexes measures how much of an index is stored where the levels do not tell.
func (g *Gets) measureIndexes() {
	if g.model.Trailer > 0 {
		return
	}

	raw, stored := make([]float64, len(g.levels)), make([]float64, len(g.levels))
	for _, b := range g.blocks {
		if int(b.Level) < len(raw) &&
			(b.Type == engine.Index || b.Type == engine.TopIndex || b.Type == engine.SingleIndex) {
			raw[b.Level], stored[b.Level] = raw[b.Level]+float64(b.Bytes),
				stored[b.Level]+float64(b.DiskBytes)
		}
	}

	for i := range g.levels {
		if raw[i] > 0 {
			g.levels[i].indexRatio = stored[i] / raw[i]
		}
	}
}

// place puts the keys that were found in a data block into some of its entries, in their order, and
// those that were not found anywhere in it. Were all drawn anywhere, parts of a block would differ
// more in how often they are asked for than they do.
func (g *Gets) place() {
	type asked struct{ block, key, access uint32 }
	var found []asked
	g.within = make([]float32, len(g.accesses))
	from := uint32(0)
	for i, end := range g.ends {
		for from < end {
			to, _, data := g.visit(from, end)
			finds := g.finds(i, data)
			for ; from < to; from++ {
				switch n := g.accesses[from]; {
				case g.blocks[n].Type != engine.Data:
				case finds:
					found = append(found, asked{n, g.keys[i], from})
				default:
					g.within[from] = float32(share(g.keys[i], uint64(n)))
				}
			}
		}
	}

	slices.SortFunc(found, func(a, b asked) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.key, b.key))
	})
	for from := 0; from < len(found); {
		b := &g.blocks[found[from].block]
		to, different := from, 0
		for ; to < len(found) && found[to].block == found[from].block; to++ {
			if to == from || found[to].key != found[to-1].key {
				different++
			}
		}

		entries := different
		if l := g.levelOf(&g.files[b.file]); l != nil {
			entries = max(different, int(math.Round(float64(b.Bytes)/l.entryBytes)))
		}

		left, entry := different, -1
		for i := from; i < to; i++ {
			if i == from || found[i].key != found[i-1].key { // in the next entry that is drawn
				for entry++; share(uint32(entry),
					uint64(found[from].block)) >= float64(left)/float64(
					entries-entry,
				); {
					entry++
				}

				left--
			}

			g.within[found[i].access] = (float32(entry) + 0.5) / float32(entries)
		}

		from = to
	}
}

// measure works out what the levels are like.
func (g *Gets) measure(levels []engine.Level) error {
	g.levels, g.shapes = nil, map[shape]float64{}
	last := -1
	for _, l := range levels {
		for len(g.levels) <= l.Level {
			g.levels = append(g.levels, level{})
		}

		if l.Files == 0 {
			continue
		}

		if l.Keys <= 0 || l.DataBlocks <= 0 || l.DataBytes <= 0 || !l.InCacheKnown {
			return fmt.Errorf("tablemodel: level %d does not tell what its blocks hold", l.Level)
		}

		raw := float64(l.DataCacheBytes - g.model.Charge*l.DataBlocks)
		v := level{
			Level:        l,
			entryBytes:   raw / float64(l.Keys),
			rawPerStored: raw / float64(l.DataBytes),
			keysPerByte:  float64(l.Keys) / float64(l.DataBytes),
			cut:          1,
		}

		v.cut = raw / float64(l.DataBlocks) / g.blockBytes(&v, g.present)
		index := float64(l.IndexCacheBytes - g.model.Charge*(l.IndexBlocks+l.SingleIndexes))
		v.indexEntry, v.indexRatio = index/float64(l.DataBlocks), 1
		if g.model.Trailer > 0 && index > 0 {
			v.indexRatio = float64(l.IndexBytes) / index
		}

		v.filterOf, v.passedOver = 1,
			!l.FilterConsulted && (g.present.FilterBits > 0 || l.Level == lsm.ModelLevels-1)
		if l.FilterBytes > 0 && g.present.FilterBits > 0 && g.model.FilterBytes == nil {
			bits := g.present.ForLevel(l.Level).FilterBits * float64(cmp.Or(l.FilterKeys, l.Keys))
			v.filterOf = 8 * float64(l.FilterBytes) / bits
		}

		g.levels[l.Level], last = v, max(last, l.Level)
	}

	if last >= 0 {
		g.levels[last].last = true
	}

	clear(g.shapes) // they were those of the rule alone
	return nil
}

// blockBytes is the mean content of a level's data blocks with settings to.
func (g *Gets) blockBytes(l *level, to TableOptions) float64 {
	at := shape{l.Level.Level, TableOptions{BlockBytes: to.BlockBytes}}
	if _, known := g.shapes[at]; !known {
		rule := meanBlock(l.entryBytes, to.BlockBytes)
		if g.model.BlockBytes != nil {
			rule = g.model.BlockBytes(l.Level, l.entryBytes, to)
		}
		g.shapes[at] = l.cut * rule
	}

	return g.shapes[at]
}

// stored is by what factor data blocks of other settings compress worse than those of a level that
// are there.
func (g *Gets) stored(l *level, to TableOptions) float64 {
	switch {
	case to.Compression == NoCompression:
		const behindBlock = 5 // bytes, of engines with such tables
		return l.rawPerStored * (1 + behindBlock/g.blockBytes(l, to))
	case g.model.Stored == nil || to.BlockBytes == g.present.BlockBytes && to.Compression == "":
		return 1
	}
	return g.model.Stored(to.BlockBytes, to.Compression) / g.model.Stored(g.present.BlockBytes, "")
}

// storedIndex is the share of an index block's bytes that it has when it is stored with settings
// to, and present that of those that are there.
func (g *Gets) storedIndex(present float64, to TableOptions) float64 {
	// of hashed keys, measured (docs/tuning.md)
	ratio := map[string]float64{"snappy": 0.62, "lz4": 0.62, "zstd": 0.5}
	switch {
	case to.Compression == "":
		return present
	case to.Compression == NoCompression:
		return 1
	}

	return math.Min(1, present*ratio[to.Compression]/cmp.Or(ratio[g.model.Compression], 1))
}

// asks reports whether Gets ask the filters of a level.
func (g *Gets) asks(l *level, to TableOptions) bool {
	return to.FilterBits > 0 &&
		(to.LastFilters || !l.passedOver && (g.model.NoEarlyExit || !l.last))
}

// measureFiles works out how large the tables are.
func (g *Gets) measureFiles() {
	for _, b := range g.blocks {
		f := &g.files[b.file]
		switch b.Type {
		case engine.Data:
			f.dataBytes = max(f.dataBytes, float64(b.Offset)+float64(b.DiskBytes))
		case engine.Filter:
			if l := g.levelOf(f); l != nil && g.present.FilterBits > 0 &&
				!g.present.PartitionFilters && g.model.FilterBytes == nil {
				bits := g.present.ForLevel(f.level).FilterBits
				f.filterKeys = 8 * float64(b.Bytes) / bits / l.filterOf
			}
		}
	}

	// Behind the data blocks come those of the filter and the index.
	ends := make([]float64, len(g.files))
	for _, b := range g.blocks {
		if b.Type != engine.Data && b.Type != engine.Meta && b.Type != engine.Value &&
			float64(b.Offset) >= g.files[b.file].dataBytes {
			if end := &ends[b.file]; *end == 0 || float64(b.Offset) < *end {
				*end = float64(b.Offset)
			}
		}
	}

	for i, end := range ends {
		g.files[i].dataBytes = max(g.files[i].dataBytes, end)
	}
}

// measureGaps looks where Gets that filters let pass in vain go, and how many of all that find
// nothing in a table read two blocks.
func (g *Gets) measureGaps() {
	asks, passed, first := make([]float64, len(g.levels)), make([]float64, len(g.levels)),
		make([]float64, len(g.levels))
	twice, entries := 0.0, 0.0 // and the shares of an entry in a block
	from := uint32(0)
	for i, end := range g.ends {
		for from < end {
			to, asked, data := g.visit(from, end)
			f := &g.files[g.blocks[g.accesses[from]].file]
			l, finds := g.levelOf(f), g.finds(i, data)
			if l != nil && asked && !finds {
				asks[f.level]++
			}

			if l != nil && data >= 0 && !finds {
				entries += l.entryBytes / g.blockBytes(l, g.present)
				for n := from; n < uint32(data); n++ {
					if g.blocks[g.accesses[n]].Type == engine.Data {
						twice++
					}
				}

				if asked {
					passed[f.level]++
				}

				if asked && g.blocks[g.accesses[data]].Offset == 0 {
					first[f.level]++
				}
			}

			from = to
		}
	}

	const enough = 100
	for i := range g.levels {
		g.levels[i].gaps = first[i] / max(1, passed[i])
		if passed[i] > enough {
			g.levels[i].passed = passed[i] / asks[i]
		}
	}

	if g.separatorGap = g.model.SeparatorGap; entries > enough {
		g.separatorGap = twice / entries
	}
}

// visit finds the end of the accesses from one on that go to the same table, whether its filter is
// asked, and the access to its data; -1: there is none.
func (g *Gets) visit(from, end uint32) (to uint32, asked bool, data int) {
	data = -1
	for to = from; to < end &&
		g.blocks[g.accesses[to]].file == g.blocks[g.accesses[from]].file; to++ {
		switch g.blocks[g.accesses[to]].Type {
		case engine.Filter:
			asked = true
		case engine.Data:
			data = int(to)
		}
	}

	return to, asked, data
}

// finds reports whether Get i finds its key by the access to data: the last one that it makes.
// LevelDB's look into all tables of level 0.
func (g *Gets) finds(i, data int) bool {
	return g.found[i] && data >= 0 &&
		!slices.ContainsFunc(g.accesses[data+1:g.ends[i]], func(n uint32) bool {
			return g.blocks[n].Type == engine.Data
		})
}

// span is the table of a level into which a Get of the key looks; -1: none.
type span struct {
	key   uint32
	table int32
}

// findSpans works out, from the Gets that passed each level but the first, which of its tables has
// which keys.
func (g *Gets) findSpans() {
	g.spans = make([][]span, len(g.levels))
	from := uint32(0)
	for i, end := range g.ends {
		depth := 1
		for from < end {
			f := g.blocks[g.accesses[from]].file
			to, _, _ := g.visit(from, end)
			for ; depth <= min(g.files[f].level, len(g.levels)-1); depth++ {
				looked := span{g.keys[i], -1}
				if depth == g.files[f].level {
					looked.table = f
				}
				g.spans[depth] = append(g.spans[depth], looked)
			}

			from = to
		}

		for ; depth < len(g.levels) && !g.found[i]; depth++ {
			g.spans[depth] = append(g.spans[depth], span{g.keys[i], -1})
		}
	}

	for _, spans := range g.spans {
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.key, b.key) })
	}
}

// tableFor is the table of a level into which a look for the key would go, by the nearest key that
// was looked for there; -1: none.
func (g *Gets) tableFor(level int, key uint32) int32 {
	spans := g.spans[level]
	at := sort.Search(len(spans), func(i int) bool { return spans[i].key >= key })
	if at < len(spans) {
		return spans[at].table
	}
	return -1
}

// levelOf is nil of a table whose level is not known.
func (g *Gets) levelOf(f *file) *level {
	if f.level >= len(g.levels) || g.levels[f.level].Files == 0 {
		return nil
	}
	return &g.levels[f.level]
}

// meanBlock are the bytes of a block of entries of so many bytes.
func meanBlock(entryBytes float64, closedAt int64) float64 {
	// of the next key, which is measured without what it shares with the one before
	const notShared = 8
	return entryBytes * lsm.EntriesPerBlock(entryBytes, entryBytes+notShared, float64(closedAt))
}

// mix is the finaliser of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// share is a number from 0 to 1 for a key and another number, always the same.
func share(key uint32, salt uint64) float64 {
	return float64(mix(uint64(key)<<32^salt*0x9e3779b97f4a7c15)>>11) / (1 << 53)
}
