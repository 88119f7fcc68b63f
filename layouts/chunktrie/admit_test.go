//go:build linux

package chunktrie

import (
	"fmt"
	"testing"

	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

// eager reads every node and rewrites whatever holds a little garbage.
var eager = map[string]string{
	"ChunkBytes":     "64KiB",
	"Versions":       "2",
	"PinnedLevels":   "0",
	"GarbagePercent": "1",
	"CompactionPace": "8",
}

func TestAdmission(t *testing.T) {
	for name, o := range map[string]layout.Options{
		"small chunks, least memory": {Overrides: small, MemoryBytes: minMemory},
		"nothing pinned, eager":      {Overrides: eager},
	} {
		t.Run(name, func(t *testing.T) {
			layouttest.TestLayout(t, Layout{}, layouttest.Expectations{
				Options: o,
				Sound:   passesCheck,
			})
		})
	}
}

// passesCheck holds what Check finds against what was committed; an empty state has no
// node.
func passesCheck(dir string, want layouttest.Head) error {
	c, err := Check(dir)
	if err != nil {
		return err
	}

	if c.Block != want.Block || c.Root != want.Root ||
		want.Accounts == 0 && (c.Nodes != 0 || c.LiveBytes != 0) {
		return fmt.Errorf("checked %+v, want %+v", c, want)
	}

	return nil
}
