package adapter

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// fakeTables is a database of three tables: one whole, one of which a quarter is deleted, and one
// that has more deletions than keys. Blocks hold one to 20 entries.
type fakeTables struct {
	blocks [3][][]SampledEntry
	counts [3]int
}

func newFakeTables() (f fakeTables) {
	rng := rand.New(rand.NewPCG(3, 4))
	key := uint32(0)
	for table, entries := range []int{2000, 2000, 1000} {
		f.counts[table] = entries
		for left := entries; left > 0; {
			var block []SampledEntry
			for range min(left, 1+rng.IntN(20)) {
				block = append(block, SampledEntry{Key: binary.BigEndian.AppendUint32(nil, key)})
				key, left = key+1, left-1
			}

			f.blocks[table] = append(f.blocks[table], block)
		}
	}

	return f
}

func (fakeTables) exists(e SampledEntry) (bool, error) {
	switch key := binary.BigEndian.Uint32(e.Key); {
	case key < 2000:
		return true, nil
	case key < 4000:
		return key%4 != 0, nil
	default:
		return key%10 == 0, nil
	}
}

// Each key that is there comes up as often as any other: chi-square over all of them, where the
// entries of tables are counted, where they are not, and where a table's count has others.
func TestTableSampleIsUniform(t *testing.T) {
	const n = 60_000
	f := newFakeTables()
	for name, c := range map[string]struct {
		counted bool
		others  uint64
	}{"counted": {counted: true}, "not counted": {}, "with others": {true, 3000}} {
		t.Run(name, func(t *testing.T) {
			sample := TableSample{Weights: make([]uint64, len(f.blocks))}
			if !c.counted {
				sample.Fullest = new(int)
			}

			for i, blocks := range f.blocks {
				sample.Weights[i] = uint64(f.counts[i])
				if !c.counted {
					sample.Weights[i] = uint64(len(blocks))
				}
			}

			sample.Weights[1] += c.others
			sample.Draw = func(draws []int, round uint64) (met []Drawn, _ error) {
				for i, blocks := range f.blocks {
					table := SampledTable{
						Rng:     rand.New(rand.NewPCG(7+round, uint64(i))),
						Blocks:  len(blocks),
						Block:   func(i int) ([]SampledEntry, error) { return blocks[i], nil },
						Counts:  f.exists,
						Fullest: sample.Fullest,
						Weight:  sample.Weights[i],
					}

					if i == 1 {
						table.Others = c.others
					}

					further, err := table.Sample(t.Context(), draws[i])
					if err != nil {
						return nil, err
					}

					met = append(met, further...)
				}

				return met, nil
			}

			counts, total := map[uint32]int{}, 0
			tables, err := sample.Keys(t.Context(), n, 7, func(key []byte) error {
				counts[binary.BigEndian.Uint32(key)]++
				total++
				return nil
			})
			if err != nil || !tables || total != n {
				t.Fatalf("%d keys, %v", total, err)
			}

			f.compare(t, counts, n)
		})
	}
}

// compare makes the chi-square test of n draws.
func (f fakeTables) compare(t *testing.T, counts map[uint32]int, n int) {
	t.Helper()
	live := 0
	for key := range uint32(5000) {
		if is, _ := f.exists(SampledEntry{Key: binary.BigEndian.AppendUint32(nil, key)}); is {
			live++
		} else if counts[key] > 0 {
			t.Fatalf("key %d is deleted, and drawn", key)
		}
	}

	mean, chiSquare := float64(n)/float64(live), 0.0
	for key := range uint32(5000) {
		if is, _ := f.exists(SampledEntry{Key: binary.BigEndian.AppendUint32(nil, key)}); is {
			d := float64(counts[key]) - mean
			chiSquare += d * d / mean
		}
	}

	// Of so many degrees of freedom chi-square is about normal: mean live-1, variance 2*(live-1).
	// The seed is fixed; four standard deviations would be met once in 30,000 seeds.
	if limit := float64(live-1) + 4*math.Sqrt(2*float64(live-1)); chiSquare > limit {
		t.Errorf("chi-square %.0f of %d keys, at most %.0f", chiSquare, live, limit)
	}
}

