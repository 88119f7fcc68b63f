//go:build linux

package pagetrie

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// tx is the block being built. Pages are copied when they are first changed, and
// trusted from then on.
type tx struct {
	source   source
	space    space
	block    uint64
	rootPage uint32
	rootHash layout.Hash // of the block before, or when pages were spilled last
	dirty    map[uint32]*page
	spilled  map[uint32]bool // pages of this block's that were written before its end
	spare    []*page         // buffers of earlier pages

	maxDirty int // pages at once, but for those of one change to a slot or an account

	leaf, fork []byte // cells being made
	path       []byte // nibbles
	look       peek
	hasher     *mpt.Hasher
	nodesNew   int64
}

// errSplit says that a page was split to make room: start again from the root.
var errSplit = errors.New("a page was split")

// hook is where a node's location is kept: a slot in a page, or the root of all
// (no page).
type hook struct {
	page *page
	id   uint32
	cell int
	at   int // of the slot in the cell
}

func (t *tx) slot(h hook) slot { return h.page.cell(h.cell)[h.at:][:slotBytes] }

func (t *tx) relink(h hook, page uint32) {
	if h.page == nil {
		t.rootPage = page
		return
	}
	t.slot(h).setLoc(remote(page))
}

// cursor is a node on the way down, in a page that may be changed.
type cursor struct {
	page  *page
	id    uint32
	cell  int
	place place
	hook  hook // to this node
	above hook // to its parent
}

func (c *cursor) node() node {
	n, _ := parse(c.page.cell(c.cell)) // a trusted page holds whole nodes only
	return n
}

// root enters the account trie. There is one.
func (t *tx) root() (c cursor, err error) {
	c.page, c.id, err = t.own(t.rootPage, c.place)
	t.rootPage = c.id
	return c, err
}

// storage enters the storage trie of the account leaf at c. There is one.
func (t *tx) storage(c cursor) (cursor, error) {
	leaf := c.node()
	first, _ := leaf.slots()
	at := len(c.page.cell(c.cell)) - len(leaf.body) + first
	return t.enter(c, at, place{0, true})
}

// enter goes to a child, whose slot is at a place in the node's cell, and marks
// its hash as stale.
func (t *tx) enter(c cursor, at int, below place) (cursor, error) {
	to := cursor{
		page:  c.page,
		id:    c.id,
		place: below,
		hook:  hook{c.page, c.id, c.cell, at},
		above: c.hook,
	}

	s := t.slot(to.hook)
	s.makeStale()
	loc := s.loc()
	to.cell = int(loc)
	if isRemote(loc) {
		var err error
		if to.page, to.id, err = t.own(pageOf(loc), below); err != nil {
			return to, err
		}

		to.cell = 0
		s.setLoc(remote(to.id))
	}

	return to, nil
}

// end is how a descent ended.
type end int

const (
	exact    end = iota // at the key's leaf
	diverges            // inside the node's prefix
	missing             // at a branch without that child
)

// find follows key from c on. common is how much of the last node's prefix is the
// key's.
func (t *tx) find(c cursor, key *layout.Hash) (at cursor, how end, common int, err error) {
	for {
		n := c.node()
		common = mpt.Common(key, c.place.depth, n.prefix, n.count)
		if common < n.count {
			return c, diverges, common, nil
		}

		if n.kind != branch {
			return c, exact, common, nil
		}

		below := place{c.place.depth + n.count, c.place.inStorage}
		nibble, mask := mpt.Nibble(key, below.depth), n.mask()
		if mask&(1<<nibble) == 0 {
			return c, missing, common, nil
		}

		below.depth++
		at := nodeBytes(n.count) + 2 + rank(mask, nibble)*slotBytes
		if c, err = t.enter(c, at, below); err != nil {
			return c, 0, 0, err
		}
	}
}

// retry repeats a change until no page had to be split for it.
func retry(change func() error) error {
	for {
		if err := change(); err != errSplit {
			return err
		}
	}
}

