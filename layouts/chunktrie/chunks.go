//go:build linux

package chunktrie

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/chain/mpt"
)

// Nodes are appended to two lists of chunks: what blocks write, and what
// compaction moves out of its way. Only the oldest chunks of a list are freed.
const (
	fast = iota
	slow
	lists
)

// A place is a position in a list in units of 64 KiB: how old a node is.
const (
	placeBytes = 1 << 16
	noPlace    = math.MaxUint32
)

const bufferBytes = 1 << 20 // written at once, for each list

type chunk struct {
	id       uint32
	sequence uint32 // in its list, without gaps
	live     int64  // bytes of nodes that the newest root reaches
}

type chunkList struct {
	chunks []*chunk // oldest first; the last is being filled
	next   int64    // free from here in the last
	buffer []byte   // what ends at next and is not in the file yet
}

func (l *chunkList) last() *chunk { return l.chunks[len(l.chunks)-1] }

// chunkFile is the file as its writer sees it.
type chunkFile struct {
	file       *os.File
	chunkBytes int64
	lists      [lists]chunkList
	byID       []*chunk // nil: free

	writes, writeBytes int64
}

func (f *chunkFile) place(sequence uint32, offset int64) uint32 {
	return uint32((int64(sequence)*f.chunkBytes + offset) / placeBytes)
}

// room makes sure that the next bytes of a list lie in one chunk, and that the buffer
// has room for them: until the block's root record no state has what it writes.
func (f *chunkFile) room(list int, bytes int) error {
	l := &f.lists[list]
	if len(l.buffer)+bytes > bufferBytes {
		if err := f.flush(list); err != nil {
			return err
		}
	}

	if len(l.chunks) > 0 && l.next+int64(bytes) <= f.chunkBytes {
		return nil
	}

	if int64(bytes) > f.chunkBytes {
		return fmt.Errorf("%d bytes do not fit a chunk of %d: %s", bytes, f.chunkBytes, f.larger())
	}

	if err := f.flush(list); err != nil {
		return err
	}

	c := &chunk{}
	if len(l.chunks) > 0 {
		c.sequence = l.last().sequence + 1
	}

	id := 1 + slices.Index(f.byID[1:], nil)
	if id == 0 {
		if id = len(f.byID); id == maxChunks {
			return fmt.Errorf("all chunks are in use: %s", f.larger())
		}
		f.byID = append(f.byID, nil)
	}

	c.id = uint32(id)
	if err := f.reach(int64(id+1) * f.chunkBytes); err != nil {
		return err
	}

	f.byID[id] = c
	l.chunks, l.next = append(l.chunks, c), 0
	return nil
}

// larger says how a state can hold more.
func (f *chunkFile) larger() string {
	if f.chunkBytes < maxChunkBytes {
		return "build the state again with larger chunks: --set ChunkBytes=256MiB"
	}
	return "build a smaller state: --accounts"
}

// reach makes the file as long as whole chunks, without taking room for them: a
// read of whole sectors at its end would be short, and asked for twice.
func (f *chunkFile) reach(bytes int64) error {
	info, err := f.file.Stat()
	if err != nil || info.Size() >= bytes {
		return err
	}
	return f.file.Truncate(bytes)
}

// append adds a node, or other bytes of kind 0, to a list, where room was made for
// them.
func (f *chunkFile) append(list int, k kind, bytes []byte) (at pointer, place uint32) {
	l := &f.lists[list]
	at = newPointer(l.last().id, l.next, len(bytes), k)
	place = f.place(l.last().sequence, l.next)
	l.buffer = append(l.buffer, bytes...)
	l.next += int64(len(bytes))
	return at, place
}

func (f *chunkFile) flush(list int) error {
	l := &f.lists[list]
	if len(l.buffer) == 0 {
		return nil
	}

	at := int64(l.last().id)*f.chunkBytes + l.next - int64(len(l.buffer))
	if _, err := f.file.WriteAt(l.buffer, at); err != nil {
		return err
	}

	f.writes++
	f.writeBytes += int64(len(l.buffer))
	l.buffer = l.buffer[:0]
	return nil
}

// free gives back the chunks of both lists that end before the oldest places.
func (f *chunkFile) free(oldest [lists]uint32) error {
	for i := range f.lists {
		l := &f.lists[i]
		for len(l.chunks) > 1 && f.place(l.chunks[0].sequence, f.chunkBytes-1) < oldest[i] {
			c := l.chunks[0]
			err := unix.Fallocate(int(f.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|
				unix.FALLOC_FL_KEEP_SIZE,
				int64(c.id)*f.chunkBytes, f.chunkBytes)
			// where there are no holes, the room is only used again
			if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
				return fmt.Errorf("free chunk %d: %w", c.id, err)
			}

			l.chunks = l.chunks[1:]
			f.byID[c.id] = nil
		}
	}

	return nil
}

// The table of chunks is written with every block: id, list, sequence, live bytes.
const tableEntryBytes = 4 + 4 + 4 + 8

var errTable = errors.New("damaged table of chunks")

func (f *chunkFile) appendTable(dst []byte) []byte {
	le := binary.LittleEndian
	for i := range f.lists {
		for _, c := range f.lists[i].chunks {
			dst = le.AppendUint32(dst, c.id)
			dst = le.AppendUint32(dst, uint32(i))
			dst = le.AppendUint32(dst, c.sequence)
			dst = le.AppendUint64(dst, uint64(c.live))
		}
	}

	return dst
}

