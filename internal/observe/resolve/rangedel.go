package resolve

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/statelab/statelab/internal/observe/lookuppath"
)

func (t *table) readTombstones(
	ctx context.Context, reader *sstable.Reader, layout *sstable.Layout,
) (err error) {
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
			t.tombstones = append(t.tombstones, lookuppath.Tombstone{
				// newest first
				Start:  bytes.Clone(span.Start),
				End:    bytes.Clone(span.End),
				SeqNum: uint64(span.Keys[0].SeqNum()),
			})
		}
	}

	if err != nil {
		return fmt.Errorf("read range deletions: %w", err)
	}

	return nil
}
