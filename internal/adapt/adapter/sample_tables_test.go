package adapter

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Three tables: one whole, one of which a quarter is deleted, and one that has more deletions than
// keys. Each key that is there comes up as often as any other: chi-square over all of them.
func TestSampleTablesIsUniform(t *testing.T) {
	const keysPerBlock, n = 20, 60_000
	entries := []uint64{2000, 2000, 1000}
	exists := func(key uint32) bool {
		switch {
		case key < 2000:
			return true
		case key < 4000:
			return key%4 != 0
		}
		return key%10 == 0
	}

	live := 0
	for key := range uint32(5000) {
		if exists(key) {
			live++
		}
	}

	counts := map[uint32]int{}
	first := []uint32{0, 2000, 4000}
	sample := func(draws []int, round uint64, yield func(key []byte) error) error {
		for i, draws := range draws {
			table := SampledTable{
				Rng:    rand.New(rand.NewPCG(7+round, uint64(i))),
				Blocks: int(entries[i]) / keysPerBlock,
				Block: func(block int) (keys [][]byte, err error) {
					for k := range uint32(keysPerBlock) {
						key := first[i] + uint32(block*keysPerBlock) + k
						keys = append(keys, binary.BigEndian.AppendUint32(nil, key))
					}
					return keys, nil
				},
				Exists: func(key []byte) (bool, error) {
					return exists(binary.BigEndian.Uint32(key)), nil
				},
			}

			if err := table.Sample(t.Context(), draws, yield); err != nil {
				return fmt.Errorf("table %d: %w", i, err)
			}
		}
		return nil
	}

	total := 0
	tables, err := SampleTables(t.Context(), entries, n, 7, sample, func(key []byte) error {
		counts[binary.BigEndian.Uint32(key)]++
		total++
		return nil
	})
	if err != nil || !tables || total != n {
		t.Fatalf("%d keys, %v", total, err)
	}

	mean, chiSquare := float64(n)/float64(live), 0.0
	for key := range uint32(5000) {
		if exists(key) {
			d := float64(counts[key]) - mean
			chiSquare += d * d / mean
		} else if counts[key] > 0 {
			t.Fatalf("key %d is deleted, and drawn", key)
		}
	}

	// Of so many degrees of freedom chi-square is about normal: mean live-1, variance 2*(live-1).
	// The seed is fixed; four standard deviations would be met once in 30,000 seeds.
	if limit := float64(live-1) + 4*math.Sqrt(2*float64(live-1)); chiSquare > limit {
		t.Errorf("chi-square %.0f of %d keys, at most %.0f", chiSquare, live, limit)
	}
}
