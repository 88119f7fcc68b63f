package blockbased

import (
	"errors"
	"math/bits"
)

// filter tells whether a table may hold a key, by the content of a filter block. It is RocksDB's
// of every generation, by what the block's last five bytes say.
type filter struct {
	kind   filterKind
	data   []byte
	probes int
	lines  uint32 // legacy: cache lines
	shift  int    // legacy: log2 of a line's bytes
	ribbon ribbon
}

type filterKind uint8

const (
	saysYes filterKind = iota
	saysNo
	legacyBloom
	localBloom
	ribbonFilter
)

const filterTailBytes = 5

// newFilter reads the tail of a filter block. What RocksDB does not know makes it answer yes.
func newFilter(content []byte) filter {
	n := len(content) - filterTailBytes
	if n <= 0 {
		return filter{kind: saysNo}
	}

	data, tail := content[:n], content[n:]
	switch probes := int8(tail[0]); {
	case probes >= 1:
		f := filter{kind: legacyBloom, data: data, probes: int(probes), lines: le32(tail[1:])}
		if f.lines == 0 || n%int(f.lines) != 0 || bits.OnesCount(uint(n)/uint(f.lines)) != 1 {
			return filter{}
		}
		f.shift = bits.TrailingZeros(uint(n) / uint(f.lines))
		return f
	case probes == -1:
		f := filter{kind: localBloom, data: data, probes: int(tail[2] & 31)}
		if tail[1] != 0 || tail[2]>>5 != 0 || f.probes < 1 || f.probes > 30 ||
			tail[3]|tail[4] != 0 || n < 64 {
			return filter{}
		}
		return f
	case probes == -2:
		blocks := uint32(tail[2]) | uint32(tail[3])<<8 | uint32(tail[4])<<16
		if blocks < 2 || n < 16 {
			return filter{}
		}

		return filter{
			kind:   ribbonFilter,
			data:   data,
			ribbon: newRibbon(uint32(n), blocks, uint32(tail[1])),
		}
	}

	return filter{}
}

// check refuses a block that lookups would read beyond.
func (f *filter) check() error {
	if f.kind == ribbonFilter && f.ribbon.columns == 0 {
		return errors.New("damaged ribbon filter")
	}
	return nil
}

func (f *filter) mayContain(key []byte) bool {
	switch f.kind {
	case saysNo:
		return false
	case legacyBloom:
		h := hashOld(key, 0xbc9f1d34, true)
		line := f.data[h%f.lines<<f.shift:]
		return probeOld(line, h, f.probes, uint32(1)<<(f.shift+3)-1, 0)
	case localBloom:
		h := hashPreview(key, 0)
		at := uint64(uint32(h)) * uint64(len(f.data)>>6) >> 32 << 6
		line := f.data[at : at+64]
		for probe, i := uint32(h>>32), 0; i < f.probes; i++ {
			bit := probe >> 23
			if line[bit>>3]&(1<<(bit&7)) == 0 {
				return false
			}
			probe *= 0x9e3779b9
		}

		return true
	case ribbonFilter:
		return f.ribbon.mayContain(f.data, hashPreview(key, 0))
	}

	return true
}

// probeOld probes bits as LevelDB does: those of the hash masked, or modulo limit.
func probeOld(data []byte, h uint32, probes int, mask, limit uint32) bool {
	delta := h>>17 | h<<15
	for range probes {
		bit := h & mask
		if limit > 0 {
			bit = h % limit
		}

		if data[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}

		h += delta
	}

	return true
}

// ribbon is a filter of linear equations over 128-bit rows (Dillinger and Walzer, "Ribbon
// filter", 2021), in RocksDB's interleaved arrangement.
type ribbon struct {
	seed       uint64
	starts     uint64
	columns    uint32 // of the upper part; the lower has one less
	upperBlock uint32 // the first of the upper part
}

func newRibbon(bytes, blocks, ordinal uint32) ribbon {
	segments := bytes / 16
	columns := (segments + blocks - 1) / blocks
	r := ribbon{
		starts:     uint64(blocks)*128 - 127,
		columns:    columns,
		upperBlock: columns*blocks - segments,
	}

	if columns > 32 {
		r.columns, r.upperBlock = 32, 0
	}

	seed := uint64(ordinal) * 0xc78219a23eeadd03
	seed ^= seed & 0xf0f0f0f0f0f0f0f0 >> 4
	r.seed = uint64(uint32(seed))
	return r
}

func (r *ribbon) mayContain(data []byte, hash uint64) bool {
	h := (hash ^ r.seed) * 0x6193d459236a3a0d
	high, _ := bits.Mul64(h, r.starts)
	start := uint32(high)
	block, bit := start/128, start%128
	columns := r.columns
	segment := block*columns - min(block, r.upperBlock)
	if block < r.upperBlock {
		columns--
	}

	a := h * 0xc28f82822b650bed
	rowHigh, rowLow := a, (a^0xc367844a6e52731d)|1
	expected := uint32(bits.ReverseBytes64(a))
	// The row, moved by bit, lies over two blocks.
	var leftHigh, leftLow, rightHigh, rightLow uint64
	switch {
	case bit == 0:
		leftHigh, leftLow = rowHigh, rowLow
	case bit < 64:
		leftHigh, leftLow = rowHigh<<bit|rowLow>>(64-bit), rowLow<<bit
		rightLow, rightHigh = rowHigh>>(64-bit), 0
	default:
		leftHigh, leftLow = rowLow<<(bit-64), 0
		rightLow, rightHigh = rowLow>>(128-bit)|rowHigh<<(bit-64), rowHigh>>(128-bit)
	}

	for i := range columns {
		at := data[16*(segment+i):]
		parity := bits.OnesCount64(le64(at)&leftLow) + bits.OnesCount64(le64(at[8:])&leftHigh)
		if bit != 0 {
			at = data[16*(segment+columns+i):]
			parity += bits.OnesCount64(le64(at)&rightLow) + bits.OnesCount64(le64(at[8:])&rightHigh)
		}

		if uint32(parity)&1 != expected>>i&1 {
			return false
		}
	}

	return true
}
