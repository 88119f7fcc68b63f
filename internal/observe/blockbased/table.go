package blockbased

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// table is one table, open for resolving. Immutable once its numbers are set.
type table struct {
	lookuppath.Table
	reading    *Reading // that it was prepared for
	properties map[string]string
	format     uint32 // 0: LevelDB's

	checksum     byte
	checksumBase uint32 // from format 6 on checksums depend on where a block is
	dictionary   []byte // that data blocks are compressed with
	dictionaryAt handle
	zstd         *zstd.Decoder // with the dictionary

	firstFilter uint32 // a block number, from the first one on

	index    indexKind
	deltas   bool // handles in the index are differences
	userKeys bool // separators have no sequence numbers
	// beyond are separators that a Get of the same key passes over: they were made up, with the
	// highest sequence number. nil: none.
	beyond    []bool
	firstKeys lookuppath.SortedKeys // of data blocks, if the index has them
	prefixes  prefixIndex

	filters filters

	others []handle // of blocks without a number

	tombstones    []lookuppath.Tombstone
	deletesRanges bool
	merges        bool // a Get may need more than the block where its key is first met

	// By how the table is read: what is always at hand, and whether filters know the prefixes of
	// Gets.
	pinnedRoot, pinnedFilter, pinnedPartitions, pinnedDictionary bool
	samePrefixes, highPriority                                   bool
}

type indexKind uint32

const (
	binaryIndex indexKind = iota
	hashIndex
	twoLevelIndex
	firstKeyIndex
)

// filters are the filters of a table: none, one, or one for each partition.
type filters struct {
	at         handle // of the whole filter, or of the index of partitions; bytes 0: none
	whole      filter
	parted     bool
	separators lookuppath.SortedKeys
	beyond     []bool
	partitions []handle
	parts      []filter

	wholeKeys, prefixes bool // what is in them

	level levelFilter
}

const (
	levelMagic = 0xdb4775248b80fb57
	blockMagic = 0x88e241b785f4cff7
	plainMagic = 0x8242229663bf9564
	plainOld   = 0x4f3418eb7a8f13b8
	cuckoo     = 0x926789d0c5f17873

	levelFooterBytes = 48
	blockFooterBytes = 53
	oldestFormat     = 2 // before, compressed blocks have another head
	newestFormat     = 7
)

// openTable opens a table and reads its metadata.
func openTable(dir string, facts Facts, r *Reading) (*table, error) {
	opened, err := facts.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("table %06d: %w", facts.File, err)
	}
	return readTable(opened, facts, r)
}

// readTable reads the metadata of a table, or else closes it.
func readTable(opened lsmtail.TableFile, facts Facts, r *Reading) (*table, error) {
	t := &table{Table: lookuppath.Table{Facts: facts, Opened: opened}}
	if err := t.open(r); err != nil {
		return nil, errors.Join(fmt.Errorf("table %06d: %w", facts.File, err), opened.Close())
	}
	return t, nil
}

func (t *table) open(r *Reading) error {
	metaindex, err := t.readFooter()
	if err != nil {
		return err
	}

	if isLevel := t.format == 0; isLevel && !r.Level {
		return fmt.Errorf("format version 0: the oldest that is supported is %d", oldestFormat)
	} else if !isLevel && r.Level {
		return errors.New("a table of RocksDB in a database of LevelDB")
	}

	meta, err := t.readMetaindex(metaindex)
	if err != nil {
		return err
	}

	t.others = []handle{metaindex, meta["rocksdb.properties"], meta["rocksdb.range_del"]}
	footerBytes := uint32(blockFooterBytes)
	if t.format == 0 {
		footerBytes = levelFooterBytes
	}
	t.Reads = []handle{{Offset: uint64(t.Bytes) - uint64(footerBytes), Bytes: footerBytes}}
	for _, h := range t.others {
		t.readsToOpen(h)
	}
	if t.format > 0 {
		if err := t.readProperties(meta["rocksdb.properties"]); err != nil {
			return err
		}

		if at, is := meta["rocksdb.index"]; is {
			t.Root = at
		}
	}

	if err := t.readDictionary(meta["rocksdb.compression_dict"]); err != nil {
		return err
	}

	if err := t.readIndex(); err != nil {
		return err
	}

	if t.index == hashIndex {
		if err := t.readPrefixIndex(meta["rocksdb.hashindex.prefixes"],
			meta["rocksdb.hashindex.metadata"]); err != nil {
			return err
		}
	}

	if err := t.readFilters(meta, r); err != nil {
		return err
	}

	return t.readTombstones(meta["rocksdb.range_del"])
}

