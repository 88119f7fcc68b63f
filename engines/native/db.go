//go:build cgo

package native

/*
#include "calls.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/statelab/statelab/engine"
)

// db is an open database. It knows its readers and writers, because the library
// may rely on their being closed before it.
type db struct {
	library  *library
	c        *C.statelab_db
	dir      string
	readOnly bool

	mutex    sync.Mutex
	children map[closer]struct{} // open readers and writers
	closed   bool
	stats    stats
}

// closer is a reader or writer; release gives it back to the library.
type closer interface{ release() }

func (l *library) open(o engine.Options) (*db, error) {
	options := newOptions(o)
	defer options.free()
	failure := newFailure()
	defer failure.free()
	d := &db{library: l, dir: o.Dir, readOnly: o.ReadOnly, children: map[closer]struct{}{}}
	code := C.call_open(l.table, options.c, &d.c, failure.c)
	err := failure.of("open "+o.Dir, code)
	switch {
	case code == C.STATELAB_LOCKED:
		return nil, &engine.LockedError{Dir: o.Dir, Hint: fmt.Sprintf("stop it first (%v)", err)}
	case code == C.STATELAB_NOT_A_DATABASE:
		return nil, &engine.NotADatabaseError{Dir: o.Dir, Why: err.Error()}
	case err != nil:
		return nil, fmt.Errorf("%s: %w", l.path, err)
	case d.c == nil:
		return nil, fmt.Errorf("%s: open said it was done but gave no database", l.path)
	}
	return d, nil
}

// examine checks what an open database tells of itself, so that mistakes show
// before hours are measured.
func (d *db) examine() error {
	effective := d.Effective()
	for _, name := range []string{"cache_bytes", "handles"} {
		if _, told := effective[name]; !told {
			return fmt.Errorf("%s is not among the effective settings", name)
		}
	}
	if err := d.stats.examine(d.readStats(), d.library.capabilities); err != nil {
		return err
	}
	for _, share := range d.Memory() {
		if share.Bytes < 0 || share.Basis != "limit" && share.Basis != "measured" && share.Basis != "estimate" {
			return fmt.Errorf("memory %q: %d bytes, basis %q: want a positive size known by limit, measured or estimate", share.Use, share.Bytes, share.Basis)
		}
	}
	return nil
}

// adopt remembers a reader or writer that has just been opened.
func (d *db) adopt(c closer) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.children[c] = struct{}{}
}

// disown releases a reader or writer, unless Close has done so.
func (d *db) disown(c closer) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if _, open := d.children[c]; open {
		delete(d.children, c)
		c.release()
	}
}

var errClosed = errors.New("native: the database is closed")

func (d *db) isClosed() bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.closed
}

// Sync waits for the library's sync; ctx cannot interrupt it.
func (d *db) Sync(context.Context) error {
	if d.isClosed() {
		return errClosed
	}
	failure := newFailure()
	defer failure.free()
	return failure.of("sync", C.call_sync(d.library.table, d.c, failure.c))
}

// settleWaitMillis is how long one call waits: so often ctx is looked at.
const settleWaitMillis = 200

func (d *db) Settle(ctx context.Context, progress func(engine.Settling)) error {
	if d.isClosed() {
		return errClosed
	}
	failure := newFailure()
	defer failure.free()
	for {
		var left C.statelab_settling
		code := C.call_settle(d.library.table, d.c, settleWaitMillis, &left, failure.c)
		if code != C.STATELAB_WORKING {
			return failure.of("settle", code)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if progress != nil {
			progress(engine.Settling{PendingBytes: int64(left.pending_bytes), Running: int(left.jobs)})
		}
	}
}

func (d *db) Shape() (engine.Shape, error) {
	if d.isClosed() {
		return engine.Shape{}, errClosed
	}
	failure := newFailure()
	defer failure.free()
	var s C.statelab_shape
	if err := failure.of("shape", C.call_shape(d.library.table, d.c, &s, failure.c)); err != nil {
		return engine.Shape{}, err
	}
	if s.bytes < 0 || s.files < 0 {
		return engine.Shape{}, fmt.Errorf("%s: shape of %d bytes in %d files: neither can be negative", d.library.path, s.bytes, s.files)
	}
	return engine.Shape{Bytes: int64(s.bytes), Files: int(s.files)}, nil
}

// Effective are the library's settings, and the library.
func (d *db) Effective() map[string]string {
	e := map[string]string{}
	if d.isClosed() {
		return e
	}
	for _, s := range filled(func(into *C.statelab_setting, capacity C.size_t) C.size_t {
		return C.call_effective(d.library.table, d.c, into, capacity)
	}) {
		if s.name != nil && s.value != nil {
			e[text(s.name)] = text(s.value)
		}
	}
	e[LibraryOption], e["library_name"], e["library_version"] = d.library.path, d.library.name, d.library.version
	return e
}

// Memory is what the library says its memory goes to.
func (d *db) Memory() []engine.MemoryShare {
	var shares []engine.MemoryShare
	if d.isClosed() {
		return nil
	}
	for _, m := range filled(func(into *C.statelab_memory, capacity C.size_t) C.size_t {
		return C.call_memory(d.library.table, d.c, into, capacity)
	}) {
		if m.use != nil && m.basis != nil {
			shares = append(shares, engine.MemoryShare{Use: text(m.use), Basis: text(m.basis), Bytes: int64(m.bytes)})
		}
	}
	return shares
}

func (d *db) Warnings() []engine.Warning { return d.stats.warnings() }

// Close closes what is still open of readers and writers, then the database.
func (d *db) Close() error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	for c := range d.children {
		c.release()
	}
	clear(d.children)
	failure := newFailure()
	defer failure.free()
	return failure.of("close "+d.dir, C.call_close(d.library.table, d.c, failure.c))
}

// mostEntries bounds the lists a library tells.
const mostEntries = 4096

// filled asks for a list, again with more room if there is more than fits.
func filled[T any](ask func(into *T, capacity C.size_t) C.size_t) []T {
	for room := 64; ; room *= 2 {
		list := make([]T, room)
		if n := ask(&list[0], C.size_t(room)); n <= C.size_t(room) || room >= mostEntries {
			return list[:min(int(n), room)]
		}
	}
}
