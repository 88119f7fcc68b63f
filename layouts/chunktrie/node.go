//go:build linux

package chunktrie

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// A node on disk, little endian:
//
//	 0  4  size of the whole
//	 4  2  child mask
//	 6  1  kind
//	 7  1  nibble depth where the path begins
//	 8  1  nibble depth where it ends
//	 9  1  value length
//	10  2  checksum: CRC-32C of the rest, folded
//	12  8  version: the block that wrote it
//	20     of each child: pointer 8, oldest places in the fast and the slow list 4+4,
//	       oldest version 8, end of its hash 2: arrays, not records
//	       the children's hashes, or encodings shorter than a hash
//	       path, packed; value
//
// An extension is the path of the branch behind it. An account's only child is the
// root of its storage.
const (
	headerBytes    = 20
	perChildBytes  = 26
	maxValueBytes  = 2 + 8 + 32 + 32
	maxNodeBytes   = headerBytes + 16*(perChildBytes+32) + mpt.PathNibbles/2 + maxValueBytes
	maxReadSectors = (maxNodeBytes + sectorBytes - 2 + sectorBytes) / sectorBytes
)

type kind byte

const (
	accountBranch kind = iota + 1
	accountLeaf
	slotBranch
	slotLeaf
)

func (k kind) leaf() bool { return k == accountLeaf || k == slotLeaf }

// node is the bytes of a node whose sizes have been checked.
type node []byte

var (
	errSize     = errors.New("damaged node: sizes do not add up")
	errShape    = errors.New("damaged node: kind, path and children do not fit")
	errChecksum = errors.New("damaged node: wrong checksum")
	errHash     = errors.New("damaged node: a child's hash is none")
	errPointer  = errors.New("damaged node: a pointer leads out of the file")
	errDepth    = errors.New("damaged node: its path does not begin where its parent's ends")
)

// parse takes the node that stored begins with. It checks what a lookup relies
// on; checksums are for those who write on.
func parse(stored []byte) (node, error) {
	if len(stored) < headerBytes {
		return nil, errSize
	}

	size := binary.LittleEndian.Uint32(stored)
	if size < headerBytes || size > maxNodeBytes || int(size) > len(stored) {
		return nil, errSize
	}

	n := node(stored[:size])
	begin, end, children := n.begin(), n.end(), n.children()
	if begin > end || end > mpt.PathNibbles {
		return nil, errShape
	}

	switch n.kind() {
	case accountBranch, slotBranch:
		if end == mpt.PathNibbles || children < 2 || n[9] != 0 {
			return nil, errShape
		}
	case accountLeaf:
		if end != mpt.PathNibbles || n.mask() > 1 {
			return nil, errShape
		}
	case slotLeaf:
		if end != mpt.PathNibbles || children > 0 {
			return nil, errShape
		}
	default:
		return nil, errShape
	}

	if headerBytes+children*perChildBytes > len(n) ||
		n.pathAt()+(end-begin+1)/2+int(n[9]) != len(n) {
		return nil, errSize
	}

	return n, nil
}

func (n node) mask() uint16  { return binary.LittleEndian.Uint16(n[4:]) }
func (n node) kind() kind    { return kind(n[6]) }
func (n node) begin() int    { return int(n[7]) }
func (n node) end() int      { return int(n[8]) }
func (n node) children() int { return bits.OnesCount16(n.mask()) }

// child is the index of the child at a nibble, if there is one.
func (n node) child(nibble byte) (i int, exists bool) { return childIndex(n.mask(), nibble) }

func childIndex(mask uint16, nibble byte) (i int, exists bool) {
	bit := uint16(1) << nibble
	return bits.OnesCount16(mask & (bit - 1)), mask&bit != 0
}

func (n node) pointer(i int) pointer {
	return pointer(binary.LittleEndian.Uint64(n[headerBytes+8*i:]))
}

func (n node) hashEnd(i int) int {
	if i < 0 {
		return 0
	}
	return int(binary.LittleEndian.Uint16(n[headerBytes+24*n.children()+2*i:]))
}

func (n node) pathAt() int {
	children := n.children()
	return headerBytes + perChildBytes*children + n.hashEnd(children-1)
}

func (n node) path() []byte  { return n[n.pathAt() : n.pathAt()+(n.end()-n.begin()+1)/2] }
func (n node) value() []byte { return n[len(n)-int(n[9]):] }

// ref is all that the parent holds of child i.
func (n node) ref(i int) (r ref, err error) {
	children := n.children()
	at := headerBytes + 8*children
	r.at = n.pointer(i)
	r.oldest[fast] = binary.LittleEndian.Uint32(n[at+4*i:])
	r.oldest[slow] = binary.LittleEndian.Uint32(n[at+4*children+4*i:])
	r.version = binary.LittleEndian.Uint64(n[at+8*children+8*i:])
	from, to := n.hashEnd(i-1), n.hashEnd(i)
	hashes := n[headerBytes+perChildBytes*children : n.pathAt()]
	if from > to || to > len(hashes) {
		return r, errHash
	}

	switch stored := hashes[from:to]; {
	case len(stored) == 32:
		r.hash[0] = 0xa0
		copy(r.hash[1:], stored)
	case len(stored) < 32:
		copy(r.hash[:], stored)
		if len(stored) == 0 || !r.hash.Legal() || r.hash.Len() != len(stored) {
			return r, errHash
		}
	default:
		return r, errHash
	}

	return r, nil
}

