//go:build linux

package chunktrie

// pointer leads to a node: offset in the chunk (28 bits), chunk (20), sectors to
// read (14), a bit that is never set on the disk, whether the node is a leaf (1).
// Chunk 0 holds the roots, so no node's pointer is 0.
type pointer uint64

const (
	sectorBytes = 512
	offsetBits  = 28
	chunkBits   = 20
	sectorsBits = 14
	leafBit     = 1 << 63

	maxChunkBytes = 1 << offsetBits
	maxChunks     = 1 << chunkBits
)

func newPointer(chunk uint32, offset int64, bytes int, k kind) pointer {
	sectors := (offset%sectorBytes + int64(bytes) + sectorBytes - 1) / sectorBytes
	p := pointer(offset) | pointer(chunk)<<offsetBits | pointer(sectors)<<(offsetBits+chunkBits)
	if k.leaf() {
		p |= leafBit
	}
	return p
}

func (p pointer) offset() int64 { return int64(p & (maxChunkBytes - 1)) }
func (p pointer) chunk() uint32 { return uint32(p>>offsetBits) & (maxChunks - 1) }
func (p pointer) sectors() int  { return int(p>>(offsetBits+chunkBits)) & (1<<sectorsBits - 1) }
func (p pointer) leaf() bool    { return p&leafBit != 0 }
