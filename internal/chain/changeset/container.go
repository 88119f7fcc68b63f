package changeset

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"
)

// The container: a set in one file, read in order or from any version.
//
//	file    = magic frame(header) frame(changes)* frame(footer) trailer
//	frame   = kind(1) storedBytes(4) rawBytes(4) crc32c(4) stored
//	stored  = zstd(raw); the checksum covers kind, sizes and stored
//	trailer = footerOffset(8) crc32c of it(4) endMagic
//	header  = JSON: schema, order, root_rule, provenance
//	changes = record*
//	record  = 0|store<<3 keyBytes valueBytes key value      set
//	          1|store<<3 keyBytes key                       delete
//	          2|again<<3 version                            a version begins, or goes on in this frame
//	          3|known<<3 [roots] changes                    it ends; the count of its changes
//	          4 nameBytes name                              the next store number has this name
//	roots   = root n root*n                                 combined, then by store; root = bytes root, 0: unknown
//	footer  = n (name sets deletes keyBytes valueBytes)*n  versions changes roots first last
//	          m (again|(version-previous)<<1 frameBytes)*m
//
// Sizes of a frame and of the trailer are little-endian, everything inside is a
// uvarint. A frame is closed at targetFrameBytes, so it holds many small versions
// or a part of a large one, and begins with the version that it holds first: any
// frame can be read without those before it, given the names from the footer.
// Without a footer (a writer was killed, a copy was cut) the frames are walked
// once and read up to the last version that is whole.
const (
	Schema = "statelab.changeset/1"

	magic    = "SLCHSET1"
	endMagic = "SLCHEND1"

	headerFrame  byte = 'H'
	changesFrame byte = 'C'
	footerFrame  byte = 'F'

	frameHeadBytes   = 13
	trailerBytes     = 8 + 4 + len(endMagic)
	targetFrameBytes = 256 << 10
	// maxFrameBytes bounds what is allocated because a file says so: the largest
	// change behind a frame that is nearly full, all names, the roots of a version.
	maxFrameBytes  = targetFrameBytes + MaxKeyBytes + MaxValueBytes + MaxStores*(MaxNameBytes+MaxRootBytes+8) + 1<<10
	maxHeaderBytes = 1 << 20
	maxFooterBytes = 1 << 28
)

// Record tags, below the number that shares their varint.
const (
	setTag = iota
	deleteTag
	beginTag
	endTag
	nameTag
	tagBits = 3
)

// header is the header frame's JSON.
type header struct {
	Schema     string `json:"schema"`
	Order      string `json:"order"`
	RootRule   string `json:"root_rule,omitempty"`
	Provenance string `json:"provenance,omitempty"`
}

// indexEntry is one frame of changes.
type indexEntry struct {
	version int64 // the first with a record in it
	again   bool  // which began in a frame before
	offset  int64
	bytes   int64
}

func checksum(parts ...[]byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once by the library
	sum := uint32(0)
	for _, part := range parts {
		sum = crc32.Update(sum, table, part)
	}
	return sum
}

// appendFrame appends raw as a frame.
func appendFrame(dst []byte, encoder *zstd.Encoder, kind byte, raw []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, frameHeadBytes)...)
	dst = encoder.EncodeAll(raw, dst)
	head, stored := dst[start:start+frameHeadBytes], dst[start+frameHeadBytes:]
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(stored)))
	binary.LittleEndian.PutUint32(head[5:], uint32(len(raw)))
	binary.LittleEndian.PutUint32(head[9:], checksum(head[:9], stored))
	return dst
}

func parseOrder(name string) (Order, error) {
	for o, known := range orderNames {
		if name == known {
			return Order(o), nil
		}
	}
	return OrderUnknown, fmt.Errorf("order %q is none that is known", name)
}
