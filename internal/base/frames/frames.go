// Package frames is what statelab's own binary files are made of: parts that are compressed and
// have a checksum each, so that whatever survives a cut or a damaged disk can be read.
//
//	frame  = kind(1) storedBytes(4) rawBytes(4) crc32c(4) stored
//	stored = zstd(raw); the checksum covers kind, sizes and stored
//
// Numbers are little-endian. Non-goals: what frames hold, and where they begin.
package frames

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// HeadBytes is the size of what comes before the stored bytes.
const HeadBytes = 13

// Head is what a frame says of itself.
type Head [HeadBytes]byte

// Kind is chosen by the format.
func (h *Head) Kind() byte { return h[0] }

// Sizes are those of the stored bytes, and of what they hold.
func (h *Head) Sizes() (stored, raw int64) {
	return int64(binary.LittleEndian.Uint32(h[1:])), int64(binary.LittleEndian.Uint32(h[5:]))
}

// Checksum is CRC-32C.
func Checksum(parts ...[]byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once by the library
	sum := uint32(0)
	for _, part := range parts {
		sum = crc32.Update(sum, table, part)
	}
	return sum
}

// Append appends raw as a frame.
func Append(dst []byte, encoder *zstd.Encoder, kind byte, raw []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeadBytes)...)
	dst = encoder.EncodeAll(raw, dst)
	head, stored := dst[start:start+HeadBytes], dst[start+HeadBytes:]
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(stored)))
	binary.LittleEndian.PutUint32(head[5:], uint32(len(raw)))
	binary.LittleEndian.PutUint32(head[9:], Checksum(head[:9], stored))
	return dst
}

// Open checks the stored bytes and decompresses them into memory that it is given, or more. The
// caller has checked the sizes.
func (h *Head) Open(stored, into []byte, decoder *zstd.Decoder) (raw []byte, err error) {
	if want, have := binary.LittleEndian.Uint32(h[9:]), Checksum(h[:9], stored); want != have {
		return nil, fmt.Errorf("damaged: checksum %08x, written as %08x", have, want)
	}

	_, rawBytes := h.Sizes()
	if raw, err = decoder.DecodeAll(stored, slices.Grow(into[:0], int(rawBytes))); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}

	if int64(len(raw)) != rawBytes {
		return nil, fmt.Errorf("%d bytes decompressed, written as %d", len(raw), rawBytes)
	}

	return raw, nil
}
