//go:build cgo

package cengine

/*
#include "calls.h"

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
	return sharedlib.Answered(&w.c.error, "put", C.call_put(w.c, (*C.uint8_t)(unsafe.SliceData(key)), C.size_t(len(key)),
		(*C.uint8_t)(unsafe.SliceData(value)), C.size_t(len(value))))
}

func (w *writer) Delete(key []byte) error {
	if w.c == nil {
		return errClosed
	}
	return sharedlib.Answered(&w.c.error, "remove", C.call_remove(w.c, (*C.uint8_t)(unsafe.SliceData(key)), C.size_t(len(key))))
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
