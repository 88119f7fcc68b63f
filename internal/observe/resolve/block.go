package resolve

import (
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable/block"

	"github.com/statelab/statelab/internal/observe/lookuppath"
)

type handle = lookuppath.Handle

func newHandle(h block.Handle) (handle, error) {
	if h.Length > lookuppath.MaxBlockBytes {
		return handle{}, fmt.Errorf("block at %d: %d bytes long", h.Offset, h.Length)
	}
	return handle{Offset: h.Offset, Bytes: uint32(h.Length)}, nil
}

// buffer is memory for one block at a time. The zero value is ready.
type buffer struct{ stored, content []byte }

// decode checks the block and returns its content, in the buffer. It begins
// where memory was allocated, so that columns are aligned.
func (t *table) decode(h handle, in *buffer) ([]byte, error) {
	stored, err := t.Read(h, &in.stored)
	if err != nil {
		return nil, err
	}

	if err := block.ValidateChecksum(t.checksum, stored, block.Handle{
		Offset: h.Offset,
		Length: uint64(h.Bytes),
	}); err != nil {
		return nil, t.Damaged(h, err.Error())
	}

	payload := stored[:h.Bytes]
	compression := block.CompressionIndicator(stored[h.Bytes])
	if compression == block.NoCompressionIndicator {
		return payload, nil
	}

	bytes, err := block.DecompressedLen(compression, payload)
	if err != nil || bytes > lookuppath.MaxBlockBytes {
		return nil, t.Damaged(h, "impossible decompressed size")
	}

	in.content = slices.Grow(in.content[:0], bytes)[:bytes]
	if err := block.DecompressInto(compression, payload, in.content); err != nil {
		return nil, t.Damaged(h, err.Error())
	}

	return in.content, nil
}

// readable lets Pebble's reader read the table. Closing it does not close the
// file.
type readable struct{ t *table }

func (f readable) ReadAt(_ context.Context, p []byte, offset int64) error {
	_, err := f.t.Opened.ReadAt(p, offset)
	return err
}

func (f readable) Close() error { return nil }

func (f readable) Size() int64 { return f.t.Bytes }

func (f readable) NewReadHandle(objstorage.ReadBeforeSize) objstorage.ReadHandle {
	h := objstorage.MakeNoopReadHandle(f)
	return &h
}
