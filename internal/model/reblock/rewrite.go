package reblock

import (
	"math"

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
	perPartition           float64 // data blocks
	filterBytes            float64
	asks                   bool    // the filter
	passes, passed         float64 // share of others' keys that the filter lets pass, then and now
	numbers                []uint32
}

// The blocks of a table are numbered: filter, top of the index, partitions, data. The first numbers
// are taken by these.
const (
	filterAt = iota
	topAt
	partitionsAt
)

// Levels are those of the database, with tables of settings to.
func (g *Gets) Levels(to Tables) []engine.Level {
	levels := make([]engine.Level, len(g.levels))
	for i := range g.levels {
		levels[i] = g.levels[i].with(g, to)
	}
	return levels
}

// With are the accesses of the Gets with tables of settings to. Where the blocks that are made lie, and so
// in which shard of a cache, is a matter of luck: luck decides. The present settings are as they are.
func (g *Gets) With(to Tables, luck uint64) *cachesim.Trace {
	if to == g.present {
		return g.asTheyAre()
	}
	if to.LastFilters && g.GoesOn && g.spans == nil {
		g.findSpans()
	}
	w := writer{to: to, luck: mix(luck) >> 8 &^ 0xfff, t: &cachesim.Trace{WarmupGets: g.warmup},
		tables: make([]table, len(g.files)), others: make([]uint32, len(g.blocks))}
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
	t := &cachesim.Trace{WarmupGets: g.warmup, Accesses: g.accesses, Gets: make([]uint32, len(g.ends))}
	copy(t.Gets[1:], g.ends)
	for _, b := range g.blocks {
		t.Blocks = append(t.Blocks, b.Block)
	}
	return t
}

// with is the level with tables of settings to.
func (l *level) with(g *Gets, to Tables) engine.Level {
	n := l.Level
	if n.Files == 0 {
		return n
	}
	raw := l.entryBytes * float64(n.Keys)
	blocks := math.Max(float64(n.Files), math.Round(raw/(l.cut*meanBlock(l.entryBytes, to.BlockBytes))))
	charged := func(bytes, blocks float64) int64 { return int64(bytes) + g.charge*int64(blocks) }
	n.DataBlocks, n.DataCacheBytes = int64(blocks), charged(raw, blocks)
	index := blocks * l.indexEntry
	stored := 1.0
	if l.IndexCacheBytes > 0 {
		stored = float64(l.IndexBytes) / float64(l.IndexCacheBytes)
	}
	n.IndexBlocks, n.SingleIndexes, n.TopIndexCacheBytes, n.TopIndexBytes, n.SingleIndexCacheBytes, n.SingleIndexBytes = 0, 0, 0, 0, 0, 0
	perFile := index / float64(n.Files)
	if perFile > float64(to.IndexBytes) {
		n.IndexBlocks = int64(math.Ceil(perFile/meanBlock(l.indexEntry, to.IndexBytes))) * int64(n.Files)
		top := float64(n.IndexBlocks) * l.indexEntry
		n.TopIndexCacheBytes, n.TopIndexBytes = charged(top, float64(n.Files)), int64(top*stored)
	} else {
		n.SingleIndexes = int64(n.Files)
		n.SingleIndexCacheBytes, n.SingleIndexBytes = charged(index, float64(n.Files)), int64(index*stored)
	}
	n.IndexCacheBytes, n.IndexBytes = charged(index, float64(n.IndexBlocks+n.SingleIndexes)), int64(index*stored)
	n.FilterConsulted, n.FilterCacheBytes = l.asks(to), 0
	switch {
	case l.FilterBytes > 0 && g.present.FilterBits > 0:
		n.FilterBytes = int64(float64(l.FilterBytes) * to.FilterBits / g.present.FilterBits)
	case n.FilterConsulted:
		n.FilterBytes = int64(to.FilterBits * float64(n.Keys) / 8)
	}
	if n.FilterConsulted {
		n.FilterCacheBytes = charged(float64(n.FilterBytes), float64(n.Files))
	}
	n.Bytes += n.IndexBytes + n.TopIndexBytes + n.FilterBytes - l.IndexBytes - l.TopIndexBytes - l.FilterBytes
	return n
}

// asks reports whether Gets ask the filters.
func (l *level) asks(to Tables) bool { return to.FilterBits > 0 && (!l.passedOver || to.LastFilters) }

