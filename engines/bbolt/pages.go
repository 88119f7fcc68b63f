package bbolt

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"

	"go.etcd.io/bbolt"

	"github.com/statelab/statelab/engine"
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

func parse(id pgid, bytes []byte) (page, error) {
	flags, elements := binary.LittleEndian.Uint16(bytes[8:]),
		int(binary.LittleEndian.Uint16(bytes[10:]))
	whole := binary.LittleEndian.Uint64(bytes) == uint64(id) &&
		headerBytes+elements*elementBytes <= len(bytes)
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

// learningDescents are made before the first draw, to learn how full pages are.
const learningDescents = 200

// SampleKeys calls yield with n keys. A draw goes down the tree by a random child
// at each branch, and is refused as often as the pages on its way have fewer
// entries than the fullest of their depth seen so far: so each key has the same
// chance, whatever the fill. The same key may come twice.
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

		s := sampler{pages: pages, root: root, rng: rng}
		keys, err = s.draw(ctx, n)
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
		return tx.Bucket(bucketName()).ForEach(func(key, _ []byte) error {
			all = append(all, append([]byte(nil), key...))
			return nil
		})
	})

	for len(all) > 0 && len(drawn) < n {
		drawn = append(drawn, all[rng.IntN(len(all))])
	}

	return drawn, err
}

type sampler struct {
	pages   *pages
	root    pgid
	rng     *rand.Rand
	fullest [maxDepth]int // entries of a page, by depth
}

func (s *sampler) draw(ctx context.Context, n int) (keys [][]byte, err error) {
	for range learningDescents {
		if _, _, err := s.descend(); err != nil {
			return nil, err
		}
	}

	for len(keys) < n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		key, accepted, err := s.descend()
		if err != nil {
			return nil, err
		}

		if accepted {
			keys = append(keys, key)
		}
	}

	return keys, nil
}

// descend goes down to a random key.
func (s *sampler) descend() (key []byte, accepted bool, err error) {
	chance := 1.0
	id := s.root
	for depth := range maxDepth {
		at, err := s.pages.read(id)
		if err != nil {
			return nil, false, err
		}

		if at.elements == 0 {
			return nil, false, fmt.Errorf("page %d: an empty leaf beside others", id)
		}

		s.fullest[depth] = max(s.fullest[depth], at.elements)
		chance *= float64(at.elements) / float64(s.fullest[depth])
		chosen := s.rng.IntN(at.elements)
		if at.leaf {
			key, err := at.key(chosen)
			return append([]byte(nil), key...), s.rng.Float64() < chance, err
		}

		id = at.child(chosen)
	}

	return nil, false, fmt.Errorf("page %d: %w: deeper than any tree", s.root, errDamaged)
}
