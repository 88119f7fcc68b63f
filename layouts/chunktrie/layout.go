//go:build linux

// Package chunktrie is a state layout that keeps an Ethereum trie natively: nodes
// packed one behind another into the chunks of one file, each reached by one read,
// because its parent knows its address and its length.
//
// Read layout.go, then reader.go (a lookup, and lookups that share reads), pins.go
// (what is in memory), commit.go (a block), node.go (bytes), chunks.go (the file).
// Tests check whole states (whole_test.go).
//
// Goals: a lookup that reads each node below the pinned levels once and allocates
// nothing; every kept version readable while the next is written; whole blocks
// after a kill. Non-goals: code, proofs, forks, several writers.
package chunktrie

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/layout"
)

// Layout is the chunk trie. The states it opens are *Store, their readers *Reader.
type Layout struct{}

// fileName is the one file of a state.
const fileName = "chunks"

// Info describes the layout.
func (Layout) Info() layout.Info {
	return layout.Info{
		Name:    "chunktrie",
		Version: "2",
		Licence: "as statelab",
		Root:    layout.EthereumRoot,
		Durability: "nodes, then the root record, on the disk before Commit returns: a power cut " +
			"keeps the block",
		History: "the last 128 blocks (Versions), and what a reader still looks at",
		Profiles: []engine.Profile{
			{
				Name:  "default",
				About: "branches of nibble depth <= 5 in memory, as far as the budget goes",
			},
			{Name: "unpinned", About: "no node in memory: every node of a lookup is a read"},
		},
	}
}

// settings are what profile and overrides say.
type settings struct {
	header
	compaction
	levels int // pinned: nibble depths 0 to levels-1
}

const (
	buffersBytes   = lists * bufferBytes
	minMemory      = 4 << 20
	pinnedLevels   = maxPinned + 1
	defaultChunk   = maxChunkBytes
	defaultVersion = 128
)

func parseOptions(o layout.Options) (s settings, errs []error) {
	profiles := []adapter.Profile[int]{
		{Profile: engine.Profile{Name: "default"}, Settings: pinnedLevels},
		{Profile: engine.Profile{Name: "unpinned"}},
	}

	levels, err := adapter.Find(profiles, o.Profile)
	if err != nil {
		errs = append(errs, err)
	}

	s = settings{
		header{defaultChunk, defaultVersion},
		compaction{garbagePercent: 50, pace: 2},
		levels,
	}

	errs = append(errs, adapter.Override([]adapter.Option{
		adapter.Size("ChunkBytes", "256MiB", &s.chunkBytes, placeBytes),
		adapter.Count("Versions", "128", &s.versions, 1),
		adapter.Count("PinnedLevels", "6", &s.levels, 0),
		adapter.Count("GarbagePercent", "50", &s.garbagePercent, 1),
		adapter.Count("CompactionPace", "2", &s.pace, 1),
	}, o.Overrides)...)

	if s.levels > pinnedLevels {
		errs = append(errs,
			fmt.Errorf("option PinnedLevels=%d: nibble depths 0 to %d can be pinned: write "+
				"PinnedLevels=%d",
				s.levels, maxPinned, pinnedLevels))
	}

	if err := s.header.check(); err != nil {
		errs = append(errs, err)
	}

	if o.MemoryBytes < 0 || o.MemoryBytes > 0 && o.MemoryBytes < minMemory {
		errs = append(errs,
			fmt.Errorf("a budget of %d bytes: write buffers alone take half of 4 MiB: write "+
				"--memory 4MiB or more", o.MemoryBytes))
	}

	if o.Create && o.ReadOnly {
		errs = append(errs,
			errors.New("a state cannot be created for reading only: leave one of the two out"))
	}

	return s, errs
}

// Check names what is wrong with o.
func (Layout) Check(o layout.Options) []error {
	_, errs := parseOptions(o)
	return errs
}

// Open opens or creates a state.
func (Layout) Open(ctx context.Context, o layout.Options) (layout.State, error) {
	s, errs := parseOptions(o)
	if len(errs) > 0 {
		return nil, fmt.Errorf("chunktrie: open: %w", errors.Join(errs...))
	}

	doing := "open"
	if o.Create {
		doing = "create"
	}

	file, err := openFile(o, s.header)
	if err != nil {
		return nil, fmt.Errorf("chunktrie: %s: %w", doing, err)
	}

	store, err := newStore(ctx, o, s, file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("chunktrie: open %s: %w", o.Dir, err), file.Close())
	}

	return store, nil
}

// openFile opens the file of a state, or makes that of an empty one.
func openFile(o layout.Options, h header) (*os.File, error) {
	if err := adapter.CheckDir(engine.Options{Dir: o.Dir, Create: o.Create}, fileName); err != nil {
		return nil, err
	}

	file, err := adapter.OpenLocked(o.Dir, fileName, o.Create, o.ReadOnly,
		"close it there, or read a copy")
	if err != nil || !o.Create {
		return file, err
	}

	if err := format(o.Dir, file, h); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return file, nil
}

// format writes an empty state of block 0.
func format(dir string, file *os.File, h header) error {
	f := newChunkFile(file, h)
	for list := range lists {
		if err := f.room(list, 1); err != nil {
			return err
		}
	}

	empty := record{root: ref{oldest: [lists]uint32{noPlace, noPlace}}}
	if err := f.commit(&empty, h); err != nil {
		return err
	}

	if _, err := file.WriteAt(h.encode(), 0); err != nil {
		return err
	}

	if err := file.Sync(); err != nil {
		return err
	}

	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
