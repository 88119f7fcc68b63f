package resolve

import (
	"bytes"
	"context"
	"fmt"
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

// deletedAt returns the sequence number of the newest range deletion over key.
func (t *table) deletedAt(key []byte) (seqNum uint64, deleted bool) {
	i := sort.Search(len(t.tombstones), func(i int) bool { return bytes.Compare(t.tombstones[i].end, key) > 0 })
	if i < len(t.tombstones) && bytes.Compare(t.tombstones[i].start, key) <= 0 {
		return t.tombstones[i].seqNum, true // those of a table do not overlap
	}
	return 0, false
}