// divide is how a table is divided into blocks.
func (g *Gets) divide(f *file, to Tables) table {
	t := table{file: f, level: g.levelOf(f)}
	if t.level == nil {
		return t
	}
	raw := f.dataBytes * t.rawPerStored
	t.blockBytes = t.cut * meanBlock(t.entryBytes, to.BlockBytes)
	t.blockDisk = t.blockBytes / t.rawPerStored
	t.dataBlocks = math.Max(1, math.Ceil(raw/t.blockBytes))
	t.perPartition = math.Max(1, meanBlock(t.indexEntry, to.IndexBytes)/t.indexEntry)
	t.partitions = math.Ceil(t.dataBlocks / t.perPartition)
	t.twoLevels = t.partitions > 1
	keys := f.filterKeys
	if keys == 0 {
		keys = f.dataBytes * t.keysPerByte
	}
	t.filterBytes = to.FilterBits * keys / 8 * t.filterOf
	t.asks, t.passes, t.passed = t.level.asks(to), 1, 1
	if t.asks {
		t.passes = g.rate(to.FilterBits, keys)
	}
	if g.present.FilterBits > 0 {
		t.passed = g.rate(g.present.FilterBits, keys)
	}
	t.numbers = make([]uint32, partitionsAt+int(t.partitions)+int(t.dataBlocks)+1)
	return t
}

// writer makes the accesses.
type writer struct {
	to     Tables
	luck   uint64
	t      *cachesim.Trace
	tables []table
	others []uint32 // numbers of blocks that stay as they are, plus one
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
		w.visit(g, from, to, g.keys[i], asked, data >= 0, to == end && g.found[i])
		from = to
	}
	for depth++; w.to.LastFilters && g.spans != nil && g.found[i] && depth < len(g.levels); depth++ {
		if f := g.tableFor(depth, g.keys[i]); f >= 0 {
			w.lookOn(&w.tables[f], g.keys[i])
		}
	}
}

// lookOn makes the accesses of an iterator to a table below the one that has its key.
func (w *writer) lookOn(t *table, key uint32) {
	w.top(t)
	if t.asks {
		w.ask(t, filterAt, engine.Filter, 0, t.filterBytes, t.filterBytes)
	}
	if share(key, t.number+1) < t.passes {
		w.falsely(t, key)
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
	for i, n := range accesses {
		b := &g.blocks[n]
		switch b.Type {
		case engine.Filter:
			if t.asks {
				w.ask(t, filterAt, engine.Filter, 0, t.filterBytes, t.filterBytes)
			}
		case engine.TopIndex, engine.SingleIndex:
			w.top(t)
			if t.asks && !asked {
				w.ask(t, filterAt, engine.Filter, 0, t.filterBytes, t.filterBytes)
			}
		case engine.Index: // with the data block
		case engine.Data:
			if reads {
				w.data(t, (float64(b.Offset)+float64(g.within[from+uint32(i)])*float64(b.DiskBytes))*t.rawPerStored)
			}
		default:
			w.keep(g, n)
		}
	}
	if appears {
		w.falsely(t, key)
	}
}

// falsely reads a data block of a table that has not the key.
func (w *writer) falsely(t *table, key uint32) {
	at := 0.0
	if share(key, t.number+2) >= t.gaps {
		at = share(key, t.number+3) * t.dataBytes * t.rawPerStored
	}
	w.data(t, at)
}

func (w *writer) top(t *table) {
	if !t.twoLevels {
		bytes := t.dataBlocks * t.indexEntry
		w.ask(t, topAt, engine.SingleIndex, 1, bytes, bytes)
		return
	}
	bytes := t.partitions * t.indexEntry
	w.ask(t, topAt, engine.TopIndex, 1, bytes, bytes)
}

// data asks for the data block at a place among a table's raw data, and for its part of the index.
func (w *writer) data(t *table, at float64) {
	rank := math.Min(math.Floor(at/t.blockBytes), t.dataBlocks-1)
	if t.twoLevels {
		p := math.Floor(rank / t.perPartition)
		bytes := math.Min(t.perPartition, t.dataBlocks-p*t.perPartition) * t.indexEntry
		w.ask(t, partitionsAt+int(p), engine.Index, 2+p, bytes, bytes)
	}
	w.ask(t, partitionsAt+int(t.partitions)+int(rank), engine.Data, 2+t.partitions+rank, t.blockBytes, t.blockDisk)
}

// ask accesses a block of a table, by its number in the table.
func (w *writer) ask(t *table, number int, kind engine.BlockType, offset, bytes, stored float64) {
	if t.numbers[number] == 0 {
		w.t.Blocks = append(w.t.Blocks, cachesim.Block{File: t.file.number, Offset: uint64(offset)<<12 ^ w.luck, Bytes: int32(bytes),
			DiskBytes: int32(stored), Type: kind,
			Level: uint8(t.file.level)})
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
