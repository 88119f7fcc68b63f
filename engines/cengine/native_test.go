//go:build cgo

package cengine

import (
	"testing"

	"github.com/statelab/statelab/engine/enginetest"
	"github.com/statelab/statelab/internal/adapt/sharedlib/libtest"
)

func TestAdmitted(t *testing.T) {
	t.Setenv(LibraryEnv, libtest.Once(t, builtLibrary, buildExampleInC))
	enginetest.Run(t, Engine{})
}
