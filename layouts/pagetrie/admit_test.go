//go:build linux

package pagetrie

import (
	"fmt"
	"testing"

	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

func TestAdmission(t *testing.T) {
	for name, o := range map[string]layout.Options{
		"mapped": {},
		"by calls, small cache": {
			MemoryBytes: 16 * pageBytes,
			Overrides:   map[string]string{"Sync": "false"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			layouttest.TestLayout(t, Layout{}, layouttest.Expectations{
				Options: o,
				Sound:   passesCheck,
			})
		})
	}
}

// passesCheck holds what Check finds against what was committed; an empty state has
// nothing but free pages.
func passesCheck(dir string, want layouttest.Head) error {
	c, err := Check(dir)
	if err != nil {
		return err
	}

	empty := want.Accounts == 0
	if c.Block != want.Block || c.Root != want.Root || c.Accounts != int64(want.Accounts) ||
		empty && c.Pages != c.FreePages+c.ListPages {
		return fmt.Errorf("checked %+v, want %+v", c, want)
	}

	return nil
}
