package adapter

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sort"
)

const (
	// fullnessSample blocks are read of a table to learn how full they are.
	fullnessSample = 8
	// refusals bounds how often a block is refused for having few entries.
	refusals = 64
	// drawAttempts bounds how often a draw is repeated that hit a key which is
	// deleted by now.
	drawAttempts = 16
)

// DrawTables tells how many of n keys to draw from each table, in proportion to the
// tables' numbers of entries; nil where there are none.
func DrawTables(entries []uint64, n int, seed uint64) []int {
	var total uint64
	ends := make([]uint64, len(entries))
	for i, count := range entries {
		total += count
		ends[i] = total
	}
	if total == 0 {
		return nil
	}
	draws := make([]int, len(entries))
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		entry := rng.Uint64N(total)
		draws[sort.Search(len(ends), func(i int) bool { return ends[i] > entry })]++
	}
	return draws
}

// SampledTable is a table whose blocks can be read one by one. Blocks of few entries
// are refused as often as they have fewer than the fullest seen, so that each entry
// has the same chance.
type SampledTable struct {
	Rng    *rand.Rand
	Block  func() (keys [][]byte, err error)       // of some block, each with the same chance
	Exists func(key []byte) (exists bool, _ error) // in the whole database

	fullest int // keys in the fullest block so far
}

// Sample calls yield with as many keys as are drawn, fewer where nearly all are deleted.
func (t *SampledTable) Sample(ctx context.Context, draws int, yield func(key []byte) error) error {
	if draws == 0 {
		return nil
	}
	for range fullnessSample {
		if _, err := t.block(); err != nil {
			return err
		}
	}
	for range draws {
		if err := t.draw(ctx, yield); err != nil {
			return err
		}
	}
	return nil
}

func (t *SampledTable) draw(ctx context.Context, yield func(key []byte) error) error {
	for range drawAttempts {
		if err := ctx.Err(); err != nil {
			return err
		}
		key, err := t.randomKey()
		if err != nil {
			return err
		}
		exists, err := t.Exists(key)
		if err != nil {
			return fmt.Errorf("look up the sampled key %x: %w", key, err)
		}
		if exists {
			return yield(key)
		}
	}
	return nil
}

func (t *SampledTable) randomKey() ([]byte, error) {
	for attempt := 1; ; attempt++ {
		keys, err := t.block()
		if err != nil {
			return nil, err
		}
		if attempt == refusals || t.Rng.IntN(t.fullest) < len(keys) {
			return keys[t.Rng.IntN(len(keys))], nil
		}
	}
}

func (t *SampledTable) block() ([][]byte, error) {
	keys, err := t.Block()
	t.fullest = max(t.fullest, len(keys))
	return keys, err
}

// Interval are the keys Prefix+Low to Prefix+High.
type Interval struct {
	Prefix    []byte
	Low, High uint64
}

// Between is the interval of two keys: what they begin with alike, then eight bytes of each, read as
// a number; what lacks is zero.
func Between(first, last []byte) Interval {
	shared := 0
	for shared < min(len(first), len(last)) && first[shared] == last[shared] {
		shared++
	}
	return Interval{first[:shared:shared], number(first[shared:]), number(last[shared:])}
}

func number(key []byte) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// At is the key at a number.
func (i Interval) At(n uint64) []byte { return binary.BigEndian.AppendUint64(i.Prefix, n) }
