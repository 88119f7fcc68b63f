//go:build linux

package chunktrie

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
)

// TestReadersWhileBlocksAreWritten gives twenty accounts the block's number as
// nonce, block by block, over chunks that are freed and used again: whatever block
// a reader is at, it must see that number everywhere.
func TestReadersWhileBlocksAreWritten(t *testing.T) {
	o := layout.Options{
		Dir:    newDir(t),
		Create: true,
		Overrides: map[string]string{"ChunkBytes": "64KiB", "Versions": "2",
			"GarbagePercent": "1", "PinnedLevels": "1"},
	}

	s, keys := evenly(t, o, 2000)
	first := s.Block()
	rewrite := func() {
		for _, key := range keys[:20] {
			must(t,
				s.Change(layout.Change{Account: key, New: &layout.Account{Nonce: s.Block() + 1}}))
		}

		_, err := s.Commit(t.Context())
		must(t, err)
	}

	rewrite()
	var written atomic.Bool
	var looks atomic.Int64
	var readers errgroup.Group
	for range 3 {
		r := reader(t, s)
		readers.Go(func() error {
			for !written.Load() {
				for _, key := range keys[:20] {
					if a, found, err := r.Account(key); err != nil || !found ||
						a.Nonce != r.Block() {
						return fmt.Errorf("account %x at block %d: nonce %d, found %v, %w", key,
							r.Block(), a.Nonce, found, err)
					}
				}

				looks.Add(1)
				if err := r.Refresh(); err != nil {
					return err
				}
			}

			return r.Close()
		})
	}

	for range blocks(100, 2000) {
		rewrite()
	}

	written.Store(true)
	must(t, readers.Wait())
	if s.chunks.lists[fast].chunks[0].sequence == 0 {
		t.Error("no chunk was freed")
	}

	t.Logf("%d looks during %d blocks", looks.Load(), s.Block()-first)
	must(t, s.Close())
}

func TestOpenRefuses(t *testing.T) {
	dir := newDir(t)
	var not *engine.NotADatabaseError
	if _, err := (Layout{}).Open(t.Context(), layout.Options{Dir: dir}); !errors.As(err, &not) {
		t.Errorf("no directory: %v", err)
	}

	s := open(t, layout.Options{Dir: dir, Create: true, Overrides: small})
	var locked *engine.LockedError
	if _, err := Open(t.Context(), layout.Options{Dir: dir}); !errors.As(err, &locked) {
		t.Errorf("a state that is open: %v", err)
	}

	must(t, s.Close())
	if _, err := Open(t.Context(), layout.Options{Dir: dir, Create: true}); err == nil {
		t.Error("a state is created over another")
	}

	r := open(t, layout.Options{Dir: dir, ReadOnly: true})
	if _, err := r.Commit(t.Context()); err == nil {
		t.Error("a block is written to what is open for reading only")
	}

	must(t, r.Close())
	wrong := layout.Options{
		Dir:         filepath.Join(dir, "x"),
		Profile:     "none",
		Create:      true,
		ReadOnly:    true,
		MemoryBytes: -1,
		Overrides: map[string]string{
			"ChunkBytes":   "100KiB",
			"PinnedLevels": "7",
			"Colour":       "red",
		},
	}

	if errs := (Layout{}).Check(wrong); len(errs) != 6 {
		t.Errorf("six mistakes: %v", errs)
	}
}
