//go:build !linux

package main

import "github.com/statelab/statelab/layout"

func linuxLayouts() []layout.Layout { return nil }
