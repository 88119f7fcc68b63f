package flat

import (
	"testing"

	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/state/statetest"
)

func TestFlatPebbleAdmission(t *testing.T) {
	statetest.Admit(t, Layout{Name: "flat", Engine: pebble2.Engine{}}, statetest.Expectations{})
}
