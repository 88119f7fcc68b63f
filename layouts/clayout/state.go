//go:build cgo

package clayout

/*
#include "calls.h"

// The library keeps no pointer beyond the call and never calls back: its header says
// so. With that told, a change allocates nothing.
#cgo noescape call_change
#cgo nocallback call_change

#cgo noescape call_account
#cgo nocallback call_account
#cgo noescape call_slot
#cgo nocallback call_slot
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/sharedlib"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/layout"
)

// opened is an open state.
type opened struct {
	library  *library
	c        *C.statelab_state
	dir      string
	readOnly bool
	handle   sharedlib.Handle // readers are its children
	totals   sharedlib.Totals
	lie      contractViolation

	memory  sharedlib.Arena
	failure *C.statelab_error // of a change
	slots   []C.statelab_slot // of the change that is passed on
}

var errClosed = errors.New("native: the state is closed")

func (l *library) open(o layout.Options) (*opened, error) {
	var memory sharedlib.Arena
	defer memory.Free()
	options := newOptions(&memory, o)
	s := &opened{library: l, dir: o.Dir, readOnly: o.ReadOnly}
	err := sharedlib.Open(l.path, o.Dir, func(e *C.statelab_error) (bool, C.int32_t) {
		code := C.call_open(l.table, options, &s.c, e)
		return s.c != nil, code
	})
	if err != nil {
		return nil, err
	}

	s.failure = (*C.statelab_error)(s.memory.Zeroed(1, unsafe.Sizeof(C.statelab_error{})))
	return s, nil
}

// examine checks what an open state tells of itself, so that mistakes show before
// hours are measured.
func (s *opened) examine(isNew bool) error {
	if head := s.head(); isNew && head.block != 0 {
		return fmt.Errorf("a new state is at block %d", head.block)
	}

	told, _ := s.totals.Read(s.readStats)
	if err := sharedlib.ExamineStats(told, header, isKnown); err != nil {
		return err
	}

	return sharedlib.ExamineMemory(s.Memory())
}

func (s *opened) Block() uint64 { return uint64(s.head().block) }

func (s *opened) Root() layout.Hash { return hash(s.head().root) }

func (s *opened) head() C.head {
	if s.handle.IsClosed() {
		return C.head{}
	}
	return C.call_head(s.library.table, s.c)
}

func hash(c C.statelab_hash) layout.Hash { return *(*layout.Hash)(unsafe.Pointer(&c)) }

// Change is one crossing into C.
func (s *opened) Change(c layout.Change) error {
	if err := s.writable(); err != nil {
		return err
	}

	s.slots = s.slots[:0]
	for _, slot := range c.Slots {
		var to C.statelab_slot
		if len(slot.Value) > len(to.value) {
			return fmt.Errorf("change account %x: slot %x has a value of %d bytes", c.Account,
				slot.Key, len(slot.Value))
		}

		*(*layout.Hash)(unsafe.Pointer(&to.key)) = slot.Key
		copy((*[32]byte)(unsafe.Pointer(&to.value))[:], slot.Value)
		to.value_bytes = C.int32_t(len(slot.Value))
		s.slots = append(s.slots, to)
	}

	var account C.statelab_account
	var given *C.statelab_account // NULL deletes
	if c.New != nil {
		account.nonce = C.uint64_t(c.New.Nonce)
		*(*[32]byte)(unsafe.Pointer(&account.balance)) = c.New.Balance
		*(*layout.Hash)(unsafe.Pointer(&account.code)) = c.New.CodeHash
		given = &account
	}

	code := C.call_change(s.library.table, s.c, (*C.statelab_hash)(unsafe.Pointer(&c.Account)),
		given,
		unsafe.SliceData(s.slots), C.size_t(len(s.slots)), s.failure)
	if err := sharedlib.Answered(s.failure, "change", code); err != nil {
		return fmt.Errorf("%s: change account %x: %w", s.library.info.Name, c.Account, err)
	}

	return nil
}

func (s *opened) writable() error {
	switch {
	case s.handle.IsClosed():
		return errClosed
	case s.readOnly:
		return fmt.Errorf("%s: the state is open for reading only", s.library.info.Name)
	}
	return nil
}

// Commit waits for the library's commit; ctx cannot interrupt it.
func (s *opened) Commit(ctx context.Context) (layout.Hash, error) {
	if err := s.writable(); err != nil {
		return layout.Hash{}, err
	}

	if ctx.Err() != nil {
		return layout.Hash{}, context.Cause(ctx)
	}

	next := s.head().block + 1
	var root C.statelab_hash
	err := sharedlib.Attempt("commit", func(e *C.statelab_error) C.int32_t {
		return C.call_commit(s.library.table, s.c, &root, e)
	})
	if err == nil {
		err = s.examineCommit(next, root)
	}

	if err != nil {
		return layout.Hash{}, fmt.Errorf("%s: commit block %d: %w", s.library.path, next, err)
	}

	return hash(root), nil
}

// examineCommit holds what commit answered against what the library says now.
func (s *opened) examineCommit(next C.uint64_t, root C.statelab_hash) error {
	head := s.head()
	switch {
	case head.block != next:
		return fmt.Errorf("after it the newest block is %d", head.block)
	case head.root != root:
		return fmt.Errorf("it answered the root %x, then the newest root is %x", hash(root),
			hash(head.root))
	case s.library.info.Root == layout.NoRoot && hash(root) != layout.Hash{}:
		return fmt.Errorf("it answered the root %x, and its rule is that there is none", hash(root))
	}

	return nil
}

func (s *opened) Settle(ctx context.Context) error {
	if s.handle.IsClosed() {
		return errClosed
	}
	return sharedlib.Settle(ctx,
		func(waitMillis int64, left *C.statelab_settling, e *C.statelab_error) C.int32_t {
			return C.call_settle(s.library.table, s.c, C.int64_t(waitMillis), left, e)
		}, nil)
}

// Counters are the library's. One that has fallen is left out, and fails Close.
func (s *opened) Counters() (c layout.Counters) {
	if s.handle.IsClosed() {
		return c
	}

	// examine refuses names that are not known, but a library may begin with one later.
	told, falls := s.totals.Read(func() []sharedlib.Stat {
		return slices.DeleteFunc(s.readStats(),
			func(t sharedlib.Stat) bool { return !isKnown(t.Name) })
	})
	for _, t := range told {
		*field(&c, t.Name) = &t.Value
	}

	for _, fall := range falls {
		*field(&c, fall.Name) = nil
		s.lie.note(fall.String())
	}

	return c
}

func (s *opened) readStats() []sharedlib.Stat {
	return sharedlib.Stats(func(into *C.statelab_stat, capacity C.size_t) C.size_t {
		return C.call_stats(s.library.table, s.c, into, capacity)
	})
}

func isKnown(name string) bool { return field(new(layout.Counters), name) != nil }

// field is where a counter of that name goes; nil for other names.
func field(c *layout.Counters, name string) **int64 {
	return map[string]**int64{
		"reads":       &c.Reads,
		"read_bytes":  &c.ReadBytes,
		"writes":      &c.Writes,
		"write_bytes": &c.WriteBytes,
		"nodes_new":   &c.NodesNew,
	}[name]
}

func (s *opened) DiskBytes() (int64, error) {
	allocated, _, err := host.Allocated(s.dir)
	return allocated, err
}

// Effective are the library's settings, and the library.
func (s *opened) Effective() map[string]string {
	if s.handle.IsClosed() {
		return nil
	}

	e := sharedlib.Effective(func(into *C.statelab_setting, capacity C.size_t) C.size_t {
		return C.call_effective(s.library.table, s.c, into, capacity)
	})
	e["library"], e["library_name"], e["library_version"] = s.library.path, s.library.info.Name,
		s.library.info.Version
	return e
}

func (s *opened) Memory() []engine.MemoryShare {
	if s.handle.IsClosed() {
		return nil
	}
	return sharedlib.Memory(func(into *C.statelab_memory, capacity C.size_t) C.size_t {
		return C.call_memory(s.library.table, s.c, into, capacity)
	})
}

// Close closes what is still open of readers, then the state. What the library told
// that cannot be, where there was nobody to give an error to, is its error.
func (s *opened) Close() error {
	return s.handle.Close(func() error {
		defer s.memory.Free()
		err := sharedlib.Attempt("close "+s.dir, func(e *C.statelab_error) C.int32_t {
			return C.call_close(s.library.table, s.c, e)
		})
		if err := errors.Join(s.lie.err(), err); err != nil {
			return fmt.Errorf("%s: %w", s.library.path, err)
		}

		return nil
	})
}

// contractViolation is the first thing a library told that cannot be.
type contractViolation struct{ said atomic.Pointer[string] }

func (l *contractViolation) note(said string) { l.said.CompareAndSwap(nil, &said) }

func (l *contractViolation) err() error {
	if said := l.said.Load(); said != nil {
		return errors.New(*said)
	}
	return nil
}

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
		return a, false, fmt.Errorf("%s: account %x: %w", r.state.library.info.Name, account,
			sharedlib.Answered(&r.c.error, "look up", code))
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

	code := C.call_slot(r.c, (*C.statelab_hash)(unsafe.Pointer(&account)),
		(*C.statelab_hash)(unsafe.Pointer(&key)))
	if code == C.STATELAB_MISSING {
		return dst[:0], false, nil
	}

	got := &r.c.slot
	if err = sharedlib.Answered(&r.c.error, "look up", code); err == nil &&
		(got.value_bytes < 1 || int(got.value_bytes) > len(got.value)) {
		err = fmt.Errorf("the library answered a value of %d bytes: want 1 to %d", got.value_bytes,
			len(got.value))
	}

	if err != nil {
		return dst[:0], false, fmt.Errorf("%s: account %x, slot %x: %w", r.state.library.info.Name,
			account, key, err)
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
	t := layout.Touched{
		Nodes: r.total("nodes", r.last.nodes, now.nodes),
		Pages: r.total("pages", r.last.pages, now.pages),
	}

	r.last = now
	return t
}

// total is a count of touched things; nil if it is none.
func (r *reader) total(name string, before, now C.int64_t) *int64 {
	switch {
	case now < before || now < -1:
		r.state.lie.note(sharedlib.CounterRegression{
			Name: "touched " + name,
			From: int64(before),
			To:   int64(now),
		}.String())
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
