package resolve

import (
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

// maxBlockBytes is beyond any block; a larger claim is damage.
const maxBlockBytes = 1 << 30

const trailerBytes = block.TrailerLen

type handle struct {
	offset uint64
	bytes  uint32 // without the trailer
}

func newHandle(h block.Handle) (handle, error) {
	if h.Length > maxBlockBytes {
		return handle{}, fmt.Errorf("block at %d: %d bytes long", h.Offset, h.Length)
	}
	return handle{h.Offset, uint32(h.Length)}, nil
}

func (t *table) corrupt(h handle, why string) error {
	return fmt.Errorf("table %06d, block at %d: %s", t.File, h.offset, why)
}

// buffer is memory for one block at a time. The zero value is ready.
type buffer struct{ stored, content []byte }

// read returns the block as stored, with its trailer, in the buffer.
func (t *table) read(h handle, in *buffer) ([]byte, error) {
	end := h.offset + uint64(h.bytes) + trailerBytes
	if h.offset > uint64(t.Bytes) || end > uint64(t.Bytes) {
		return nil, t.corrupt(h, "beyond the end of the table")
	}
	in.stored = slices.Grow(in.stored[:0], int(end-h.offset))[:end-h.offset]
	if _, err := t.opened.ReadAt(in.stored, int64(h.offset)); err != nil {
		return nil, fmt.Errorf("table %06d, block at %d: %w", t.File, h.offset, err)
	}
	return in.stored, nil
}

// decode checks the block and returns its content, in the buffer. It begins
// where memory was allocated, so that columns are aligned.
func (t *table) decode(h handle, in *buffer) ([]byte, error) {
	stored, err := t.read(h, in)
	if err != nil {
		return nil, err
	}
	if err := block.ValidateChecksum(t.checksum, stored, block.Handle{Offset: h.offset, Length: uint64(h.bytes)}); err != nil {
		return nil, t.corrupt(h, err.Error())
	}
	payload := stored[:h.bytes]
	compression := block.CompressionIndicator(stored[h.bytes])
	if compression == block.NoCompressionIndicator {
		return payload, nil
	}
	bytes, err := block.DecompressedLen(compression, payload)
	if err != nil || bytes > maxBlockBytes {
		return nil, t.corrupt(h, "impossible decompressed size")
	}
	in.content = slices.Grow(in.content[:0], bytes)[:bytes]
	if err := block.DecompressInto(compression, payload, in.content); err != nil {
		return nil, t.corrupt(h, err.Error())
	}
	return in.content, nil
}

// readable lets Pebble's reader read the table. Closing it does not close the
// file.
type readable struct{ t *table }

func (f readable) ReadAt(_ context.Context, p []byte, offset int64) error {
	_, err := f.t.opened.ReadAt(p, offset)
	return err
}

func (f readable) Close() error { return nil }

func (f readable) Size() int64 { return f.t.Bytes }

func (f readable) NewReadHandle(objstorage.ReadBeforeSize) objstorage.ReadHandle {
	h := objstorage.MakeNoopReadHandle(f)
	return &h
}