// readsToOpen adds a block to what opening the table reads. Bytes 0: there is none.
func (t *table) readsToOpen(h handle) {
	if h.Bytes > 0 {
		t.Reads = append(t.Reads,
			handle{Offset: h.Offset, Bytes: h.Bytes + lookuppath.TrailerBytes})
	}
}

// readFooter reads the end of the file.
func (t *table) readFooter() (metaindex handle, err error) {
	tail := make([]byte, min(t.Bytes, blockFooterBytes))
	if t.Bytes < levelFooterBytes {
		return metaindex, errors.New("too short for a table")
	}

	if _, err := t.Opened.ReadAt(tail, t.Bytes-int64(len(tail))); err != nil {
		return metaindex, err
	}

	switch magic := binary.LittleEndian.Uint64(tail[len(tail)-8:]); magic {
	case levelMagic:
		t.checksum = crcChecksum
		return t.readHandles(tail[len(tail)-levelFooterBytes:])
	case blockMagic:
	case plainMagic, plainOld:
		return metaindex, engine.Fail(engine.CodeUnsupported, "a plain table, which is not "+
			"supported: only block-based tables are")
	case cuckoo:
		return metaindex, engine.Fail(engine.CodeUnsupported, "a cuckoo table, which is not "+
			"supported: only block-based tables are")
	default:
		return metaindex, fmt.Errorf("unknown kind of table (magic number %016x): encrypted, "+
			"damaged, or of a newer program", magic)
	}

	if len(tail) < blockFooterBytes {
		return metaindex, errors.New("too short for a table")
	}

	t.format, t.checksum = le32(tail[41:]), tail[0]
	if t.format < oldestFormat || t.format > newestFormat {
		return metaindex, engine.Fail(engine.CodeUnsupported, "format version %d: those from %d "+
			"to %d are supported", t.format, oldestFormat, newestFormat)
	}

	if t.checksum > xxh3Checksum {
		return metaindex, fmt.Errorf("checksums of the unknown kind %d", t.checksum)
	}

	if t.format < 6 {
		return t.readHandles(tail[1:])
	}

	return t.readNewFooter(tail)
}

func (t *table) readHandles(from []byte) (metaindex handle, err error) {
	metaindex, from, err = readHandle(from)
	if err == nil {
		t.Root, _, err = readHandle(from)
	}
	return metaindex, err
}

// readNewFooter reads a footer from format 6 on: kind of checksum, magic, checksum of the footer,
// base of the blocks' checksums, size of the metaindex, 24 bytes of nothing.
func (t *table) readNewFooter(tail []byte) (metaindex handle, err error) {
	if !bytes.Equal(tail[1:5], []byte{0x3e, 0, 0x7a, 0}) {
		return metaindex, errors.New("damaged footer")
	}

	want := le32(tail[5:])
	t.checksumBase = le32(tail[9:])
	size := le32(tail[13:])
	at := uint64(t.Bytes) - blockFooterBytes
	copied := bytes.Clone(tail)
	clear(copied[5:9])
	if t.checksum != noChecksum {
		if sum := checksumOf(t.checksum, copied) +
			(t.checksumBase ^ (uint32(at) + uint32(at>>32))); sum != want {
			return metaindex, errors.New("the checksum of the footer does not match")
		}
	}

	if uint64(size)+lookuppath.TrailerBytes > at {
		return metaindex, errors.New("damaged footer")
	}

	return handle{Offset: at - lookuppath.TrailerBytes - uint64(size), Bytes: size}, nil
}

func (t *table) eachRow(at handle, in *buffer, visit func(key, value []byte) error) error {
	content, err := t.decode(at, in)
	if err != nil {
		return err
	}

	entries, err := newRows(content, false, in.key)
	if err != nil {
		return t.Damaged(at, err.Error())
	}

	defer func() { in.key = entries.key }()
	for entries.next() {
		if err := visit(entries.key, entries.value); err != nil {
			return err
		}
	}

	if entries.err != nil {
		return t.Damaged(at, entries.err.Error())
	}

	return nil
}

