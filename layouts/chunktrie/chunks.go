//go:build linux

package chunktrie

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
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
		return fmt.Errorf("%d bytes do not fit a chunk of %d: create the state with larger chunks", bytes, f.chunkBytes)
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
			return errors.New("all chunks are in use: create the state with larger chunks")
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
			err := unix.Fallocate(int(f.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
				int64(c.id)*f.chunkBytes, f.chunkBytes)
			if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // where there are no holes, the room is only used again
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
		c := &chunk{id: le.Uint32(table), sequence: le.Uint32(table[8:]), live: int64(le.Uint64(table[12:]))}
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

// newReadBuffer returns room at an address that O_DIRECT accepts.
func newReadBuffer() []byte {
	raw := make([]byte, readBytes+maxAlign)
	skip := -int(uintptr(unsafe.Pointer(&raw[0]))) & (maxAlign - 1)
	return raw[skip : skip+readBytes : skip+readBytes]
}

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
		return nil, errors.Join(fmt.Errorf("read %s past the page cache: %w", path, err), f.file.Close())
	}
	return f, nil
}
