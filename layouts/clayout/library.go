//go:build cgo

package clayout

/*
#cgo CFLAGS: -I${SRCDIR}/../../native
#include "calls.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/sharedlib"
	"github.com/statelab/statelab/layout"
)

const (
	abi    = C.STATELAB_STATE_ABI
	header = "statelab_state.h"
	// maxProfiles bounds a list whose end the library forgot.
	maxProfiles = 64
)

// library is a loaded table of functions that has been checked.
type library struct {
	path     string
	table    *C.statelab_layout
	info     layout.Info
	profiles []adapter.Profile[string] // each by its name
}

func load(path string) (*library, error) {
	contract := sharedlib.Contract{
		Noun:       "a layout of state",
		Header:     header,
		Entry:      "statelab_state_v1",
		ABI:        abi,
		TableBytes: unsafe.Sizeof(C.statelab_layout{}),
	}

	path, table, err := contract.Load(path)
	if err != nil {
		return nil, err
	}

	l := &library{path: path, table: (*C.statelab_layout)(table)}
	if err := l.examine(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return l, nil
}

// examine reads the table and checks what it says.
func (l *library) examine() error {
	if member := C.missing(l.table); member != nil {
		return fmt.Errorf("%s is NULL in its table: every member must be set", text(member))
	}

	for _, p := range unsafe.Slice(l.table.profiles, maxProfiles) {
		if p.name == nil {
			break
		}

		l.profiles = append(l.profiles, adapter.Profile[string]{
			Profile:  engine.Profile{Name: text(p.name), About: text(p.about)},
			Settings: text(p.name),
		})
	}

	if len(l.profiles) == 0 || len(l.profiles) == maxProfiles {
		return fmt.Errorf("its table names %d profiles: want at least one and a name that is "+
			"NULL behind the last", len(l.profiles))
	}

	l.info = layout.Info{
		Name:       text(l.table.name),
		Version:    text(l.table.version),
		Licence:    text(l.table.licence),
		Root:       layout.RootRule(text(l.table.root)),
		Durability: text(l.table.durability),
		History:    text(l.table.history),
		Profiles:   adapter.Infos(l.profiles),
	}

	rules := []layout.RootRule{layout.OwnRoot, layout.NoRoot, layout.EthereumRoot}
	if !slices.Contains(rules, l.info.Root) {
		return fmt.Errorf("its root is made by the rule %q: want one of %q", l.info.Root, rules)
	}

	return nil
}

// settle names what is wrong with o, the library's part by asking it, and returns o
// with a profile.
func (l *library) settle(o layout.Options) (layout.Options, []error) {
	errs := adapter.Check(
		engine.Info{Name: l.info.Name, Capabilities: []engine.Capability{engine.CanBudget}},
		engine.Options{
			MemoryBytes: o.MemoryBytes,
			Direct:      o.Direct,
			Create:      o.Create,
			ReadOnly:    o.ReadOnly,
		},
	)

	var err error
	if o.Profile, err = adapter.Find(l.profiles, o.Profile); err != nil {
		errs = append(errs, err)
	}

	o.MemoryBytes = max(o.MemoryBytes, 0) // what has been told need not be told twice
	var memory sharedlib.Arena
	defer memory.Free()
	options := newOptions(&memory, o)
	for _, mistake := range sharedlib.Check(func(e *C.statelab_error) C.int32_t {
		return C.call_check(l.table, options, e)
	}) {
		errs = append(errs, fmt.Errorf("%s: %w", l.info.Name, mistake))
	}

	return o, errs
}

// newOptions are state.Options in C memory.
func newOptions(memory *sharedlib.Arena, o layout.Options) *C.statelab_state_options {
	c := (*C.statelab_state_options)(memory.Zeroed(1, unsafe.Sizeof(C.statelab_state_options{})))
	c.directory, c.profile = (*C.char)(memory.String(o.Dir)), (*C.char)(memory.String(o.Profile))
	c.create, c.read_only = C.int32_t(sharedlib.Flag(o.Create)),
		C.int32_t(sharedlib.Flag(o.ReadOnly))
	c.memory_bytes = C.int64_t(o.MemoryBytes)
	c.accounts_hint, c.slots_hint = C.uint64_t(o.Accounts), C.uint64_t(o.Slots)
	c.settings_count, c.settings = C.size_t(len(o.Overrides)),
		(*C.statelab_setting)(memory.Settings(o.Overrides))
	return c
}

func text(c *C.char) string { return sharedlib.Text(c) }
