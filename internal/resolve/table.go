package resolve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/sstable/rowblk"
	"golang.org/x/sys/unix"
)

// tableFacts are what the manifest says of a table.
type tableFacts struct {
	file              uint64
	level             int
	bytes             int64
	smallest, largest []byte
	// largestExclusive: the bound is the end of a range deletion, no key.
	largestExclusive              bool
	smallestSeqNum, largestSeqNum uint64
}

type handle struct {
	offset uint64
	bytes  uint32 // without the trailer
}

// table is one table, open for resolving. Immutable once its numbers are set.
type table struct {
	tableFacts
	mapped   []byte
	checksum block.ChecksumType
	columnar bool
	// hidesObsolete: entries marked obsolete (shadowed within the table) are
	// invisible to a Get, from table format Pebble v4 on.
	hidesObsolete bool
	allObsolete   bool // then not even the index is read

	first, firstData uint32 // block numbers; firstData counts from first

	root       handle
	filterAt   handle
	filter     []byte // nil: none
	rangeDelAt handle // bytes 0: none
	tombstones []tombstone

	separators    sortedKeys // of data blocks, all partitions together
	data          []handle
	partitions    []handle // empty with an index of one level
	partitionEnds []uint32 // where each ends in data
	// excluded are data blocks with nothing but obsolete entries, which a Get
	// steps over by a property in the index. nil: none.
	excluded []bool
}

// tombstone is a range deletion.
type tombstone struct {
	start, end []byte
	seqNum     uint64
}

// maxBlockBytes is beyond any block; a larger claim is damage.
const maxBlockBytes = 1 << 30

const trailerBytes = block.TrailerLen

// openTable maps the table and reads its index and range deletions. The
// reader of v2 reads tables of v1 as well.
func openTable(dir string, facts tableFacts) (*table, error) {
	mapped, err := mapFile(filepath.Join(dir, fmt.Sprintf("%06d.sst", facts.file)))
	if err != nil {
		return nil, fmt.Errorf("table %06d: %w", facts.file, err)
	}
	t := &table{tableFacts: facts, mapped: mapped}
	if err := t.open(); err != nil {
		return nil, fmt.Errorf("table %06d: %w", facts.file, errors.Join(err, unix.Munmap(mapped)))
	}
	return t, nil
}

