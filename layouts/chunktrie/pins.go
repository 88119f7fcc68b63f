//go:build linux

package chunktrie

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// maxPinned is the deepest nibble depth whose branches are kept in memory.
const maxPinned = 5

// pins is how deep branches are pinned and what they take. Of the deepest level
// there are as many as the budget allows.
type pins struct {
	*arena
	depth       int                  // the deepest level; -1: none
	levels      [maxPinned + 1]int64 // bytes by the depth where a branch begins
	budgetBytes int64                // 0: no budget
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
	return p.budgetBytes == 0 || p.reusable(words) > 0 ||
		p.used()+8*int64(words)+p.above() <= p.budgetBytes-p.budgetBytes/16
}

// above is what the levels above the deepest take.
func (p *pins) above() int64 { return sum(p.levels[:max(p.depth, 0)]) }

func sum(levels []int64) (bytes int64) {
	for _, level := range levels {
		bytes += level
	}
	return bytes
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
	for p.budgetBytes > 0 && sum(p.levels[:])+p.above() > p.budgetBytes && p.depth >= 0 {
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
	maximum := p.depth
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

		if l.full || p.depth == maximum {
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
			l.wanted = append(l.wanted, wanted{parent: p, i: i, at: pointer(child)})
			if len(l.wanted) == batchPins {
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

// arena is where pins lie, outside the Go heap: a collector would keep as much again
// in reserve. The writer alone allocates and frees; readers read.
type arena struct {
	words   []uint64
	next    pin                    // never used from here on
	unused  [maxPinWords + 1][]pin // freed, by their words
	retired []retirement           // in the order of their blocks
}

// retirement is a pin that no root from a block on leads to.
type retirement struct {
	block uint64
	pin   pin
}

// arenaBytes is what of the address space the arena holds: several times what all
// levels take at their fullest, 160 MiB. Memory is taken as pins are written.
const arenaBytes = 1 << 30

func newArena() (*arena, error) {
	raw, err := unix.Mmap(-1, 0, arenaBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve address space for pinned nodes: %w", err)
	}
	return &arena{words: unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), arenaBytes/8), next: 1},
		nil
}

func (a *arena) close() error {
	if a == nil || a.words == nil {
		return nil
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&a.words[0])), arenaBytes)
	a.words = nil
	return unix.Munmap(raw)
}

// take returns room for a pin, whose head tells no more than its words; 0 where none
// is left.
func (a *arena) take(words int) (p pin) {
	if words := a.reusable(words); words > 0 {
		free := a.unused[words]
		p = free[len(free)-1]
		a.unused[words] = free[:len(free)-1]
		a.words[p] = uint64(words) << 32
		return p
	}

	if int(a.next)+words > len(a.words) {
		return 0
	}

	p = a.next
	a.next += pin(words)
	a.words[p] = uint64(words) << 32
	return p
}

// reusable is the size of a freed place for that many words, which has at most two
// more; 0 where there is none.
func (a *arena) reusable(words int) int {
	for size := words; size <= min(words+2, maxPinWords); size++ {
		if len(a.unused[size]) > 0 {
			return size
		}
	}
	return 0
}

// retire lets go of a pin that a block replaces.
func (a *arena) retire(block uint64, p pin) { a.retired = append(a.retired, retirement{block, p}) }

// reclaim frees what the readers of blocks from oldest on cannot meet.
func (a *arena) reclaim(oldest uint64) {
	n := 0
	for n < len(a.retired) && a.retired[n].block <= oldest {
		p := a.retired[n].pin
		words := a.head(p).words()
		a.unused[words] = append(a.unused[words], p)
		n++
	}
	a.retired = slices.Delete(a.retired, 0, n)
}

// used is what the arena has ever used at once, in bytes.
func (a *arena) used() int64 { return 8 * int64(a.next) }

// A pin is a branch of the account trie in memory, as much of it as lookups need:
// its place among the arena's words, 0 for none. At that place stand
//
//	a head: child mask (16 bits), nibble depths where the path begins and ends (8 + 8),
//	        words of its place (16)
//	its pointer
//	of each child: its pointer, or its pin (pinnedBit)
//	its path, packed
//
// Pins do not change, but for children that are given up: a block makes new ones,
// and readers of old blocks keep theirs.
type pin uint32

const (
	pinnedBit    = 1 << 62 // of no pointer
	pinHeadWords = 2
	maxPinWords  = pinHeadWords + 16 + 4
	evenLevels   = 4
)

type pinHead uint64

func (h pinHead) mask() uint16 { return uint16(h) }
func (h pinHead) begin() int   { return int(uint8(h >> 16)) }
func (h pinHead) end() int     { return int(uint8(h >> 24)) }
func (h pinHead) words() int   { return int(uint16(h >> 32)) }

func (a *arena) head(p pin) pinHead    { return pinHead(a.words[p]) }
func (a *arena) pointer(p pin) pointer { return pointer(a.words[p+1]) }
func (a *arena) child(p pin, i int) link {
	return link(atomic.LoadUint64(&a.words[int(p)+pinHeadWords+i]))
}
func (a *arena) link(p pin, i int, l link) {
	atomic.StoreUint64(&a.words[int(p)+pinHeadWords+i], uint64(l))
}

// follow tells where child i is.
func (a *arena) follow(p pin, i int) (pointer, pin) {
	l := a.child(p, i)
	if child := l.pin(); child != 0 {
		return a.pointer(child), child
	}
	return pointer(l), 0
}

// path is the pin's, packed, behind its children.
func (a *arena) path(p pin, children, nibbles int) []byte {
	if nibbles == 0 {
		return nil
	}
	first := &a.words[int(p)+pinHeadWords+children]
	return unsafe.Slice((*byte)(unsafe.Pointer(first)), (nibbles+1)/2)
}

// link is what a pin holds of a child.
type link uint64

func (l link) pin() pin {
	if l&pinnedBit == 0 {
		return 0
	}
	return pin(l)
}

// pinWords is the size of a node's place. In the first levels, whose branches are
// written anew with nearly every block and grow to 16 children, all places are of one
// size: one that was freed fits the next.
func pinWords(n node) int {
	if n.begin() < evenLevels {
		return maxPinWords
	}
	return pinHeadWords + n.children() + (len(n.path())+7)/8
}

// add pins node n, which lies at a pointer, with no child pinned; 0 where there is
// no room.
func (a *arena) add(n node, at pointer) pin {
	children := n.children()
	p := a.take(pinWords(n))
	if p == 0 {
		return 0
	}

	a.words[p] |= uint64(n.mask()) | uint64(n.begin())<<16 | uint64(n.end())<<24
	a.words[p+1] = uint64(at)
	for i := range children {
		a.link(p, i, link(n.pointer(i)))
	}

	copy(a.path(p, children, n.end()-n.begin()), n.path())
	return p
}
