package bbolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"

	"go.etcd.io/bbolt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

type pgid uint64

// pages reads the pages of a tree from its file, beside the map, so that no
// counter moves. Valid while a read transaction keeps the pages from being used
// again.
type pages struct {
	file      io.ReaderAt
	pageBytes int
	branches  map[pgid]page // that were read, at most maxBranches
	first     []byte        // of the leaf that was read last
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

	maxBranches = 4096
)

// page is a branch or leaf with its overflow.
type page struct {
	leaf     bool
	elements int
	content  []byte
}

var errDamaged = engine.Fail(engine.CodeDamaged, "damaged: not a page of a tree").
	WithRemedy("ask bbolt's own tool (bbolt check FILE), and copy the file again while the " +
		"program that owns it is stopped")

func (p *pages) read(id pgid) (page, error) {
	first := make([]byte, p.pageBytes)
	if _, err := p.file.ReadAt(first, int64(id)*int64(p.pageBytes)); err != nil {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}

	overflow := int64(binary.LittleEndian.Uint32(first[12:]))
	if overflow > 0 {
		// The rest holds keys and values: read as one, so that they are whole.
		whole, err := io.ReadAll(io.NewSectionReader(p.file, int64(id)*int64(p.pageBytes),
			(1+overflow)*int64(p.pageBytes)))
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

func parse(id pgid, content []byte) (page, error) {
	flags, elements := binary.LittleEndian.Uint16(content[8:]),
		int(binary.LittleEndian.Uint16(content[10:]))
	whole := binary.LittleEndian.Uint64(content) == uint64(id) &&
		headerBytes+elements*elementBytes <= len(content)
	if !whole || flags != branchFlag && flags != leafFlag || flags == branchFlag && elements == 0 {
		return page{}, errDamaged
	}
	return page{leaf: flags == leafFlag, elements: elements, content: content}, nil
}

func (p page) element(i int) []byte { return p.content[headerBytes+i*elementBytes:] }

// child is where element i of a branch leads.
func (p page) child(i int) pgid { return pgid(binary.LittleEndian.Uint64(p.element(i)[8:])) }

// isBucket reports whether element i of a leaf is a nested bucket, which a Get does not return.
func (p page) isBucket(i int) bool {
	const bucketFlag = 0x01
	return binary.LittleEndian.Uint32(p.element(i))&bucketFlag != 0
}

// key of element i of a leaf.
func (p page) key(i int) ([]byte, error) {
	e := p.element(i)
	start, length := uint64(binary.LittleEndian.Uint32(e[4:])),
		uint64(binary.LittleEndian.Uint32(e[8:]))
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

// SampleKeys calls yield with n keys, each with the same chance, whatever the fill of pages
// (adapter.SampleTree). The same key may come twice.
//
// Pages are read beside the map: no counter moves, but the page cache has the
// sampled pages afterwards.
func (d *db) SampleKeys(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) error {
	var keys [][]byte
	rng := rand.New(rand.NewPCG(seed, 0))
	err := d.view(func(pages *pages, root pgid) (err error) {
		if root == 0 {
			keys, err = d.drawInline(n, rng)
			return err
		}

		keys, err = adapter.SampleTree(ctx, n, rng,
			func(choose func(entries int) int) ([]byte, error) {
				return pages.descend(root, choose)
			})
		return err
	})
	if err != nil {
		return fmt.Errorf("bbolt: sample keys of %s: %w", d.path, err)
	}

	// Outside the transaction: yield may write.
	for _, key := range keys {
		if err := yield(key); err != nil {
			return err
		}
	}

	return nil
}

// drawInline draws from a bucket that is a part of its parent's page.
func (d *db) drawInline(n int, rng *rand.Rand) (drawn [][]byte, err error) {
	var all [][]byte
	err = d.bolt.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketName()).ForEach(func(key, value []byte) error {
			if value != nil { // of a nested bucket it is
				all = append(all, bytes.Clone(key))
			}
			return nil
		})
	})

	for len(all) > 0 && len(drawn) < n {
		drawn = append(drawn, all[rng.IntN(len(all))])
	}

	return drawn, err
}

// head reads the beginning of a page, which tells how many elements there are: the overflow of a
// leaf may hold large values. A leaf is valid until the next one is read. Branches are whole, and
// are read once.
func (p *pages) head(id pgid) (page, error) {
	if at, is := p.branches[id]; is {
		return at, nil
	}

	if p.first == nil {
		p.first = make([]byte, p.pageBytes)
	}

	if _, err := p.file.ReadAt(p.first, int64(id)*int64(p.pageBytes)); err != nil {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}

	if at, err := parse(id, p.first); err == nil && at.leaf {
		return at, nil
	}

	at, err := p.read(id)
	if err == nil && !at.leaf && len(p.branches) < maxBranches {
		if p.branches == nil {
			p.branches = map[pgid]page{}
		}
		p.branches[id] = at
	}

	return at, err
}

// descend goes down from root to the key that choose chooses: an adapter.Descent.
func (p *pages) descend(root pgid, choose func(entries int) int) (key []byte, err error) {
	id := root
	for range maxDepth {
		at, err := p.head(id)
		if err != nil {
			return nil, err
		}

		if at.elements == 0 {
			return nil, fmt.Errorf("page %d: an empty leaf beside others", id)
		}

		chosen := choose(at.elements)
		if !at.leaf {
			id = at.child(chosen)
			continue
		}

		if at.isBucket(chosen) {
			return nil, nil
		}

		key, err := at.key(chosen)
		if err != nil { // it is in the overflow
			if at, err = p.read(id); err == nil {
				key, err = at.key(chosen)
			}
		}

		return bytes.Clone(key), err
	}

	return nil, fmt.Errorf("page %d: %w: deeper than any tree", root, errDamaged)
}
