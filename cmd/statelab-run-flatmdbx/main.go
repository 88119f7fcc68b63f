//go:build cgo

// Statelab-run-flatmdbx looks accounts and slots up as keys of libmdbx; statelab
// starts it.
package main

import (
	"github.com/statelab/statelab/engines/mdbx"
	"github.com/statelab/statelab/layouts/flat"
	"github.com/statelab/statelab/runner"
)

func main() { runner.Layouts(flat.Layout{Name: "flat-mdbx", Engine: mdbx.Engine{}}) }
