package resolve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// table is one table, open for resolving. Immutable once its numbers are set.
type table struct {
	lookuppath.Table
	checksum block.ChecksumType
	columnar bool
	// hidesObsolete: entries marked obsolete (shadowed within the table) are
	// invisible to a Get, from table format Pebble v4 on.
	hidesObsolete bool
	allObsolete   bool // then not even the index is read

	// points are the bounds without range keys, which no Get sees; nil: there are only
	// range keys.
	points *lsmtail.Bounds

	propertiesAt handle
	filterAt     handle
	filter       []byte // nil: none
	rangeDelAt   handle // bytes 0: none
	tombstones   []lookuppath.Tombstone

	// excluded are data blocks with nothing but obsolete entries, which a Get
	// steps over by a property in the index. nil: none.
	excluded []bool

	// merges: a Get may need more than the block where its key is first met.
	merges bool
	// deletes: keys are deleted one by one.
	deletes bool

	looked atomic.Int32 // blocks whose size was asked for
}

// openTable opens the table and reads its index and range deletions. The
// reader of v2 reads tables of v1 as well.
func openTable(dir string, facts lsmtail.Facts, kept dbformat.KeptByPebble) (*table, error) {
	opened, err := facts.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("table %06d: %w", facts.File, err)
	}

	t := &table{Table: lookuppath.Table{Facts: facts, Opened: opened}}
	if err := t.open(kept); err != nil {
		return nil, fmt.Errorf("table %06d: %w", facts.File, errors.Join(err, opened.Close()))
	}

	return t, nil
}

func (t *table) open(kept dbformat.KeptByPebble) (err error) {
	ctx := context.Background()
	policy := filterPolicy()
	options := pebble2fs.TableOptions(kept)
	options.Filters = map[string]sstable.FilterPolicy{policy.Name(): policy}
	reader, err := sstable.NewReader(ctx, readable{t}, options)
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

	t.Reads = []lookuppath.Handle{
		{Offset: layout.Footer.Offset, Bytes: uint32(layout.Footer.Length)},
		{
			Offset: layout.MetaIndex.Offset,
			Bytes:  uint32(layout.MetaIndex.Length) + lookuppath.TrailerBytes,
		},
	}
	t.propertiesAt = handle{
		Offset: layout.Properties.Offset,
		Bytes:  uint32(layout.Properties.Length),
	}

	t.columnar, t.merges = layout.Format.BlockColumnar(), properties.NumMergeOperands > 0
	t.deletes = properties.NumDeletions > 0
	t.hidesObsolete = layout.Format >= sstable.TableFormatPebblev4
	var checksum [1]byte
	if _, err := t.Opened.ReadAt(checksum[:], int64(layout.Footer.Offset)); err != nil {
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

	t.points = &t.Bounds
	if properties.NumRangeKeys() > 0 {
		t.points, err = t.pointBounds(reader)
	}

	return err
}

// pointBounds are those of keys and range deletions: the manifest tells them
// together with those of range keys.
func (t *table) pointBounds(reader *sstable.Reader) (_ *lsmtail.Bounds, err error) {
	keys, err := reader.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}

	defer func() { err = errors.Join(err, keys.Close()) }()
	var b *lsmtail.Bounds
	if first := keys.First(); first != nil {
		b = &lsmtail.Bounds{Smallest: bytes.Clone(first.K.UserKey)}
		b.Largest = bytes.Clone(keys.Last().K.UserKey)
	}

	if n := len(t.tombstones); n > 0 {
		start, end := t.tombstones[0].Start, t.tombstones[n-1].End
		if b == nil {
			b = &lsmtail.Bounds{Smallest: start, Largest: end, Exclusive: true}
		}

		if bytes.Compare(start, b.Smallest) < 0 {
			b.Smallest = start
		}

		if bytes.Compare(end, b.Largest) > 0 {
			b.Largest, b.Exclusive = end, true
		}
	}

	return b, keys.Error()
}

// filterPolicy is the one filter Pebble has; the number of bits matters to
// writers only.
func filterPolicy() bloom.FilterPolicy { return bloom.FilterPolicy(10) }

