package resolve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

// tableFacts are what the manifest says of a table.
type tableFacts struct {
	file  uint64
	level int
	bytes int64
	bounds
	smallestSeqNum, largestSeqNum uint64
}

// bounds are the first and the last key of a table.
type bounds struct {
	smallest, largest []byte
	// largestExclusive: the bound is the end of a range deletion, no key.
	largestExclusive bool
}

// table is one table, open for resolving. Immutable once its numbers are set.
type table struct {
	tableFacts
	opened   *os.File
	checksum block.ChecksumType
	columnar bool
	// hidesObsolete: entries marked obsolete (shadowed within the table) are
	// invisible to a Get, from table format Pebble v4 on.
	hidesObsolete bool
	allObsolete   bool // then not even the index is read

	// points are the bounds without range keys, which no Get sees; nil: there are only
	// range keys.
	points *bounds

	first, firstData uint32 // block numbers; firstData counts from first

	propertiesAt handle
	root         handle
	filterAt     handle
	filter       []byte // nil: none
	rangeDelAt   handle // bytes 0: none
	tombstones   []tombstone

	separators    sortedKeys // of data blocks, all partitions together
	data          []handle
	partitions    []handle // empty with an index of one level
	partitionEnds []uint32 // where each ends in data
	// excluded are data blocks with nothing but obsolete entries, which a Get
	// steps over by a property in the index. nil: none.
	excluded []bool

	// merges: a Get may need more than the block where its key is first met.
	merges bool

	looked atomic.Int32 // blocks whose size was asked for
}

// openTable opens the table and reads its index and range deletions. The
// reader of v2 reads tables of v1 as well.
func openTable(dir string, facts tableFacts) (*table, error) {
	opened, err := openFile(filepath.Join(dir, fmt.Sprintf("%06d.sst", facts.file)), facts.bytes)
	if err != nil {
		return nil, fmt.Errorf("table %06d: %w", facts.file, err)
	}
	t := &table{tableFacts: facts, opened: opened}
	if err := t.open(); err != nil {
		return nil, fmt.Errorf("table %06d: %w", facts.file, errors.Join(err, opened.Close()))
	}
	return t, nil
}

func (t *table) open() (err error) {
	ctx := context.Background()
	policy := filterPolicy()
	reader, err := sstable.NewReader(ctx, readable{t}, sstable.ReaderOptions{
		Filters: map[string]sstable.FilterPolicy{policy.Name(): policy},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	layout, err := reader.Layout()
	if err != nil {
		return fmt.Errorf("read layout: %w", err)
	}
	properties, err := reader.ReadPropertiesBlock(ctx, nil)
	if err != nil {
		return fmt.Errorf("read properties: %w", err)
	}
	if err := supported(&properties); err != nil {
		return err
	}
	t.propertiesAt = handle{layout.Properties.Offset, uint32(layout.Properties.Length)}
	t.columnar, t.merges = layout.Format.BlockColumnar(), properties.NumMergeOperands > 0
	t.hidesObsolete = layout.Format >= sstable.TableFormatPebblev4
	var checksum [1]byte
	if _, err := t.opened.ReadAt(checksum[:], int64(layout.Footer.Offset)); err != nil {
		return fmt.Errorf("read footer: %w", err)
	}
	t.checksum = block.ChecksumType(checksum[0])
	if err := t.readIndex(layout, properties.UserProperties); err != nil {
		return err
	}
	if err := t.readFilter(layout, policy.Name()); err != nil {
		return err
	}
	if err := t.readTombstones(ctx, reader, layout); err != nil {
		return err
	}
	t.points = &t.bounds
	if properties.NumRangeKeys() > 0 {
		t.points, err = t.pointBounds(reader)
	}
	return err
}

// pointBounds are those of keys and range deletions: the manifest tells them
// together with those of range keys.
func (t *table) pointBounds(reader *sstable.Reader) (_ *bounds, err error) {
	keys, err := reader.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	defer func() { err = errors.Join(err, keys.Close()) }()
	var b *bounds
	if first := keys.First(); first != nil {
		b = &bounds{smallest: bytes.Clone(first.K.UserKey)}
		b.largest = bytes.Clone(keys.Last().K.UserKey)
	}
	if n := len(t.tombstones); n > 0 {
		start, end := t.tombstones[0].start, t.tombstones[n-1].end
		if b == nil {
			b = &bounds{start, end, true}
		}
		if bytes.Compare(start, b.smallest) < 0 {
			b.smallest = start
		}
		if bytes.Compare(end, b.largest) > 0 {
			b.largest, b.largestExclusive = end, true
		}
	}
	return b, keys.Error()
}

// filterPolicy is the one filter Pebble has; the number of bits matters to
// writers only.
func filterPolicy() bloom.FilterPolicy { return bloom.FilterPolicy(10) }

// supported refuses what could make a Get take a way that is not modelled.
func supported(p *sstable.Properties) error {
	switch {
	case p.ComparerName != pebble2.DefaultComparer.Name && p.ComparerName != "":
		return fmt.Errorf("its keys are ordered by %s, only %s is supported", p.ComparerName, pebble2.DefaultComparer.Name)
	case p.NumValuesInBlobFiles > 0:
		return errors.New("its values are in blob files, which are not supported")
	}
	return nil
}

func (t *table) readFilter(layout *sstable.Layout, policy string) (err error) {
	if t.level == lastLevel {
		return nil // a Get never asks for it there
	}
	for _, f := range layout.Filter {
		if f.Name != "fullfilter."+policy {
			continue // of a policy nobody knows: never consulted
		}
		if t.filterAt, err = newHandle(f.Handle); err != nil {
			return err
		}
		t.filter, err = t.decode(t.filterAt, new(buffer))
		return err
	}
	return nil
}
