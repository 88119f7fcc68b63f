//go:build linux

package pagetrie

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

// small returns the file of a small state and the keys that are in it.
func small(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, layout.Options{
		Dir:       dir,
		Create:    true,
		Overrides: map[string]string{"Sync": "false"},
	})

	play(t, few, s, mpt.NewReference(), 30)
	must(t, s.Close())
	file, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	return file
}

var few = layouttest.Workload{Seed: 11, Accounts: 60, Slots: 40, Changes: 12}

// use opens what may be damaged, looks everything up, and changes most of it.
// Errors are fine; a panic or an endless loop is not.
func use(t testing.TB, dir string) {
	note := func(err error) {
		if err != nil && engine.CodeOf(err) != engine.CodeDamaged {
			t.Errorf("%v names no page", err)
		}
	}

	s, err := Layout{}.Open(t.Context(), layout.Options{
		Dir:       dir,
		Overrides: map[string]string{"Sync": "false"},
	})
	if err != nil {
		return
	}

	defer func() { must(t, s.Close()) }()
	r, err := s.Reader()
	must(t, err)
	for n := range few.Accounts {
		_, _, err := r.Account(few.Hash(n))
		note(err)
		for k := range few.Slots {
			_, _, err := r.Slot(few.Hash(n), few.Hash(k), nil)
			note(err)
		}
	}

	for block := range uint64(10) {
		for _, c := range few.Block(block) {
			note(s.Change(c))
		}
		_, err = s.Commit(t.Context())
		note(err)
	}
}

// TestFlippedBits wants every single flipped bit of a state in use found by Check
// or harmless, with an error that names a page.
func TestFlippedBits(t *testing.T) {
	flips := 6000
	if testing.Short() {
		flips = 300
	}

	whole := small(t)
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	must(t, os.WriteFile(path, whole, 0o644))
	newest := check(t, dir)
	rng := rand.New(rand.NewPCG(8, 8))
	found := 0
	for range flips {
		bad := append([]byte{}, whole...)
		bit := rng.IntN(len(bad) * 8)
		bad[bit/8] ^= 1 << (bit % 8)
		must(t, os.WriteFile(path, bad, 0o644))
		_, err := Check(dir)
		if err != nil {
			if found++; engine.CodeOf(err) != engine.CodeDamaged {
				t.Fatalf("bit %d: %v names no page", bit, err)
			}
		}

		use(t, dir)
	}

	t.Logf("%d of %d flipped bits found; %+v", found, flips, newest)
	live := float64(newest.TrieBytes) / float64(len(whole))
	if float64(found) < 0.95*live*float64(flips) {
		t.Errorf("%d of %d flipped bits found, though %.0f %% of the file are nodes", found, flips,
			100*live)
	}
}

// TestDamagedSlotCostsOneBlock destroys the newest slot after every block of a
// churn: the block before is whole, and goes on.
func TestDamagedSlotCostsOneBlock(t *testing.T) {
	dir := t.TempDir()
	must(t, grow(t, layout.Options{Dir: dir}, 100, 100).Close())
	for range 40 {
		s := mustOpen(t, layout.Options{Dir: dir, Overrides: map[string]string{"Sync": "false"}})
		roots := map[uint64]layout.Hash{s.Block(): s.Root()}
		for range 3 {
			for _, c := range many.Block(s.Block() + 1) {
				must(t, s.Change(c))
			}

			root, err := s.Commit(t.Context())
			must(t, err)
			roots[s.Block()] = root
		}

		newest := s.Block()
		must(t, s.Close())
		file, err := os.OpenFile(filepath.Join(dir, fileName), os.O_RDWR, 0)
		must(t, err)
		_, err = file.WriteAt([]byte{0xff}, int64(newest%metaPages)*pageBytes+20)
		must(t, err)
		must(t, file.Close())
		if c := check(t, dir); c.Block != newest-1 || c.Root != roots[newest-1] {
			t.Fatalf("block %d with root %x, want %d and %x", c.Block, c.Root, newest-1,
				roots[newest-1])
		}
	}
}

// FuzzOpen opens files of any content.
func FuzzOpen(f *testing.F) {
	whole := small(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(make([]byte, 3*pageBytes))
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 1<<20 {
			return
		}

		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileName), file, 0o644))
		use(t, dir)
	})
}

// FuzzPage puts a page of any content where the root page is.
func FuzzPage(f *testing.F) {
	whole := small(f)
	dir := f.TempDir()
	must(f, os.WriteFile(filepath.Join(dir, fileName), whole, 0o644))
	m, err := func() (meta, error) {
		file, err := openFile(dir, false, true)
		must(f, err)
		defer file.Close()
		return file.newestMeta()
	}()

	must(f, err)
	at := offset(m.rootPage)
	f.Add(whole[at : at+pageBytes])
	f.Fuzz(func(t *testing.T, root []byte) {
		file := append([]byte{}, whole...)
		copy(file[at:at+pageBytes], root)
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileName), file, 0o644))
		use(t, dir)
		p := page(file[at : at+pageBytes])
		if p.validate(m.rootPage, place{}) != nil {
			return
		}

		// What passed may be changed in every way that edits change it.
		p.compact()
		must(t, p.validate(m.rootPage, place{}))
	})
}
