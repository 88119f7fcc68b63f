package adapter

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
)

const (
	// learningDescents are made before the first draw, to learn how full pages are.
	learningDescents = 200
	maxDescents      = 100_000 // for one key
)

// Descent goes down a B+ tree, all of whose leaves are equally deep, to a key. choose says which of
// so many entries of a page to take, at least one. No key: the entry is none.
type Descent func(choose func(entries int) int) (key []byte, err error)

var errNoKeys = errors.New("hardly any entry of the tree is a key")

// SampleTree draws n keys of a tree, each with the same chance: a draw takes a random entry of each
// page on its way, and is refused as often as these pages have fewer entries than the fullest of
// their depth; when a fuller one comes, earlier draws are refused afterwards as they would have
// been. The same key may come twice.
func SampleTree(
	ctx context.Context, n int, rng *rand.Rand, descend Descent,
) (keys [][]byte, err error) {
	var fullest []int // entries of a page, by depth
	most := func() float64 { return product(fullest) }
	draw := func() (d Drawn, err error) {
		depth, ways := 0, 1.0
		d.Key, err = descend(func(entries int) int {
			if depth == len(fullest) {
				fullest = append(fullest, 0)
			}

			fullest[depth] = max(fullest[depth], entries)
			depth, ways = depth+1, ways*float64(entries)
			return rng.IntN(entries)
		})
		d.limit = ways / (1 - rng.Float64())
		return d, err
	}

	for range learningDescents {
		if _, err := draw(); err != nil {
			return nil, err
		}
	}

	var met []Drawn
	for tried := 0; len(met) < n; tried++ {
		d, err := draw()
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}

		if tried == maxDescents {
			return nil, errNoKeys
		}

		if d.Key != nil && d.limit >= most() {
			met, tried = append(met, d), 0
		}

		if len(met) == n {
			met = slices.DeleteFunc(met, func(d Drawn) bool { return d.limit < most() })
		}
	}

	for _, d := range met {
		keys = append(keys, d.Key)
	}

	return keys, nil
}

func product(numbers []int) float64 {
	all := 1.0
	for _, n := range numbers {
		all *= float64(n)
	}
	return all
}
