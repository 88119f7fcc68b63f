package blockio

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/minio/minlz"

	"github.com/statelab/statelab/engine"
)

// Changes tells a Follower that tables came or went.
type Changes chan struct{}

// NewChanges returns changes that nobody follows yet.
func NewChanges() Changes { return make(Changes, 1) }

// Tell never waits: where a refresh is due already, it is enough.
func (c Changes) Tell() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Follower keeps a recorder informed of the tables of a database while it changes.
type Follower struct {
	Recorder *Recorder
	Tables   func() ([]LiveTable, error) // of the current version
	Path     func(FileNumber) string     // of a table's file
	// LevelsOnly leaves it to the first read of a table to learn its layout.
	LevelsOnly bool

	remote     atomic.Int64
	refreshing sync.Mutex
	stop       context.CancelFunc
	running    sync.WaitGroup
	failure    atomic.Pointer[error]
}

// Follow refreshes, until Stop, whenever changed tells that tables came or went.
func (f *Follower) Follow(changed <-chan struct{}) {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}

			if err := f.Refresh(ctx, nil); err != nil && ctx.Err() == nil {
				f.failure.CompareAndSwap(nil, &err)
			}
		}
	})
}

// Refresh tells the recorder which tables are live and learns the new ones. progress may be nil.
func (f *Follower) Refresh(ctx context.Context, progress func(done, total int)) error {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	tables, err := f.Tables()
	if err != nil {
		return err
	}

	all := len(tables)
	tables = slices.DeleteFunc(slices.Clone(tables), func(t LiveTable) bool { return t.Remote })
	f.remote.Store(int64(all - len(tables)))
	f.Recorder.SetLive(tables, f.Path)
	if f.LevelsOnly {
		return nil
	}
	return f.Recorder.LearnAll(ctx, progress)
}

// Remote are the tables, at the last Refresh, that no file system reads: their reads are not
// counted.
func (f *Follower) Remote() int64 { return f.remote.Load() }

// Stop ends Follow.
func (f *Follower) Stop() {
	f.stop()
	f.running.Wait()
}

// Err is the first failure of Follow.
func (f *Follower) Err() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Warnings tell of tables that could not be followed.
func (f *Follower) Warnings() []engine.Warning {
	err := f.Err()
	if err == nil {
		return nil
	}

	return []engine.Warning{{
		Code: "layout_unknown",
		Text: "the layout of some new tables could not be read, so their reads may be counted " +
			"as meta or without a level: " + err.Error(),
		Remedy: "settle the database before measuring",
	}}
}

// Block is one block of a table: where it lies and what it holds.
type Block struct {
	Type   engine.BlockType
	Offset uint64
	Length uint64 // without its trailer
}

// RangeDeletion is the type of a Block of range deletions, which every Get that comes by the table
// reads. Untyped is that of what is read of a table whose layout could not be learnt. Both count as
// engine.Meta.
const (
	RangeDeletion = engine.NumBlockTypes + iota
	Untyped
)

// BlockMap says what lies at each offset of a table. Neighbouring blocks of one
// type are merged, so that it stays a handful of ranges for any size of table.
type BlockMap struct {
	starts []int64 // ascending; the first is 0
	types  []engine.BlockType
}

// NewBlockMap makes a map of the blocks of a table. What lies behind the last
// block (the footer) is Meta, as is a table without blocks.
func NewBlockMap(blocks []Block, tableBytes int64) (*BlockMap, error) {
	// The blocks of a table mostly come in order, and they are millions.
	byOffset := func(a, b Block) int { return cmp.Compare(a.Offset, b.Offset) }
	if !slices.IsSortedFunc(blocks, byOffset) {
		blocks = slices.SortedFunc(slices.Values(blocks), byOffset)
	}

	l := &BlockMap{}
	var end uint64
	for _, b := range blocks {
		if b.Length == 0 {
			continue
		}

		if b.Offset < end || b.Offset+b.Length < b.Offset ||
			b.Offset+b.Length > uint64(tableBytes) {
			return nil, fmt.Errorf("%v block at %d, length %d: outside the table of %d bytes, or "+
				"over the block before it", b.Type, b.Offset, b.Length, tableBytes)
		}

		end = b.Offset + b.Length
		if n := len(l.types); n > 0 && l.types[n-1] == b.Type {
			continue
		}

		l.starts, l.types = append(l.starts, int64(b.Offset)), append(l.types, b.Type)
	}

	if len(l.starts) == 0 || l.types[len(l.types)-1] != engine.Meta {
		l.starts, l.types = append(l.starts, int64(end)), append(l.types, engine.Meta)
	}

	l.starts[0] = 0
	return l, nil
}

// TypeAt returns the type, or RangeDeletion, of the block that holds offset. It is called once
// per block read: a map has at most about eight ranges, so a walk from the
// front, where the data lies, beats a binary search.
func (l *BlockMap) TypeAt(offset int64) engine.BlockType {
	i := 1
	for i < len(l.starts) && l.starts[i] <= offset {
		i++
	}
	return l.types[i-1]
}

// Compression of a block, as the first byte of its trailer says. The other
// values are reserved by the table format and never written by Pebble.
const (
	storedPlain  = 0
	storedSnappy = 1
	storedZstd   = 7
	storedMinLZ  = 8
)

// maxDecodedBytes is beyond any block: a larger claim is a damaged header.
const maxDecodedBytes = 1 << 32

// DecodedBytes returns the decompressed size of a block as stored, trailer
// included. ok is false for what is no block (a footer) or of unknown
// compression.
func DecodedBytes(stored []byte) (bytes int64, ok bool) {
	if len(stored) < trailerBytes {
		return 0, false
	}

	payload := stored[:len(stored)-trailerBytes]
	switch stored[len(payload)] {
	case storedPlain:
		return int64(len(payload)), true
	case storedSnappy, storedZstd: // both begin with the length as a varint
		n, width := binary.Uvarint(payload)
		return int64(n), width > 0 && n < maxDecodedBytes
	case storedMinLZ:
		n, err := minlz.DecodedLen(payload)
		return int64(n), err == nil
	}

	return 0, false
}
