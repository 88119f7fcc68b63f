package resolve

import (
	"slices"

	"github.com/statelab/statelab/internal/observe/blockio"
)

// A cache charges decompressed bytes, which only the block itself tells: its
// first bytes and its trailer. Blocks are looked at one by one, in the order
// they have on disk, with many reads in flight. Of a table that is asked often,
// all are read at once: half of its blocks in single reads cost as much.
const (
	scanShare    = 2  // once one of so many blocks of a table was looked at
	scanAllShare = 32 // the same, if most blocks are going to be needed
	scanBytes    = 1 << 20
	readsAhead   = 256 // more than disks take at a time
)

// expect is told about how many Gets are going to be recorded.
func (r *Resolver) expect(gets uint64) {
	r.scanShare = scanShare
	if gets > uint64(r.blocks) { // 63 % of them, if keys are drawn evenly
		r.scanShare = scanAllShare
	}
}

// learnAll learns the sizes of the blocks of these numbers, which it reorders.
func (r *Resolver) learnAll(numbers []uint32, in *buffer) error {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for rest := numbers; len(rest) > 0; {
		t := r.tableOf(rest[0])
		n, _ := slices.BinarySearch(rest, t.first+t.firstData+uint32(len(t.data)))
		looked, limit := int(t.looked.Add(int32(n))), len(t.data)/r.scanShare
		if looked > limit && looked-n <= limit { // true for one worker only
			if err := r.scan(t, in); err != nil {
				return err
			}
		}
		rest = rest[n:]
	}
	numbers = slices.DeleteFunc(numbers, func(number uint32) bool { return r.sizes[number].Load() != 0 })
	ahead := 0
	for i, number := range numbers {
		for ; ahead < min(i+readsAhead, len(numbers)); ahead++ {
			t := r.tableOf(numbers[ahead])
			_, h := t.describe(numbers[ahead])
			willNeed(t.opened, int64(h.offset), int64(h.bytes)+trailerBytes)
		}
		if err := r.learn(r.tableOf(number), number, in); err != nil {
			return err
		}
	}
	return nil
}

func (r *Resolver) learn(t *table, number uint32, in *buffer) error {
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
