//go:build cgo

package native

/*
#cgo CFLAGS: -I${SRCDIR}/../../native
#cgo LDFLAGS: -ldl
#include "calls.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/statelab/statelab/engine"
)

const (
	abi   = C.STATELAB_ENGINE_ABI
	entry = "statelab_engine_v1"
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
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("load the library: %w", err)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("load the library: %w", err)
	}
	table, err := lookUp(path)
	if err != nil {
		return nil, err
	}
	l := &library{path: path, table: table}
	return l, l.examine()
}

// lookUp loads the library and calls its entry. dlerror speaks of the thread's
// last failure, so the thread must stay the same.
func lookUp(path string) (*C.statelab_engine, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	name, symbol := C.CString(path), C.CString(entry)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(symbol))
	handle := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		return nil, fmt.Errorf("load the library: %s", C.GoString(C.dlerror()))
	}
	address := C.dlsym(handle, symbol)
	if address == nil {
		return nil, fmt.Errorf("%s is no engine for statelab: it exports no %s (see native/statelab_engine.h)", path, entry)
	}
	table := C.call_entry(address)
	if table == nil {
		return nil, fmt.Errorf("%s: %s returned NULL", path, entry)
	}
	return table, nil
}

// examine checks the table before anything in it is called. The version is at its
// start in every version, so it is read first.
func (l *library) examine() error {
	if got := l.table.abi; got != abi {
		return fmt.Errorf("%s is built for version %d of statelab_engine.h, this program reads version %d: build it again with this one's header", l.path, got, abi)
	}
	if got, want := uintptr(l.table.struct_bytes), unsafe.Sizeof(*l.table); got != want {
		return fmt.Errorf("%s: its table has %d bytes, want %d: build it again with this program's statelab_engine.h", l.path, got, want)
	}
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
func (l *library) check(o engine.Options) (errs []error) {
	options := newOptions(o)
	defer options.free()
	failure := newFailure()
	defer failure.free()
	code := C.call_check(l.table, options.c, failure.c)
	if code == C.STATELAB_OK {
		return nil
	}
	for line := range strings.Lines(failure.of("check the options", code).Error()) {
		errs = append(errs, errors.New(strings.TrimSpace(line)))
	}
	return errs
}

// options are engine.Options in C memory.
type options struct {
	c     *C.statelab_options
	owned []unsafe.Pointer
}

func newOptions(o engine.Options) *options {
	s := new(options)
	s.c = (*C.statelab_options)(s.own(C.calloc(1, C.size_t(unsafe.Sizeof(C.statelab_options{})))))
	s.c.directory = s.string(o.Dir)
	s.c.create, s.c.read_only = flag(o.Create), flag(o.ReadOnly)
	s.c.direct, s.c.trace_accesses = flag(o.Direct), flag(o.TraceAccesses)
	s.c.cache_bytes, s.c.memory_bytes, s.c.handles = C.int64_t(o.CacheBytes), C.int64_t(o.MemoryBytes), C.int64_t(o.Handles)
	own := settingsOf(o)
	if len(own) == 0 {
		return s
	}
	s.c.settings_count = C.size_t(len(own))
	s.c.settings = (*C.statelab_setting)(s.own(C.calloc(s.c.settings_count, C.size_t(unsafe.Sizeof(C.statelab_setting{})))))
	settings := unsafe.Slice(s.c.settings, len(own))
	for i, name := range slices.Sorted(maps.Keys(own)) {
		settings[i].name, settings[i].value = s.string(name), s.string(own[name])
	}
	return s
}

func (s *options) own(p unsafe.Pointer) unsafe.Pointer {
	s.owned = append(s.owned, p)
	return p
}

func (s *options) string(text string) *C.char {
	c := C.CString(text)
	s.own(unsafe.Pointer(c))
	return c
}

func (s *options) free() {
	for _, p := range s.owned {
		C.free(p)
	}
}

func flag(on bool) C.int32_t {
	if on {
		return 1
	}
	return 0
}

// failure is where a call leaves its sentence.
type failure struct{ c *C.statelab_error }

func newFailure() failure {
	return failure{(*C.statelab_error)(C.calloc(1, C.size_t(unsafe.Sizeof(C.statelab_error{}))))}
}

func (f failure) free() { C.free(unsafe.Pointer(f.c)) }

// of is the error of a call that answered code, nil for OK.
func (f failure) of(doing string, code C.int32_t) error { return sentence(f.c, doing, code) }

func sentence(e *C.statelab_error, doing string, code C.int32_t) error {
	if code == C.STATELAB_OK {
		return nil
	}
	if code < C.STATELAB_NOT_A_DATABASE || code >= 0 {
		return fmt.Errorf("%s: the library answered %d, which means nothing here", doing, code)
	}
	said := clip(e.text[:])
	if said == "" {
		said = fmt.Sprintf("the library failed with code %d and left no sentence", code)
	}
	return errors.New(said)
}

// clip is the text up to its NUL, or all of it where the library forgot the NUL.
func clip(text []C.char) string {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(text))), len(text))
	n := slices.Index(b, 0)
	if n < 0 {
		n = len(b)
	}
	return strings.ToValidUTF8(string(b[:n]), "?")
}

func text(c *C.char) string { return strings.ToValidUTF8(C.GoString(c), "?") }
