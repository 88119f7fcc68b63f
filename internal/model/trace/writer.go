package trace

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"

	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/frames"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// Writer writes a trace as it comes, holding one frame. Not safe for
// concurrent use. After an error it stays failed.
type Writer struct {
	out     io.Writer
	encoder *zstd.Encoder
	totals  Totals
	spread  spread
	err     error

	blocks, gets           []byte // of the frame being filled
	frameBlocks, frameGets uint64
	lastFile               uint64
	raw, stored            []byte
}

// NewWriter begins a trace.
func NewWriter(out io.Writer, header Header) (*Writer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("trace: make a compressor: %w", err)
	}

	header.Schema = schema.Trace
	text, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("trace: write header: %w", err)
	}

	w := &Writer{
		out:     out,
		encoder: encoder,
		spread:  spread{opening: header.Opening && header.Part.Number <= 1},
	}

	w.write(frames.Append([]byte(magic), encoder, headerFrame, text))
	return w, w.err
}

// Block defines the next block and returns its number.
func (w *Writer) Block(b cachesim.Block) uint32 {
	number := w.totals.Blocks
	if number > math.MaxUint32 || b.Bytes < 0 || b.DiskBytes < 0 {
		w.fail(fmt.Errorf("trace: block %d: file %d offset %d cannot be written", number, b.File,
			b.Offset))
		return 0
	}

	w.blocks = append(w.blocks, storedLevel(b.Level), byte(b.Type)|byte(b.Marks)<<4)
	w.blocks = binary.AppendVarint(w.blocks, int64(b.File-w.lastFile))
	w.blocks = binary.AppendUvarint(w.blocks, b.Offset)
	w.blocks = binary.AppendUvarint(w.blocks, uint64(b.DiskBytes))
	w.blocks = binary.AppendUvarint(w.blocks, uint64(b.Bytes))
	w.lastFile = b.File
	w.spread.block(b)
	w.frameBlocks++
	w.totals.Blocks++
	if len(w.blocks) >= targetFrameBytes {
		w.flush()
	}

	return uint32(number)
}

// Get writes a Get that asked for the blocks of these numbers, in this order.
func (w *Writer) Get(found bool, numbers []uint32) error {
	if len(numbers) > maxGetAccesses {
		w.fail(fmt.Errorf("trace: Get %d has %d accesses, more than %d", w.totals.Gets,
			len(numbers), maxGetAccesses))
	}

	if w.err != nil {
		return w.err
	}

	head := uint64(len(numbers)) << 1
	if found {
		head |= 1
		w.totals.Found++
	}

	w.gets = binary.AppendUvarint(w.gets, head)
	for _, number := range numbers {
		if uint64(number) >= w.totals.Blocks {
			w.fail(fmt.Errorf("trace: Get %d asks for block %d of %d", w.totals.Gets, number,
				w.totals.Blocks))
			return w.err
		}

		w.gets = binary.AppendUvarint(w.gets, uint64(number))
	}

	w.frameGets++
	w.totals.Gets++
	w.totals.Accesses += uint64(len(numbers))
	w.spread.get(len(numbers))
	if len(w.blocks)+len(w.gets) >= targetFrameBytes {
		w.flush()
	}

	return w.err
}

// PerGet is how the accesses so far spread over the Gets.
func (w *Writer) PerGet() PerGet { return w.spread.perGet() }

// Close writes what is left and the footer. offered is how many Gets the key
// stream had before sampling. It does not close the writer below.
func (w *Writer) Close(offered uint64) (Totals, error) {
	if w.frameBlocks+w.frameGets > 0 {
		w.flush()
	}

	w.totals.Offered = offered
	w.raw = w.raw[:0]
	for _, n := range [5]uint64{w.totals.Offered, w.totals.Gets, w.totals.Found, w.totals.Accesses,
		w.totals.Blocks} {
		w.raw = binary.AppendUvarint(w.raw, n)
	}

	w.write(frames.Append(w.stored[:0], w.encoder, footerFrame, w.raw))
	if w.err == nil {
		w.err = fmt.Errorf("trace: it is closed")
		return w.totals, nil
	}

	return w.totals, w.err
}

