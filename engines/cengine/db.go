//go:build cgo

package cengine

/*
#include "calls.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/sharedlib"
)

// db is an open database.
type db struct {
	library  *library
	c        *C.statelab_db
	dir      string
	readOnly bool
	handle   sharedlib.Handle // readers and writers are its children
	stats    stats

	cacheBytes int64
}

func (l *library) open(o engine.Options) (*db, error) {
	var memory sharedlib.Arena
	defer memory.Free()
	options := newOptions(&memory, o)
	d := &db{library: l, dir: o.Dir, readOnly: o.ReadOnly}
	return d, sharedlib.Open(l.path, o.Dir, func(e *C.statelab_error) (bool, C.int32_t) {
		code := C.call_open(l.table, options, &d.c, e)
		return d.c != nil, code
	})
}

// examine checks what an open database tells of itself, so that mistakes show
// before hours are measured.
func (d *db) examine() error {
	effective := d.Effective()
	for _, name := range []string{"cache_bytes", "handles"} {
		if _, told := effective[name]; !told {
			return fmt.Errorf("%s is not among the effective settings: effective() of the "+
				"library must return it", name)
		}
	}

	var err error
	if d.cacheBytes, err = strconv.ParseInt(effective["cache_bytes"], 10, 64); err != nil {
		return fmt.Errorf("the effective cache_bytes: %w", err)
	}

	if err := d.stats.examine(d.readStats, d.library.capabilities); err != nil {
		return err
	}

	return sharedlib.ExamineMemory(d.Memory())
}

var errClosed = errors.New("native: the database is closed")

func (d *db) isClosed() bool { return d.handle.IsClosed() }

// Sync waits for the library's sync; ctx cannot interrupt it.
func (d *db) Sync(context.Context) error {
	if d.isClosed() {
		return errClosed
	}
	return sharedlib.Attempt("sync", func(e *C.statelab_error) C.int32_t {
		return C.call_sync(d.library.table, d.c, e)
	})
}

func (d *db) Settle(ctx context.Context, progress func(engine.Settling)) error {
	if d.isClosed() {
		return errClosed
	}
	return sharedlib.Settle(ctx,
		func(waitMillis int64, left *C.statelab_settling, e *C.statelab_error) C.int32_t {
			return C.call_settle(d.library.table, d.c, C.int64_t(waitMillis), left, e)
		}, progress)
}

func (d *db) Shape() (engine.Shape, error) {
	if d.isClosed() {
		return engine.Shape{}, errClosed
	}

	var s C.statelab_shape
	if err := sharedlib.Attempt("shape", func(e *C.statelab_error) C.int32_t {
		return C.call_shape(d.library.table, d.c, &s, e)
	}); err != nil {
		return engine.Shape{}, err
	}

	if s.bytes < 0 || s.files < 0 {
		return engine.Shape{},
			fmt.Errorf("%s: shape of %d bytes in %d files: neither can be negative",
				d.library.path, s.bytes, s.files)
	}

	return engine.Shape{Bytes: int64(s.bytes), Files: int(s.files)}, nil
}

// CacheBytes is the size of the block cache, as the library told when it was opened.
func (d *db) CacheBytes() int64 { return d.cacheBytes }

// Effective are the library's settings, and the library.
func (d *db) Effective() map[string]string {
	if d.isClosed() {
		return nil
	}

	e := sharedlib.Effective(func(into *C.statelab_setting, capacity C.size_t) C.size_t {
		return C.call_effective(d.library.table, d.c, into, capacity)
	})
	e[LibraryOption], e["library_name"], e["library_version"] = d.library.path, d.library.name,
		d.library.version
	return e
}

// Memory is what the library says its memory goes to.
func (d *db) Memory() []engine.MemoryShare {
	if d.isClosed() {
		return nil
	}
	return sharedlib.Memory(func(into *C.statelab_memory, capacity C.size_t) C.size_t {
		return C.call_memory(d.library.table, d.c, into, capacity)
	})
}

func (d *db) Warnings() []engine.Warning { return d.stats.warnings() }

// Close closes what is still open of readers and writers, then the database.
func (d *db) Close() error {
	return d.handle.Close(func() error {
		return sharedlib.Attempt("close "+d.dir, func(e *C.statelab_error) C.int32_t {
			return C.call_close(d.library.table, d.c, e)
		})
	})
}
