//go:build !linux

package main

import (
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
)

func linuxEngines() []engine.Engine { return nil }
func linuxLayouts() []layout.Layout { return nil }
