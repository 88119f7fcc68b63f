package lookuppath

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// Opener is a Source of which a limited number of tables is open. Its Walkers put a number into
// those of a Get for each table that the Get looks up, before the blocks that it asks of it.
type Opener interface {
	// Open appends numbers to dst, with each lookup of a table replaced by the blocks that opening
	// it asks for: none if it is open. It is called for the Gets in their order.
	Open(dst, numbers []uint32) []uint32
}

// OpenTables says which lookups of tables find them open.
type OpenTables interface {
	// Lookup is a lookup of the table with that file number, which opens the table if it is not
	// open. It reports whether it was. Lookups come in the order in which Gets make them.
	Lookup(file uint64) (open bool)
}

// opens are the numbers of lookups and of what opening a table reads, behind those of all blocks.
type opens struct {
	tables  OpenTables
	asks    [][]uint32 // by table: blocks that its opening asks the block cache for
	lookups uint32     // number of the lookup of the first table
	reads   []uint32   // number of each table's first read
}

// LimitOpen lets Gets open the tables that they do not find open, as open says. asks are the blocks
// that opening a table asks the block cache for, beside its Reads. No Walker may be in use.
func (r *Tables[T]) LimitOpen(open OpenTables, asks func(T) []uint32) error {
	next := uint64(len(r.sizes))
	o := &opens{tables: open, lookups: uint32(next)}
	next += uint64(len(r.All))
	for _, t := range r.All {
		o.asks, o.reads = append(o.asks, asks(t)), append(o.reads, uint32(next))
		next += uint64(len(t.Base().Reads))
	}

	if next > math.MaxUint32 {
		return fmt.Errorf("more than %d blocks", uint32(math.MaxUint32))
	}

	sizes := make([]atomic.Int32, next)
	for i := range r.sizes {
		sizes[i].Store(r.sizes[i].Load())
	}

	for i := len(r.sizes); i < len(sizes); i++ {
		sizes[i].Store(1) // nothing is to be learnt of them
	}

	r.sizes, r.opens = sizes, o
	return nil
}

// Files are the numbers of the tables' files.
func (r *Tables[T]) Files() (files []uint64) {
	for _, t := range r.All {
		files = append(files, t.Base().File)
	}
	return files
}

// Limited reports whether tables may have to be opened again.
func (r *Tables[T]) Limited() bool { return r.opens != nil }

// Lookup appends the number of a lookup of a table, where tables may have to be opened again.
func (r *Tables[T]) Lookup(t T, numbers []uint32) []uint32 {
	if r.opens == nil {
		return numbers
	}
	at, _ := slices.BinarySearch(r.firsts, t.Base().First)
	for r.All[at] != t { // one without blocks begins where the next one does
		at++
	}
	return append(numbers, r.opens.lookups+uint32(at))
}

// Open implements Opener.
func (r *Tables[T]) Open(dst, numbers []uint32) []uint32 {
	o := r.opens
	for _, number := range numbers {
		if o == nil || number < o.lookups || number >= o.lookups+uint32(len(r.All)) {
			dst = append(dst, number)
			continue
		}

		at := number - o.lookups
		t := r.All[at].Base()
		if o.tables.Lookup(t.File) {
			continue
		}

		for i := range t.Reads {
			dst = append(dst, o.reads[at]+uint32(i))
		}

		dst = append(dst, o.asks[at]...)
	}

	return dst
}

// openRead describes a read of opening a table by its number; false: it is none.
func (r *Tables[T]) openRead(number uint32) (b cachesim.Block, is bool) {
	if r.opens == nil || number < r.opens.lookups {
		return b, false
	}

	at, exact := slices.BinarySearch(r.opens.reads, number)
	if !exact {
		at--
	}

	// a table without reads begins where the next one does
	for at+1 < len(r.All) && r.opens.reads[at+1] == number {
		at++
	}

	t := r.All[at].Base()
	h := t.Reads[number-r.opens.reads[at]]
	return cachesim.Block{
		File:      t.File,
		Level:     uint8(min(t.Level, engine.LevelUnknown)),
		Type:      engine.Meta,
		Offset:    h.Offset,
		Bytes:     int32(h.Bytes),
		DiskBytes: int32(h.Bytes),
		Marks:     cachesim.Uncached,
	}, true
}
