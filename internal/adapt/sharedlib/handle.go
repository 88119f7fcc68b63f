//go:build cgo

package sharedlib

/*
#include <stdlib.h>
#include "statelab_engine.h"
*/
import "C"

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"unsafe"
)

// Handle is what an adapter knows of a handle of the library's: whether it is still
// open, and what was opened from it, which the library may rely on being closed
// first. The zero value is open and has no children.
type Handle struct {
	mutex    sync.Mutex
	children map[Child]struct{}
	closed   bool
}

// Child is a reader or writer; Release gives it back to the library.
type Child interface{ Release() }

// Adopt remembers a child that has just been opened.
func (h *Handle) Adopt(c Child) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.children == nil {
		h.children = map[Child]struct{}{}
	}
	h.children[c] = struct{}{}
}

// Disown releases a child, unless Close has done so.
func (h *Handle) Disown(c Child) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if _, open := h.children[c]; open {
		delete(h.children, c)
		c.Release()
	}
}

// IsClosed reports whether Close was called.
func (h *Handle) IsClosed() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.closed
}

// Close releases what is still open of the children, then calls release; the second
// time it does nothing.
func (h *Handle) Close(release func() error) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return nil
	}

	h.closed = true
	for c := range h.children {
		c.Release()
	}

	clear(h.children)
	return release()
}

// OpenChild has open fill C memory for a child: its handle and what its calls answer.
// open says whether the library gave a handle. The memory is Free's.
func OpenChild[Memory any](
	noun string, open func(*Memory) (given bool, err error),
) (*Memory, error) {
	memory := (*Memory)(C.calloc(1, C.size_t(unsafe.Sizeof(*new(Memory)))))
	given, err := open(memory)
	if err == nil && !given {
		err = fmt.Errorf("the library said it was done but gave no %s", noun)
	}

	if err != nil {
		Free(memory)
		return nil, fmt.Errorf("open a %s: %w", noun, err)
	}

	return memory, nil
}

// Free frees a child's memory.
func Free[Memory any](memory *Memory) { C.free(unsafe.Pointer(memory)) }

// Arena is C memory for the options of one call, freed together.
type Arena struct{ owned []unsafe.Pointer }

// Zeroed has room for count elements of the given size; nil for none.
func (a *Arena) Zeroed(count int, elementBytes uintptr) unsafe.Pointer {
	if count == 0 {
		return nil
	}
	return a.own(C.calloc(C.size_t(count), C.size_t(elementBytes)))
}

// String is text, with a NUL behind it.
func (a *Arena) String(text string) unsafe.Pointer { return a.own(unsafe.Pointer(C.CString(text))) }

// Settings are a user's options as statelab_settings, sorted by name.
func (a *Arena) Settings(options map[string]string) unsafe.Pointer {
	first := a.Zeroed(len(options), C.sizeof_statelab_setting)
	settings := unsafe.Slice((*C.statelab_setting)(first), len(options))
	for i, name := range slices.Sorted(maps.Keys(options)) {
		settings[i].name, settings[i].value = (*C.char)(a.String(name)),
			(*C.char)(a.String(options[name]))
	}
	return first
}

// Free frees all that came from a.
func (a *Arena) Free() {
	for _, p := range a.owned {
		C.free(p)
	}
}

func (a *Arena) own(p unsafe.Pointer) unsafe.Pointer {
	a.owned = append(a.owned, p)
	return p
}

// Flag is a C truth value.
func Flag(on bool) int32 {
	if on {
		return 1
	}
	return 0
}
