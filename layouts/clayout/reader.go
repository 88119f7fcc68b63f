//go:build cgo

package clayout

/*
#include "calls.h"

#cgo noescape call_account
#cgo nocallback call_account
#cgo noescape call_slot
#cgo nocallback call_slot
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/statelab/statelab/internal/adapt/sharedlib"
	"github.com/statelab/statelab/layout"
)

type reader struct {
	state *opened
	c     *C.lookup // nil once closed
	last  C.statelab_touched
}

func (s *opened) Reader() (layout.Reader, error) {
	if s.handle.IsClosed() {
		return nil, errClosed
	}
	c, err := sharedlib.OpenChild("reader", func(c *C.lookup) (bool, error) {
		code := C.call_reader_open(s.library.table, s.c, c)
		return c.reader != nil, sharedlib.Answered(&c.error, "open a reader", code)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.library.path, err)
	}
	r := &reader{state: s, c: c}
	r.last.nodes, r.last.pages = -1, -1
	s.handle.Adopt(r)
	return r, nil
}

// Account is one crossing into C.
func (r *reader) Account(account layout.Hash) (a layout.Account, found bool, err error) {
	if r.c == nil {
		return a, false, errClosed
	}
	code := C.call_account(r.c, (*C.statelab_hash)(unsafe.Pointer(&account)))
	if code == C.STATELAB_MISSING {
		return a, false, nil
	}
	if code != C.STATELAB_OK {
		return a, false, fmt.Errorf("%s: account %x: %w", r.state.library.info.Name, account, sharedlib.Answered(&r.c.error, "look up", code))
	}
	got := &r.c.account
	a.Nonce = uint64(got.nonce)
	a.Balance = *(*[32]byte)(unsafe.Pointer(&got.balance))
	a.CodeHash = hash(got.code)
	return a, true, nil
}

// Slot is one crossing into C.
func (r *reader) Slot(account, key layout.Hash, dst []byte) (value []byte, found bool, err error) {
	if r.c == nil {
		return dst[:0], false, errClosed
	}
	code := C.call_slot(r.c, (*C.statelab_hash)(unsafe.Pointer(&account)), (*C.statelab_hash)(unsafe.Pointer(&key)))
	if code == C.STATELAB_MISSING {
		return dst[:0], false, nil
	}
	got := &r.c.slot
	if err = sharedlib.Answered(&r.c.error, "look up", code); err == nil && (got.value_bytes < 1 || int(got.value_bytes) > len(got.value)) {
		err = fmt.Errorf("the library answered a value of %d bytes: want 1 to %d", got.value_bytes, len(got.value))
	}
	if err != nil {
		return dst[:0], false, fmt.Errorf("%s: account %x, slot %x: %w", r.state.library.info.Name, account, key, err)
	}
	return append(dst[:0], (*[32]byte)(unsafe.Pointer(&got.value))[:got.value_bytes]...), true, nil
}

// Refresh has nothing to do: a library's reader sees the newest block.
func (r *reader) Refresh() error {
	if r.c == nil {
		return errClosed
	}
	return nil
}

// Touched is what the library says. A count that has fallen is left out, and fails the
// state's Close.
func (r *reader) Touched() layout.Touched {
	if r.c == nil {
		return layout.Touched{}
	}
	C.call_touched(r.c)
	now := r.c.touched
	t := layout.Touched{Nodes: r.total("nodes", r.last.nodes, now.nodes), Pages: r.total("pages", r.last.pages, now.pages)}
	r.last = now
	return t
}

// total is a count of touched things; nil if it is none.
func (r *reader) total(name string, before, now C.int64_t) *int64 {
	switch {
	case now < before || now < -1:
		r.state.lie.note(sharedlib.Fall{Name: "touched " + name, From: int64(before), To: int64(now)}.String())
		return nil
	case now == -1:
		return nil
	}
	n := int64(now)
	return &n
}

func (r *reader) Close() error {
	r.state.handle.Disown(r)
	return nil
}

// Release is for the state.
func (r *reader) Release() {
	C.call_reader_close(r.c)
	sharedlib.Free(r.c)
	r.c = nil
}
