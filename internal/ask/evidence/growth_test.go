package evidence

import (
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/optionsfile"
)

// TestCompactionOfAnOptionsFile: sizes are those of the file, and the library's where it has none.
func TestCompactionOfAnOptionsFile(t *testing.T) {
	file := func(lbase, target string) []optionsfile.Section {
		return []optionsfile.Section{
			{Kind: "Options", Values: map[string]string{"lbase_max_bytes": lbase}},
			{Kind: "Level", Name: "0", Values: map[string]string{"target_file_size": target}},
			{Kind: "Level", Name: "9", Values: map[string]string{"target_file_size": "1"}},
		}
	}

	g, err := compactionOf(file("1000", "77"))
	if err != nil || g.LBaseMaxBytes != 1000 || g.TargetFileBytes[0] != 77 ||
		g.TargetFileBytes[2] != 8<<20 {
		t.Errorf("%+v, %v", g, err)
	}

	if g, err := compactionOf(nil); err != nil || g.LBaseMaxBytes != 64<<20 {
		t.Errorf("%+v, %v", g, err)
	}

	for _, bad := range []string{"", "-1", "many", "0"} {
		if _, err := compactionOf(file("1000", bad)); err == nil ||
			!strings.Contains(err.Error(), "target_file_size") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
