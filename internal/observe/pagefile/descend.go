package pagefile

import (
	"bytes"
	"fmt"

	"github.com/statelab/statelab/engine"
)

// IsEmpty reports whether a table, or Main, has no keys.
func (f *File) IsEmpty(table string) (bool, error) {
	t, err := f.byName(table)
	return err == nil && t.depth == 0, err
}

// Descend goes down the tree of a table, or Main, to a key. choose says which of so many nodes of a
// page to take. A node of Main that is the record of another tree is no key: nil.
func (f *File) Descend(table string, choose func(nodes int) int) (key []byte, err error) {
	t, err := f.byName(table)
	if err != nil {
		return nil, err
	}

	at := t.root
	for range min(t.depth, deepest) {
		p := f.page(at)
		if p == nil || p.nodes() == 0 {
			return nil, f.damaged(at)
		}

		chosen := choose(p.nodes())
		node := p.node(chosen)
		switch {
		case node == nil:
			return nil, f.damaged(at)
		case p.kind == Branch:
			at = f.child(node)
		case node[nodeFlagsAt]&(treeRecord|severalValues) == treeRecord:
			return nil, nil
		default:
			return bytes.Clone(p.key(chosen)), nil
		}
	}

	return nil, f.damaged(at)
}

func (f *File) byName(name string) (*Tree, error) {
	for _, t := range f.trees[1:] { // all but the free list
		if t.Name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%s has no table %s", f.name, name)
}

func (f *File) damaged(page uint64) error {
	return engine.Fail(engine.CodeDamaged, "%s: page %d is not a page of a tree: the file is "+
		"damaged, or was written to meanwhile", f.name, page)
}
