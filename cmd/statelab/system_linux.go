package main

import (
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/chunktrie"
	"github.com/statelab/statelab/layouts/pagetrie"
)

// What maps files, locks them or frees parts of them in ways that Linux alone has.

func linuxLayouts() []layout.Layout {
	return []layout.Layout{pagetrie.Layout{}, chunktrie.Layout{}}
}
