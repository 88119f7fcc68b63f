package lookuppath

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Handle is where a block is in its table, and how long it is, without its trailer.
type Handle struct {
	Offset uint64
	Bytes  uint32
}

const (
	// TrailerBytes follow a block: its compression and its checksum.
	TrailerBytes = 5
	// MaxBlockBytes is beyond any block; a larger claim is damage.
	MaxBlockBytes = 1 << 30
	// LookEvery is how often a key that is said to be known is looked for all the same, so that a
	// caller who does not know is found out.
	LookEvery = 1024
)

// Table is what a table of any format is for a resolver. Immutable once its number is set.
type Table struct {
	lsmtail.Facts
	Opened lsmtail.TableFile

	First, FirstData uint32 // block numbers; FirstData counts from First

	Root          Handle
	Separators    SortedKeys // of data blocks, all partitions of the index together
	Data          []Handle
	Partitions    []Handle // empty with an index of one level
	PartitionEnds []uint32 // where each ends in Data

	// Reads are those of opening the table that no cache spares, in order.
	Reads []Handle
}

// Damaged is the error of a block.
func (t *Table) Damaged(h Handle, why string) error {
	return fmt.Errorf("table %06d, block at %d: %s", t.File, h.Offset, why)
}

// Read returns the block as stored, with its trailer, in the buffer.
func (t *Table) Read(h Handle, in *[]byte) ([]byte, error) {
	end := h.Offset + uint64(h.Bytes) + TrailerBytes
	if h.Offset > uint64(t.Bytes) || end > uint64(t.Bytes) {
		return nil, t.Damaged(h, "beyond the end of the table")
	}

	*in = slices.Grow((*in)[:0], int(end-h.Offset))[:end-h.Offset]
	if _, err := t.Opened.ReadAt(*in, int64(h.Offset)); err != nil {
		return nil, fmt.Errorf("table %06d, block at %d: %w", t.File, h.Offset, err)
	}

	return *in, nil
}

// EndPartition ends a partition of the index, whose last separator the top index says. One search
// over all partitions equals the engine's two only if the top index repeats it.
func (t *Table) EndPartition(at Handle, last []byte) error {
	if n := t.Separators.Len(); n == 0 || !bytes.Equal(t.Separators.At(n-1), last) {
		return t.Damaged(at, "its last separator differs from the top index")
	}
	t.Partitions = append(t.Partitions, at)
	t.PartitionEnds = append(t.PartitionEnds, uint32(len(t.Data)))
	return nil
}

// PartitionOf returns the index partition that holds data block i.
func (t *Table) PartitionOf(i int) int {
	p, _ := slices.BinarySearch(t.PartitionEnds, uint32(i)+1)
	return p
}

// Described is a table of a format.
type Described interface {
	comparable
	Base() *Table
	// Describe tells all of a block that does not need its content.
	Describe(number uint32) (cachesim.Block, Handle)
	// Decoded is the size of a block in the cache, by how it is stored.
	Decoded(h Handle, stored []byte) (int, error)
}

// Base is the table.
func (t *Table) Base() *Table { return t }

// Tables are those of a resolver, by the numbers of their blocks.
type Tables[T Described] struct {
	All    []T
	firsts []uint32       // numbers of their first blocks
	sizes  []atomic.Int32 // decompressed, by number, plus one; 0: not learnt yet
	name   string
	opens  *opens // nil: all tables stay open
}

// Opened are tables of a database that is identified by present ones.
func Opened[T Described](all []T, present []lsmtail.Facts) Tables[T] {
	return Tables[T]{All: all, name: lsmtail.Identify(present)}
}

// Identity identifies the database, or the family, by its tables: their numbers, levels and sizes.
func (r *Tables[T]) Identity() string { return r.name }

// Number numbers the blocks; further ones come behind those of the tables. It returns the number of
// the first of these.
func (r *Tables[T]) Number(further int) (next uint32, err error) {
	sum := uint64(0)
	r.firsts = nil
	for _, t := range r.All {
		b := t.Base()
		b.First, r.firsts = uint32(sum), append(r.firsts, uint32(sum))
		sum += uint64(b.FirstData) + uint64(len(b.Data))
		if sum+uint64(further) > math.MaxUint32 {
			return 0, fmt.Errorf("more than %d blocks", uint32(math.MaxUint32))
		}
	}

	r.sizes = make([]atomic.Int32, sum+uint64(further))
	return uint32(sum), nil
}

// Blocks implements Source.
func (r *Tables[T]) Blocks() uint32 { return uint32(len(r.sizes)) }

// ByNumber is the table of a block.
func (r *Tables[T]) ByNumber(number uint32) T {
	behind, _ := slices.BinarySearch(r.firsts, number+1)
	return r.All[behind-1]
}

// Block describes a block. Unless its decompressed size has been learnt, it reads the block.
func (r *Tables[T]) Block(number uint32) (cachesim.Block, error) {
	if b, is := r.openRead(number); is {
		return b, nil
	}

	t := r.ByNumber(number)
	b, h := t.Describe(number)
	if !r.Known(number) {
		var in []byte
		if err := r.Learn(number, &in); err != nil {
			return b, err
		}
	}

	b.Offset, b.DiskBytes, b.Bytes = h.Offset, int32(h.Bytes)+TrailerBytes, r.Size(number)
	return b, nil
}

// Known tells whether the size of a block has been learnt.
func (r *Tables[T]) Known(number uint32) bool { return r.sizes[number].Load() != 0 }

// Size is the decompressed size of a block that is known.
func (r *Tables[T]) Size(number uint32) int32 { return r.sizes[number].Load() - 1 }

// Keep keeps the decompressed size of a block.
func (r *Tables[T]) Keep(number uint32, bytes int) { r.sizes[number].Store(int32(bytes) + 1) }

// Unknown are the numbers of blocks whose sizes have not been learnt, ascending, in place of all.
func (r *Tables[T]) Unknown(all []uint32) []uint32 {
	all = slices.DeleteFunc(all, r.Known)
	slices.Sort(all)
	return slices.Compact(all)
}

// Learn learns the decompressed size of a block.
func (r *Tables[T]) Learn(number uint32, in *[]byte) error {
	t := r.ByNumber(number)
	_, h := t.Describe(number)
	stored, err := t.Base().Read(h, in)
	if err != nil {
		return err
	}

	size, err := t.Decoded(h, stored)
	if err == nil {
		r.Keep(number, size)
	}

	return err
}

// Close closes the tables. No Walker may be used afterwards.
func (r *Tables[T]) Close() error {
	var errs []error
	var none T // what could not be opened
	for _, t := range r.All {
		if t != none {
			errs = append(errs, t.Base().Opened.Close())
		}
	}

	r.All = nil
	return errors.Join(errs...)
}
