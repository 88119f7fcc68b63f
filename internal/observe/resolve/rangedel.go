package resolve

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/cockroachdb/pebble/v2/sstable"
)

// tombstone is a range deletion.
type tombstone struct {
	start, end []byte
	seqNum     uint64
}

func (t *table) readTombstones(ctx context.Context, reader *sstable.Reader, layout *sstable.Layout) (err error) {
	if layout.RangeDel.Length == 0 {
		return nil
	}
	if t.rangeDelAt, err = newHandle(layout.RangeDel); err != nil {
		return err
	}
	spans, err := reader.NewRawRangeDelIter(ctx, sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil {
		return fmt.Errorf("read range deletions: %w", err)
	}
	defer spans.Close()
	span, err := spans.First()
	for ; span != nil && err == nil; span, err = spans.Next() {
		if len(span.Keys) > 0 {
			t.tombstones = append(t.tombstones, tombstone{
				bytes.Clone(span.Start), bytes.Clone(span.End), uint64(span.Keys[0].SeqNum()), // newest first
			})
		}
	}
	if err != nil {
		return fmt.Errorf("read range deletions: %w", err)
	}
	return nil
}

// coveredBy looks for the range deletion over key among ones that are sorted and do
// not overlap.
func coveredBy(tombstones []tombstone, key []byte) (seqNum uint64, covered bool) {
	i := sort.Search(len(tombstones), func(i int) bool { return bytes.Compare(tombstones[i].end, key) > 0 })
	if i < len(tombstones) && bytes.Compare(tombstones[i].start, key) <= 0 {
		return tombstones[i].seqNum, true
	}
	return 0, false
}

// disjoint cuts range deletions, given from the oldest to the newest, where they
// overlap, and keeps the newest of each part, in key order.
func disjoint(tombstones []tombstone) []tombstone {
	var bounds [][]byte
	for _, t := range tombstones {
		bounds = append(bounds, t.start, t.end)
	}
	slices.SortFunc(bounds, bytes.Compare)
	bounds = slices.CompactFunc(bounds, bytes.Equal)
	// Part i lies between bounds i and i+1. unpainted[i] leads to the first part from i
	// on that no newer deletion has taken.
	newest, unpainted := make([]uint64, len(bounds)), make([]int, len(bounds)+1)
	for i := range unpainted {
		unpainted[i] = i
	}
	first := func(i int) int {
		for unpainted[i] != i {
			unpainted[i] = unpainted[unpainted[i]]
			i = unpainted[i]
		}
		return i
	}
	for _, t := range slices.Backward(tombstones) {
		from, _ := slices.BinarySearchFunc(bounds, t.start, bytes.Compare)
		to, _ := slices.BinarySearchFunc(bounds, t.end, bytes.Compare)
		for i := first(from); i < to; i = first(i) {
			newest[i], unpainted[i] = t.seqNum, i+1
		}
	}
	var parts []tombstone
	for i, seqNum := range newest {
		if seqNum > 0 {
			parts = append(parts, tombstone{bounds[i], bounds[i+1], seqNum})
		}
	}
	return parts
}
