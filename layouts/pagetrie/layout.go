//go:build linux

// Package pagetrie is a state layout: Ethereum's Merkle-Patricia trie packed into
// 4096-byte pages of one file, several levels of the trie to a page, changed by
// copying pages.
//
// Read it in this order: page.go (cells in a page, and nodes in cells), lookup.go (a Get), state.go
// and edit.go (a change), commit.go (a block and where its pages go), file.go (what is where in the
// file), source.go (how pages are read). Tests check whole states (whole_test.go).
//
// Goals: a lookup that allocates nothing and counts what it touches; old blocks
// readable while a new one is written; the newest committed block back after a
// kill; a flipped bit is an error that names the page.
// Non-goals: proofs, history beyond what open readers hold, many writers.
package pagetrie

import (
	"context"
	"errors"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/layout"
)

// Layout makes page tries.
type Layout struct{}

var _ layout.Layout = Layout{}

// Info describes the layout.
func (Layout) Info() layout.Info {
	return layout.Info{
		Name: "pagetrie", Version: "2", Licence: "as statelab", Root: layout.EthereumRoot,
		Durability: "a block survives a kill and a power cut once committed (pages synced, then " +
			"the meta slot); with Sync=false a kill only",
		History:  "blocks that open readers hold",
		Profiles: adapter.Infos(profiles()),
	}
}

// profiles are the named settings.
func profiles() []adapter.Profile[settings] {
	return []adapter.Profile[settings]{
		{
			Profile: engine.Profile{
				Name: "default",
				About: "mapped with random advice; by calls with a page cache where memory is " +
					"given, or O_DIRECT",
			},
			Settings: settings{durable: true},
		},
	}
}

type settings struct{ durable bool }

// Check names everything wrong with o, touching no file.
func (l Layout) Check(o layout.Options) []error {
	_, errs := settle(o)
	return errs
}

func settle(o layout.Options) (s settings, errs []error) {
	info := engine.Info{
		Name:         "pagetrie",
		Capabilities: []engine.Capability{engine.CanBudget, engine.CanDirect},
	}

	errs = adapter.Check(info, engine.Options{
		MemoryBytes: o.MemoryBytes,
		Direct:      o.Direct,
		Create:      o.Create,
		ReadOnly:    o.ReadOnly,
	})

	if o.MemoryBytes > 0 && o.MemoryBytes < pageBytes {
		errs = append(errs,
			fmt.Errorf("pagetrie: a budget of %d bytes holds no page: write --memory 64MiB",
				o.MemoryBytes))
	}

	s, err := adapter.Find(profiles(), o.Profile)
	if err != nil {
		errs = append(errs, err)
	}

	return s, append(errs,
		adapter.Override([]adapter.Option{adapter.Switch("Sync", &s.durable)}, o.Overrides)...)
}

// Open opens or creates the state in o.Dir.
func (l Layout) Open(_ context.Context, o layout.Options) (layout.State, error) {
	s, errs := settle(o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	if err := adapter.CheckDir(engine.Options{Dir: o.Dir, Create: o.Create}, fileName); err != nil {
		return nil, err
	}

	f, err := openFile(o.Dir, o.Create, o.ReadOnly)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Dir, err)
	}

	f.durable = s.durable
	opened, err := open(f, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.Dir, err), f.Close())
	}

	return opened, nil
}

func open(f *file, o layout.Options) (_ *pageState, err error) {
	if o.Create {
		if err := f.format(); err != nil {
			return nil, fmt.Errorf("write the first meta slot: %w", err)
		}
	}

	m, err := f.newestMeta()
	if err != nil {
		return nil, err
	}

	s := &pageState{
		file:     f,
		readOnly: o.ReadOnly,
		live:     map[uint64]int{},
		at:       snapshot{m.block, m.root, m.rootPage, m.pages},
	}

	if s.source, s.reads, err = openSource(f, o); err != nil {
		return nil, err
	}

	if o.ReadOnly {
		return s, nil
	}

	s.tx = newTx(m, s.source, max(1, int(writerShare(o.MemoryBytes)/pageBytes)))
	s.pending.maximum = int(writerShare(o.MemoryBytes))
	return s, nil
}

// writerShare is what changed pages may take, and waiting changes as much again: a
// quarter of the budget, 64 MiB without one.
func writerShare(memoryBytes int64) int64 {
	if memoryBytes == 0 {
		return 64 << 20
	}
	return memoryBytes / 4
}

// openSource maps the file unless a budget or O_DIRECT asks for reads by calls.
func openSource(f *file, o layout.Options) (source, string, error) {
	if !o.Direct && o.MemoryBytes == 0 {
		m, err := mapFile(f)
		return m, "mmap", err
	}

	how := "pread"
	if o.Direct {
		how = "direct"
	}

	c, err := openCalled(f, o.Direct, o.MemoryBytes)
	return c, how, err
}