// checksum covers the node without the field that holds it.
func (n node) checksum() uint16 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Checksum(n[:10], table), table, n[12:])
	return uint16(sum>>16) ^ uint16(sum)
}

func (n node) intact() bool { return binary.LittleEndian.Uint16(n[10:]) == n.checksum() }

// ref is what a parent holds of a child.
type ref struct {
	at      pointer // 0: no child
	oldest  [lists]uint32
	version uint64 // the oldest below
	hash    mpt.Ref
	pin     pin // 0: not in memory
}

// draft is a node being made.
type draft struct {
	kind     kind
	moved    bool // only its place changes: it goes to the slow list
	begin    int
	path     [mpt.PathNibbles]byte // a nibble each
	nibbles  int
	value    [maxValueBytes]byte
	bytes    int // of the value
	children [16]ref
	drafts   [16]*draft // children that are not written yet
	hash     mpt.Ref    // known already, or zero
}

func (d *draft) end() int { return d.begin + d.nibbles }

// count tells how many children there are, and the last of them.
func (d *draft) count() (n, last int) {
	for i := range d.children {
		if d.drafts[i] != nil || d.children[i].at != 0 {
			n, last = n+1, i
		}
	}
	return n, last
}

// decode fills d from n, which may be pinned.
func (d *draft) decode(n node, a *arena, p pin) error {
	*d = draft{
		kind:    n.kind(),
		begin:   n.begin(),
		nibbles: n.end() - n.begin(),
		bytes:   len(n.value()),
	}

	if d.bytes > maxValueBytes {
		return errSize
	}

	if p != 0 && a.head(p).mask() != n.mask() {
		return errShape
	}

	copy(d.value[:], n.value())
	mpt.AppendNibbles(d.path[:0], n.path(), 0, d.nibbles)
	for nibble := range d.children {
		i, exists := n.child(byte(nibble))
		if !exists {
			continue
		}

		var err error
		if d.children[nibble], err = n.ref(i); err != nil {
			return err
		}

		if d.children[nibble].at == 0 {
			return errPointer
		}

		if p != 0 {
			d.children[nibble].pin = a.child(p, i).pin()
		}
	}

	return nil
}

// encode appends d, whose children are all written, to dst.
func (d *draft) encode(dst []byte, version uint64) node {
	le := binary.LittleEndian
	var mask uint16
	var present [16]*ref
	children := 0
	for i := range d.children {
		if d.children[i].at != 0 {
			mask |= 1 << i
			present[children] = &d.children[i]
			children++
		}
	}

	from := len(dst)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint16(dst, mask)
	dst = append(dst, byte(d.kind), byte(d.begin), byte(d.end()), byte(d.bytes), 0, 0)
	dst = le.AppendUint64(dst, version)
	for _, c := range present[:children] {
		dst = le.AppendUint64(dst, uint64(c.at))
	}

	for list := range lists {
		for _, c := range present[:children] {
			dst = le.AppendUint32(dst, c.oldest[list])
		}
	}

	for _, c := range present[:children] {
		dst = le.AppendUint64(dst, c.version)
	}

	end := 0
	for _, c := range present[:children] {
		end += len(stored(&c.hash))
		dst = le.AppendUint16(dst, uint16(end))
	}

	for _, c := range present[:children] {
		dst = append(dst, stored(&c.hash)...)
	}

	dst = mpt.AppendPacked(dst, d.path[:d.nibbles])
	dst = append(dst, d.value[:d.bytes]...)
	n := node(dst[from:])
	le.PutUint32(n, uint32(len(n)))
	le.PutUint16(n[10:], n.checksum())
	return n
}

// stored is a reference without the length byte of a hash, which its own length
// tells.
func stored(r *mpt.Ref) []byte {
	if r[0] == 0xa0 {
		return r[1:]
	}
	return r[:r.Len()]
}

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

// An account's value: length of the nonce (and 0x80 if there is code), length of
// the balance, nonce, balance, hash of the code.

const hasCode = 0x80

var errAccount = errors.New("damaged node: its value is no account")

func appendAccount(dst []byte, a *layout.Account) []byte {
	var nonce [8]byte
	binary.BigEndian.PutUint64(nonce[:], a.Nonce)
	short := bytes.TrimLeft(nonce[:], "\x00")
	balance := bytes.TrimLeft(a.Balance[:], "\x00")
	flags := byte(len(short))
	if a.CodeHash != layout.EmptyCode {
		flags |= hasCode
	}

	dst = append(dst, flags, byte(len(balance)))
	dst = append(append(dst, short...), balance...)
	if flags&hasCode != 0 {
		dst = append(dst, a.CodeHash[:]...)
	}

	return dst
}

func parseAccount(value []byte) (a layout.Account, err error) {
	if len(value) < 2 {
		return a, errAccount
	}

	nonce, balance, code := int(value[0]&^hasCode), int(value[1]), 0
	if value[0]&hasCode != 0 {
		code = len(a.CodeHash)
	}

	value = value[2:]
	if nonce > 8 || balance > len(a.Balance) || len(value) != nonce+balance+code {
		return a, errAccount
	}

	for _, b := range value[:nonce] {
		a.Nonce = a.Nonce<<8 | uint64(b)
	}

	copy(a.Balance[len(a.Balance)-balance:], value[nonce:nonce+balance])
	a.CodeHash = layout.EmptyCode
	copy(a.CodeHash[:], value[nonce+balance:])
	return a, nil
}
