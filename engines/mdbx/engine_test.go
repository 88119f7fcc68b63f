//go:build cgo

package mdbx

import (
	"testing"

	"github.com/statelab/statelab/engine/enginetest"
)

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }
