package blockbased

import (
	"bytes"
	"encoding/binary"

	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// levelFilter is LevelDB's: one Bloom filter for the data blocks that begin in each stretch of a
// table.
type levelFilter struct {
	content []byte
	offsets int // where those of the filters begin
	log2    uint
}

// readLevelFilter reads a filter block: filters, their offsets, where these begin, log2 of a
// stretch.
func (t *table) readLevelFilter(at handle, r *Reading) error {
	if r.places {
		return nil
	}

	content, err := t.decode(at, new(buffer))
	if err != nil {
		return err
	}

	n := len(content) - 5
	if n < 0 {
		return t.Damaged(at, "damaged filter")
	}

	f := &t.filters.level
	f.content, f.offsets, f.log2 = bytes.Clone(content), int(le32(content[n:])), uint(content[n+4])
	if f.offsets > n || f.log2 > 62 {
		return t.Damaged(at, "damaged filter")
	}

	return nil
}

// mayContain asks the filter of the data block that begins at offset. Beyond all filters it says
// yes.
func (f *levelFilter) mayContain(offset uint64, key []byte) bool {
	i := offset >> f.log2
	if i >= uint64(len(f.content)-5-f.offsets)/4 {
		return true
	}

	ends := f.content[f.offsets+4*int(i):]
	from, to := int(le32(ends)), int(binary.LittleEndian.Uint32(ends[4:]))
	switch {
	case from == to:
		return false
	case from > to || to > f.offsets:
		return true
	}

	data, probes := f.content[from:to-1], int(f.content[to-1])
	if len(data) == 0 {
		return false
	}

	return probes > 30 ||
		probeOld(data, hashOld(key, 0xbc9f1d34, false), probes, 0, uint32(8*len(data)))
}

// levelEntry is the newest entry of the key that was met.
type levelEntry struct {
	kind   lsmtail.Entry
	seqNum uint64
}

func (w *Walker) takeNewest(kind lsmtail.Entry, seqNum uint64) answer {
	if w.newest.kind == lsmtail.None || seqNum >= w.newest.seqNum {
		w.newest = levelEntry{kind, seqNum}
	}
	return isHere
}

// getLevel walks as goleveldb does: all tables of level 0 that may hold the key, then one of each
// level until the key is met.
func (w *Walker) getLevel() (numbers []uint32, found bool, err error) {
	w.newest = levelEntry{}
	levels := w.levels
	for i := range levels {
		l := &levels[i]
		tables := l.tables
		if l.number > 0 {
			at := l.largest.Seek(w.key)
			tables = tables[at:min(at+1, len(tables))]
		}

		for _, t := range tables {
			if !t.Holds(w.key) {
				continue
			}

			if err := w.lookIntoLevel(t, l.number > 0 && i == len(levels)-1); err != nil {
				return w.numbers, false, err
			}
		}

		if w.newest.kind != lsmtail.None {
			return w.numbers, w.newest.kind == lsmtail.Set, nil
		}
	}

	return w.numbers, false, nil
}

// lookIntoLevel asks for the index, even where the filter is going to say no, the filter, the data
// block, and the next one if the key is above all entries of the first.
func (w *Walker) lookIntoLevel(t *table, last bool) error {
	w.t, w.numbers = t, w.r.Lookup(t, w.numbers)
	w.ask(rootNumber)
	block := seek(&t.Separators, t.beyond, w.key)
	if block == len(t.Data) {
		return nil
	}

	if t.filters.at.Bytes > 0 {
		w.ask(filterNumber)
		if !t.filters.level.mayContain(t.Data[block].Offset, w.key) {
			return nil
		}
	}

	w.ask(t.FirstData + uint32(block))
	if w.known && last {
		if w.trusted++; w.trusted%lookuppath.LookEvery != 0 {
			w.newest.kind = lsmtail.Set
			return nil
		}
	}

	_, further, err := w.search(block)
	if further && block+1 < len(t.Data) && err == nil {
		w.ask(t.FirstData + uint32(block) + 1)
		_, _, err = w.search(block + 1)
	}

	return err
}

// buffer is the size of the buffer in which goleveldb keeps a block.
func (r *Reading) buffer(stored, content int, plain bool) int {
	if plain {
		content = stored + lookuppath.TrailerBytes
	}
	return Buffer(content, r.BlockBytes)
}

// Buffer is the size of the buffer in which goleveldb keeps a block with so much content: a pool
// for blocks of one size gives out a few sizes, and what is larger as it is. (Source: its
// util/buffer_pool.go.)
func Buffer(content, blockBytes int) int {
	base := blockBytes + lookuppath.TrailerBytes
	for _, size := range []int{base / 4, base / 2, base, base * 2, base * 4} {
		if content <= size {
			return size
		}
	}
	return content
}
