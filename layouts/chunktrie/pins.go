//go:build linux

package chunktrie

import (
	"context"
	"fmt"
	"math/bits"

	"golang.org/x/sync/errgroup"
)

// mostPinned is the deepest nibble depth whose branches are kept in memory.
const mostPinned = 5

// pins is how deep branches are pinned and what they take. Of the deepest level
// there are as many as the budget allows.
type pins struct {
	*arena
	depth       int                   // the deepest level; -1: none
	levels      [mostPinned + 1]int64 // bytes by the depth where a branch begins
	budgetBytes int64                 // 0: no budget
}

func (p *pins) bytes() (sum int64) {
	for _, level := range p.levels {
		sum += level
	}
	return sum
}

// keeps tells whether a node belongs in memory.
func (p *pins) keeps(n node) bool {
	return n.kind() == accountBranch && (n.begin() < p.depth || n.begin() == p.depth && p.fits(n))
}

// fits tells whether the deepest level may have one more node: it leaves room to the
// levels above, which a block may write anew before the old ones are free, and a
// sixteenth of the budget for them to grow.
func (p *pins) fits(n node) bool {
	words := pinWords(n)
	return p.budgetBytes == 0 || p.reusable(words) > 0 || p.used()+8*int64(words)+p.above() <= p.budgetBytes-p.budgetBytes/16
}

// above is what the levels above the deepest take.
func (p *pins) above() (sum int64) {
	for _, level := range p.levels[:max(p.depth, 0)] {
		sum += level
	}
	return sum
}

// put pins a node; 0 where there is no room.
func (p *pins) put(n node, at pointer) pin {
	made := p.add(n, at)
	if made != 0 {
		p.levels[n.begin()] += 8 * int64(p.head(made).words())
	}
	return made
}

// giveUp takes a pin out of the trie from a block on.
func (p *pins) giveUp(block uint64, old pin) {
	head := p.head(old)
	p.levels[head.begin()] -= 8 * int64(head.words())
	p.retire(block, old)
}

// fit gives up the deepest levels until the rest is within the budget.
func (p *pins) fit(block uint64, root pin) pin {
	for p.budgetBytes > 0 && p.bytes()+p.above() > p.budgetBytes && p.depth >= 0 {
		p.depth--
		root = p.cut(block, root, p.depth)
	}
	return root
}

// cut gives up what begins below a depth, and returns what is left of root.
func (p *pins) cut(block uint64, root pin, depth int) pin {
	if root == 0 {
		return 0
	}
	head := p.head(root)
	for i := range bits.OnesCount16(head.mask()) {
		child := p.child(root, i).pin()
		if child == 0 {
			continue
		}
		at := p.pointer(child)
		if p.cut(block, child, depth) == 0 {
			p.link(root, i, link(at))
		}
	}
	if head.begin() <= depth {
		return root
	}
	p.giveUp(block, root)
	return 0
}

const (
	loaders   = 64   // reads in flight while pins are loaded
	batchPins = 4096 // read before the next ones are looked for
)

// wanted is a branch to pin: child i of a pinned one.
type wanted struct {
	parent pin // 0 for the root
	i      int
	at     pointer
	node   node // once read
}

// load reads the levels from the root down, as far as they fit.
func (p *pins) load(ctx context.Context, file *nodeFile, root pointer) (top pin, err error) {
	if root == 0 || root.leaf() || p.depth < 0 {
		return 0, nil
	}
	l := pinLoader{pins: p, file: file}
	l.wanted = append(l.wanted, wanted{at: root})
	most := p.depth
	for p.depth = 0; ; p.depth++ {
		if l.top != 0 {
			err = l.below(ctx, l.top)
		}
		if err == nil {
			err = l.flush(ctx)
		}
		if err != nil {
			return 0, fmt.Errorf("pin nibble depth %d: %w", p.depth, err)
		}
		if l.full || p.depth == most {
			break
		}
	}
	if l.full && p.levels[p.depth] == 0 {
		p.depth--
	}
	return l.top, nil
}

// pinLoader pins one level after the other, the deepest so far being pins.depth.
type pinLoader struct {
	pins   *pins
	file   *nodeFile
	top    pin
	wanted []wanted
	full   bool
}

// below looks for branches that begin at the deepest level.
func (l *pinLoader) below(ctx context.Context, p pin) error {
	head := l.pins.head(p)
	if head.end()+1 > l.pins.depth {
		return nil
	}
	for i := range bits.OnesCount16(head.mask()) {
		child := l.pins.child(p, i)
		var err error
		switch {
		case l.full:
			return nil
		case child.pin() != 0:
			err = l.below(ctx, child.pin())
		case head.end()+1 == l.pins.depth && !pointer(child).leaf():
			if l.wanted = append(l.wanted, wanted{parent: p, i: i, at: pointer(child)}); len(l.wanted) == batchPins {
				err = l.flush(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flush reads what is wanted and pins it.
func (l *pinLoader) flush(ctx context.Context) error {
	if err := readAll(ctx, l.file, l.wanted, l.pins.depth); err != nil {
		return err
	}
	for _, w := range l.wanted {
		p := l.pins
		made := pin(0)
		if p.fits(w.node) {
			made = p.put(w.node, w.at)
		}
		if l.full = made == 0; l.full {
			break
		}
		if w.parent == 0 {
			l.top = made
		} else {
			p.link(w.parent, w.i, link(made)|pinnedBit)
		}
	}
	l.wanted = l.wanted[:0]
	return nil
}

// readAll reads branches that begin at a depth, many at a time.
func readAll(ctx context.Context, file *nodeFile, all []wanted, depth int) error {
	group, ctx := errgroup.WithContext(ctx)
	share := (len(all) + loaders - 1) / loaders
	for len(all) > 0 {
		part := all[:min(share, len(all))]
		all = all[len(part):]
		group.Go(func() error {
			buffer := newReadBuffer()
			for i := range part {
				if err := ctx.Err(); err != nil {
					return err
				}
				n, _, err := file.read(part[i].at, buffer)
				if err != nil {
					return err
				}
				if n.begin() != depth || n.kind() != accountBranch {
					return errDepth
				}
				part[i].node = append(make(node, 0, len(n)), n...)
			}
			return nil
		})
	}
	return group.Wait()
}