// putAccount makes or changes an account, its storage kept.
func (t *tx) putAccount(account *layout.Hash, a *layout.Account) error {
	if t.rootPage == 0 {
		t.path = mpt.AppendNibbles(t.path[:0], account[:], 0, mpt.PathNibbles)
		t.leaf = appendAccountLeaf(t.leaf[:0], t.path, a, nil)
		var p *page
		var err error
		if p, t.rootPage, err = t.fresh(); err == nil {
			p.add(t.leaf)
		}

		return err
	}

	return retry(func() error {
		c, err := t.root()
		if err != nil {
			return err
		}

		c, how, common, err := t.find(c, account)
		if err != nil {
			return err
		}

		rest := func(depth int) []byte {
			t.path = mpt.AppendNibbles(t.path[:0], account[:], depth, mpt.PathNibbles)
			return t.path
		}

		if how == exact {
			old := c.node()
			t.leaf = appendAccountLeaf(t.leaf[:0], rest(c.place.depth), a, old.storage())
			return t.replace(c, t.leaf)
		}

		t.leaf = appendAccountLeaf(t.leaf[:0], rest(c.place.depth+common+1), a, nil)
		return t.graft(c, how, common, account, t.leaf)
	})
}

// putSlot makes or changes a slot of an account that is there.
func (t *tx) putSlot(account, key *layout.Hash, value []byte) error {
	leafFrom := func(depth int) []byte {
		t.path = mpt.AppendNibbles(t.path[:0], key[:], depth, mpt.PathNibbles)
		t.leaf = append(appendHead(t.leaf[:0], storageLeaf, t.path), value...)
		return t.leaf
	}

	return retry(func() error {
		c, err := t.accountLeaf(account)
		if err != nil {
			return err
		}

		if old := c.node(); old.storage() == nil {
			return t.startStorage(c, leafFrom(0))
		}

		if c, err = t.storage(c); err != nil {
			return err
		}

		c, how, common, err := t.find(c, key)
		if err != nil {
			return err
		}

		if how == exact {
			return t.replace(c, leafFrom(c.place.depth))
		}

		return t.graft(c, how, common, key, leafFrom(c.place.depth+common+1))
	})
}

func (t *tx) accountLeaf(account *layout.Hash) (cursor, error) {
	c, err := t.root()
	if err != nil {
		return c, err
	}

	c, how, _, err := t.find(c, account)
	if err == nil && how != exact {
		err = damaged(c.id, "an account that was just written is missing")
	}

	return c, err
}

// replace gives the node at c other bytes.
func (t *tx) replace(c cursor, cell []byte) error {
	if !c.page.fits(len(cell)-len(c.page.cell(c.cell)), 0) {
		return t.split(c.page, c.id)
	}
	c.page.set(c.cell, cell)
	return nil
}

// startStorage gives the account leaf at c a storage trie of one leaf.
func (t *tx) startStorage(c cursor, leaf []byte) error {
	if !c.page.fits(slotBytes+len(leaf), 1) {
		return t.split(c.page, c.id)
	}

	var s [slotBytes]byte
	slot(s[:]).setLoc(uint32(c.page.add(leaf)))
	t.fork = append(append(t.fork[:0], c.page.cell(c.cell)...), s[:]...)
	t.fork[0] |= hasStorage
	c.page.set(c.cell, t.fork)
	return nil
}

