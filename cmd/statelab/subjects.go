package main

import (
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/bbolt"
	"github.com/statelab/statelab/engines/goleveldb"
	"github.com/statelab/statelab/engines/mem"
	"github.com/statelab/statelab/engines/null"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
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
	return append([]layout.Layout{flat.Layout{Name: "flat-pebble", Engine: pebble2.Engine{}, Built: rests}}, linuxLayouts()...)
}

// tables are all that can be measured.
type tables struct {
	engines *runners.Table[engine.Info]
	trees   *runners.Table[tree.Info]
	layouts *runners.Table[layout.Info]
}

func newTables() tables {
	t := tables{
		&runners.Table[engine.Info]{Linked: infos[engine.Info](embedded()), Verb: runnerVerb, Cgo: os.Getenv(runners.CgoVariable)},
		&runners.Table[tree.Info]{Linked: infos[tree.Info](embeddedTrees()), Verb: treeRunnerVerb, Plugged: runners.PluggedTrees},
		&runners.Table[layout.Info]{Linked: infos[layout.Info](embeddedLayouts()), Verb: stateRunnerVerb, Plugged: runners.PluggedLayouts},
	}
	for _, e := range subject.Engines() {
		t.engines.Outside = t.engines.Outside.With(e.Name, e.Program)
		t.engines.Rebuilt = t.engines.Rebuilt.With(e.Name, e.WithCgo)
	}
	for _, of := range subject.Trees() {
		t.trees.Outside = t.trees.Outside.With(of.Name, of.Program)
	}
	for _, l := range subject.Layouts() {
		t.layouts.Outside = t.layouts.Outside.With(l.Name(), l.Program)
	}
	return t
}

// runner is the runner of a spec's subject.
func (t tables) runner(spec protocol.Spec) (runners.Runner, error) {
	name := spec.Head().Subject
	switch spec.(type) {
	case *protocol.TreeSpec:
		return t.trees.Runner(name)
	case *protocol.LayoutSpec:
		return t.layouts.Runner(name)
	}
	return t.engines.Runner(name)
}

func infos[Info any, Item interface{ Info() Info }](items []Item) (infos []Info) {
	for _, item := range items {
		infos = append(infos, item.Info())
	}
	return infos
}