func (t *table) readMetaindex(at handle) (map[string]handle, error) {
	meta := map[string]handle{}
	return meta, t.eachRow(at, new(buffer), func(key, value []byte) error {
		h, _, err := readHandle(value)
		if err == nil {
			meta[string(key)] = h
		} else if string(key) == "rocksdb.properties" {
			return err
		}

		return nil
	})
}

func (t *table) readProperties(at handle) error {
	if at.Bytes == 0 {
		return errors.New("it has no properties")
	}

	t.properties = map[string]string{}
	err := t.eachRow(at, new(buffer), func(key, value []byte) error {
		t.properties[string(key)] = string(value)
		return nil
	})
	if err != nil {
		return err
	}

	if kind := t.properties["rocksdb.block.based.table.index.type"]; len(kind) == 4 {
		t.index = indexKind(le32([]byte(kind)))
	}

	t.deltas, t.userKeys = t.count("rocksdb.index.value.is.delta.encoded") > 0,
		t.count("rocksdb.index.key.is.user.key") > 0
	if name := t.properties["rocksdb.comparator"]; !slices.Contains(byteComparators, name) {
		return engine.Fail(engine.CodeUnsupported, "its keys are ordered by %s, only the order "+
			"of bytes is supported", name)
	}

	if t.index > firstKeyIndex {
		return fmt.Errorf("an index of the unknown kind %d", t.index)
	}

	return nil
}

// count is a property that is a number.
func (t *table) count(property string) uint64 {
	n, _ := binary.Uvarint([]byte(t.properties[property]))
	return n
}

func (t *table) readDictionary(at handle) error {
	if at.Bytes == 0 {
		return nil
	}

	content, err := t.decode(at, new(buffer))
	if err != nil {
		return err
	}

	t.dictionaryAt, t.dictionary = at, bytes.Clone(content)
	zstdMagic := []byte{0x37, 0xa4, 0x30, 0xec}
	option := zstd.WithDecoderDictRaw(0, t.dictionary)
	if bytes.HasPrefix(t.dictionary, zstdMagic) {
		option = zstd.WithDecoderDicts(t.dictionary)
	}

	t.zstd, err = zstd.NewReader(nil, option, zstd.WithDecoderConcurrency(0),
		zstd.WithDecodeAllCapLimit(true))
	return err
}

// readIndex reads the index, all partitions together.
func (t *table) readIndex() error {
	firstKeys := t.index == firstKeyIndex
	add := func(separator []byte, h handle, first []byte) error {
		key, beyond, err := t.separator(separator)
		if err != nil {
			return err
		}

		if err := addSeparator(&t.Separators, &t.beyond, key, beyond); err != nil {
			return err
		}

		t.Data = append(t.Data, h)
		if firstKeys {
			if len(first) < 8 {
				return errors.New("damaged first key of a block")
			}
			return addSorted(&t.firstKeys, first[:len(first)-8])
		}

		return nil
	}

	if t.index != twoLevelIndex {
		if err := t.eachIndexEntry(t.Root, firstKeys, add); err != nil {
			return err
		}
	} else {
		err := t.eachIndexEntry(t.Root, false, func(separator []byte, h handle, _ []byte) error {
			key, _, err := t.separator(separator)
			if err != nil {
				return err
			}

			key = bytes.Clone(key)
			if err := t.eachIndexEntry(h, false, add); err != nil {
				return err
			}

			return t.EndPartition(h, key)
		})
		if err != nil {
			return err
		}
	}

	t.Separators.Finish()
	t.firstKeys.Finish()
	return nil
}

// separator is the user's part of a separator, and whether a Get of the same key passes over it.
func (t *table) separator(stored []byte) (key []byte, beyond bool, err error) {
	if t.userKeys {
		return stored, false, nil
	}
	if len(stored) < 8 {
		return nil, false, errors.New("damaged separator")
	}
	key = stored[:len(stored)-8]
	return key, le64(stored[len(key):])>>8 == 1<<56-1, nil
}

// addSorted adds a key to search for: those of a damaged table may be in no order.
func addSorted(keys *lookuppath.SortedKeys, key []byte) error {
	if n := keys.Len(); n > 0 && bytes.Compare(keys.At(n-1), key) > 0 {
		return errors.New("damaged: its keys are in no order")
	}
	keys.Add(key)
	return nil
}