// FilterRate is the share of absent keys that a filter of so many bits a key lets pass in a table
// of so many keys, as the library's own filters do: one of at most 20,000 keys is built and asked.
func FilterRate(bits, keys float64) float64 {
	const maximum, asked = 20_000, 200_000
	n := uint64(min(max(keys, 1), maximum))
	w := bloom.FilterPolicy(math.Round(bits)).NewWriter(pebble2.TableFilter)
	var key [16]byte
	random := rand.New(rand.NewPCG(n, 1))
	draw := func() []byte {
		binary.LittleEndian.PutUint64(key[:], random.Uint64())
		binary.LittleEndian.PutUint64(key[8:], random.Uint64())
		return key[:]
	}

	for range n {
		w.AddKey(draw())
	}

	filter, passed := w.Finish(nil), 0
	for range asked {
		if bloom.FilterPolicy(math.Round(bits)).MayContain(pebble2.TableFilter, filter, draw()) {
			passed++
		}
	}

	return float64(passed) / asked
}

// supported refuses what could make a Get take a way that is not modelled.
func supported(p *sstable.Properties) error {
	switch {
	case p.ComparerName != pebble2.DefaultComparer.Name && p.ComparerName != "":
		return fmt.Errorf("its keys are ordered by %s, only %s is supported", p.ComparerName,
			pebble2.DefaultComparer.Name)
	case p.NumValuesInBlobFiles > 0:
		return engine.Fail(engine.CodeUnsupported,
			"its values are in blob files, which are not resolved")
	}

	return nil
}

func (t *table) readFilter(layout *sstable.Layout, policy string) (err error) {
	for _, f := range layout.Filter {
		if f.Name != "fullfilter."+policy {
			continue // of a policy nobody knows: never consulted
		}

		if t.filterAt, err = newHandle(f.Handle); err != nil {
			return err
		}

		if t.Level == lastLevel {
			return nil // a Get never asks for it there
		}

		return t.loadFilter()
	}

	return nil
}

func (t *table) loadFilter() (err error) {
	t.filter, err = t.decode(t.filterAt, new(buffer))
	return err
}

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

// Expect is told about how many Gets are going to be recorded.
func (r *Resolver) Expect(gets uint64) {
	r.scanShare = scanShare
	if gets > uint64(r.Blocks()) { // 63 % of them, if keys are drawn evenly
		r.scanShare = scanAllShare
	}
}

// Learn implements lookuppath.PathResolver.
func (w *Walker) Learn(numbers []uint32) error {
	r, in := w.r, &w.data.buffer
	numbers = r.Unknown(numbers)
	for rest := numbers; len(rest) > 0; {
		t := r.ByNumber(rest[0])
		n, _ := slices.BinarySearch(rest, t.First+t.FirstData+uint32(len(t.Data)))
		looked, limit := int(t.looked.Add(int32(n))), len(t.Data)/r.scanShare
		if looked > limit && looked-n <= limit { // true for one worker only
			if err := r.scan(t, in); err != nil {
				return err
			}
		}

		rest = rest[n:]
	}

	numbers = slices.DeleteFunc(numbers, r.Known)
	ahead := 0
	for i, number := range numbers {
		for ; ahead < min(i+readsAhead, len(numbers)); ahead++ {
			t := r.ByNumber(numbers[ahead])
			_, h := t.Describe(numbers[ahead])
			willNeed(t.Opened, int64(h.Offset), int64(h.Bytes)+lookuppath.TrailerBytes)
		}

		if err := r.Tables.Learn(number, &in.stored); err != nil {
			return err
		}
	}

	return nil
}

// scan learns the sizes of all data blocks of t. They are in the file in order.
func (r *Resolver) scan(t *table, in *buffer) error {
	for i := 0; i < len(t.Data); {
		run, first := t.Data[i], i
		for i++; i < len(t.Data); i++ {
			h := t.Data[i]
			if h.Offset < run.Offset+uint64(run.Bytes) ||
				h.Offset+uint64(h.Bytes)-run.Offset > scanBytes {
				break
			}

			run.Bytes = uint32(h.Offset + uint64(h.Bytes) - run.Offset)
		}

		stored, err := t.Read(run, &in.stored)
		if err != nil {
			return err
		}

		for j := first; j < i; j++ {
			h := t.Data[j]
			from := h.Offset - run.Offset
			size, err := t.Decoded(h, stored[from:from+uint64(h.Bytes)+lookuppath.TrailerBytes])
			if err != nil {
				return err
			}

			r.Keep(t.First+t.FirstData+uint32(j), size)
		}
	}

	return nil
}

// Decoded implements lookuppath.Described.
func (t *table) Decoded(h handle, stored []byte) (int, error) {
	bytes, ok := blockio.DecodedBytes(stored)
	if !ok || bytes > lookuppath.MaxBlockBytes {
		return 0, t.Damaged(h, "unknown compression")
	}
	return int(bytes), nil
}
