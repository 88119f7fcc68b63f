package trace

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

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
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("trace: make a compressor: %w", err)
	}
	header.Schema = Schema
	text, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("trace: write header: %w", err)
	}
	w := &Writer{out: out, encoder: encoder, spread: spread{opening: header.Opening && header.Part.Number <= 1}}
	w.write(appendFrame([]byte(magic), encoder, headerFrame, text))
	return w, w.err
}

// Block defines the next block and returns its number.
func (w *Writer) Block(b cachesim.Block) uint32 {
	number := w.totals.Blocks
	if number > math.MaxUint32 || b.Bytes < 0 || b.DiskBytes < 0 {
		w.fail(fmt.Errorf("trace: block %d: file %d offset %d cannot be written", number, b.File, b.Offset))
		return 0
	}
	w.blocks = append(w.blocks, b.Level, byte(b.Type))
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
		w.fail(fmt.Errorf("trace: Get %d has %d accesses, more than %d", w.totals.Gets, len(numbers), maxGetAccesses))
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
			w.fail(fmt.Errorf("trace: Get %d asks for block %d of %d", w.totals.Gets, number, w.totals.Blocks))
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
	for _, n := range [5]uint64{w.totals.Offered, w.totals.Gets, w.totals.Found, w.totals.Accesses, w.totals.Blocks} {
		w.raw = binary.AppendUvarint(w.raw, n)
	}
	w.write(appendFrame(w.stored[:0], w.encoder, footerFrame, w.raw))
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
	w.stored = appendFrame(w.stored[:0], w.encoder, getsFrame, w.raw)
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