// graft hangs a new leaf where the descent for its key ended.
func (t *tx) graft(c cursor, how end, common int, key *layout.Hash, leaf []byte) error {
	n := c.node()
	oldBytes := len(c.page.cell(c.cell))
	nibble := mpt.Nibble(key, c.place.depth+common)
	if how == missing {
		children := bits.OnesCount16(n.mask())
		growth := (slotsFor(children+1) - slotsFor(children)) * slotBytes
		if !c.page.fits(growth+len(leaf), 1) {
			return t.split(c.page, c.id)
		}

		added := child{nibble, uint32(c.page.add(leaf))}
		n = c.node() // adding may have moved it
		t.fork = n.appendWith(t.fork[:0], added)
		c.page.set(c.cell, t.fork)
		return nil
	}

	t.path = n.nibbles(t.path[:0])
	fork := nodeBytes(common) + branchBytes(2)
	lower := nodeBytes(n.count-common-1) + len(n.body)
	if !c.page.fits(fork+lower-oldBytes+len(leaf), 2) {
		return t.split(c.page, c.id)
	}

	// The fork takes the old node's cell, so that whoever leads there still does.
	t.fork = n.appendPrefixed(t.fork[:0], t.path[common+1:])
	was := child{nibble: t.path[common]}
	c.page.set(c.cell, leaf[:1]) // its bytes are free for the three to come
	was.loc = uint32(c.page.add(t.fork))
	added := child{nibble, uint32(c.page.add(leaf))}
	t.fork = appendFork(t.fork[:0], t.path[:common], was, added)
	c.page.set(c.cell, t.fork)
	return nil
}

// deleteAccount drops an account that is there, with its storage. It reads every page
// of that: only the pages tell which others are free now.
func (t *tx) deleteAccount(account *layout.Hash) error {
	c, err := t.accountLeaf(account)
	if err != nil {
		return err
	}

	if n := c.node(); n.storage() != nil {
		below, err := t.storage(c)
		if err != nil {
			return err
		}

		if err := t.free(below); err != nil {
			return err
		}
	}

	return t.prune(c)
}

// deleteSlot drops a slot that is there.
func (t *tx) deleteSlot(account, key *layout.Hash) error {
	leaf, err := t.accountLeaf(account)
	if err != nil {
		return err
	}

	c, err := t.storage(leaf)
	if err != nil {
		return err
	}

	c, how, _, err := t.find(c, key)
	if err != nil {
		return err
	}

	if how != exact {
		return damaged(c.id, "a slot that was just seen is missing")
	}

	if c.hook.page == leaf.page && c.hook.cell == leaf.cell { // the trie's only leaf
		t.drop(c)
		cell := leaf.page.cell(leaf.cell)
		t.fork = append(t.fork[:0], cell[:len(cell)-slotBytes]...)
		t.fork[0] &^= hasStorage
		leaf.page.set(leaf.cell, t.fork)
		return nil
	}

	return t.prune(c)
}

// prune takes the leaf at c off its branch. A branch that is left with one child
// becomes that child.
func (t *tx) prune(c cursor) error {
	if c.hook.page == nil { // the last of all
		t.rootPage = 0
		t.discard(c.id)
		return nil
	}

	up := cursor{page: c.hook.page, id: c.hook.id, cell: c.hook.cell, hook: c.above}
	n := up.node()
	at := (c.hook.at - nodeBytes(n.count) - 2) / slotBytes
	mask := n.mask()
	if bits.OnesCount16(mask) > 2 {
		t.drop(c)
		n = up.node()
		t.fork = n.appendWithout(t.fork[:0], nibbleAt(mask, at))
		up.page.set(up.cell, t.fork)
		return nil
	}

	last := n.slot(1 - at).loc()
	t.path = append(n.nibbles(t.path[:0]), nibbleAt(mask, 1-at))
	if !isRemote(last) {
		t.drop(c)
		only, _ := parse(up.page.cell(int(last)))
		t.path = only.nibbles(t.path)
		t.fork = only.appendPrefixed(t.fork[:0], t.path)
		up.page.remove(int(last))
		up.page.set(up.cell, t.fork)
		return nil
	}

	below := place{depth: c.place.depth, inStorage: c.place.inStorage}
	p, id, err := t.own(pageOf(last), below)
	if err != nil {
		return err
	}

	only, _ := parse(p.cell(0))
	t.path = only.nibbles(t.path)
	t.fork = only.appendPrefixed(t.fork[:0], t.path)
	if !p.fits(len(t.fork)-len(p.cell(0)), 0) {
		if err := t.split(p, id); err != errSplit {
			return err
		}
		only, _ = parse(p.cell(0)) // its children may have moved away
		t.fork = only.appendPrefixed(t.fork[:0], t.path)
	}

	p.set(0, t.fork)
	t.drop(c)
	t.relink(up.hook, id)
	if up.cell == 0 {
		t.discard(up.id)
	} else {
		up.page.remove(up.cell)
	}

	return nil
}

