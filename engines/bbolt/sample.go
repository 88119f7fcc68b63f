package bbolt

import (
	"context"
	"fmt"
	"math/rand/v2"

	"go.etcd.io/bbolt"
)

// learningDescents are made before the first draw, to learn how full pages are.
const learningDescents = 200

// SampleKeys calls yield with n keys. A draw goes down the tree by a random child
// at each branch, and is refused as often as the pages on its way have fewer
// entries than the fullest of their depth seen so far: so each key has the same
// chance, whatever the fill. The same key may come twice.
//
// Pages are read beside the map: no counter moves, but the page cache has the
// sampled pages afterwards.
func (d *db) SampleKeys(ctx context.Context, n int, seed uint64, yield func(key []byte) error) error {
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
