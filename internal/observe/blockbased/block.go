package blockbased

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/zeebo/xxh3"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/lookuppath"
)

type handle = lookuppath.Handle

func readHandle(from []byte) (h handle, rest []byte, err error) {
	offset, n := binary.Uvarint(from)
	if n <= 0 {
		return h, nil, errors.New("damaged block handle")
	}

	size, m := binary.Uvarint(from[n:])
	if m <= 0 || size > lookuppath.MaxBlockBytes {
		return h, nil, errors.New("damaged block handle")
	}

	return handle{Offset: offset, Bytes: uint32(size)}, from[n+m:], nil
}

// Checksums by the number that a footer has.
const (
	noChecksum = iota
	crcChecksum
	xxh32Checksum
	xxh64Checksum
	xxh3Checksum
)

// Compressions by the number that a trailer has.
const (
	notCompressed  = 0
	snappyBlock    = 1
	zlibBlock      = 2
	lz4Block       = 4
	lz4hcBlock     = 5
	zstdBlock      = 7
	oldZstdBlock   = 0x40
	minOwnCompress = 0x80 // and above: compressions of the user's
)

// buffer is memory for one block at a time. The zero value is ready. Not safe for concurrent use.
type buffer struct {
	stored, content []byte
	key             []byte // of its entries
	zstd            *zstd.Decoder
}

// decode checks the block and returns its content, in the buffer.
func (t *table) decode(h handle, in *buffer) ([]byte, error) {
	stored, err := t.Read(h, &in.stored)
	if err != nil {
		return nil, err
	}

	if t.checksum != noChecksum && !t.sound(h, stored) && !t.sound(h, beforeIngestion(stored)) {
		return nil, t.Damaged(h, "its checksum does not match")
	}

	payload, compression := stored[:h.Bytes], stored[h.Bytes]
	if compression == notCompressed {
		return payload, nil
	}

	size, payload, err := t.decodedBytes(compression, payload)
	if err != nil {
		return nil, fmt.Errorf("table %06d, block at %d: %w", t.File, h.Offset, err)
	}

	in.content = slices.Grow(in.content[:0], size)[:size]
	if err := t.decompress(compression, payload, in); err != nil {
		return nil, t.Damaged(h, err.Error())
	}

	return in.content, nil
}

// sound reports whether the checksum of a block with its trailer matches.
func (t *table) sound(h handle, stored []byte) bool {
	return le32(stored[h.Bytes+1:]) == t.blockChecksum(h.Offset, stored[:h.Bytes+1])
}

// beforeIngestion is a block as it was before RocksDB took its table over: versions before 8.0 then
// write a sequence number over the zeros in the properties, and leave the checksum as it was.
func beforeIngestion(stored []byte) []byte {
	const name, numberBytes = "external_sst_file.global_seqno", 8 // keys may share how they begin
	at := bytes.Index(stored, []byte(name))
	if at < 0 || at+len(name)+numberBytes > len(stored) {
		return stored
	}
	was := bytes.Clone(stored)
	clear(was[at+len(name):][:numberBytes])
	return was
}

// blockChecksum is that of a block at offset with its compression byte.
func (t *table) blockChecksum(offset uint64, b []byte) uint32 {
	sum := checksumOf(t.checksum, b)
	if t.checksumBase != 0 {
		// one different for each block
		sum += t.checksumBase ^ (uint32(offset) + uint32(offset>>32))
	}
	return sum
}

func checksumOf(kind byte, b []byte) uint32 {
	switch kind {
	case crcChecksum:
		return maskedCRC(b)
	case xxh32Checksum:
		return xxh32(b)
	case xxh64Checksum:
		return uint32(xxhash.Sum64(b))
	case xxh3Checksum: // the last byte apart
		return uint32(xxh3.Hash(b[:len(b)-1])) ^ uint32(b[len(b)-1])*0x6b9083d9
	}

	return 0
}

