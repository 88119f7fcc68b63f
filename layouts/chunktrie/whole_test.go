//go:build linux

package chunktrie

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// Report is what Check saw.
type Report struct {
	Block                  uint64
	Root                   layout.Hash
	Accounts, Slots, Nodes int64 // of that root
	LiveBytes              int64
	OlderNodes             int64 // that only older versions reach
	Versions               int   // walked
	Chunks                 int   // in use
	DiskBytes              int64
}

// Check walks every kept version of the state in dir, the newest first: every node's
// checksum and hash, what parents say of their children, live bytes of every chunk,
// no pointer into a free one. Below a node that a newer version has as well it goes
// no further.
func Check(dir string) (report Report, err error) {
	s, err := Open(context.Background(), layout.Options{
		Dir:       dir,
		ReadOnly:  true,
		Overrides: map[string]string{"PinnedLevels": "0"},
	})
	if err != nil {
		return report, err
	}

	defer func() { err = errors.Join(err, s.Close()) }()
	c := checker{
		store:  s,
		live:   make([]int64, len(s.chunks.byID)),
		met:    make([][]uint64, len(s.chunks.byID)),
		writer: writer{hasher: mpt.NewHasher()},
		buffer: newReadBuffer(),
	}

	newest := s.newest()
	c.report.Block, c.report.Root = newest.block, newest.hash()
	if c.report.DiskBytes, err = s.DiskBytes(); err != nil {
		return report, err
	}

	if err := c.version(newest); err != nil {
		return c.report, err
	}

	for id, chunk := range s.chunks.byID {
		if chunk == nil {
			continue
		}

		c.report.Chunks++
		if chunk.live != c.live[id] {
			return c.report, fmt.Errorf("chunktrie: check block %d: chunk %d holds %d live "+
				"bytes, its table says %d", newest.block, id, c.live[id], chunk.live)
		}
	}

	c.older = true
	for _, v := range slices.Backward(s.versions[:len(s.versions)-1]) {
		if err := c.version(v); err != nil {
			return c.report, err
		}
	}

	return c.report, nil
}

type checker struct {
	store  *Store
	writer writer // makes hashes as commits do
	buffer []byte
	live   []int64
	met    [][]uint64 // by chunk, a bit for each unit of bytes: a node that was walked begins there
	older  bool       // than the newest version
	report Report
}

// metUnitBytes is less than any node has: no two begin in one unit.
const metUnitBytes = 16

// meet tells whether the node at p was walked before, and notes that it was.
func (c *checker) meet(p pointer) (before bool) {
	bits := c.met[p.chunk()]
	if bits == nil {
		bits = make([]uint64, c.store.chunks.chunkBytes/metUnitBytes/64)
		c.met[p.chunk()] = bits
	}

	unit := p.offset() / metUnitBytes
	before = bits[unit/64]>>(unit%64)&1 > 0
	bits[unit/64] |= 1 << (unit % 64)
	return before
}

func (c *checker) version(v *version) error {
	c.report.Versions++
	if v.root.at == 0 {
		return nil
	}
	if err := c.walk(v.root, trieOf{accountBranch, accountLeaf}, 0, v.block); err != nil {
		return fmt.Errorf("chunktrie: check block %d: %w", v.block, err)
	}
	return nil
}

// count adds a node to the report.
func (c *checker) count(n node, id uint32) {
	if c.older {
		c.report.OlderNodes++
		return
	}

	c.live[id] += int64(len(n))
	c.report.LiveBytes += int64(len(n))
	c.report.Nodes++
	switch n.kind() {
	case accountLeaf:
		c.report.Accounts++
	case slotLeaf:
		c.report.Slots++
	}
}

// walk checks the node at r, which begins at depth in a trie of kind t, and all
// below. Its parent was written by block parent.
func (c *checker) walk(r ref, t trieOf, depth int, parent uint64) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("node at %#x: %w", uint64(r.at), fmt.Errorf(format, args...))
	}
	id := r.at.chunk()
	if int(id) >= len(c.live) || c.store.chunks.byID[id] == nil {
		return wrong("chunk %d is free", id)
	}

	n, _, err := c.store.nodes.read(r.at, c.buffer)
	switch {
	case err != nil:
		return wrong("%w", err)
	case !n.intact():
		return wrong("%w", errChecksum)
	case n.begin() != depth || n.kind() != t.branch && n.kind() != t.leaf:
		return wrong("%w", errDepth)
	case n.version() > parent:
		return wrong("written by block %d, its parent by %d", n.version(), parent)
	case newPointer(id, r.at.offset(), len(n), n.kind()) != r.at:
		return wrong("its pointer reads %d sectors, leaf %v: it is %d bytes long, kind %d",
			r.at.sectors(), r.at.leaf(), len(n), n.kind())
	}

	var d draft
	if err := d.decode(n, nil, 0); err != nil {
		return wrong("%w", err)
	}

	if err := c.checkHash(r, &d, depth); err != nil {
		return wrong("%w", err)
	}

	walked := c.meet(r.at)
	switch {
	case !walked:
		c.count(n, id)
	case !c.older:
		return wrong("two nodes lead to it")
	}

	parent = n.version() // n is gone once its children are read
	list, place, err := c.place(r.at, len(n))
	if err != nil {
		return wrong("%w", err)
	}

	own := ref{oldest: [lists]uint32{noPlace, noPlace}, version: parent}
	own.oldest[list] = place
	for i := range d.children {
		child := &d.children[i]
		if child.at == 0 {
			continue
		}

		own.reaches(child)
		below, at := t, d.end()+1
		if d.kind == accountLeaf {
			below, at = trieOf{slotBranch, slotLeaf}, 0
		}

		if walked {
			continue
		}

		if err := c.walk(*child, below, at, parent); err != nil {
			return err
		}
	}

	if own.oldest != r.oldest || own.version != r.version {
		return wrong("places %v, version %d below: its parent says %v and %d", own.oldest,
			own.version, r.oldest, r.version)
	}

	return nil
}

func (c *checker) checkHash(r ref, d *draft, depth int) error {
	hash, err := c.writer.refer(d)
	if err != nil {
		return err
	}

	if depth == 0 {
		root := c.writer.hasher.Root(&hash)
		hash = mpt.HashRef(&root)
	}

	if hash != r.hash {
		return fmt.Errorf("hash %x, its parent says %x", stored(&hash), stored(&r.hash))
	}

	return nil
}

// place finds where in its list a node lies, which must be before the list's end.
func (c *checker) place(p pointer, bytes int) (list int, place uint32, err error) {
	chunk := c.store.chunks.byID[p.chunk()]
	for i := range c.store.chunks.lists {
		l := &c.store.chunks.lists[i]
		first := l.chunks[0].sequence
		if at := chunk.sequence - first; chunk.sequence >= first && int(at) < len(l.chunks) &&
			l.chunks[at] == chunk {
			if chunk == l.last() && p.offset()+int64(bytes) > l.next {
				return 0, 0, errors.New("it ends beyond the end of its list")
			}
			return i, c.store.chunks.place(chunk.sequence, p.offset()), nil
		}
	}

	return 0, 0, errPointer
}

// version is the block that wrote n.
func (n node) version() uint64 { return binary.LittleEndian.Uint64(n[12:]) }