func (w *Writer) flush() {
	w.raw = binary.AppendUvarint(w.raw[:0], w.frameBlocks)
	w.raw = append(w.raw, w.blocks...)
	w.raw = binary.AppendUvarint(w.raw, w.frameGets)
	w.raw = append(w.raw, w.gets...)
	w.stored = frames.Append(w.stored[:0], w.encoder, getsFrame, w.raw)
	w.write(w.stored)
	w.blocks, w.gets, w.frameBlocks, w.frameGets, w.lastFile = w.blocks[:0], w.gets[:0], 0, 0, 0
}

func (w *Writer) write(frame []byte) {
	if w.err != nil {
		return
	}
	if _, err := w.out.Write(frame); err != nil {
		w.fail(fmt.Errorf("trace: write after %d Gets: %w", w.totals.Gets, err))
	}
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Sample chooses one of 2^Shift keys by a hash of the key: every Get of a key
// or none, wherever it comes in the stream.
//
// What a sampled trace keeps: means over Gets (accesses by type and level,
// shares of found and absent) and which filters and top indexes exist. What it
// loses: a data block is shared by dozens of keys of which few are left, so its
// accesses thin out and the blocks of no sampled key are gone. Do not replay a
// sampled trace against a cache: neither the full size nor a scaled one gives
// the true miss rate. To replay less than everything, replay all Gets against
// a few of the cache's shards: blocks are hashed to shards, so that is exact
// for those shards (docs/simulation.md).
type Sample struct{ Shift int }

// Takes reports whether the Gets of key are in the sample.
func (s Sample) Takes(key []byte) bool {
	return s.Shift <= 0 || hashKey(key)&(1<<min(s.Shift, 63)-1) == 0
}

// hashKey is FNV-1a over words with the finaliser of MurmurHash3, which the
// low bits need.
func hashKey(key []byte) uint64 {
	const basis, prime = 14695981039346656037, 1099511628211
	h := uint64(basis)
	for len(key) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(key)) * prime
		h ^= h >> 29
		key = key[8:]
	}

	for _, b := range key {
		h = (h ^ uint64(b)) * prime
	}

	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// PerGet is how the accesses of a trace spread over its Gets, as they were written. A
// trace's first Get that stands for the opening of tables is none.
type PerGet struct {
	Levels int `json:"levels"` // whose blocks were asked for, L0 counted once
	Max    int `json:"most"`   // accesses of one Get
	// MaxGets are the Gets with as many.
	MaxGets uint64 `json:"gets_with_most"`
	Gets    uint64 `json:"gets"`
	// Formula is (X-1)*2+3 with X levels: the worst case of a Get as the study of
	// bench_kvdb has it. Beyond is the share of Gets with more accesses.
	Formula int     `json:"formula"`
	Beyond  float64 `json:"beyond_formula"`
	// ByAccesses are the Gets by their number of accesses, from 0 on; those with
	// more than its length are in the last.
	ByAccesses []uint64 `json:"by_accesses"`
}

const maxAccessesTold = 64

// spread counts the Gets of a writer.
type spread struct {
	opening    bool   // the next Get is the opening
	levels     uint64 // a bit each
	maximum    int
	maxGets    uint64
	byAccesses [maxAccessesTold + 1]uint64
}

func (s *spread) block(b cachesim.Block) {
	if b.Type != engine.Meta && b.Level < 64 {
		s.levels |= 1 << b.Level
	}
}

func (s *spread) get(accesses int) {
	if s.opening {
		s.opening = false
		return
	}

	if accesses > s.maximum {
		s.maximum, s.maxGets = accesses, 0
	}

	if accesses == s.maximum {
		s.maxGets++
	}

	s.byAccesses[min(accesses, maxAccessesTold)]++
}

func (s *spread) perGet() PerGet {
	p := PerGet{Levels: bits.OnesCount64(s.levels), Max: s.maximum, MaxGets: s.maxGets}
	if p.Levels > 0 {
		p.Formula = (p.Levels-1)*2 + 3
	}

	beyond := uint64(0)
	for accesses, gets := range s.byAccesses {
		if p.Gets += gets; accesses > p.Formula {
			beyond += gets
		}
	}

	if p.Gets > 0 {
		p.Beyond = float64(beyond) / float64(p.Gets)
	}

	p.ByAccesses = s.byAccesses[:min(s.maximum, maxAccessesTold)+1]
	return p
}