func (t *table) open() (err error) {
	ctx := context.Background()
	policy := filterPolicy()
	reader, err := sstable.NewReader(ctx, mappedFile(t.mapped), sstable.ReaderOptions{
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
	t.columnar = layout.Format.BlockColumnar()
	t.hidesObsolete = layout.Format >= sstable.TableFormatPebblev4
	t.checksum = block.ChecksumType(t.mapped[layout.Footer.Offset])
	if err := t.readIndex(layout, properties.UserProperties); err != nil {
		return err
	}
	if err := t.readFilter(layout, policy.Name()); err != nil {
		return err
	}
	if err := t.readTombstones(ctx, reader, layout); err != nil {
		return err
	}
	return madviseRandom(t.mapped)
}

// filterPolicy is the one filter Pebble has; the number of bits matters to
// writers only.
func filterPolicy() bloom.FilterPolicy { return bloom.FilterPolicy(10) }

// supported refuses what could make a Get take a way that is not modelled.
func supported(p *sstable.Properties) error {
	switch {
	case p.ComparerName != pebble2.DefaultComparer.Name && p.ComparerName != "":
		return fmt.Errorf("its keys are ordered by %s, only %s is supported", p.ComparerName, pebble2.DefaultComparer.Name)
	case p.NumRangeKeys() > 0:
		return errors.New("it holds range keys, which are not supported")
	case p.NumValuesInBlobFiles > 0:
		return errors.New("its values are in blob files, which are not supported")
	}
	return nil
}

func (t *table) twoLevels() bool { return len(t.partitions) > 0 }

// partitionOf returns the index partition that holds data block i.
func (t *table) partitionOf(i int) int {
	from, to := 0, len(t.partitionEnds)
	for from < to {
		if half := (from + to) >> 1; int(t.partitionEnds[half]) <= i {
			from = half + 1
		} else {
			to = half
		}
	}
	return from
}

// partitionExcluded: all its data blocks are.
func (t *table) partitionExcluded(p int) bool {
	if t.excluded == nil {
		return false
	}
	start := 0
	if p > 0 {
		start = int(t.partitionEnds[p-1])
	}
	return !slices.Contains(t.excluded[start:t.partitionEnds[p]], false)
}

// indexIter is what the index blocks of both layouts are read with.
type indexIter interface {
	First() bool
	Next() bool
	Separator() []byte
	BlockHandleWithProperties() (block.HandleWithProperties, error)
}

func (t *table) readIndex(layout *sstable.Layout, userProperties map[string]string) error {
	var err error
	obsolete, err := newObsoleteProperty(userProperties)
	if err != nil {
		return err
	}
	t.allObsolete = t.hidesObsolete && obsolete.ofTable
	t.data = make([]handle, 0, len(layout.Data))
	if layout.TopIndex.Length == 0 {
		if len(layout.Index) != 1 {
			return fmt.Errorf("%d index blocks, no top index", len(layout.Index))
		}
		if t.root, err = newHandle(layout.Index[0]); err != nil {
			return err
		}
		if err := t.readDataHandles(t.root, obsolete); err != nil {
			return err
		}
	} else {
		if t.root, err = newHandle(layout.TopIndex); err != nil {
			return err
		}
		err := t.eachIndexEntry(t.root, func(separator []byte, entry block.HandleWithProperties) error {
			partition, err := newHandle(entry.Handle)
			if err != nil {
				return err
			}
			if err := t.readDataHandles(partition, obsolete); err != nil {
				return err
			}
			// One search over all partitions equals the engine's two only if the
			// top index repeats each partition's last separator, as Pebble writes it.
			if n := t.separators.len(); n == 0 || !bytes.Equal(t.separators.at(n-1), separator) {
				return t.corrupt(partition, "its last separator differs from the top index")
			}
			t.partitions = append(t.partitions, partition)
			t.partitionEnds = append(t.partitionEnds, uint32(len(t.data)))
			return nil
		})
		if err != nil {
			return err
		}
	}
	t.separators.finish()
	if len(t.data) != len(layout.Data) {
		return fmt.Errorf("%d data blocks in the index, %d in Pebble's own layout", len(t.data), len(layout.Data))
	}
	t.firstData = fixedNumbers + uint32(len(t.partitions))
	return nil
}

// readDataHandles appends the entries of an index block.
func (t *table) readDataHandles(index handle, obsolete obsoleteProperty) error {
	return t.eachIndexEntry(index, func(separator []byte, entry block.HandleWithProperties) error {
		h, err := newHandle(entry.Handle)
		if err != nil {
			return err
		}
		if len(t.separators.bytes)+len(separator) > math.MaxUint32 {
			return errors.New("more than 4 GiB of separators")
		}
		excluded, err := obsolete.of(entry.Props)
		if err != nil {
			return err
		}
		if excluded && t.hidesObsolete && t.excluded == nil {
			t.excluded = make([]bool, len(t.data), cap(t.data))
		}
		if t.excluded != nil {
			t.excluded = append(t.excluded, excluded)
		}
		t.separators.add(separator)
		t.data = append(t.data, h)
		return nil
	})
}

func (t *table) eachIndexEntry(index handle, visit func(separator []byte, entry block.HandleWithProperties) error) error {
	content, err := t.decode(index, nil, t.columnar)
	if err != nil {
		return err
	}
	var entries indexIter
	if t.columnar {
		columns := &colblk.IndexIter{}
		entries, err = columns, columns.Init(pebble2.DefaultComparer, content, block.NoTransforms)
	} else {
		rows := &rowblk.IndexIter{}
		entries, err = rows, rows.Init(pebble2.DefaultComparer, content, block.NoTransforms)
	}
	if err != nil {
		return fmt.Errorf("read index block at %d: %w", index.offset, err)
	}
	for valid := entries.First(); valid; valid = entries.Next() {
		entry, err := entries.BlockHandleWithProperties()
		if err != nil {
			return fmt.Errorf("read index block at %d: %w", index.offset, err)
		}
		if err := visit(entries.Separator(), entry); err != nil {
			return err
		}
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
		t.filter, err = t.decode(t.filterAt, nil, inPlace)
		return err
	}
	return nil
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
	for _, d := range t.tombstones {
		if bytes.Compare(d.start, key) <= 0 && bytes.Compare(key, d.end) < 0 {
			return d.seqNum, true // tombstones of a table do not overlap
		}
	}
	return 0, false
}

// obsoleteProperty reads the block property by which Pebble marks blocks
// without a single visible entry.
type obsoleteProperty struct {
	known   bool
	id      byte
	ofTable bool
}

func newObsoleteProperty(user map[string]string) (obsoleteProperty, error) {
	value, known := user["obsolete-key"]
	if !known {
		return obsoleteProperty{}, nil
	}
	if value == "" {
		return obsoleteProperty{}, errors.New("empty property obsolete-key")
	}
	return obsoleteProperty{true, value[0], value[1:] == "t"}, nil
}

// of finds the property among those of an index entry: id, length, value, in
// the order of ids, empty ones left out.
func (o obsoleteProperty) of(properties []byte) (obsolete bool, err error) {
	for len(properties) > 0 {
		if len(properties) < 2 || properties[1] >= 0x80 || int(properties[1]) > len(properties)-2 {
			return false, errors.New("damaged block properties")
		}
		id, value := properties[0], properties[2:2+properties[1]]
		if o.known && id == o.id {
			return string(value) == "t", nil
		}
		properties = properties[2+len(value):]
	}
	return false, nil
}

func newHandle(h block.Handle) (handle, error) {
	if h.Length > maxBlockBytes {
		return handle{}, fmt.Errorf("block at %d: %d bytes long", h.Offset, h.Length)
	}
	return handle{h.Offset, uint32(h.Length)}, nil
}

func (t *table) corrupt(h handle, why string) error {
	return fmt.Errorf("table %06d, block at %d: %s", t.file, h.offset, why)
}

// stored returns the block as stored, with its trailer.
func (t *table) stored(h handle) ([]byte, error) {
	end := h.offset + uint64(h.bytes) + trailerBytes
	if h.offset > uint64(len(t.mapped)) || end > uint64(len(t.mapped)) {
		return nil, t.corrupt(h, "beyond the end of the table")
	}
	return t.mapped[h.offset:end], nil
}

// inPlace and copied say whether the content of an uncompressed block may stay
// in the mapped file. Columns must not: they have to be aligned.
const (
	inPlace = false
	copied  = true
)

// decode checks the block and returns its content: in *scratch, which grows, in
// new memory if scratch is nil, or in the mapped file.
func (t *table) decode(h handle, scratch *[]byte, copied bool) ([]byte, error) {
	stored, err := t.stored(h)
	if err != nil {
		return nil, err
	}
	if err := block.ValidateChecksum(t.checksum, stored, block.Handle{Offset: h.offset, Length: uint64(h.bytes)}); err != nil {
		return nil, t.corrupt(h, err.Error())
	}
	payload := stored[:h.bytes]
	compression := block.CompressionIndicator(stored[h.bytes])
	bytes := len(payload)
	if compression != block.NoCompressionIndicator {
		if bytes, err = block.DecompressedLen(compression, payload); err != nil || bytes > maxBlockBytes {
			return nil, t.corrupt(h, "impossible decompressed size")
		}
	} else if !copied {
		return payload, nil
	}
	var local []byte
	if scratch == nil {
		scratch = &local
	}
	if cap(*scratch) < bytes {
		*scratch = make([]byte, bytes+bytes/4)
	}
	content := (*scratch)[:bytes]
	if compression == block.NoCompressionIndicator {
		copy(content, payload)
		return content, nil
	}
	if err := block.DecompressInto(compression, payload, content); err != nil {
		return nil, t.corrupt(h, err.Error())
	}
	return content, nil
}

// mapFile maps a table; it stays readable when its file is deleted. Tables
// never change once written.
func mapFile(path string) (mapped []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 || info.Size() > math.MaxInt {
		return nil, fmt.Errorf("%d bytes long", info.Size())
	}
	mapped, err = unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	return mapped, nil
}

// madviseRandom keeps the kernel from reading ahead: from here on single
// blocks are looked at.
func madviseRandom(mapped []byte) error {
	if err := unix.Madvise(mapped, unix.MADV_RANDOM); err != nil {
		return fmt.Errorf("advise random reads: %w", err)
	}
	return nil
}

// mappedFile lets Pebble's reader read mapped memory.
type mappedFile []byte

func (f mappedFile) ReadAt(_ context.Context, p []byte, offset int64) error {
	if offset < 0 || offset > int64(len(f)) || int64(len(p)) > int64(len(f))-offset {
		return fmt.Errorf("read of %d bytes at %d: beyond the end", len(p), offset)
	}
	copy(p, f[offset:])
	return nil
}

func (f mappedFile) Close() error { return nil }

func (f mappedFile) Size() int64 { return int64(len(f)) }

func (f mappedFile) NewReadHandle(objstorage.ReadBeforeSize) objstorage.ReadHandle {
	h := objstorage.MakeNoopReadHandle(f)
	return &h
}