// drop removes the leaf at c, and its page if it stands alone.
func (t *tx) drop(c cursor) {
	if c.cell == 0 {
		t.discard(c.id)
	} else {
		c.page.remove(c.cell)
	}
}

// free gives back all of the subtrie at c.
func (t *tx) free(c cursor) error {
	n := c.node()
	first, count := n.slots()
	at := len(c.page.cell(c.cell)) - len(n.body) + first
	below := place{c.place.depth + n.count + 1, c.place.inStorage}
	for k := range count {
		child, err := t.enter(c, at+k*slotBytes, below)
		if err != nil {
			return err
		}

		if err := t.free(child); err != nil {
			return err
		}
	}

	t.drop(c)
	return nil
}

const (
	splitRoomBytes = bodyBytes / 4 // a page is split until it has this left,
	splitCells     = 192           // and no more cells than this
)

// split moves subtries below a page's root to pages of their own, the largest
// first, until a quarter of the page is free. It returns errSplit.
func (t *tx) split(p *page, id uint32) error {
	moved := false
	for {
		room, tombstones := p.room()
		if moved && room >= splitRoomBytes && p.cells()-tombstones <= splitCells {
			return errSplit
		}

		root, _ := parse(p.cell(0))
		first, count := root.slots()
		var largest slot
		maximum := 0
		for k := range count {
			s := slot(root.body[first+k*slotBytes:][:slotBytes])
			if loc := s.loc(); !isRemote(loc) {
				if size := p.subtrieBytes(int(loc)); size > maximum {
					largest, maximum = s, size
				}
			}
		}

		if maximum == 0 {
			if moved {
				return errSplit
			}
			return fmt.Errorf("page %d is full, and there is nothing to move to another", id)
		}

		to, toID, err := t.fresh()
		if err != nil {
			return err
		}

		p.move(int(largest.loc()), to)
		largest.setLoc(remote(toID)) // moving only makes tombstones: the slot is where it was
		moved = true
	}
}

// subtrieBytes is what the nodes of a subtrie that are on this page take.
func (p *page) subtrieBytes(cell int) int {
	size := len(p.cell(cell)) + pointerBytes
	n, _ := parse(p.cell(cell))
	first, count := n.slots()
	for k := range count {
		if loc := slot(n.body[first+k*slotBytes:][:slotBytes]).loc(); !isRemote(loc) {
			size += p.subtrieBytes(int(loc))
		}
	}

	return size
}

// move takes a subtrie to another page, and returns its cell there.
func (p *page) move(cell int, to *page) (index int) {
	bytes := p.cell(cell)
	index = to.add(bytes)
	n, _ := parse(bytes)
	first, count := n.slots()
	at := len(bytes) - len(n.body) + first
	for k := range count {
		s := slot(bytes[at+k*slotBytes:][:slotBytes])
		if loc := s.loc(); !isRemote(loc) {
			moved := p.move(int(loc), to)
			slot(to.cell(index)[at+k*slotBytes:][:slotBytes]).setLoc(uint32(moved))
		}
	}

	p.setPointer(cell, 0, 0)
	return index
}

// nibbleAt is the nibble of child i.
func nibbleAt(mask uint16, i int) byte {
	for range i {
		mask &= mask - 1
	}
	return byte(bits.TrailingZeros16(mask))
}
