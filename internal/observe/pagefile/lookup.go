package pagefile

import (
	"encoding/binary"
	"sort"

	"github.com/statelab/statelab/internal/subject"
)

// PagesOf are the pages that a Get of a key in a table, or Main, goes through: from the root down
// to a leaf, the first page of a large value, and, where a key has a tree of values, those of that
// tree down to the first value that is no less than second, or the least one; where that is on the
// leaf behind the one to which second belongs, both.
func (f *File) PagesOf(table string, key, second []byte) (pages []uint64, found bool, err error) {
	t, err := f.byName(table)
	if err != nil {
		return nil, false, err
	}

	pages, leaf, err := f.descendTo(t, key, nil)
	if err != nil || leaf == nil {
		return pages, false, err
	}

	i := sort.Search(leaf.nodes(), func(i int) bool { return t.compare(leaf.key(i), key) >= 0 })
	if i == leaf.nodes() || leaf.node(i) == nil || t.compare(leaf.key(i), key) != 0 {
		return pages, false, nil
	}

	value := leaf.value(i)
	switch flags := leaf.node(i)[nodeFlagsAt]; {
	case flags&bigValue != 0 && len(value) >= f.layout.NumberBytes:
		pages = append(pages, number(value, f.layout.NumberBytes))
	case flags&(treeRecord|severalValues) == treeRecord|severalValues &&
		len(value) >= subject.TreeRecordBytes:
		values := &Tree{
			root:  number(value[f.layout.RootAt:], f.layout.NumberBytes),
			flags: binary.LittleEndian.Uint16(value[f.layout.FlagsAt:]),
			depth: int(binary.LittleEndian.Uint16(value[f.layout.DepthAt:])),
		}
		from := len(pages)
		pages, leaf, err = f.descendTo(values, second, pages)
		if err == nil && leaf != nil && leaf.nodes() > 0 &&
			values.compare(leaf.key(leaf.nodes()-1), second) < 0 {
			pages = append(pages, f.behind(pages[from:])...)
		}
	}

	return pages, true, err
}

// descendTo goes down a tree to the leaf where a key belongs; nil: the tree is empty.
func (f *File) descendTo(t *Tree, key []byte, pages []uint64) ([]uint64, *page, error) {
	if t.depth == 0 {
		return pages, nil, nil
	}

	at := t.root
	for range min(t.depth, deepest) {
		p := f.page(at)
		if p == nil {
			return pages, nil, f.damaged(at)
		}

		pages = append(pages, at)
		if p.kind == Leaf {
			return pages, p, nil
		}

		node := p.toward(t, key)
		if node == nil {
			return pages, nil, f.damaged(at)
		}

		at = f.child(node)
	}

	return pages, nil, f.damaged(at)
}

// behind are the pages on the way from that to a leaf to the next one, if there is one.
func (f *File) behind(way []uint64) (pages []uint64) {
	for level := len(way) - 2; level >= 0; level-- {
		p := f.page(way[level])
		if p == nil {
			return nil
		}

		for i := range p.nodes() - 1 {
			node, next := p.node(i), p.node(i+1)
			if node == nil || next == nil || f.child(node) != way[level+1] {
				continue
			}

			at := f.child(next)
			for pages = append(pages, at); level < len(way)-2; level++ {
				if p = f.page(at); p == nil || p.nodes() == 0 || p.node(0) == nil {
					return pages
				}
				at = f.child(p.node(0))
				pages = append(pages, at)
			}

			return pages
		}
	}

	return pages
}

// toward is the node of a branch that leads to a key; nil: its place is outside the page.
func (p *page) toward(t *Tree, key []byte) []byte {
	low, high := 1, p.nodes() // the first node has no key
	for low < high {
		if middle := (low + high) / 2; t.compare(p.key(middle), key) <= 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return p.node(low - 1)
}