// maskedCRC is CRC-32C as LevelDB stores it.
func maskedCRC(b []byte) uint32 {
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// decodedBytes is the size of a block's content, and what is left to decompress.
func (t *table) decodedBytes(compression byte, payload []byte) (size int, rest []byte, err error) {
	rest = payload
	gain := 0                                       // beyond what the compression reaches
	if t.format == 0 && compression > snappyBlock { // what the numbers mean is RocksDB's
		return 0, nil, engine.Fail(engine.CodeUnsupported, "its compression (%d) is not "+
			"supported in tables of LevelDB", compression).WithRemedy("let the program that owns " +
			"the database write a copy with snappy, or without compression")
	}

	switch compression {
	case notCompressed:
		return len(payload), payload, nil
	case snappyBlock:
		gain = 32
		size, err = snappy.DecodedLen(payload)
	case zlibBlock, lz4Block, lz4hcBlock, zstdBlock, oldZstdBlock:
		n, width := binary.Uvarint(payload)
		if width <= 0 || n > lookuppath.MaxBlockBytes {
			return 0, nil, errors.New("impossible decompressed size")
		}

		size, rest = int(n), payload[width:]
		switch compression {
		case lz4Block, lz4hcBlock:
			gain = 256
		case zlibBlock:
			gain = 1100
		default:
			gain = 1 << 16
		}
	default:
		if compression >= minOwnCompress {
			return 0, nil, engine.Fail(engine.CodeUnsupported, "its compression (%d) is of the "+
				"program that wrote it, which is not supported", compression)
		}
		return 0, nil, fmt.Errorf("its compression (%d) is not supported", compression)
	}

	// no block is empty, and LZ4's code cannot bear one
	if err != nil || size < 1 || size > min(lookuppath.MaxBlockBytes, gain*(len(rest)+1)) {
		return 0, nil, errors.New("impossible decompressed size")
	}

	return size, rest, nil
}

// decompress fills in.content.
func (t *table) decompress(compression byte, payload []byte, in *buffer) error {
	var got int
	var err error
	switch compression {
	case snappyBlock:
		var out []byte
		out, err = snappy.Decode(in.content, payload)
		got = len(out)
	case zlibBlock:
		got, err = io.ReadFull(flate.NewReaderDict(bytes.NewReader(payload), t.dictionary),
			in.content)
	case lz4Block, lz4hcBlock:
		got, err = lz4.UncompressBlockWithDict(payload, in.content, t.dictionary)
	default:
		if in.zstd == nil {
			// Blocks of one table have the same dictionary, and a buffer serves many tables.
			if in.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
				zstd.WithDecodeAllCapLimit(true)); err != nil {
				return err
			}
		}

		decoder := in.zstd
		if t.zstd != nil {
			decoder = t.zstd
		}

		var out []byte
		out, err = decoder.DecodeAll(payload, in.content[:0:len(in.content)])
		got = len(out)
	}

	if err == nil && got != len(in.content) {
		err = errors.New("its decompressed size does not match")
	}

	return err
}

// rows reads the entries of a block in order.
type rows struct {
	entries []byte // up to the restart points
	value   []byte // of the entry read last; of an index whose values are deltas, all that follows
	key     []byte
	at      int
	deltas  bool // an index whose entries have no length of the value
	shared  bool // the entry shares a prefix with the one before
	err     error
}

// footerOf reads the end of a block: the number of restart points, and whether a hash index
// stands behind them.
func footerOf(content []byte) (restarts int, hashed bool, err error) {
	const hashBit, uniformBit, maximum = 1 << 31, 1 << 29, 1<<28 - 1
	if len(content) < 4 {
		return 0, false, errors.New("block is too small")
	}

	packed := le32(content[len(content)-4:])
	// Bit 29 only hints at how to search.
	n := packed &^ (hashBit | uniformBit)
	if n > maximum {
		return 0, false, errors.New("keys and values are stored apart, or in another way that is " +
			"not supported")
	}

	return int(n), packed&hashBit != 0, nil
}

func newRows(content []byte, deltas bool, key []byte) (rows, error) {
	restarts, hashed, err := footerOf(content)
	if err != nil {
		return rows{}, err
	}

	end := len(content) - 4 - 4*restarts
	if hashed {
		buckets, err := hashBuckets(content)
		if err != nil {
			return rows{}, err
		}
		end -= len(buckets) + 2
	}

	if end < 0 {
		return rows{}, errors.New("more restart points than bytes")
	}

	return rows{entries: content[:end], deltas: deltas, key: key[:0]}, nil
}

