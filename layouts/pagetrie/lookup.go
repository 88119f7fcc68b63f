//go:build linux

package pagetrie

import (
	"errors"
	"fmt"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// reader looks up in the snapshot it holds.
type reader struct {
	descent
	s *pageState
}

var errReaderClosed = errors.New("the reader is closed")

// descent goes down the tries of one state.
type descent struct {
	source       source           // nil once a reader is closed
	dirty        map[uint32]*page // of the block being built; nil for readers
	at           snapshot
	buf          *page // what is read by calls
	nodes, pages int64
}

func (r *descent) Account(account layout.Hash) (a layout.Account, found bool, err error) {
	leaf, err := r.account(&account)
	if err != nil || leaf.page == nil {
		return a, false, err
	}
	return leaf.node.account(), true, nil
}

func (r *descent) Slot(account, key layout.Hash, dst []byte) (value []byte, found bool, err error) {
	leaf, err := r.account(&account)
	if err != nil || leaf.page == nil || leaf.node.storage() == nil {
		return dst[:0], false, err
	}

	loc := leaf.node.storage().loc()
	if isRemote(loc) {
		if leaf.page, err = r.turn(pageOf(loc)); err != nil {
			return dst[:0], false, err
		}
		leaf.id, loc = pageOf(loc), 0
	} else if loc == noLocation {
		return dst[:0], false, damaged(leaf.id, "a storage trie that starts at the page's root")
	}

	leaf, err = r.descend(leaf.page, leaf.id, int(loc), &key, true)
	if err != nil || leaf.page == nil {
		return dst[:0], false, err
	}

	return append(dst[:0], leaf.node.body...), true, nil
}

func (r *descent) account(account *layout.Hash) (found, error) {
	if r.source == nil {
		return found{}, errReaderClosed
	}

	if r.at.rootPage == 0 {
		return found{}, nil
	}

	root, err := r.turn(r.at.rootPage)
	if err != nil {
		return found{}, err
	}

	return r.descend(root, r.at.rootPage, 0, account, false)
}

// found is where a leaf is; page is nil for an absent key.
type found struct {
	page *page
	id   uint32
	node node
}

// descend follows key from a cell at the root of a trie. A path has no more
// nodes than nibbles, whatever a page holds: it ends.
func (r *descent) descend(
	p *page, id uint32, cell int, key *layout.Hash, inStorage bool,
) (at found, err error) {
	for depth := 0; ; {
		n, ok := parse(p.cell(cell))
		if !ok {
			return at, damaged(id, "cell %d holds no node", cell)
		}

		r.nodes++
		if err := n.stands(id, place{depth, inStorage}); err != nil {
			return at, err
		}

		if mpt.Common(key, depth, n.prefix, n.count) < n.count {
			return at, nil
		}

		if n.kind != branch {
			return found{p, id, n}, nil
		}

		depth += n.count
		nibble, mask := mpt.Nibble(key, depth), n.mask()
		if mask&(1<<nibble) == 0 {
			return at, nil
		}

		loc := n.slot(rank(mask, nibble)).loc()
		depth++
		cell = int(loc)
		if isRemote(loc) {
			if p, err = r.turn(pageOf(loc)); err != nil {
				return at, fmt.Errorf("from page %d: %w", id, err)
			}
			id, cell = pageOf(loc), 0
		}
	}
}

// turn goes to another page; what the last one held may be overwritten.
func (r *descent) turn(id uint32) (*page, error) {
	r.pages++
	if id == 0 || id > r.at.pages {
		return nil, damaged(id, "the file has %d pages", r.at.pages)
	}
	if p := r.dirty[id]; p != nil {
		return p, nil
	}
	return r.source.page(id, r.buf)
}

func (r *reader) Refresh() error {
	if r.source == nil {
		return errReaderClosed
	}
	r.s.release(r.at)
	r.at = r.s.acquire()
	return nil
}

func (r *reader) Touched() layout.Touched {
	nodes, pages := r.nodes, r.pages
	return layout.Touched{Nodes: &nodes, Pages: &pages}
}

func (r *reader) Close() error {
	if r.source != nil {
		r.source = nil
		r.s.release(r.at)
	}
	return nil
}

// has tells whether an account, or its slot of that key, is there in the block
// being built.
func (t *tx) has(account, key *layout.Hash) (there bool, err error) {
	t.look.at = snapshot{rootPage: t.rootPage, pages: t.space.pages}
	if key == nil {
		_, there, err = t.look.Account(*account)
		return there, err
	}
	t.look.value, there, err = t.look.Slot(*account, *key, t.look.value)
	return there, err
}

// peek is how the writer looks before it changes anything.
type peek struct {
	descent
	value []byte
}