// A tree whose pages of one depth have 1 to 30 entries.
func TestSampleTreeIsUniform(t *testing.T) {
	const n, keys = 50_000, 5000
	rng := rand.New(rand.NewPCG(5, 6))
	var tree [][][]int
	for key := 0; key < keys; {
		var branch [][]int
		for range 1 + rng.IntN(30) {
			var leaf []int
			for range 1 + rng.IntN(30) {
				if key < keys {
					leaf = append(leaf, key)
					key++
				}
			}

			if len(leaf) > 0 {
				branch = append(branch, leaf)
			}
		}

		tree = append(tree, branch)
	}

	drawn, err := SampleTree(t.Context(), n, rng, func(choose func(int) int) ([]byte, error) {
		branch := tree[choose(len(tree))]
		leaf := branch[choose(len(branch))]
		return binary.BigEndian.AppendUint32(nil, uint32(leaf[choose(len(leaf))])), nil
	})
	if err != nil || len(drawn) != n {
		t.Fatalf("%d keys, %v", len(drawn), err)
	}

	var counts [keys]float64
	for _, key := range drawn {
		counts[binary.BigEndian.Uint32(key)]++
	}

	chiSquare := 0.0
	for _, c := range counts {
		chiSquare += (c - n/keys) * (c - n/keys) / (n / keys)
	}

	if limit := keys + 4*math.Sqrt(2*keys); chiSquare > limit {
		t.Errorf("chi-square %.0f of %d keys, at most %.0f", chiSquare, keys, limit)
	}
}

// finder is a table with one version of each key.
type finder map[string]uint64

func (f finder) Newest(key []byte) (uint64, bool, error) {
	version, found := f[string(key)]
	return version, found, nil
}

func (finder) Close() error { return nil }

func TestNewestVersions(t *testing.T) {
	tables := []LevelTable{
		{0, []byte("a"), []byte("m")},
		{0, []byte("a"), []byte("c")},
		{1, []byte("a"), []byte("f")},
		{1, []byte("f"), []byte("k")}, // a key of two tables of a level, as old Pebbles wrote
		{3, []byte("b"), []byte("z")},
		{0, []byte("a"), []byte("z")}, // of which the file is gone
	}
	finders := []finder{{"a": 7, "b": 9, "m": 1}, {"a": 8}, {"a": 0, "b": 0, "f": 5},
		{"f": 3, "k": 0}, {"b": 0, "f": 0, "k": 0, "z": 0}}
	newest := NewNewestVersions(tables, func(i int) (VersionFinder, error) {
		if i == len(finders) {
			return nil, fs.ErrNotExist
		}
		return finders[i], nil
	})
	for key, want := range map[string]int{"a": 1, "b": 0, "f": 2, "k": 3, "m": 0, "z": 4} {
		for i, f := range finders {
			version, has := f[key]
			if !has {
				continue
			}

			is, err := newest.Is(i, SampledEntry{Key: []byte(key), Version: version})
			if err != nil || is != (i == want) {
				t.Errorf("key %s in table %d: the newest: %v, %v", key, i, is, err)
			}
		}
	}

	// An older version behind a newer one in the same table, at the beginning of a block; and an
	// entry of a file of which the table has only a part.
	older := SampledEntry{Key: []byte("m")}
	outside := SampledEntry{Key: []byte("n"), Version: 1}
	for _, e := range []SampledEntry{older, outside} {
		if is, err := newest.Is(0, e); is || err != nil {
			t.Errorf("%s: the newest: %v, %v", e.Key, is, err)
		}
	}

	if err := newest.Close(); err != nil {
		t.Error(err)
	}
}

// Of versions of a key in one block the first is the newest.
func TestSampledTableTakesTheNewest(t *testing.T) {
	block := []SampledEntry{{Key: []byte("a"), Version: 3}, {Key: []byte("a"), Version: 2},
		{Key: []byte("b"), Version: 9}, {Key: []byte("b"), Version: 1}}
	table := SampledTable{
		Rng:    rand.New(rand.NewPCG(1, 2)),
		Blocks: 1,
		Block:  func(int) ([]SampledEntry, error) { return slices.Clone(block), nil },
		Counts: func(e SampledEntry) (bool, error) {
			if e.Version < 3 || e.First != bytes.Equal(e.Key, []byte("b")) {
				t.Errorf("asked of %s, version %d, first %v", e.Key, e.Version, e.First)
			}
			return true, nil
		},
	}
	met, err := table.Sample(t.Context(), 1000)
	if err != nil || len(met) < 400 || len(met) > 600 {
		t.Errorf("%d of 1000 draws met a key, half of the entries are of one: %v", len(met), err)
	}
}
