//go:build cgo

package flat

import (
	"testing"

	"github.com/statelab/statelab/engines/mdbx"
)

func TestFlatMDBXKeepsWhatTheReferenceKeeps(t *testing.T) { keepsTheState(t, mdbx.Engine{}) }
