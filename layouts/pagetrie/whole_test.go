//go:build linux

package pagetrie

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// Checked is what Check saw of a whole state.
type Checked struct {
	Block                  uint64
	Root                   layout.Hash
	Accounts, Slots, Nodes int64
	Pages, TriePages       int64 // of the file; of them in the newest trie
	FreePages, ListPages   int64
	TrieBytes              int64 // of the trie's pages that cells and pointers take
}

// Check reads all of a state's newest block: every page is the trie's, the free
// list's or free, and that once; every hash is made anew. It returns the first
// thing that is wrong. The state may be open elsewhere for reading only.
func Check(dir string) (c Checked, err error) {
	if err := adapter.CheckHolds(dir, fileName); err != nil {
		return c, err
	}

	f, err := openFile(dir, false, true)
	if err != nil {
		return c, fmt.Errorf("check %s: %w", dir, err)
	}

	defer func() { err = errors.Join(err, f.Close()) }()
	m, err := f.newestMeta()
	if err != nil {
		return c, fmt.Errorf("check %s: %w", dir, err)
	}

	source, err := openCalled(f, false, 0)
	if err != nil {
		return c, fmt.Errorf("check %s: %w", dir, err)
	}

	defer func() { err = errors.Join(err, source.close()) }()
	k := checker{Checked: Checked{Block: m.block, Root: m.root, Pages: int64(m.pages)},
		source: source, meta: m, used: make([]bool, m.pages+1), hasher: mpt.NewHasher()}
	err = k.all()
	return k.Checked, err
}

type checker struct {
	Checked
	source source
	meta   meta
	used   []bool // by page
	hasher *mpt.Hasher
}

func (c *checker) all() error {
	if err := c.free(); err != nil {
		return err
	}

	var root mpt.Ref
	if c.meta.rootPage != 0 {
		var err error
		if root, err = c.page(c.meta.rootPage, place{}); err != nil {
			return err
		}
	}

	if hash := c.hasher.Root(&root); hash != c.meta.root {
		return fmt.Errorf("the trie's root is %x, the meta slot says %x", hash, c.meta.root)
	}

	for id := uint32(1); id <= c.meta.pages; id++ {
		if !c.used[id] {
			return damaged(id, "lost: neither in the trie nor free")
		}
	}

	return nil
}

// free walks the queue of free pages.
func (c *checker) free() error {
	q, buf := c.meta.queue, new(page)
	c.FreePages, c.ListPages = int64(q.ids), int64(q.lists)
	if q.last != 0 {
		c.ListPages++
		if err := c.use(q.last); err != nil {
			return err
		}
	}

	for at := uint64(0); q.lists > 0; {
		l, err := q.read(c.source, c.meta.pages, buf)
		if err != nil {
			return err
		}

		if l.block < at || l.block > c.meta.block {
			return damaged(q.first, "a list of block %d behind one of block %d, at block %d",
				l.block, at, c.meta.block)
		}

		at = l.block
		for _, id := range append(l.ids, q.first) {
			if err := c.use(id); err != nil {
				return err
			}
		}

		if err := q.pop(l); err != nil {
			return err
		}
	}

	if q.ids != 0 {
		return damaged(c.meta.queue.first, "%d free pages too few are listed", q.ids)
	}

	return nil
}

// use notes that a page has a purpose.
func (c *checker) use(id uint32) error {
	if id == 0 || id > c.meta.pages {
		return damaged(id, "the file has %d pages", c.meta.pages)
	}
	if c.used[id] {
		return damaged(id, "used twice")
	}
	c.used[id] = true
	return nil
}

// page checks a page with all below it and makes its reference.
func (c *checker) page(id uint32, at place) (mpt.Ref, error) {
	if err := c.use(id); err != nil {
		return mpt.Ref{}, err
	}

	c.TriePages++
	p, err := c.source.page(id, new(page))
	if err != nil {
		return mpt.Ref{}, err
	}

	if p.block() > c.meta.block {
		return mpt.Ref{}, damaged(id, "written by block %d after the newest", p.block())
	}

	if err := p.validate(id, at); err != nil {
		return mpt.Ref{}, err
	}

	room, _ := p.room()
	c.TrieBytes += int64(bodyBytes - room)
	return c.node(p, id, 0, at)
}

func (c *checker) node(p *page, id uint32, cell int, at place) (ref mpt.Ref, err error) {
	c.Nodes++
	n, _ := parse(p.cell(cell))
	below := place{at.depth + n.count + 1, at.inStorage}
	if n.kind == accountLeaf {
		below = place{0, true}
	}

	child := func(s slot) (ref mpt.Ref, err error) {
		if loc := s.loc(); isRemote(loc) {
			ref, err = c.page(pageOf(loc), below)
		} else {
			ref, err = c.node(p, id, int(loc), below)
		}

		if err != nil {
			return ref, err
		}

		if n.kind == accountLeaf { // a storage trie is known by its hash however short
			root := c.hasher.Root(&ref)
			ref = mpt.HashRef(&root)
		}

		if held := s.ref(); string(held[:held.Len()]) != string(ref[:ref.Len()]) {
			return ref, damaged(id, "cell %d holds %x of a child that is %x", cell,
				held[:held.Len()], ref[:ref.Len()])
		}

		return ref, nil
	}

	switch n.kind {
	case storageLeaf:
		c.Slots++
		return c.hasher.Leaf(n.nibbles(nil), mpt.AppendString(nil, n.body)), nil
	case accountLeaf:
		c.Accounts++
		root := layout.EmptyRoot
		if s := n.storage(); s != nil {
			ref, err := child(s)
			if err != nil {
				return ref, err
			}
			root = layout.Hash(ref[1:])
		}

		a := n.account()
		return c.hasher.Leaf(n.nibbles(nil), mpt.AppendAccount(nil, &a, &root)), nil
	}

	var children [16]mpt.Ref
	for i := range bits.OnesCount16(n.mask()) {
		if children[nibbleAt(n.mask(), i)], err = child(n.slot(i)); err != nil {
			return ref, err
		}
	}

	return c.hasher.PrefixedBranch(n.nibbles(nil), &children), nil
}
