package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
)

const (
	// fullnessSample blocks are read of a table to learn how full they are.
	fullnessSample = 16
	maxDrawRounds  = 8
	maxDrawsPerKey = 64
	surplus        = 1.05 // of draws, so that a further round is seldom
	minDraws       = 64
)

// SampledEntry is an entry of a table: a version of a key.
type SampledEntry struct {
	Key     []byte
	Version uint64 // a sequence number or a time: of two of a key the newer has the higher one
	First   bool   // no other of its key is before it in its block, nor can be in the one before
}

// Drawn is a key that a draw met. It counts as long as no block is known that is so full that the
// draw would have been refused.
type Drawn struct {
	Key   []byte
	limit float64 // entries of the fullest block
}

// TableSample yields n keys of a database, each that is there with the same chance (fewer where
// nearly all are deleted), from its tables.
type TableSample struct {
	// Weights are the entries of each table; or, where they are not counted, its data blocks.
	Weights []uint64
	// Fullest is what SampledTable.Fullest of all tables points to; nil where entries are counted.
	Fullest *int
	// Draw makes so many draws of each table.
	Draw func(draws []int, round uint64) ([]Drawn, error)
}

// Keys calls yield with the keys, in random order. A draw that met no key, since the entry was
// deleted or is not the newest, is made again from all tables: so a table has keys in the sample
// in proportion to those that it has, not to its entries. tables is false where there are none.
func (s *TableSample) Keys(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) (tables bool, err error) {
	var met []Drawn
	drawn := 0
	for round := uint64(0); round < maxDrawRounds && len(met) < n; round++ {
		draws := n
		if round > 0 {
			left, share := float64(n-len(met)), float64(len(met)+1)/float64(drawn+1)
			draws = int(min(surplus*left/share, float64(maxDrawsPerKey*n))) + minDraws
		}

		each := drawTables(s.Weights, draws, seed+round)
		if each == nil {
			return false, nil
		}

		further, err := s.Draw(each, round)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return true, err
		}

		drawn, met = drawn+draws, append(met, further...)
		if s.Fullest != nil {
			met = unrefused(met, *s.Fullest)
		}
	}

	// Those of one table come together: which of them are left out is up to chance.
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(met), func(i, j int) { met[i], met[j] = met[j], met[i] })
	for _, d := range met[:min(n, len(met))] {
		if err := yield(d.Key); err != nil {
			return true, err
		}
	}

	return true, nil
}

// unrefused are the draws that count beside a block of so many entries.
func unrefused(met []Drawn, fullest int) []Drawn {
	return slices.DeleteFunc(met, func(d Drawn) bool { return d.limit < float64(fullest) })
}

// drawTables tells how many of n draws go to each table, in proportion to their weights; nil where
// they have none.
func drawTables(weights []uint64, n int, seed uint64) []int {
	var total uint64
	ends := make([]uint64, len(weights))
	for i, count := range weights {
		total += count
		ends[i] = total
	}

	if total == 0 {
		return nil
	}

	draws := make([]int, len(weights))
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		entry := rng.Uint64N(total)
		draws[sort.Search(len(ends), func(i int) bool { return ends[i] > entry })]++
	}

	return draws
}

// SampledTable is a table whose blocks can be read one by one. A draw chooses a block, and an entry
// of it. Blocks of few entries are refused as often as they have fewer than the fullest seen, so
// that each entry has the same chance; when a fuller one comes, earlier draws are refused
// afterwards as they would have been.
//
// Draws, refusals and entries that do not count come back to the same blocks again and again: a
// block is read once as long as maxKept allows, and it is asked once whether an entry counts.
type SampledTable struct {
	Rng    *rand.Rand
	Blocks int                                     // that Block knows, at least 1
	Block  func(i int) ([]SampledEntry, error)     // of one of them, at least one entry
	Counts func(e SampledEntry) (is bool, _ error) // of all entries of a key that is there, one
	// Fullest are the entries of the fullest block so far: of all tables that have the same
	// pointer, whose weights are then their data blocks; of this one, if it is nil.
	Fullest *int
	// Others are entries that the table's weight counts, and that are in no block.
	Others, Weight uint64

	seen      map[int]*sampledBlock
	keptBytes int
}

// maxKept bounds the keys of a table that are kept, in bytes.
const maxKept = 16 << 20

