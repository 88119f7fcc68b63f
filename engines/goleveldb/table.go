package goleveldb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/golang/snappy"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blocktable"
)

// table is the layout of a LevelDB table: data blocks, then filter, metaindex and
// index, each followed by a trailer, then the footer that points to the last two.
// (Source: LevelDB's doc/table_format.md.)
type table struct {
	file   tableReader
	bytes  int64
	meta   span
	index  span
	filter span // length 0: none
	data   []span
}

// span is where a block lies, its trailer left out.
type span struct{ offset, length uint64 }

// tableReader fills p or fails.
type tableReader interface {
	ReadAt(ctx context.Context, p []byte, offset int64) error
	Size() int64
}

const (
	footerBytes  = 48
	magic        = 0xdb4775248b80fb57
	trailerBytes = 5 // compression, checksum

	storedPlain  = 0
	storedSnappy = 1
	// snappyGrowth is beyond what snappy can decompress to: 64 bytes of 3.
	snappyGrowth = 32

	// internalBytes are behind every user key: sequence number and kind.
	internalBytes = 8
)

var errDamaged = engine.Fail(engine.CodeDamaged, "not a whole LevelDB table").
	With("copy the whole folder again while the program that owns it is stopped, or let that program repair it")

func readTable(file tableReader) (*table, error) {
	t := &table{file: file, bytes: file.Size()}
	if t.bytes < footerBytes {
		return nil, errDamaged
	}
	footer := make([]byte, footerBytes)
	if err := file.ReadAt(context.Background(), footer, t.bytes-footerBytes); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint64(footer[footerBytes-8:]) != magic {
		return nil, fmt.Errorf("%w: its magic number is missing", errDamaged)
	}
	var rest []byte
	var err error
	if t.meta, rest, err = parseSpan(footer); err != nil {
		return nil, err
	}
	if t.index, _, err = parseSpan(rest); err != nil {
		return nil, err
	}
	if err := t.readMeta(); err != nil {
		return nil, fmt.Errorf("metaindex: %w", err)
	}
	if err := t.readIndex(); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return t, nil
}

func (t *table) readMeta() error {
	return t.each(t.meta, func(key, value []byte) (err error) {
		const prefix = "filter."
		if len(key) > len(prefix) && string(key[:len(prefix)]) == prefix {
			t.filter, _, err = parseSpan(value)
		}
		return err
	})
}

func (t *table) readIndex() error {
	return t.each(t.index, func(_, value []byte) error {
		data, _, err := parseSpan(value)
		t.data = append(t.data, data)
		return err
	})
}

// block reads a block and decompresses it.
func (t *table) block(s span) ([]byte, error) {
	if s.length > uint64(t.bytes) || s.offset > uint64(t.bytes) || s.offset+s.length+trailerBytes > uint64(t.bytes) {
		return nil, fmt.Errorf("%w: a block at %d, length %d, of a table of %d bytes", errDamaged, s.offset, s.length, t.bytes)
	}
	stored := make([]byte, s.length+trailerBytes)
	if err := t.file.ReadAt(context.Background(), stored, int64(s.offset)); err != nil {
		return nil, err
	}
	return decode(stored)
}

// decode returns the content of a block as stored, trailer included.
func decode(stored []byte) ([]byte, error) {
	if len(stored) < trailerBytes {
		return nil, errDamaged
	}
	payload := stored[:len(stored)-trailerBytes]
	switch stored[len(payload)] {
	case storedPlain:
		return payload, nil
	case storedSnappy:
		n, err := snappy.DecodedLen(payload)
		if err != nil || n > snappyGrowth*len(payload) {
			return nil, fmt.Errorf("%w: a block of damaged snappy", errDamaged)
		}
		return snappy.Decode(nil, payload)
	}
	return nil, engine.Fail(engine.CodeUnsupported, "a block is compressed in the way %d, which goleveldb does not read", stored[len(payload)]).
		With("let the program that owns the database write a copy with snappy, or without compression")
}

// each calls see with the entries of a block, as eachEntry does.
func (t *table) each(s span, see func(key, value []byte) error) error {
	block, err := t.block(s)
	if err != nil {
		return err
	}
	return eachEntry(block, see)
}

// eachEntry calls see with the entries of a block. Keys share prefixes with the one
// before: key is reused.
func eachEntry(block []byte, see func(key, value []byte) error) error {
	if len(block) < 4 {
		return errDamaged
	}
	restarts := uint64(binary.LittleEndian.Uint32(block[len(block)-4:]))
	if (restarts+1)*4 > uint64(len(block)) {
		return errDamaged
	}
	rest := block[:uint64(len(block))-(restarts+1)*4]
	var key []byte
	for len(rest) > 0 {
		var lengths [3]uint64 // shared with the key before, own, value
		for i := range lengths {
			n, width := binary.Uvarint(rest)
			if width <= 0 || n > uint64(len(block)) {
				return errDamaged
			}
			lengths[i], rest = n, rest[width:]
		}
		shared, own, value := lengths[0], lengths[1], lengths[2]
		if shared > uint64(len(key)) || own+value > uint64(len(rest)) {
			return errDamaged
		}
		key = append(key[:shared], rest[:own]...)
		if err := see(key, rest[own:own+value]); err != nil {
			return err
		}
		rest = rest[own+value:]
	}
	return nil
}

