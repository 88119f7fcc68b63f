package engine

import (
	"encoding/json"
	"testing"
)

// A part of an older folder tells in words alone what it holds; one that says it keeps what it
// says.
func TestPartsOfOlderFolders(t *testing.T) {
	for text, want := range map[string]Holding{
		`{"use":"branches of nibble depth 0 to 4","bytes":8,"basis":"measured"}`: PinnedBranches,
		`{"use":"clean flat states","bytes":8,"basis":"limit"}`:                  CleanState,
		`{"use":"leaf cache","bytes":8,"basis":"limit"}`:                         Blocks,
		`{"use":"index and the rest of the heap","bytes":8,"basis":"measured"}`:  EntryIndex,
		`{"use":"write buffers","bytes":8,"basis":"limit"}`:                      "",
		`{"use":"what keeps the upper levels","bytes":8,"basis":"limit",` +
			`"holds":"pinned_branches"}`: PinnedBranches,
	} {
		var share MemoryShare
		if err := json.Unmarshal([]byte(text), &share); err != nil || share.Holds != want ||
			share.Bytes != 8 || share.Basis == "" {
			t.Errorf("%s: %+v, %v", text, share, err)
		}
	}
}
