//go:build linux

package pagetrie

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/layout"
)

const (
	fileName = "state.pages"

	metaPages = 2                 // the slots stand before page 1
	maxPages  = 1<<28 - metaPages // 1 TiB, what a file is mapped as
	mapBytes  = int64(maxPages+metaPages) * pageBytes
)

// offset of a page; ids start with 1.
func offset(id uint32) int64 { return int64(id-1+metaPages) * pageBytes }

// file is the one file of a state.
type file struct {
	*os.File
	durable            bool
	writes, writeBytes atomic.Int64
}

func openFile(dir string, create, readOnly bool) (*file, error) {
	f, err := adapter.OpenLocked(dir, fileName, create, readOnly,
		"end that process, or read with it")
	return &file{File: f, durable: true}, err
}

// writePages writes pages in the order of the file, neighbours together.
func (f *file) writePages(pages map[uint32]*page) error {
	ids := slices.Sorted(maps.Keys(pages))
	var run [][]byte
	for i, id := range ids {
		run = append(run, pages[id][:])
		if i+1 < len(ids) && ids[i+1] == id+1 && len(run) < maxRunPages {
			continue
		}

		if err := f.writeRun(run, offset(id+1-uint32(len(run)))); err != nil {
			return err
		}

		run = run[:0]
	}

	return nil
}

const maxRunPages = 256

func (f *file) writeRun(run [][]byte, at int64) error {
	f.writes.Add(1)
	for left := len(run) * pageBytes; ; {
		n, err := unix.Pwritev(int(f.Fd()), run, at)
		if errors.Is(err, unix.EINTR) {
			continue
		}

		if err != nil {
			return fmt.Errorf("at byte %d: %w", at, err)
		}

		f.writeBytes.Add(int64(n))
		if left -= n; left == 0 {
			return nil
		}

		if n == 0 {
			return fmt.Errorf("at byte %d: nothing was written", at)
		}

		at += int64(n)
		for n >= len(run[0]) {
			n -= len(run[0])
			run = run[1:]
		}

		run[0] = run[0][n:]
	}
}

// cover makes the file as long as its pages: the last may be free, and unwritten.
func (f *file) cover(pages uint32) error {
	info, err := f.Stat()
	if err == nil && info.Size() < offset(pages+1) {
		err = f.Truncate(offset(pages + 1))
	}
	if err != nil {
		return fmt.Errorf("lengthen the file to %d pages: %w", pages, err)
	}
	return nil
}

// startSync sets the disk to work on what was written; the sync to come has the less
// to wait for.
func (f *file) startSync() error {
	if !f.durable {
		return nil
	}
	return unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}

func (f *file) sync() error {
	if !f.durable {
		return nil
	}
	return unix.Fdatasync(int(f.Fd()))
}

// meta is what a meta slot says of a block: two slots take turns.
type meta struct {
	block    uint64
	root     layout.Hash
	rootPage uint32
	pages    uint32 // of the file, without the slots
	queue    queue  // of free pages
}

const (
	metaMagic = "statelab pages 2"
	anyMagic  = "statelab pages "
	metaBytes = len(metaMagic) + 8 + 32 + 6*4
)

func (m meta) encode() (p page) {
	b := append(p[:0], metaMagic...)
	b = binary.LittleEndian.AppendUint64(b, m.block)
	b = append(b, m.root[:]...)
	for _, n := range []uint32{m.rootPage, m.pages, m.queue.first, m.queue.last, m.queue.lists,
		m.queue.ids} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}

	binary.LittleEndian.PutUint32(p[metaBytes:], crc32.Checksum(p[:metaBytes], castagnoli()))
	return p
}

// decodeMeta reads a slot; ok is false for a torn or empty one.
func decodeMeta(p *page) (m meta, ok bool) {
	if string(p[:len(metaMagic)]) != metaMagic ||
		binary.LittleEndian.Uint32(p[metaBytes:]) != crc32.Checksum(p[:metaBytes], castagnoli()) {
		return m, false
	}

	rest := p[len(metaMagic):]
	m.block = binary.LittleEndian.Uint64(rest)
	copy(m.root[:], rest[8:])
	for i, to := range []*uint32{&m.rootPage, &m.pages, &m.queue.first, &m.queue.last,
		&m.queue.lists, &m.queue.ids} {
		*to = binary.LittleEndian.Uint32(rest[40+4*i:])
	}

	return m, m.pages <= maxPages && m.rootPage <= m.pages && m.queue.last <= m.pages &&
		uint64(m.queue.lists)+uint64(m.queue.ids) <= uint64(m.pages) &&
		(m.rootPage == 0) == (m.root == layout.EmptyRoot)
}

func (f *file) writeMeta(m meta) error {
	p := m.encode()
	return f.writeRun([][]byte{p[:]}, int64(m.block%metaPages)*pageBytes)
}

// again is the remedy for a state that cannot be read.
const again = "build the state again, with a new --out"

// newestMeta returns the newer of the whole slots.
func (f *file) newestMeta() (m meta, err error) {
	found, other := false, false
	for i := range int64(metaPages) {
		var p page
		if _, err := f.ReadAt(p[:], i*pageBytes); err != nil {
			return m, fmt.Errorf("read meta slot %d: %w", i, err)
		}

		if slot, ok := decodeMeta(&p); ok && int64(slot.block%metaPages) == i &&
			(!found || slot.block > m.block) {
			m, found = slot, true
		}

		other = other ||
			strings.HasPrefix(string(p[:len(metaMagic)]), anyMagic) &&
				string(p[:len(metaMagic)]) != metaMagic
	}

	if !found && other {
		return m, engine.Fail(engine.CodeUnsupported, "it is a page trie of another version").
			WithRemedy(again)
	}

	if !found {
		return m, engine.Fail(engine.CodeDamaged, "neither meta slot is whole").WithRemedy(again)
	}

	size, err := f.Seek(0, 2)
	if err == nil && size < offset(m.pages+1) {
		err = engine.Fail(engine.CodeDamaged, "the file has %d bytes, block %d needs %d", size,
			m.block, offset(m.pages+1)).WithRemedy(again)
	}

	return m, err
}

// format makes the file of an empty state. Both slots get their place on the
// disk: no later commit fails for it.
func (f *file) format() error {
	if err := f.writeRun([][]byte{make([]byte, pageBytes)}, pageBytes); err != nil {
		return err
	}
	if err := f.writeMeta(meta{root: layout.EmptyRoot}); err != nil {
		return err
	}
	return f.Sync()
}
