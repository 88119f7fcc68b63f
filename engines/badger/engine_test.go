package badger

import (
	"testing"

	"github.com/statelab/statelab/engine/enginetest"
)

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }
