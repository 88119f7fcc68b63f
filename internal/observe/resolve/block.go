package resolve

import (
	"fmt"

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
	return fmt.Errorf("table %06d, block at %d: %s", t.file, h.offset, why)
}

// stored returns the block as stored, with its trailer.
func (t *table) stored(h handle) ([]byte, error) {
	end := h.offset + uint64(h.bytes) + trailerBytes
	if h.offset > uint64(len(t.mapped)) || end > uint64(len(t.mapped)) {
		return nil, t.corrupt(h, "beyond the end of the table")
	}
	return t.mapped[h.offset:end], nil
}

// inPlace and copied say whether the content of an uncompressed block may stay
// in the mapped file. Columns must not: they have to be aligned.
const (
	inPlace = false
	copied  = true
)

// decode checks the block and returns its content: in *scratch, which grows, in
// new memory if scratch is nil, or in the mapped file.
func (t *table) decode(h handle, scratch *[]byte, copied bool) ([]byte, error) {
	stored, err := t.stored(h)
	if err != nil {
		return nil, err
	}
	if err := block.ValidateChecksum(t.checksum, stored, block.Handle{Offset: h.offset, Length: uint64(h.bytes)}); err != nil {
		return nil, t.corrupt(h, err.Error())
	}
	payload := stored[:h.bytes]
	compression := block.CompressionIndicator(stored[h.bytes])
	bytes := len(payload)
	if compression != block.NoCompressionIndicator {
		if bytes, err = block.DecompressedLen(compression, payload); err != nil || bytes > maxBlockBytes {
			return nil, t.corrupt(h, "impossible decompressed size")
		}
	} else if !copied {
		return payload, nil
	}
	var local []byte
	if scratch == nil {
		scratch = &local
	}
	if cap(*scratch) < bytes {
		*scratch = make([]byte, bytes+bytes/4)
	}
	content := (*scratch)[:bytes]
	if compression == block.NoCompressionIndicator {
		copy(content, payload)
		return content, nil
	}
	if err := block.DecompressInto(compression, payload, content); err != nil {
		return nil, t.corrupt(h, err.Error())
	}
	return content, nil
}
