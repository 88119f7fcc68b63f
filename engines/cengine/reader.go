//go:build cgo

package cengine

/*
#include "calls.h"

// The library keeps no pointer beyond the call and never calls back: its header
// says so. With that told, a Get allocates nothing and prepares for no callback.
#cgo noescape call_get
#cgo nocallback call_get

#cgo noescape call_put
#cgo nocallback call_put
#cgo noescape call_remove
#cgo nocallback call_remove
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/sharedlib"
)

type reader struct {
	db    *db
	c     *C.lookup // nil once closed
	guess int       // room for a value, when the caller brings none
}

const (
	firstGuess = 256
	// maxValueBytes is beyond any value of a state: a library that names more is
	// not believed.
	maxValueBytes = 1 << 30
	// maxAsks bounds how often a value may have grown while we made room for it.
	maxAsks = 4
)

func (d *db) Reader() (engine.Reader, error) {
	if d.isClosed() {
		return nil, errClosed
	}

	c, err := sharedlib.OpenChild("reader", func(c *C.lookup) (bool, error) {
		code := C.call_reader_open(d.library.table, d.c, c)
		return c.reader != nil, sharedlib.Answered(&c.error, "open a reader", code)
	})
	if err != nil {
		return nil, fmt.Errorf("native: %w", err)
	}

	r := &reader{db: d, c: c, guess: firstGuess}
	d.handle.Adopt(r)
	return r, nil
}

// Get is one crossing into C, unless the value does not fit dst.
func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	if r.c == nil {
		return dst[:0], false, errClosed
	}

	if cap(dst) == 0 {
		dst = make([]byte, 0, r.guess)
	}

	room := cap(dst)
	code := C.call_get(r.c, (*C.uint8_t)(unsafe.SliceData(key)), C.size_t(len(key)),
		(*C.uint8_t)(unsafe.SliceData(dst)), C.size_t(room))
	if code == C.STATELAB_OK && r.c.value_bytes <= C.size_t(room) {
		return dst[:r.c.value_bytes], true, nil
	}

	if code == C.STATELAB_MISSING {
		return dst[:0], false, nil
	}

	return r.retryLarger(key, dst, code)
}

// retryLarger makes room and asks again, or says what is wrong.
func (r *reader) retryLarger(key, dst []byte, code C.int32_t) ([]byte, bool, error) {
	for range maxAsks {
		told, room := uint64(r.c.value_bytes), uint64(cap(dst))
		switch {
		case code == C.STATELAB_OK && told <= room:
			return dst[:told], true, nil
		case code == C.STATELAB_OK:
			return dst[:0], false, fmt.Errorf("the library answered a value of %d bytes in a "+
				"buffer of %d: it may have written beyond it", told, room)
		case code == C.STATELAB_MISSING:
			return dst[:0], false, nil
		case code != C.STATELAB_TOO_SMALL:
			return dst[:0], false, fmt.Errorf("%s: %w", r.db.library.name,
				sharedlib.Answered(&r.c.error, "get", code))
		case told <= room:
			return dst[:0], false, fmt.Errorf("the library found a buffer of %d bytes too small "+
				"for a value of %d", room, told)
		case told > maxValueBytes:
			return dst[:0], false, fmt.Errorf("the library speaks of a value of %d bytes, beyond "+
				"the %d that are believed", told, maxValueBytes)
		}

		r.guess = max(r.guess, int(told))
		dst = make([]byte, 0, told)
		code = C.call_get(r.c, (*C.uint8_t)(unsafe.SliceData(key)), C.size_t(len(key)),
			(*C.uint8_t)(unsafe.SliceData(dst)), C.size_t(cap(dst)))
	}

	return dst[:0], false, fmt.Errorf("the library found every buffer too small, the last of %d "+
		"bytes", cap(dst))
}

func (r *reader) Close() error {
	r.db.handle.Disown(r)
	return nil
}

func (r *reader) Release() {
	C.call_reader_close(r.db.library.table, r.c)
	sharedlib.Free(r.c)
	r.c = nil
}

type writer struct {
	db *db
	c  *C.batch // nil once closed
}

func (d *db) Writer() (engine.Writer, error) {
	if d.isClosed() {
		return nil, errClosed
	}

	if d.readOnly {
		return nil, errors.New("native: the database is open for reading only")
	}

	c, err := sharedlib.OpenChild("writer", func(c *C.batch) (bool, error) {
		code := C.call_writer_open(d.library.table, d.c, c)
		return c.writer != nil, sharedlib.Answered(&c.error, "open a writer", code)
	})
	if err != nil {
		return nil, fmt.Errorf("native: %w", err)
	}

	w := &writer{db: d, c: c}
	d.handle.Adopt(w)
	return w, nil
}

func (w *writer) Put(key, value []byte) error {
	if w.c == nil {
		return errClosed
	}
	return sharedlib.Answered(&w.c.error, "put",
		C.call_put(w.c, (*C.uint8_t)(unsafe.SliceData(key)), C.size_t(len(key)),
			(*C.uint8_t)(unsafe.SliceData(value)), C.size_t(len(value))))
}

func (w *writer) Delete(key []byte) error {
	if w.c == nil {
		return errClosed
	}
	return sharedlib.Answered(&w.c.error, "remove",
		C.call_remove(w.c, (*C.uint8_t)(unsafe.SliceData(key)), C.size_t(len(key))))
}

func (w *writer) Commit() error {
	if w.c == nil {
		return errClosed
	}
	return sharedlib.Answered(&w.c.error, "commit", C.call_commit(w.c))
}

func (w *writer) Close() error {
	w.db.handle.Disown(w)
	return nil
}

func (w *writer) Release() {
	C.call_writer_close(w.db.library.table, w.c)
	sharedlib.Free(w.c)
	w.c = nil
}
