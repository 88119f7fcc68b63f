package geth

import (
	"testing"

	"github.com/statelab/statelab/state"
	"github.com/statelab/statelab/state/statetest"
)

func TestAdmission(t *testing.T) {
	for _, l := range Layouts() {
		t.Run(l.Info().Name, func(t *testing.T) {
			statetest.Admit(t, l, statetest.Expectations{Options: state.Options{MemoryBytes: minMemoryBytes}})
		})
	}
}