// hashBuckets is the hash index of a data block.
func hashBuckets(content []byte) ([]byte, error) {
	end := len(content) - 6
	if end < 0 {
		return nil, errors.New("damaged hash index of a block")
	}

	n := int(binary.LittleEndian.Uint16(content[end:]))
	if n == 0 || n > end {
		return nil, errors.New("damaged hash index of a block")
	}

	return content[end-n : end], nil
}

// next goes to the next entry; false at the end or with err.
func (r *rows) next() bool {
	if r.at >= len(r.entries) || r.err != nil {
		return false
	}

	b := r.entries[r.at:]
	shared, n := binary.Uvarint(b)
	unshared, m := binary.Uvarint(b[max(n, 0):])
	head, value, k := max(n, 0)+max(m, 0), uint64(0), 1
	if !r.deltas {
		value, k = binary.Uvarint(b[head:])
		head += max(k, 0)
	}

	if n <= 0 || m <= 0 || k <= 0 || shared > uint64(len(r.key)) || unshared > math.MaxInt32 ||
		value > math.MaxInt32 ||
		uint64(head)+unshared+value > uint64(len(b)) {
		r.err = errors.New("damaged entry of a block")
		return false
	}

	r.key = append(r.key[:shared], b[head:head+int(unshared)]...)
	r.shared = shared > 0
	rest := b[head+int(unshared):]
	if r.deltas {
		r.value, r.at = rest, r.at+head+int(unshared) // the caller moves on by what it takes
		return true
	}

	r.value, r.at = rest[:value], r.at+head+int(unshared)+int(value)
	return true
}

// taken says how much of the value of an index of deltas was the value.
func (r *rows) taken(rest []byte) { r.at += len(r.value) - len(rest) }

// eachIndexEntry visits the entries of an index block: its separators as stored, the handles
// of blocks, and the first key of each block where the index has them.
func (t *table) eachIndexEntry(
	index handle, firstKeys bool, visit func(separator []byte, h handle, first []byte) error,
) error {
	content, err := t.decode(index, new(buffer))
	if err != nil {
		return err
	}

	entries, err := newRows(content, t.deltas, nil)
	if err != nil {
		return t.Damaged(index, err.Error())
	}

	var h handle
	for entries.next() {
		rest := entries.value
		if t.deltas && entries.shared {
			delta, n := binary.Varint(rest)
			size := int64(h.Bytes) + delta
			if n <= 0 || size < 0 || size > lookuppath.MaxBlockBytes {
				return t.Damaged(index, "damaged block handle")
			}

			h, rest = handle{
				Offset: h.Offset + uint64(h.Bytes) + lookuppath.TrailerBytes,
				Bytes:  uint32(size),
			}, rest[n:]
		} else if h, rest, err = readHandle(rest); err != nil {
			return t.Damaged(index, err.Error())
		}

		var first []byte
		if firstKeys {
			size, n := binary.Uvarint(rest)
			if n <= 0 || size > uint64(len(rest)-n) {
				return t.Damaged(index, "damaged first key of a block")
			}
			first, rest = rest[n:n+int(size)], rest[n+int(size):]
		}

		if t.deltas {
			entries.taken(rest)
		}

		if err := visit(entries.key, h, first); err != nil {
			return err
		}
	}

	if entries.err != nil {
		return t.Damaged(index, entries.err.Error())
	}

	return nil
}

// wholeKey is the user's part of the key of the entry at a restart point, where it is.
func (r *rows) wholeKey() ([]byte, error) {
	if r.at >= len(r.entries) {
		return nil, errors.New("damaged restart point of a block")
	}

	b := r.entries[r.at:]
	shared, n := binary.Uvarint(b)
	unshared, m := binary.Uvarint(b[max(n, 0):])
	_, k := binary.Uvarint(b[max(n, 0)+max(m, 0):])
	head := n + m + k
	if n <= 0 || m <= 0 || k <= 0 || shared != 0 || unshared < 8 || unshared > uint64(len(b)-head) {
		return nil, errors.New("damaged restart point of a block")
	}

	return b[head : head+int(unshared)-8], nil
}
