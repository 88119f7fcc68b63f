//go:build linux

package pagetrie

import (
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// TestBlocksSpill makes a block that changes many more pages than it may hold, and
// one after it; reopened, all is there.
func TestBlocksSpill(t *testing.T) {
	testring.Outer(t, "it changes many pages twice")
	const accounts, budget = 20_000, 400 * pageBytes
	dir := t.TempDir()
	s := grow(t, layout.Options{Dir: dir, MemoryBytes: budget}, accounts, 5000)
	reference, h := mpt.NewReference(), mpt.NewHasher()
	for i := range uint64(accounts) {
		account, a := plainAccount(h, i)
		must(t, reference.Change(layout.Change{Account: account, New: a}))
	}

	for round := range uint64(2) {
		before := *s.Counters().WriteBytes
		for i := range uint64(accounts) {
			account, a := plainAccount(h, i)
			a.Nonce += round + 1
			c := layout.Change{Account: account, New: a}
			if i%9 == 0 {
				c.New = nil
			} else if i%100 == 1 {
				for k := range uint64(200) {
					key, _ := plainAccount(h, k)
					c.Slots = append(c.Slots, layout.Slot{Key: key, Value: []byte{1 + byte(round)}})
				}
			}

			must(t, s.Change(c))
			must(t, reference.Change(c))
		}

		root, err := s.Commit(t.Context())
		must(t, err)
		if want := reference.Root(); root != want {
			t.Fatalf("round %d: root %x, want %x", round, root, want)
		}

		const ofOneChange = 16
		maximum, limit := s.dirtyPages.Load(), int64(budget/pageBytes/4)
		if wrote := (*s.Counters().WriteBytes - before) / pageBytes; maximum > limit+ofOneChange ||
			wrote < 4*limit {
			t.Errorf(
				"round %d: %d pages at once, %d written: want at most %d, and a multiple of it",
				round,
				maximum,
				wrote,
				limit,
			)
		}

		spent := int64(0)
		for _, share := range s.Memory() {
			spent += share.Bytes
		}

		if spent > budget+ofOneChange*pageBytes {
			t.Errorf("%v of a budget of %d", s.Memory(), budget)
		}
	}

	must(t, s.Close())
	if c := check(t, dir); c.Root != reference.Root() {
		t.Errorf("checked %+v, want root %x", c, reference.Root())
	}
}

// TestShortBlocksLeaveLongListsAlone empties most of a state, then makes blocks of
// one account: what they write does not grow with the pages that are free.
func TestShortBlocksLeaveLongListsAlone(t *testing.T) {
	const accounts = 60_000
	dir := t.TempDir()
	s := grow(t, layout.Options{Dir: dir}, accounts, 10_000)
	h := mpt.NewHasher()
	one := func(i uint64) int64 {
		before := *s.Counters().WriteBytes
		account, a := plainAccount(h, i)
		a.Nonce++
		must(t, s.Change(layout.Change{Account: account, New: a}))
		_, err := s.Commit(t.Context())
		must(t, err)
		return (*s.Counters().WriteBytes - before) / pageBytes
	}

	for i := uint64(10); i < accounts; i++ {
		account, _ := plainAccount(h, i)
		must(t, s.Change(layout.Change{Account: account}))
	}

	_, err := s.Commit(t.Context())
	must(t, err)
	pages := s.tx.space.pages
	for i := range uint64(200) {
		if written := one(i % 10); written > 7 { // the trie's, one or two lists, the meta slot
			t.Fatalf("block %d wrote %d pages", i, written)
		}
	}

	listed := s.tx.space.queue
	if grown := s.tx.space.pages - pages; grown > 20 || listed.ids < 3*listCapacity {
		t.Errorf("%d pages more, %+v: free pages are not used again, or few are free", grown,
			listed)
	}

	must(t, s.Close())
	check(t, dir)
}
