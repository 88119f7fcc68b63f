//go:build linux

package chunktrie

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// Chunk 0 holds a header and a ring of root records, a sector each, so that a
// write of one never tears another. The ring has one slot more than versions are
// kept: the oldest kept one outlives the writing of its successor.

const (
	magic      = "statelab chunktrie 2\n"
	anyVersion = "statelab chunktrie "
)

// header is what a state was created with.
type header struct {
	chunkBytes int64
	versions   int // kept
}

func (h header) slots() int64 { return int64(h.versions) + 1 }

func (h header) slotAt(block uint64) int64 {
	return sectorBytes * (1 + int64(block%uint64(h.slots())))
}

func (h header) encode() []byte {
	sector := make([]byte, sectorBytes)
	copy(sector, magic)
	binary.LittleEndian.PutUint64(sector[32:], uint64(h.chunkBytes))
	binary.LittleEndian.PutUint32(sector[40:], uint32(h.versions))
	return seal(sector)
}

func decodeHeader(sector []byte) (h header, err error) {
	if bytes.HasPrefix(sector, []byte(anyVersion)) && !bytes.HasPrefix(sector, []byte(magic)) {
		return h, errors.New("it is a chunk trie of another version: build the state anew")
	}
	if !bytes.HasPrefix(sector, []byte(magic)) {
		return h, errors.New("its first sector is not a chunk trie's")
	}
	if !sealed(sector) {
		return h, errors.New("its first sector is damaged")
	}
	h.chunkBytes = int64(binary.LittleEndian.Uint64(sector[32:]))
	h.versions = int(binary.LittleEndian.Uint32(sector[40:]))
	return h, h.check()
}

func (h header) check() error {
	if h.chunkBytes < placeBytes || h.chunkBytes > maxChunkBytes || h.chunkBytes&(h.chunkBytes-1) != 0 {
		return fmt.Errorf("chunks of %d bytes: write ChunkBytes=256MiB (a power of two from 64KiB)", h.chunkBytes)
	}
	if h.versions < 1 || (h.slots()+1)*sectorBytes > h.chunkBytes {
		return fmt.Errorf("%d versions: their root records must fit a chunk of %d bytes: write Versions=64", h.versions, h.chunkBytes)
	}
	return nil
}

// record is a block's root and what a writer needs to go on from it.
type record struct {
	block uint64
	kept  uint64 // the oldest block still addressable
	root  ref    // of no node: an empty state
	tails [lists]uint32
	next  [lists]uint32 // free from there in each list's last chunk
	table extent
}

var errTail = errors.New("damaged root record: its lists end beyond the newest's")

// extent is a piece of the file with its checksum.
type extent struct {
	at       int64
	bytes    uint32
	checksum uint32
}

const (
	recordMagic = 0x746f6f72 // "root"
	sealAt      = sectorBytes - 4
)

func (r *record) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, sectorBytes)
	b = le.AppendUint32(b, recordMagic)
	b = le.AppendUint64(b, r.block)
	b = le.AppendUint64(b, r.kept)
	b = le.AppendUint64(b, uint64(r.root.at))
	b = le.AppendUint64(b, r.root.version)
	for i := range lists {
		b = le.AppendUint32(b, r.root.oldest[i])
		b = le.AppendUint32(b, r.tails[i])
		b = le.AppendUint32(b, r.next[i])
	}
	b = le.AppendUint64(b, uint64(r.table.at))
	b = le.AppendUint32(b, r.table.bytes)
	b = le.AppendUint32(b, r.table.checksum)
	b = append(b, r.root.hash[:]...)
	return seal(b[:sectorBytes])
}

// decodeRecord returns false for what is no record, or a torn one.
func decodeRecord(sector []byte) (r record, ok bool) {
	le := binary.LittleEndian
	if len(sector) != sectorBytes || le.Uint32(sector) != recordMagic || !sealed(sector) {
		return r, false
	}
	r.block = le.Uint64(sector[4:])
	r.kept = le.Uint64(sector[12:])
	r.root.at = pointer(le.Uint64(sector[20:]))
	r.root.version = le.Uint64(sector[28:])
	b := sector[36:]
	for i := range lists {
		r.root.oldest[i], r.tails[i], r.next[i] = le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
		b = b[12:]
	}
	r.table = extent{int64(le.Uint64(b)), le.Uint32(b[8:]), le.Uint32(b[12:])}
	copy(r.root.hash[:], b[16:16+mpt.RefBytes])
	return r, r.kept <= r.block && r.root.hash.Legal() && (r.root.at != 0) == (r.root.hash[0] == 0xa0)
}

// seal puts a checksum at a sector's end.
func seal(sector []byte) []byte {
	binary.LittleEndian.PutUint32(sector[sealAt:], checksum(sector[:sealAt]))
	return sector
}

func sealed(sector []byte) bool {
	return binary.LittleEndian.Uint32(sector[sealAt:]) == checksum(sector[:sealAt])
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// readHeader reads the first sector.
func readHeader(file io.ReaderAt) (header, error) {
	sector := make([]byte, sectorBytes)
	if _, err := file.ReadAt(sector, 0); err != nil {
		return header{}, fmt.Errorf("read its first sector: %w", err)
	}
	return decodeHeader(sector)
}

// readRecords returns the records that the newest valid one keeps, oldest first,
// without gaps. Torn ones are passed over.
func readRecords(file io.ReaderAt, h header) ([]record, error) {
	ring := make([]byte, h.slots()*sectorBytes)
	n, err := file.ReadAt(ring, sectorBytes)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read root records: %w", err)
	}
	found := map[uint64]record{}
	var newest *record
	for slot := int64(0); slot+sectorBytes <= int64(n); slot += sectorBytes {
		r, ok := decodeRecord(ring[slot : slot+sectorBytes])
		if !ok || h.slotAt(r.block) != slot+sectorBytes {
			continue
		}
		found[r.block] = r
		if newest == nil || r.block > newest.block {
			newest = &r
		}
	}
	if newest == nil {
		return nil, errors.New("no root record is whole")
	}
	records := make([]record, 0, len(found))
	oldest := newest.block
	for oldest > newest.kept {
		if _, ok := found[oldest-1]; !ok {
			break
		}
		oldest--
	}
	for block := oldest; ; block++ {
		records = append(records, found[block])
		if block == newest.block {
			return records, nil
		}
	}
}

// readTable reads the table of chunks that belongs to r.
func readTable(file io.ReaderAt, h header, r *record) ([]byte, error) {
	if int64(r.table.bytes) > h.chunkBytes || r.table.at < h.chunkBytes || r.table.at > maxChunks*h.chunkBytes {
		return nil, errTable
	}
	table := make([]byte, r.table.bytes)
	if _, err := file.ReadAt(table, r.table.at); err != nil {
		return nil, fmt.Errorf("read table of chunks: %w", err)
	}
	if checksum(table) != r.table.checksum {
		return nil, errTable
	}
	return table, nil
}
