//go:build cgo

package cengine

/*
#cgo CFLAGS: -I${SRCDIR}/../../native
#include "calls.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/sharedlib"
)

const (
	abi    = C.STATELAB_ENGINE_ABI
	header = "statelab_engine.h"
)

// library is a loaded table of functions that has been checked. It stays loaded
// until the process ends: threads of the library may still be running in it.
type library struct {
	path  string
	table *C.statelab_engine

	name, version, licence, durability string
	capabilities                       []engine.Capability
}

// declarable are the capabilities that the table of functions has room for.
var declarable = [...]engine.Capability{engine.CanReadBlocks, engine.CanTraceAccesses, engine.CanDirect, engine.CanBudget,
	engine.SharesReads, engine.UsesPageCache, engine.IsVolatile}

func load(path string) (*library, error) {
	if path == "" {
		return nil, fmt.Errorf("no library is named: write --set %s=/path/to/engine.so or set %s", LibraryOption, LibraryEnv)
	}
	contract := sharedlib.Contract{Noun: "an engine", Header: header, Entry: "statelab_engine_v1", ABI: abi, TableBytes: unsafe.Sizeof(C.statelab_engine{})}
	path, table, err := contract.Load(path)
	if err != nil {
		return nil, err
	}
	l := &library{path: path, table: (*C.statelab_engine)(table)}
	return l, l.examine()
}

// examine checks the table before anything in it is called.
func (l *library) examine() error {
	if missing := C.incomplete(l.table); missing != nil {
		return fmt.Errorf("%s: %s is NULL in its table: every member must be set", l.path, C.GoString(missing))
	}
	l.name, l.version = text(l.table.name), text(l.table.version)
	l.licence, l.durability = text(l.table.licence), text(l.table.durability)
	for _, word := range strings.Fields(text(l.table.capabilities)) {
		c := engine.Capability(word)
		if !slices.Contains(declarable[:], c) {
			return fmt.Errorf("%s declares the capability %q, which a library cannot have: use some of %v", l.path, word, declarable)
		}
		l.capabilities = append(l.capabilities, c)
	}
	return nil
}

// check asks the library what is wrong with o.
func (l *library) check(o engine.Options) []error {
	var memory sharedlib.Arena
	defer memory.Free()
	options := newOptions(&memory, o)
	return sharedlib.Check(func(e *C.statelab_error) C.int32_t { return C.call_check(l.table, options, e) })
}

// newOptions are engine.Options in C memory.
func newOptions(memory *sharedlib.Arena, o engine.Options) *C.statelab_options {
	c := (*C.statelab_options)(memory.Zeroed(1, unsafe.Sizeof(C.statelab_options{})))
	c.directory = (*C.char)(memory.String(o.Dir))
	c.create, c.read_only = flag(o.Create), flag(o.ReadOnly)
	c.direct, c.trace_accesses = flag(o.Direct), flag(o.TraceAccesses)
	c.cache_bytes, c.memory_bytes, c.handles = C.int64_t(o.CacheBytes), C.int64_t(o.MemoryBytes), C.int64_t(o.Handles)
	own := settingsOf(o)
	c.settings_count, c.settings = C.size_t(len(own)), (*C.statelab_setting)(memory.Settings(own))
	return c
}

func flag(on bool) C.int32_t { return C.int32_t(sharedlib.Flag(on)) }

func text(c *C.char) string { return sharedlib.Text(c) }