// loadTable takes over the chunks of a table and where each list ends.
func (f *chunkFile) loadTable(table []byte, next [lists]uint32) error {
	f.byID = []*chunk{nil}
	if len(table)%tableEntryBytes != 0 {
		return errTable
	}

	le := binary.LittleEndian
	for ; len(table) > 0; table = table[tableEntryBytes:] {
		c := &chunk{
			id:       le.Uint32(table),
			sequence: le.Uint32(table[8:]),
			live:     int64(le.Uint64(table[12:])),
		}

		list := le.Uint32(table[4:])
		if c.id == 0 || c.id >= maxChunks || list >= lists || c.live < 0 || c.live > f.chunkBytes {
			return errTable
		}

		l := &f.lists[list]
		if len(l.chunks) > 0 && c.sequence != l.last().sequence+1 {
			return errTable
		}

		for int(c.id) >= len(f.byID) {
			f.byID = append(f.byID, nil)
		}

		if f.byID[c.id] != nil {
			return errTable
		}

		f.byID[c.id] = c
		l.chunks = append(l.chunks, c)
	}

	for i := range f.lists {
		if len(f.lists[i].chunks) == 0 || int64(next[i]) > f.chunkBytes {
			return errTable
		}
		f.lists[i].next = int64(next[i])
	}

	return nil
}

// nodeFile reads nodes. Safe for concurrent use.
type nodeFile struct {
	file       *os.File // with O_DIRECT, or the writer's
	chunkBytes int64
	align      int64
}

// readBytes is the room that a read needs: a node's sectors, rounded out to the
// largest alignment there is.
const (
	readBytes    = 2 * maxAlign
	maxAlign     = 4096
	minReadAlign = sectorBytes
)

func newReadBuffer() []byte { return adapter.Aligned(readBytes, maxAlign) }

// read reads the node at p into buffer and tells how much it asked for.
func (f *nodeFile) read(p pointer, buffer []byte) (n node, asked int64, err error) {
	offset := p.offset()
	sectors := p.sectors()
	if sectors == 0 || sectors > maxReadSectors || p.chunk() == 0 || offset >= f.chunkBytes {
		return nil, 0, errPointer
	}

	at := int64(p.chunk())*f.chunkBytes + offset
	from := at &^ (sectorBytes - 1)
	to := from + int64(sectors)*sectorBytes
	from, to = from&^(f.align-1), (to+f.align-1)&^(f.align-1)
	got, err := f.file.ReadAt(buffer[:to-from], from)
	if err != nil && err != io.EOF { // a file that was cut short may still hold the node
		return nil, 0, fmt.Errorf("read node: %w", err)
	}

	if int64(got) < at-from {
		return nil, 0, errPointer
	}

	n, err = parse(buffer[at-from : got])
	return n, to - from, err
}

// openDirect opens the file past the page cache, with the least alignment that
// works.
func openDirect(path string, chunkBytes int64) (*nodeFile, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s past the page cache: %w", path, err)
	}

	f := &nodeFile{file: os.NewFile(uintptr(fd), path), chunkBytes: chunkBytes, align: minReadAlign}
	if _, err := f.file.ReadAt(newReadBuffer()[:minReadAlign], 0); errors.Is(err, unix.EINVAL) {
		f.align = maxAlign
	} else if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s past the page cache: %w", path, err),
			f.file.Close())
	}

	return f, nil
}

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

// again is the remedy for a state that cannot be read.
const again = "build the state again, with a new --out"

func decodeHeader(sector []byte) (h header, err error) {
	if bytes.HasPrefix(sector, []byte(anyVersion)) && !bytes.HasPrefix(sector, []byte(magic)) {
		return h, engine.Fail(engine.CodeUnsupported, "it is a chunk trie of another version").
			WithRemedy(again)
	}

	if !bytes.HasPrefix(sector, []byte(magic)) {
		return h, errors.New("its first sector is not a chunk trie's")
	}

	if !sealed(sector) {
		return h, engine.Fail(engine.CodeDamaged, "its first sector is damaged").WithRemedy(again)
	}

	h.chunkBytes = int64(binary.LittleEndian.Uint64(sector[32:]))
	h.versions = int(binary.LittleEndian.Uint32(sector[40:]))
	return h, h.check()
}

func (h header) check() error {
	if h.chunkBytes < placeBytes || h.chunkBytes > maxChunkBytes ||
		h.chunkBytes&(h.chunkBytes-1) != 0 {
		return fmt.Errorf(
			"chunks of %d bytes: write ChunkBytes=256MiB (a power of two from 64KiB)",
			h.chunkBytes,
		)
	}

	if h.versions < 1 || (h.slots()+1)*sectorBytes > h.chunkBytes {
		return fmt.Errorf("%d versions: their root records must fit a chunk of %d bytes: write "+
			"Versions=64", h.versions, h.chunkBytes)
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
	return r, r.kept <= r.block && r.root.hash.Legal() &&
		(r.root.at != 0) == (r.root.hash[0] == 0xa0)
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
		return nil, engine.Fail(engine.CodeDamaged, "no root record is whole").WithRemedy(again)
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
	if int64(r.table.bytes) > h.chunkBytes || r.table.at < h.chunkBytes ||
		r.table.at > maxChunks*h.chunkBytes {
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
