package adapter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
)

const (
	// fullnessSample blocks are read of a table to learn how full they are.
	fullnessSample = 8
	// refusals bounds how often a block is refused for having few entries.
	refusals = 64
)

// SampleTables yields n keys of a database, each with the same chance (fewer where nearly all are
// deleted), from tables with so many entries each. sample draws so many entries of each table and
// calls yield with the keys of those that are there. A draw that met a deleted key is made again
// from all tables, so that a table has keys in the sample in proportion to those that it has, not
// to its entries. tables is false where there are none.
func SampleTables(
	ctx context.Context, entries []uint64, n int, seed uint64,
	sample func(draws []int, round uint64, yield func(key []byte) error) error,
	yield func(key []byte) error,
) (tables bool, err error) {
	drawn, left := 0, n
	for round := uint64(0); round < maxDrawRounds && left > 0; round++ {
		draws := left
		if round > 0 {
			share := float64(n-left+1) / float64(drawn+1) // of draws that met a key
			draws = int(min(surplus*float64(left)/share, float64(maxDrawsPerKey*n))) + minDraws
		}

		each := drawTables(entries, draws, seed+round)
		if each == nil {
			return false, nil
		}

		var keys [][]byte
		err := sample(each, round, func(key []byte) error {
			if round == 0 { // never too many
				left--
				return yield(key)
			}
			keys = append(keys, bytes.Clone(key))
			return nil
		})
		if err = errors.Join(err, ctx.Err()); err != nil {
			return true, err
		}

		drawn += draws
		// Those of one table come together: which of them are left out is up to chance.
		slices.SortFunc(keys, bytes.Compare) // they may have come in any order
		rng := rand.New(rand.NewPCG(seed, round))
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, key := range keys[:min(left, len(keys))] {
			if err := yield(key); err != nil {
				return true, err
			}
			left--
		}
	}

	return true, nil
}

const (
	maxDrawRounds  = 5
	maxDrawsPerKey = 64
	surplus        = 1.05 // of draws, so that a further round is seldom
	minDraws       = 64
)

// drawTables tells how many of n draws go to each table, in proportion to the tables' numbers of
// entries; nil where there are none.
func drawTables(entries []uint64, n int, seed uint64) []int {
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
//
// Draws, refusals and deleted keys come back to the same blocks again and again: a block is
// read once as long as maxKept allows, and a key is looked up once.
type SampledTable struct {
	Rng    *rand.Rand
	Blocks int                                     // that Block knows, at least 1
	Block  func(i int) (keys [][]byte, err error)  // of one of them, at least one key
	Exists func(key []byte) (exists bool, _ error) // in the whole database

	seen      map[int]*sampledBlock
	keptBytes int
	fullest   int // keys in the fullest block so far
}

// maxKept bounds the keys of a table that are kept, in bytes.
const maxKept = 16 << 20

// sampledBlock is what is known of a block.
type sampledBlock struct {
	keys    [][]byte // nil: not kept
	bytes   int
	answers []answer // of each key
}

// answer says whether a key exists.
type answer byte

const (
	unasked answer = iota
	found
	deleted
)

// Sample draws entries and calls yield with the keys of those that are not deleted.
func (t *SampledTable) Sample(ctx context.Context, draws int, yield func(key []byte) error) error {
	if draws == 0 {
		return nil
	}

	t.seen = map[int]*sampledBlock{}
	for range fullnessSample {
		if _, _, err := t.block(); err != nil {
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
	if err := ctx.Err(); err != nil {
		return err
	}

	i, b, err := t.fairBlock()
	if err != nil {
		return err
	}

	at := t.Rng.IntN(len(b.answers))
	if b.answers[at] == deleted {
		return nil
	}

	if err := t.read(i, b); err != nil {
		return err
	}

	key := b.keys[at]
	if b.answers[at] == unasked {
		exists, err := t.Exists(key)
		if err != nil {
			return fmt.Errorf("look up the sampled key %x: %w", key, err)
		}

		if b.answers[at] = deleted; exists {
			b.answers[at] = found
		}
	}

	exists := b.answers[at] == found
	t.forget(b)
	if exists {
		return yield(key)
	}

	return nil
}

// fairBlock is a block that is as likely as it has entries.
func (t *SampledTable) fairBlock() (i int, b *sampledBlock, err error) {
	for attempt := 1; ; attempt++ {
		i, b, err := t.block()
		if err != nil || attempt == refusals || t.Rng.IntN(t.fullest) < len(b.answers) {
			return i, b, err
		}
		t.forget(b)
	}
}

// block is some block, each with the same chance.
func (t *SampledTable) block() (i int, b *sampledBlock, err error) {
	i = t.Rng.IntN(t.Blocks)
	b = t.seen[i]
	if b == nil {
		b = new(sampledBlock)
		if err := t.read(i, b); err != nil {
			return i, b, err
		}
		b.answers, t.seen[i] = make([]answer, len(b.keys)), b
	}

	t.fullest = max(t.fullest, len(b.answers))
	return i, b, nil
}

// read has the keys of a block read, unless they are kept.
func (t *SampledTable) read(i int, b *sampledBlock) (err error) {
	if b.keys != nil {
		return nil
	}

	if b.keys, err = t.Block(i); err != nil {
		return err
	}

	const header = 24 // of a slice
	b.bytes = 0
	for _, key := range b.keys {
		b.bytes += len(key) + header
	}

	t.keptBytes += b.bytes
	return nil
}

// forget drops the keys of a block where too many are kept.
func (t *SampledTable) forget(b *sampledBlock) {
	if t.keptBytes > maxKept && b.keys != nil {
		t.keptBytes, b.keys = t.keptBytes-b.bytes, nil
	}
}

// Interval are the keys Prefix+Low to Prefix+High.
type Interval struct {
	Prefix    []byte
	Low, High uint64
}

// Between is the interval of two keys: what they begin with alike, then eight bytes of each, read
// as a number; what lacks is zero.
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
