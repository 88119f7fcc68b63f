package blockio

import (
	"encoding/binary"

	"github.com/minio/minlz"
)

// Compression of a block, as the first byte of its trailer says. The other
// values are reserved by the table format and never written by Pebble.
const (
	storedPlain  = 0
	storedSnappy = 1
	storedZstd   = 7
	storedMinLZ  = 8
)

// maxDecodedBytes is beyond any block: a larger claim is a damaged header.
const maxDecodedBytes = 1 << 32

// DecodedBytes returns the decompressed size of a block as stored, trailer
// included. ok is false for what is no block (a footer) or of unknown
// compression.
func DecodedBytes(stored []byte) (bytes int64, ok bool) {
	if len(stored) < trailerBytes {
		return 0, false
	}
	payload := stored[:len(stored)-trailerBytes]
	switch stored[len(payload)] {
	case storedPlain:
		return int64(len(payload)), true
	case storedSnappy, storedZstd: // both begin with the length as a varint
		n, width := binary.Uvarint(payload)
		return int64(n), width > 0 && n < maxDecodedBytes
	case storedMinLZ:
		n, err := minlz.DecodedLen(payload)
		return int64(n), err == nil
	}
	return 0, false
}