func addSeparator(keys *lookuppath.SortedKeys, beyond *[]bool, key []byte, is bool) error {
	if is && *beyond == nil {
		*beyond = make([]bool, keys.Len())
	}
	if *beyond != nil {
		*beyond = append(*beyond, is)
	}
	return addSorted(keys, key)
}

// seek is the first separator that is not below a Get of key.
func seek(keys *lookuppath.SortedKeys, beyond []bool, key []byte) int {
	at := keys.Seek(key)
	if at < len(beyond) && beyond[at] && bytes.Equal(keys.At(at), key) {
		at++
	}
	return at
}

// Policies that filters are named after.
const (
	filterPolicy = "rocksdb.BuiltinBloomFilter"
	levelPolicy  = "leveldb.BuiltinBloomFilter"
)

func (t *table) readFilters(meta map[string]handle, r *Reading) (err error) {
	f := &t.filters
	if t.format == 0 {
		at, is := meta["filter."+levelPolicy]
		for name, other := range meta {
			// of LevelDB itself, for example, with another name
			if r.places && !is && strings.HasPrefix(name, "filter.") {
				at, is = other, true
			}
		}

		if is && r.Filters {
			t.filters.at = at
			return t.readLevelFilter(at, r)
		}

		return nil
	}

	if !r.Filters {
		return nil
	}

	f.wholeKeys = r.WholeKeys &&
		t.properties["rocksdb.block.based.table.whole.key.filtering"] != "0"
	f.prefixes = t.properties["rocksdb.block.based.table.prefix.filtering"] != "0"
	if at, is := meta["fullfilter."+filterPolicy]; is {
		f.at = at
		f.whole, err = t.readFilter(at, r)
		return err
	}

	at, is := meta["partitionedfilter."+filterPolicy]
	if !is {
		return nil
	}

	f.at, f.parted = at, true
	err = t.eachIndexEntry(at, false, func(separator []byte, h handle, _ []byte) error {
		key, beyond, err := t.separator(separator)
		if err != nil {
			return err
		}

		if err := addSeparator(&f.separators, &f.beyond, key, beyond); err != nil {
			return err
		}

		part, err := t.readFilter(h, r)
		f.partitions, f.parts = append(f.partitions, h), append(f.parts, part)
		return err
	})

	f.separators.Finish()
	return err
}

func (t *table) readFilter(at handle, r *Reading) (filter, error) {
	if r.places {
		return filter{}, nil
	}

	content, err := t.decode(at, new(buffer))
	if err != nil {
		return filter{}, err
	}

	f := newFilter(bytes.Clone(content))
	return f, f.check()
}

// readTombstones reads the range deletions; keys are those of their starts, values their ends.
func (t *table) readTombstones(at handle) error {
	if at.Bytes == 0 {
		return nil
	}

	var all []lookuppath.Tombstone
	err := t.eachRow(at, new(buffer), func(key, value []byte) error {
		if len(key) < 8 {
			return t.Damaged(at, "damaged range deletion")
		}

		start := key[:len(key)-8]
		all = append(all, lookuppath.Tombstone{
			Start:  bytes.Clone(start),
			End:    bytes.Clone(value),
			SeqNum: le64(key[len(start):]) >> 8,
		})

		return nil
	})
	if err != nil {
		return err
	}

	t.deletesRanges = len(all) > 0
	slices.SortStableFunc(all, func(a, b lookuppath.Tombstone) int {
		return cmp.Compare(a.SeqNum, b.SeqNum)
	})
	t.tombstones = lookuppath.Disjoint(all)
	return nil
}

// ingested reports whether the table was made outside of the database: its entries then have no
// sequence numbers of their own.
func (t *table) ingested() bool { return t.properties["rocksdb.external_sst_file.version"] != "" }

// Numbers of a table's blocks, from its first on: the fixed ones, index partitions, filter
// partitions, data blocks.
const (
	rootNumber       = 0 // the top index, or the whole index
	filterNumber     = 1 // the whole filter, or the index of its partitions
	dictionaryNumber = 2
	fixedNumbers     = 3
)

// number sets the numbers of blocks that count from the first one.
func (t *table) number() {
	t.firstFilter = fixedNumbers + uint32(len(t.Partitions))
	t.FirstData = t.firstFilter + uint32(len(t.filters.partitions))
}
