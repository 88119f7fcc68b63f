//go:build cgo

package rocksdb

// #include "capi.h"
// #cgo noescape rocks_get_many
// #cgo nocallback rocks_get_many
// #cgo noescape rocks_many_release
// #cgo nocallback rocks_many_release
// #cgo noescape rocks_many_room
// #cgo nocallback rocks_many_room
import "C"

import (
	"errors"
	"unsafe"

	"github.com/statelab/statelab/engine"
)

// canGetMany reports whether the library has a MultiGet of one call; old ones have not.
func canGetMany() bool { return C.rocks_can_get_many() != 0 }

// manyReader makes Gets in batches with RocksDB's MultiGet, and its asynchronous reads
// where the library was built with io_uring.
type manyReader struct {
	reader
	many *C.rocks_many
	keys unsafe.Pointer // the batch's keys, one behind the other; C's memory
	room int

	reversed bool // the last key of the family comes first
}

func (d *db) newManyReader(r reader) (engine.Reader, error) {
	m := &manyReader{
		reader:   r,
		many:     (*C.rocks_many)(C.calloc(1, C.sizeof_rocks_many)),
		reversed: d.kept.reversed(d.own().name),
	}

	if !d.kept.timed(d.own().name) {
		return m, nil // C makes the options of batches
	}

	var err error
	if m.many.options, err = d.readOptions(d.own()); err != nil {
		return nil, errors.Join(err, m.Close())
	}

	return m, nil
}

var errNoMemory = errors.New("rocksdb: no memory for a batch of Gets")

// GetMany copies the keys to where C may point at them, asks, and copies the values
// from RocksDB's blocks to where the caller wants them.
func (r *manyReader) GetMany(keys [][]byte, sorted bool, answers []engine.Answer) error {
	count := C.size_t(len(keys))
	if count == 0 {
		return nil
	}

	if err := r.take(keys); err != nil {
		return err
	}

	ascend := C.rocksdb_bool(0)
	if sorted && !r.reversed {
		ascend = 1
	}

	found := C.rocks_get_many(r.c, r.many, count, ascend)
	defer C.rocks_many_release(r.many, count)
	if found == C.rocks_failed {
		return r.failure()
	}

	values, lengths := unsafe.Slice(r.many.values, count), unsafe.Slice(r.many.lengths, count)
	for i := range answers {
		a := &answers[i]
		a.Found = values[i] != nil
		a.Value = a.Value[:0]
		if a.Found {
			a.Value = append(a.Value,
				unsafe.Slice((*byte)(unsafe.Pointer(values[i])), lengths[i])...)
		}
	}

	return nil
}

func (r *manyReader) take(keys [][]byte) error {
	bytes := 0
	for _, key := range keys {
		bytes += len(key)
	}

	if bytes > r.room {
		grown := C.realloc(r.keys, C.size_t(bytes))
		if grown == nil {
			return errNoMemory
		}
		r.keys, r.room = grown, bytes
	}

	if C.rocks_many_room(r.many, C.size_t(len(keys))) == 0 {
		return errNoMemory
	}

	at := 0
	starts, sizes := unsafe.Slice(r.many.keys, len(keys)), unsafe.Slice(r.many.sizes, len(keys))
	for i, key := range keys {
		start := unsafe.Add(r.keys, at)
		copy(unsafe.Slice((*byte)(start), len(key)), key)
		starts[i], sizes[i] = (*C.char)(start), C.size_t(len(key))
		at += len(key)
	}

	return nil
}

func (r *manyReader) Close() error {
	C.rocks_many_free(r.many)
	C.free(r.keys)
	return r.reader.Close()
}