func parseSpan(bytes []byte) (span, []byte, error) {
	offset, width := binary.Uvarint(bytes)
	if width <= 0 {
		return span{}, nil, errDamaged
	}
	length, more := binary.Uvarint(bytes[width:])
	if more <= 0 {
		return span{}, nil, errDamaged
	}
	return span{offset, length}, bytes[width+more:], nil
}

// keys are the user keys of a data block.
func (t *table) keys(s span) (keys [][]byte, err error) {
	err = t.each(s, func(key, _ []byte) error {
		if len(key) < internalBytes {
			return errDamaged
		}
		keys = append(keys, append([]byte(nil), key[:len(key)-internalBytes]...))
		return nil
	})
	return keys, err
}

// learner reads the anatomy of tables: footer, index, and a few data blocks.
// blockSize is that of the options: it decides on the size of buffers.
func learner(blockSize int) blockio.Learner {
	return func(path string) (anatomy *blockio.Anatomy, err error) {
		file, err := blockio.OpenLearning(path)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		t, err := readTable(file)
		if err != nil {
			return nil, err
		}
		sample, err := t.sample()
		if err != nil {
			return nil, err
		}
		blocks := make([]blockio.Block, 0, len(t.data)+3)
		for _, d := range t.data {
			blocks = append(blocks, blockio.Block{Type: engine.Data, Offset: d.offset, Length: d.length})
		}
		blocks = append(blocks,
			blockio.Block{Type: engine.Filter, Offset: t.filter.offset, Length: t.filter.length},
			blockio.Block{Type: engine.Meta, Offset: t.meta.offset, Length: t.meta.length},
			blockio.Block{Type: engine.SingleIndex, Offset: t.index.offset, Length: t.index.length})
		if t.filter.length == 0 {
			blocks = append(blocks[:len(t.data)], blocks[len(t.data)+1:]...)
		}
		if anatomy, err = file.Anatomy(blocks, sample.entries); err != nil {
			return nil, err
		}
		charge := func(kind engine.BlockType, contentBytes int64) {
			anatomy.DecodedBytes[kind] = int64(blocktable.Buffer(int(contentBytes), blockSize))
		}
		charge(engine.SingleIndex, anatomy.DecodedBytes[engine.SingleIndex])
		if t.filter.length > 0 {
			charge(engine.Filter, int64(t.filter.length)+trailerBytes)
		}
		charge(engine.Data, sample.blockBytes)
		anatomy.DecodedBytes[engine.Data] *= int64(len(t.data))
		return anatomy, nil
	}
}

// sampledBlocks are read of each table, besides the last.
const sampledBlocks = 3

// sampled is what a few data blocks tell about all.
type sampled struct {
	entries    uint64
	blockBytes int64 // of a typical block in its buffer, before rounding
}

// sample estimates the number of entries, which LevelDB tables do not tell: blocks
// are cut by size, so all but the last hold about as many.
func (t *table) sample() (s sampled, err error) {
	if len(t.data) == 0 {
		return s, nil
	}
	last := len(t.data) - 1
	lastKeys, err := t.keys(t.data[last])
	if err != nil {
		return s, fmt.Errorf("data block at %d: %w", t.data[last].offset, err)
	}
	s.entries = uint64(len(lastKeys))
	n := min(sampledBlocks, last)
	var entries, bytes int
	for i := range n {
		at := t.data[i*last/n]
		block, err := t.block(at)
		if err == nil {
			err = eachEntry(block, func(_, _ []byte) error { entries++; return nil })
		}
		if err != nil {
			return s, fmt.Errorf("data block at %d: %w", at.offset, err)
		}
		bytes += len(block)
		if uint64(len(block)) == at.length {
			bytes += trailerBytes // stored plain: the buffer holds the trailer, too
		}
	}
	if n > 0 {
		s.entries += uint64(float64(entries)/float64(n)*float64(last) + 0.5)
		s.blockBytes = int64(bytes / n)
	}
	return s, nil
}

// bounds are the first and last user key.
func (t *table) bounds() (first, last []byte, err error) {
	if len(t.data) == 0 {
		return nil, nil, errDamaged
	}
	head, err := t.keys(t.data[0])
	if err != nil {
		return nil, nil, err
	}
	tail, err := t.keys(t.data[len(t.data)-1])
	if err != nil {
		return nil, nil, err
	}
	if len(head) == 0 || len(tail) == 0 {
		return nil, nil, errDamaged
	}
	return head[0], tail[len(tail)-1], nil
}
