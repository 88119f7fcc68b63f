//go:build cgo

package sharedlib

/*
#include <stdlib.h>
#include "statelab_engine.h"
*/
import "C"

import (
	"maps"
	"slices"
	"unsafe"
)

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
		settings[i].name, settings[i].value = (*C.char)(a.String(name)), (*C.char)(a.String(options[name]))
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
