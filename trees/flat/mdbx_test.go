//go:build cgo

package flat

import (
	"testing"

	"github.com/statelab/statelab/engines/mdbx"
	"github.com/statelab/statelab/state/statetest"
)

func TestFlatMDBXAdmission(t *testing.T) {
	statetest.Admit(t, Layout{Name: "flat", Engine: mdbx.Engine{}}, statetest.Expectations{})
}
