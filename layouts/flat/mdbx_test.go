//go:build cgo

package flat

import (
	"testing"

	"github.com/statelab/statelab/engines/mdbx"
	"github.com/statelab/statelab/layout/layouttest"
)

func TestFlatMDBXAdmission(t *testing.T) {
	layouttest.TestLayout(t, Layout{Name: "flat", Engine: mdbx.Engine{}}, layouttest.Expectations{})
}
