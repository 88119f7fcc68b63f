package pagetrie

import (
	"testing"

	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/state"
)

// TestAgreesWithTheReference changes a state block by block, reopens it now and
// then, and holds roots and lookups against the trie in memory.
func TestAgreesWithTheReference(t *testing.T) {
	blocks := 10_000
	if testing.Short() {
		blocks = 300
	}
	for name, w := range map[string]struct {
		churn   *churn
		options state.Options
	}{
		"spread keys":           {newChurn(1, 3000, 200, false), state.Options{}},
		"few keys":              {newChurn(2, 12, 40, false), state.Options{}},
		"keys that differ late": {newChurn(3, 400, 300, true), state.Options{}},
		"by calls, small cache": {newChurn(4, 600, 200, false), state.Options{MemoryBytes: 16 * pageBytes}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.options.Dir, w.options.Overrides = t.TempDir(), map[string]string{"Sync": "false"}
			create := w.options
			create.Create = true
			reference := mpt.NewReference()
			s := mustOpen(t, create)
			for b := range blocks {
				commit(t, s, reference, w.churn.block())
				if b%(blocks/6) == 0 {
					r, err := s.Reader()
					must(t, err)
					compare(t, r, w.churn, reference)
					must(t, r.Close())
					must(t, s.Close())
					checked := check(t, w.options.Dir)
					if checked.Accounts != int64(reference.Accounts()) || checked.Block != uint64(b+1) {
						t.Fatalf("checked %+v, want %d accounts at block %d", checked, reference.Accounts(), b+1)
					}
					s = mustOpen(t, w.options)
				}
			}
			must(t, s.Close())
			t.Logf("%+v", check(t, w.options.Dir))
			s = mustOpen(t, w.options)
			var all []state.Change
			for n := range w.churn.accounts {
				all = append(all, state.Change{Account: w.churn.key(n)})
			}
			commit(t, s, reference, all)
			if s.Root() != state.EmptyRoot {
				t.Errorf("root %x without accounts", s.Root())
			}
			must(t, s.Close())
			if c := check(t, w.options.Dir); c.TriePages != 0 || c.Pages != c.FreePages+c.ListPages {
				t.Errorf("an empty state has pages: %+v", c)
			}
		})
	}
}
