package tablemodel

import (
	"cmp"
	"math"
	"sort"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// table is how a table would be divided.
type table struct {
	*file
	*level
	twoLevels              bool
	dataBlocks, partitions float64
	blockBytes, blockDisk  float64 // of a data block; raw and stored
	indexStored            float64 // share of an index block
	perPartition           float64 // data blocks
	filterBytes            float64
	filterParts            float64 // 0: it is not divided
	topEntry               float64 // of a part in the top of the filter
	edges                  []float64
	asks                   bool
	passes, passed         float64 // share of others' keys that the filter lets pass, then and now
	numbers                []uint32
}

// The blocks of a table are numbered: filter, or the top of its parts, top of the index,
// partitions, data, parts of the filter. The first numbers are taken by these.
const (
	filterAt = iota
	topAt
	partitionsAt
)

// topEntry is a part in the top of a filter that is divided where the index is, with a key that is
// cut short; without, it has a whole key and otherEntry.
const topEntry, otherEntry = 15, 8

// Levels are those of the database, with tables of settings to.
func (g *Gets) Levels(to TableOptions) []engine.Level {
	levels := make([]engine.Level, len(g.levels))
	for i := range g.levels {
		levels[i] = g.levels[i].with(g, to)
	}
	return levels
}

// Rewrite returns the accesses of the Gets with tables of settings to. Where the blocks that are
// made lie, and so in which shard of a cache, is a matter of luck: luck decides. The present
// settings are as they are.
func (g *Gets) Rewrite(to TableOptions, luck uint64) *cachesim.Trace {
	if to == g.present {
		return g.asTheyAre()
	}

	if to.LastFilters && g.model.NoEarlyExit && g.spans == nil {
		g.findSpans()
	}

	w := writer{
		to:         to,
		kind:       &g.model,
		sameBlocks: to.BlockBytes == g.present.BlockBytes,
		luck:       mix(luck) >> 8 &^ 0xfff,
		t:          &cachesim.Trace{WarmupGets: g.warmup},
		tables:     make([]table, len(g.files)),
		others:     make([]uint32, len(g.blocks)),
	}

	for i := range g.files {
		w.tables[i] = g.divide(&g.files[i], to)
	}

	from := uint32(0)
	for i, end := range g.ends {
		w.t.BeginGet()
		w.get(g, i, from, end)
		from = end
	}

	return w.t
}

// asTheyAre are the accesses without a change.
func (g *Gets) asTheyAre() *cachesim.Trace {
	if g.asIs != nil {
		return g.asIs
	}

	t := &cachesim.Trace{
		WarmupGets: g.warmup,
		Accesses:   g.accesses,
		Gets:       make([]uint32, len(g.ends)),
	}

	copy(t.Gets[1:], g.ends)
	for _, b := range g.blocks {
		t.Blocks = append(t.Blocks, b.Block)
	}

	return t
}

// with is the level with tables of settings to.
func (l *level) with(g *Gets, to TableOptions) engine.Level {
	n := l.Level
	if n.Files == 0 {
		return n
	}

	raw := l.entryBytes * float64(n.Keys)
	blocks := math.Max(float64(n.Files), math.Round(raw/g.blockBytes(l, to)))
	charged := func(kind engine.BlockType, bytes, blocks float64) int64 {
		if g.model.Cached != nil && blocks > 0 {
			bytes = blocks * g.model.Cached(kind, bytes/blocks, to)
		}
		return int64(bytes) + g.model.Charge*int64(blocks)
	}

	n.DataBlocks, n.DataCacheBytes, n.DataBytes = int64(blocks), charged(engine.Data, raw, blocks),
		int64(float64(l.DataBytes)*g.stored(l, to))
	index := blocks * l.indexEntry
	stored := 1.0
	if l.IndexCacheBytes > 0 {
		stored = float64(l.IndexBytes) / float64(l.IndexCacheBytes)
	}

	stored = g.storedIndex(stored, to)
	bits := to.ForLevel(n.Level).FilterBits
	n.IndexBlocks, n.SingleIndexes = 0, 0
	n.TopIndexBytes, n.TopIndexCacheBytes = 0, 0
	n.SingleIndexBytes, n.SingleIndexCacheBytes = 0, 0
	perFile := index / float64(n.Files)
	if g.divides(to, perFile) {
		parts := math.Ceil(perFile / meanBlock(l.indexEntry, to.IndexBytes))
		if g.asks(l, to) {
			parts, _ = g.parts(to, parts, bits*float64(l.Keys)/8/float64(n.Files))
		}

		n.IndexBlocks = int64(parts) * int64(n.Files)
		top := float64(n.IndexBlocks) * l.indexEntry
		n.TopIndexCacheBytes, n.TopIndexBytes = charged(engine.TopIndex, top, float64(n.Files)),
			int64(top*stored)
	} else {
		n.SingleIndexes = int64(n.Files)
		n.SingleIndexCacheBytes, n.SingleIndexBytes = charged(engine.SingleIndex, index,
			float64(n.Files)), int64(index*stored)
	}

	n.IndexCacheBytes, n.IndexBytes = charged(engine.Index, index,
		float64(n.IndexBlocks+n.SingleIndexes)), int64(index*stored)
	n.FilterConsulted = g.asks(l, to)
	switch keys := float64(cmp.Or(l.FilterKeys, l.Keys)); {
	case l.FilterBytes > 0 && g.present.FilterBits > 0 && g.model.FilterBytes == nil:
		n.FilterBytes = int64(
			float64(l.FilterBytes) * bits / g.present.ForLevel(n.Level).FilterBits,
		)
		if l.last && !n.FilterConsulted && !g.model.NoEarlyExit {
			n.FilterBytes = 0
		}
	case n.FilterConsulted:
		n.FilterBytes = int64(g.filterBytes(bits*keys/8, blocks, float64(n.DataBytes)))
	default:
		n.FilterBytes = 0
	}

	n.FilterCacheBytes = 0
	if n.FilterConsulted {
		n.FilterCacheBytes = charged(engine.Filter, float64(n.FilterBytes), float64(n.Files))
	}

	n.Bytes += n.DataBytes - l.DataBytes + n.IndexBytes + n.TopIndexBytes + n.FilterBytes -
		l.IndexBytes - l.TopIndexBytes - l.FilterBytes
	return n
}

// divides reports whether an index of so many bytes is divided.
func (g *Gets) divides(to TableOptions, index float64) bool {
	return to.IndexBytes > 0 && (g.model.AlwaysTop || index > float64(to.IndexBytes))
}

// parts are those of an index and of a filter, of which the index alone would have so many.
func (g *Gets) parts(to TableOptions, index, filterBytes float64) (ofIndex, ofFilter float64) {
	if !to.PartitionFilters {
		return index, 0
	}

	ofFilter = math.Ceil(filterBytes / (g.model.PartFull * float64(to.IndexBytes)))
	if g.model.CoupledPartitions {
		maximum := math.Max(index, ofFilter)
		return maximum, maximum
	}

	return index, ofFilter
}

// filterBytes are those of a filter with so many bytes of bits.
func (g *Gets) filterBytes(bits, dataBlocks, dataBytes float64) float64 {
	if g.model.FilterBytes == nil || bits == 0 {
		return bits
	}
	return g.model.FilterBytes(bits, dataBlocks, dataBytes)
}

// divide is how a table is divided into blocks.
func (g *Gets) divide(f *file, to TableOptions) table {
	t := table{file: f, level: g.levelOf(f)}
	if t.level == nil {
		return t
	}

	raw := f.dataBytes * t.rawPerStored
	t.blockBytes = g.blockBytes(t.level, to)
	t.blockDisk = t.blockBytes / t.rawPerStored * g.stored(t.level, to)
	t.indexStored = g.storedIndex(t.indexRatio, to)
	t.dataBlocks = math.Max(1, math.Ceil(raw/t.blockBytes))
	keys := f.filterKeys
	if keys == 0 {
		keys = f.dataBytes * t.keysPerByte
	}

	on, now := to.ForLevel(f.level), g.present.ForLevel(f.level)
	t.filterBytes = g.filterBytes(on.FilterBits*keys/8*t.filterOf, t.dataBlocks,
		f.dataBytes*g.stored(t.level, to))
	t.asks = g.asks(t.level, to)
	t.perPartition, t.partitions = t.dataBlocks, 1
	if to.IndexBytes > 0 {
		t.perPartition = math.Max(1, meanBlock(t.indexEntry, to.IndexBytes)/t.indexEntry)
		t.partitions = math.Ceil(t.dataBlocks / t.perPartition)
	}

	if t.asks && to.PartitionFilters {
		index := t.partitions
		if t.partitions, t.filterParts = g.parts(to, index, t.filterBytes); t.partitions > index {
			t.perPartition = t.dataBlocks / t.partitions
		}
	}

	if t.topEntry = topEntry; !g.model.CoupledPartitions && t.RawKeyBytes > 0 {
		const sequence = 8
		t.topEntry = float64(t.RawKeyBytes)/float64(t.Keys) - sequence + otherEntry
	}

	t.twoLevels = to.IndexBytes > 0 && (g.model.AlwaysTop || t.partitions > 1)
	t.passes, t.passed = 1, 1
	if t.asks {
		t.passes = g.model.Rate(on, keys)
	}

	if g.asks(t.level, g.present) {
		if t.passed = t.level.passed; t.passed == 0 {
			t.passed = g.model.Rate(now, keys)
		}
	}

	t.numbers = make([]uint32,
		partitionsAt+int(t.partitions)+int(t.dataBlocks)+1+int(t.filterParts))
	return t
}

// writer makes the accesses.
type writer struct {
	to     TableOptions
	kind   *TableModel
	luck   uint64
	t      *cachesim.Trace
	tables []table

	sameBlocks bool     // data blocks have their present size
	others     []uint32 // numbers of blocks that stay as they are, plus one
}

// get makes the accesses of Get i from those that it makes now.
func (w *writer) get(g *Gets, i int, from, end uint32) {
	if i == 0 && g.opening {
		for _, n := range g.accesses[from:end] {
			if kind := g.blocks[n].Type; kind == engine.Meta || kind == engine.Value {
				w.keep(g, n)
			}
		}

		return
	}

	depth := 0
	for from < end {
		to, asked, data := g.visit(from, end)
		depth = g.files[g.blocks[g.accesses[from]].file].level
		w.visit(g, from, to, g.keys[i], asked, data >= 0, g.finds(i, data))
		from = to
	}

	for depth++; w.to.LastFilters && g.spans != nil && g.found[i] &&
		depth < len(g.levels); depth++ {
		if f := g.tableFor(depth, g.keys[i]); f >= 0 {
			w.lookOn(&w.tables[f], g.keys[i])
		}
	}
}

// lookOn makes the accesses of an iterator to a table below the one that has its key.
func (w *writer) lookOn(t *table, key uint32) {
	w.top(t)
	if t.asks {
		w.filter(t, 0)
	}
	if share(key, t.number+1) < t.passes {
		w.data(t, t.anywhere(key, true))
	}
}

// visit makes the accesses of a Get to one table.
func (w *writer) visit(g *Gets, from, to, key uint32, asked, read, finds bool) {
	accesses := g.accesses[from:to]
	t := &w.tables[g.blocks[accesses[0]].file]
	if t.level == nil {
		for _, n := range accesses {
			w.keep(g, n)
		}
		return
	}

	reads, appears, passed := read, false, 1.0
	if asked {
		passed = t.passed
	}

	if !finds && t.passes != passed { // false positives are others
		draw := share(key, t.number+1)
		if read {
			reads = draw < t.passes/passed
		} else if draw < (t.passes-passed)/(1-passed) {
			reads, appears = true, true
		}
	}

	at := t.anywhere(key, appears)
	place := func(i int) float64 {
		b := &g.blocks[accesses[i]]
		return (float64(b.Offset) +
			float64(g.within[from+uint32(i)])*float64(b.DiskBytes)) * t.rawPerStored
	}

	for i, n := range accesses {
		if g.blocks[n].Type == engine.Data {
			at = place(i)
			break
		}
	}

	beyond := !finds && g.separatorGap > 0
	topped, filtered, first := false, !t.asks, true
	filter := func() {
		if !filtered {
			w.filter(t, at)
		}
		filtered = true
	}

	if w.kind.FilterBeforeIndex {
		filter()
	}

	for i, n := range accesses {
		switch g.blocks[n].Type {
		case engine.Filter:
			filter()
		case engine.TopIndex, engine.SingleIndex:
			if topped = reads || !w.kind.FilterBeforeIndex; topped {
				w.top(t)
			}
			if !asked {
				filter()
			}
		case engine.Index: // with the data block
		case engine.Data:
			if reads && (first || !beyond) {
				w.data(t, place(i))
			}
			first = false
		default:
			w.keep(g, n)
		}
	}

	if appears {
		if w.kind.FilterBeforeIndex && !topped {
			w.top(t)
		}
		w.data(t, at)
	}

	if beyond && reads && share(key, t.number+4) < g.separatorGap*t.entryBytes/t.blockBytes {
		w.data(t, at+t.blockBytes)
	}
}

// anywhere is a place among a table's raw data for a key that it has not: the first one for some of
// the keys that its filter lets pass.
func (t *table) anywhere(key uint32, passed bool) float64 {
	if passed && share(key, t.number+2) < t.gaps {
		return 0
	}
	return t.hashed(share(key, t.number+3)) * t.blockBytes
}

// hashed is in which data block, and where in it, a key falls that lies at a share of the space of
// keys. Hashed keys are apart as chance has it, so that blocks of n of them span parts of it that
// differ: they are drawn from the gamma distribution, as Wilson and Hilferty approximate it.
func (t *table) hashed(at float64) float64 {
	if t.edges == nil {
		n, end := math.Max(1, t.blockBytes/t.entryBytes), 0.0
		for i := range int(t.dataBlocks) {
			z := math.Sqrt2 * math.Erfinv(2*share(uint32(i), t.number+5)-1)
			const minimum = 0.01
			end += math.Pow(math.Max(minimum, 1-1/(9*n)+z/(3*math.Sqrt(n))), 3)
			t.edges = append(t.edges, end)
		}
	}

	at *= t.edges[len(t.edges)-1]
	block, from := sort.SearchFloat64s(t.edges, at), 0.0
	if block > 0 {
		from = t.edges[block-1]
	}

	return float64(block) + (at-from)/(t.edges[block]-from)
}

// filter asks for the filter, or for the part of it of a place among a table's raw data.
func (w *writer) filter(t *table, at float64) {
	if t.filterParts == 0 {
		if !w.to.MetadataOutsideCache {
			w.ask(t, filterAt, engine.Filter, t.filterBytes, t.filterBytes,
				w.pinned(t, false)|w.kind.Filters)
		}
		return
	}

	if !w.to.MetadataOutsideCache {
		bytes := t.topEntry * t.filterParts
		w.ask(t, filterAt, engine.Filter, bytes, bytes, w.pinned(t, true)|w.kind.Indexes)
	}

	part := math.Min(math.Floor(at/(t.dataBytes*t.rawPerStored)*t.filterParts), t.filterParts-1)
	bytes := t.filterBytes / t.filterParts
	w.ask(t, partitionsAt+int(t.partitions)+int(t.dataBlocks)+1+int(part), engine.Filter, bytes,
		bytes, w.pinned(t, false)|w.kind.Filters)
}

// pinned is the mark of filters and indexes that stay in the cache.
func (w *writer) pinned(t *table, top bool) cachesim.Marks {
	if w.kind.PinTop && top || w.kind.PinL0 && t.file.level == 0 {
		return cachesim.Pinned
	}
	return 0
}

func (w *writer) top(t *table) {
	if w.to.MetadataOutsideCache {
		return
	}

	mark := w.pinned(t, t.twoLevels) | w.kind.Indexes
	if !t.twoLevels {
		bytes := t.dataBlocks * t.indexEntry
		w.ask(t, topAt, engine.SingleIndex, bytes, bytes*t.indexStored, mark)
		return
	}

	bytes := t.partitions * t.indexEntry
	w.ask(t, topAt, engine.TopIndex, bytes, bytes*t.indexStored, mark)
}

// data asks for the data block at a place among a table's raw data, and for its part of the index.
func (w *writer) data(t *table, at float64) {
	rank := math.Min(math.Floor(at/t.blockBytes), t.dataBlocks-1)
	if t.twoLevels {
		p := math.Floor(rank / t.perPartition)
		bytes := math.Min(t.perPartition, t.dataBlocks-p*t.perPartition) * t.indexEntry
		w.ask(t, partitionsAt+int(p), engine.Index, bytes, bytes*t.indexStored,
			w.pinned(t, false)|w.kind.Indexes)
	}

	w.ask(t, partitionsAt+int(t.partitions)+int(rank), engine.Data, t.blockBytes,
		t.blockDisk-float64(w.kind.Trailer), 0)
}

// ask accesses a block of a table, by its number in the table. stored is without the trailer.
func (w *writer) ask(
	t *table, number int, kind engine.BlockType, bytes, stored float64, marks cachesim.Marks,
) {
	if t.numbers[number] == 0 {
		if w.kind.Cached != nil {
			bytes = w.kind.Cached(kind, bytes, w.to)
		}

		if kind == engine.Data && t.cached > 0 && w.sameBlocks {
			bytes = t.cached
		}

		w.t.Blocks = append(w.t.Blocks, cachesim.Block{
			File:      t.file.number,
			Offset:    uint64(number)<<12 ^ w.luck,
			Bytes:     int32(bytes),
			DiskBytes: int32(stored) + int32(w.kind.Trailer),
			Type:      kind,
			Level:     uint8(t.file.level),
			Marks:     marks,
		})

		t.numbers[number] = uint32(len(w.t.Blocks))
	}

	w.t.Accesses = append(w.t.Accesses, t.numbers[number]-1)
}

// keep accesses a block that stays as it is.
func (w *writer) keep(g *Gets, n uint32) {
	if w.others[n] == 0 {
		b := g.blocks[n].Block
		b.Offset |= 1 << 62 // apart from the blocks that are made
		w.t.Blocks = append(w.t.Blocks, b)
		w.others[n] = uint32(len(w.t.Blocks))
	}
	w.t.Accesses = append(w.t.Accesses, w.others[n]-1)
}
