//go:build cgo

// Package sharedlib is what adapters of shared libraries have in common, whatever
// the library's table of functions is for: loading it, calls that leave a sentence,
// lists that a library tells, counters that must not fall.
//
// cgo gives every package its own Go types for the same C types. Functions here are
// therefore generic over the caller's name of a type of native/statelab_engine.h,
// which each comment says.
//
// Non-goals: the tables themselves, and trampolines for what is in them
// (engines/cengine, layouts/clayout).
//
// Read in this order: load.go, calls.go, lists.go, totals.go, handle.go.
package sharedlib

/*
#cgo CFLAGS: -I${SRCDIR}/../../../native
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// Every table begins so, in every version.
typedef struct {
	uint32_t abi, struct_bytes;
} table_start;

static inline const void *call_entry(void *symbol) { return ((const void *(*)(void))symbol)(); }
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"
)

// Contract is what a library must export to be loaded.
type Contract struct {
	Noun       string // what the library holds: "an engine"
	Header     string // "statelab_engine.h"
	Entry      string // the symbol that returns the table
	ABI        uint32
	TableBytes uintptr
}

// Load loads the library at path, calls its entry and checks the table's version and
// size, before anything else in it may be read. The library stays loaded until the
// process ends: threads of its own may still be running in it.
func (c Contract) Load(path string) (absolute string, table unsafe.Pointer, err error) {
	absolute, err = filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(absolute)
	}

	if err != nil {
		return "", nil, fmt.Errorf("load the library: %w", err)
	}

	if table, err = c.enter(absolute); err != nil {
		return "", nil, err
	}

	start := (*C.table_start)(table)
	if got := uint32(start.abi); got != c.ABI {
		return "", nil, fmt.Errorf("%s is built for version %d of %s, this program reads version "+
			"%d: build it again with this one's header", absolute, got, c.Header, c.ABI)
	}

	if got := uintptr(start.struct_bytes); got != c.TableBytes {
		return "", nil, fmt.Errorf("%s: its table has %d bytes, want %d: build it again with "+
			"this program's %s", absolute, got, c.TableBytes, c.Header)
	}

	return absolute, table, nil
}

// enter loads the library and calls its entry. dlerror speaks of the thread's last
// failure, so the thread must stay the same.
func (c Contract) enter(path string) (unsafe.Pointer, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	name, symbol := C.CString(path), C.CString(c.Entry)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(symbol))
	handle := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		return nil, fmt.Errorf("load the library: %s", C.GoString(C.dlerror()))
	}

	address := C.dlsym(handle, symbol)
	if address == nil {
		return nil, fmt.Errorf("%s is not a library of %s for statelab: it does not export %s "+
			"(see native/%s)", path, c.Noun, c.Entry, c.Header)
	}

	table := C.call_entry(address)
	if table == nil {
		return nil, fmt.Errorf("%s: %s returned NULL", path, c.Entry)
	}

	return table, nil
}
