package chunktrie

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// mostPinned is the deepest nibble depth whose branches are kept in memory.
const mostPinned = 5

// pin is a branch of the account trie in memory. Pins never change: a block makes
// new ones, and readers of old blocks keep theirs.
type pin struct {
	node     node
	children []*pin // by the child's index; nil where no child is pinned
}

const pinOverheadBytes = 64 // of the two slices and their allocations

// pinMemory is what a pinned node takes, were all its children pinned.
func pinMemory(n node) int64 { return int64(len(n)) + 8*int64(n.children()) + pinOverheadBytes }

// child is the pinned child at index i, or nil.
func (p *pin) child(i int) *pin {
	if p.children == nil {
		return nil
	}
	return p.children[i]
}

// pins is how deep branches are pinned and what they take.
type pins struct {
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
func (p *pins) keeps(k kind, begin int) bool { return k == accountBranch && begin <= p.depth }

// fit gives up the deepest levels until the rest is within the budget.
func (p *pins) fit(root *pin) *pin {
	for p.budgetBytes > 0 && p.bytes() > p.budgetBytes && p.depth >= 0 {
		p.levels[p.depth] = 0
		p.depth--
		root = cut(root, p.depth)
	}
	return root
}

// cut copies the pins down to a depth.
func cut(p *pin, depth int) *pin {
	if p == nil || p.node.begin() > depth {
		return nil
	}
	short := &pin{node: p.node}
	for i, child := range p.children {
		if child := cut(child, depth); child != nil {
			short.set(i, child)
		}
	}
	return short
}

func (p *pin) set(i int, child *pin) {
	if p.children == nil {
		p.children = make([]*pin, p.node.children())
	}
	p.children[i] = child
}

const loaders = 64 // reads in flight while pins are loaded

// wanted is a child of a pinned branch that may be one to pin.
type wanted struct {
	parent *pin // nil for the root
	i      int
	at     pointer
	pin    *pin // once read; nil for a leaf
}

// load reads the levels from the root down, each at once, as long as they fit.
func (p *pins) load(ctx context.Context, file *nodeFile, root pointer) (*pin, error) {
	if root == 0 || p.depth < 0 {
		return nil, nil
	}
	var top *pin
	var level [mostPinned + 2][]wanted
	level[0] = []wanted{{at: root}}
	for depth := 0; depth <= p.depth; depth++ {
		todo := level[depth]
		if err := readLevel(ctx, file, todo, depth); err != nil {
			return nil, fmt.Errorf("pin nibble depth %d: %w", depth, err)
		}
		for _, w := range todo {
			if w.pin != nil {
				p.levels[depth] += pinMemory(w.pin.node)
			}
		}
		if p.budgetBytes > 0 && p.bytes() > p.budgetBytes {
			p.levels[depth] = 0
			p.depth = depth - 1
			return top, nil
		}
		for _, w := range todo {
			switch {
			case w.pin == nil:
				continue
			case w.parent == nil:
				top = w.pin
			default:
				w.parent.set(w.i, w.pin)
			}
			below := w.pin.node.end() + 1
			if below > p.depth {
				continue
			}
			for i := range w.pin.node.children() {
				level[below] = append(level[below], wanted{parent: w.pin, i: i, at: w.pin.node.pointer(i)})
			}
		}
	}
	return top, nil
}

func readLevel(ctx context.Context, file *nodeFile, todo []wanted, depth int) error {
	group, ctx := errgroup.WithContext(ctx)
	share := (len(todo) + loaders - 1) / loaders
	for len(todo) > 0 {
		part := todo[:min(share, len(todo))]
		todo = todo[len(part):]
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
				if n.begin() != depth {
					return errDepth
				}
				if n.kind() == accountBranch {
					part[i].pin = &pin{node: append(make(node, 0, len(n)), n...)}
				}
			}
			return nil
		})
	}
	return group.Wait()
}
