//go:build cgo

package cengine

import (
	"testing"

	"github.com/statelab/statelab/engine/enginetest"
)

func TestExampleInC(t *testing.T) {
	use(t, buildExampleInC)
	enginetest.Run(t, Engine{})
}

func TestExampleInRust(t *testing.T) {
	use(t, buildExampleInRust)
	enginetest.Run(t, Engine{})
}
