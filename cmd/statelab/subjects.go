package main

import (
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/bbolt"
	"github.com/statelab/statelab/engines/goleveldb"
	"github.com/statelab/statelab/engines/mem"
	"github.com/statelab/statelab/engines/null"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/flat"
	"github.com/statelab/statelab/tree"
	nulltree "github.com/statelab/statelab/trees/null"
)

// Engines, trees and layouts that this binary links. Names of all others are in internal/subject.

// embedded are the engines that this binary links.
func embedded() []engine.Engine {
	all := []engine.Engine{pebble1.Engine{}, pebble2.Engine{}, goleveldb.Engine{}, bbolt.Engine{}}
	return append(all, mem.Engine{}, null.Engine{})
}

func embeddedTrees() []tree.Tree { return []tree.Tree{nulltree.Tree{}} }

func embeddedLayouts() []layout.Layout {
	// With one table over another in L0, Pebble at rest would be in one of two conditions, by
	// chance; go-ethereum sets the same, so that its L0 is compacted when it rests.
	rests := map[string]string{"L0CompactionThreshold": "2"}
	return append([]layout.Layout{flat.Layout{
		Name:   "flat-pebble",
		Engine: pebble2.Engine{},
		Built:  rests,
	}}, linuxLayouts()...)
}

func newTables() runners.Tables {
	return runners.NewTables(infos[engine.Info](embedded()), infos[tree.Info](embeddedTrees()),
		infos[layout.Info](embeddedLayouts()),
		runnerVerb, treeRunnerVerb, stateRunnerVerb)
}

func infos[Info any, Item interface{ Info() Info }](items []Item) (infos []Info) {
	for _, item := range items {
		infos = append(infos, item.Info())
	}
	return infos
}