// sampledBlock is what is known of a block.
type sampledBlock struct {
	entries []SampledEntry // nil: not kept
	bytes   int
	answers []answer // of each entry
}

// answer says whether an entry counts.
type answer byte

const (
	unasked answer = iota
	counts
	countsNot
)

// place is an entry that was drawn.
type place struct {
	block, at int
	limit     float64
}

// Sample draws entries, and returns the keys of those that count.
func (t *SampledTable) Sample(ctx context.Context, draws int) (met []Drawn, err error) {
	if draws == 0 {
		return nil, nil
	}

	counted := t.Fullest == nil
	if counted {
		t.Fullest = new(0)
	}

	t.seen = map[int]*sampledBlock{}
	for i := range min(fullnessSample, t.Blocks) {
		if _, err := t.block(i * t.Blocks / min(fullnessSample, t.Blocks)); err != nil {
			return nil, err
		}
	}

	if counted {
		for range draws { // a range deletion is drawn like an entry, and is no key
			if t.Others > 0 && t.Rng.Uint64N(max(t.Weight, 1)) < t.Others {
				draws--
			}
		}
	}

	places, err := t.draw(ctx, draws, counted)
	if err != nil {
		return nil, err
	}

	for _, p := range places {
		key, err := t.keyAt(p)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}

		if key != nil {
			met = append(met, Drawn{Key: key, limit: p.limit})
		}
	}

	return met, nil
}

// draw makes so many draws; where refused ones are made up for, so many that are not refused.
func (t *SampledTable) draw(ctx context.Context, draws int, makeUp bool) (all []place, _ error) {
	for tried := 0; makeUp && len(all) < draws || !makeUp && tried < draws; tried++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		i := t.Rng.IntN(t.Blocks)
		b, err := t.block(i)
		if err != nil {
			return nil, err
		}

		entries := len(b.answers)
		p := place{i, t.Rng.IntN(entries), float64(entries) / (1 - t.Rng.Float64())}
		if p.limit >= float64(*t.Fullest) {
			all = append(all, p)
		}

		t.forget(b)
		if len(all) == draws && makeUp {
			all = slices.DeleteFunc(all, func(p place) bool {
				return p.limit < float64(*t.Fullest)
			})
		}
	}

	return all, nil
}

// keyAt is the key of an entry that counts, or nil.
func (t *SampledTable) keyAt(p place) ([]byte, error) {
	b := t.seen[p.block]
	if b.answers[p.at] == countsNot {
		return nil, nil
	}

	if err := t.read(p.block, b); err != nil {
		return nil, err
	}

	e := b.entries[p.at]
	if b.answers[p.at] == unasked {
		is, err := t.Counts(e)
		if err != nil {
			return nil, fmt.Errorf("look up the sampled key %x: %w", e.Key, err)
		}

		if b.answers[p.at] = countsNot; is {
			b.answers[p.at] = counts
		}
	}

	is := b.answers[p.at] == counts
	t.forget(b)
	if !is {
		return nil, nil
	}

	return e.Key, nil
}

// block is block i, read the first time.
func (t *SampledTable) block(i int) (*sampledBlock, error) {
	if b := t.seen[i]; b != nil {
		return b, nil
	}

	b := new(sampledBlock)
	if err := t.read(i, b); err != nil {
		return nil, err
	}

	b.answers, t.seen[i] = make([]answer, len(b.entries)), b
	for at := 1; at < len(b.entries); at++ {
		if !b.entries[at].First { // of one key, the newest comes first
			b.answers[at] = countsNot
		}
	}

	*t.Fullest = max(*t.Fullest, len(b.entries))
	return b, nil
}

// read has the entries of a block read, unless they are kept.
func (t *SampledTable) read(i int, b *sampledBlock) (err error) {
	if b.entries != nil {
		return nil
	}

	if b.entries, err = t.Block(i); err != nil {
		return err
	}

	const header = 40 // of an entry
	b.bytes = 0
	for at := range b.entries {
		e := &b.entries[at]
		e.First = at > 0 && !bytes.Equal(e.Key, b.entries[at-1].Key)
		b.bytes += len(e.Key) + header
	}

	t.keptBytes += b.bytes
	return nil
}

// forget drops the entries of a block where too many are kept.
func (t *SampledTable) forget(b *sampledBlock) {
	if t.keptBytes > maxKept && b.entries != nil {
		t.keptBytes, b.entries = t.keptBytes-b.bytes, nil
	}
}
