package blockio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/statelab/statelab/engine"
)

// sampledDataBlocks are read of each table to estimate how much its data grows
// when decompressed.
const sampledDataBlocks = 4

// LearningFile reads a table for a Learner and notes how large each block it
// reads is when decompressed. It has the method set of Pebble's Readable but
// for NewReadHandle, whose type differs between versions. For one goroutine.
type LearningFile struct {
	file    *os.File
	bytes   int64
	decoded map[uint64]int64 // by offset
}

// OpenLearning opens the table at path.
func OpenLearning(path string) (*LearningFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &LearningFile{file: file, bytes: info.Size(), decoded: map[uint64]int64{}}, nil
}

// Anatomy makes the anatomy of the table from its blocks, after the caller had
// all index blocks read through f.
func (f *LearningFile) Anatomy(blocks []Block, entries uint64) (*Anatomy, error) {
	if err := f.sampleData(blocks); err != nil {
		return nil, err
	}
	return newAnatomy(blocks, f.bytes, entries, f.decoded)
}

func (f *LearningFile) sampleData(blocks []Block) error {
	var data int // the number of data blocks
	for _, b := range blocks {
		if b.Type == engine.Data {
			data++
		}
	}
	n, seen := min(sampledDataBlocks, data), 0
	for i, sampled := 0, 0; sampled < n; i++ {
		b := blocks[i]
		if b.Type != engine.Data {
			continue
		}
		if seen++; seen-1 < sampled*data/n {
			continue
		}
		sampled++
		if int64(b.Length) > f.bytes {
			return fmt.Errorf("data block at %d: longer than the table", b.Offset)
		}
		if err := f.ReadAt(context.Background(), make([]byte, b.Length+trailerBytes), int64(b.Offset)); err != nil {
			return fmt.Errorf("sample the data block at %d: %w", b.Offset, err)
		}
	}
	return nil
}

// ReadAt fills p or fails.
func (f *LearningFile) ReadAt(_ context.Context, p []byte, offset int64) error {
	n, err := f.file.ReadAt(p, offset)
	if n < len(p) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if bytes, ok := DecodedBytes(p); ok {
		f.decoded[uint64(offset)] = bytes
	}
	return nil
}

// Close closes the file.
func (f *LearningFile) Close() error { return f.file.Close() }

// Size is the size of the table in bytes.
func (f *LearningFile) Size() int64 { return f.bytes }
