package resolve

import (
	"slices"

	"github.com/statelab/statelab/internal/observe/blockio"
)

// A cache charges decompressed bytes, which only the block itself tells: its
// first bytes and its trailer. Blocks are looked at one by one, in the order
// they have on disk; of a table that is asked often, all at once, since reading
// on costs less than many reads.
const (
	scanShare = 32 // once one of so many blocks of a table was looked at
	scanBytes = 1 << 20
)

// learnAll learns the sizes of the blocks of these numbers, which it reorders.
func (r *Resolver) learnAll(numbers []uint32, in *buffer) error {
	slices.Sort(numbers)
	for _, number := range slices.Compact(numbers) {
		if r.sizes[number].Load() == 0 {
			if err := r.learn(r.tableOf(number), number, in); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Resolver) learn(t *table, number uint32, in *buffer) error {
	if number-t.first >= t.firstData && int(t.looked.Add(1)) == 1+len(t.data)/scanShare {
		return r.scan(t, in)
	}
	_, h := t.describe(number)
	stored, err := t.read(h, in)
	if err != nil {
		return err
	}
	return r.keepSize(t, number, h, stored)
}

// scan learns the sizes of all data blocks of t. They are in the file in order.
func (r *Resolver) scan(t *table, in *buffer) error {
	for i := 0; i < len(t.data); {
		run, first := t.data[i], i
		for i++; i < len(t.data); i++ {
			h := t.data[i]
			if h.offset < run.offset+uint64(run.bytes) || h.offset+uint64(h.bytes)-run.offset > scanBytes {
				break
			}
			run.bytes = uint32(h.offset + uint64(h.bytes) - run.offset)
		}
		stored, err := t.read(run, in)
		if err != nil {
			return err
		}
		for j := first; j < i; j++ {
			h := t.data[j]
			from := h.offset - run.offset
			if err := r.keepSize(t, t.first+t.firstData+uint32(j), h, stored[from:from+uint64(h.bytes)+trailerBytes]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Resolver) keepSize(t *table, number uint32, h handle, stored []byte) error {
	bytes, ok := blockio.DecodedBytes(stored)
	if !ok || bytes > maxBlockBytes {
		return t.corrupt(h, "unknown compression")
	}
	r.sizes[number].Store(int32(bytes) + 1)
	return nil
}
