package bbolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

type pgid uint64

// pages reads the pages of a tree from its file, beside the map, so that no
// counter moves. Valid while a read transaction keeps the pages from being used
// again.
type pages struct {
	file      io.ReaderAt
	pageBytes int
}

// A page is a header, an array of elements, and the keys and values they point
// to. Numbers are in the byte order of the machine, which bbolt shares only with
// its like.
const (
	headerBytes  = 16
	elementBytes = 16

	branchFlag = 0x01
	leafFlag   = 0x02

	// maxDepth is beyond any tree: a branch has two children at least.
	maxDepth = 64
)

// page is a branch or leaf with its overflow.
type page struct {
	leaf     bool
	elements int
	bytes    []byte
}

var errDamaged = errors.New("no page of a tree")

func (p *pages) read(id pgid) (page, error) {
	first := make([]byte, p.pageBytes)
	if _, err := p.file.ReadAt(first, int64(id)*int64(p.pageBytes)); err != nil {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}
	overflow := int64(binary.LittleEndian.Uint32(first[12:]))
	if overflow > 0 {
		// The rest holds keys and values: read as one, so that they are whole.
		whole, err := io.ReadAll(io.NewSectionReader(p.file, int64(id)*int64(p.pageBytes), (1+overflow)*int64(p.pageBytes)))
		if err != nil {
			return page{}, fmt.Errorf("page %d: %w", id, err)
		}
		first = whole
	}
	parsed, err := parse(id, first)
	if err != nil {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}
	return parsed, nil
}

func parse(id pgid, bytes []byte) (page, error) {
	flags, elements := binary.LittleEndian.Uint16(bytes[8:]), int(binary.LittleEndian.Uint16(bytes[10:]))
	whole := binary.LittleEndian.Uint64(bytes) == uint64(id) && headerBytes+elements*elementBytes <= len(bytes)
	if !whole || flags != branchFlag && flags != leafFlag || flags == branchFlag && elements == 0 {
		return page{}, errDamaged
	}
	return page{leaf: flags == leafFlag, elements: elements, bytes: bytes}, nil
}

func (p page) element(i int) []byte { return p.bytes[headerBytes+i*elementBytes:] }

// child is where element i of a branch leads.
func (p page) child(i int) pgid { return pgid(binary.LittleEndian.Uint64(p.element(i)[8:])) }

// key of element i of a leaf.
func (p page) key(i int) ([]byte, error) {
	e := p.element(i)
	start, length := uint64(binary.LittleEndian.Uint32(e[4:])), uint64(binary.LittleEndian.Uint32(e[8:]))
	if start+length > uint64(len(e)) {
		return nil, errDamaged
	}
	return e[start : start+length], nil
}

// depth counts the pages from root to a leaf, both included. A root of 0 is a
// bucket in the page of its parent: one page.
func (p *pages) depth(root pgid) (int64, error) {
	if root == 0 {
		return 1, nil
	}
	id := root
	for depth := int64(1); depth <= maxDepth; depth++ {
		at, err := p.read(id)
		if err != nil {
			return 0, err
		}
		if at.leaf {
			return depth, nil
		}
		id = at.child(0)
	}
	return 0, fmt.Errorf("page %d: %w: deeper than any tree", root, errDamaged)
}
