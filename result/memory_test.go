package result

import (
	"encoding/json"
	"testing"

	"github.com/statelab/statelab/engine"
)

// TestPartsOfOlderFolders: a part of an older folder tells in words alone what it holds; one that
// says it keeps what it says.
func TestPartsOfOlderFolders(t *testing.T) {
	for text, want := range map[string]engine.Holding{
		`{"use":"branches of nibble depth 0","bytes":8,"basis":"measured"}`:  engine.PinnedBranches,
		`{"use":"clean flat states","bytes":8,"basis":"limit"}`:              engine.CleanState,
		`{"use":"leaf cache","bytes":8,"basis":"limit"}`:                     engine.Blocks,
		`{"use":"index and the rest of the heap","bytes":8,"basis":"limit"}`: engine.EntryIndex,
		`{"use":"write buffers","bytes":8,"basis":"limit"}`:                  "",
		`{"use":"what keeps the upper levels","bytes":8,"basis":"limit",` +
			`"holds":"pinned_branches"}`: engine.PinnedBranches,
	} {
		var m Memory
		err := json.Unmarshal([]byte(`{"budget_bytes":9,"shares":[`+text+`]}`), &m)
		if err != nil || len(m.Shares) != 1 || m.BudgetBytes != 9 {
			t.Fatalf("%s: %+v, %v", text, m, err)
		}

		if share := m.Shares[0]; share.Holds != want || share.Bytes != 8 || share.Basis == "" {
			t.Errorf("%s: %+v", text, share)
		}
	}
}
