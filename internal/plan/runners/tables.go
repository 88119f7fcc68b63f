package runners

import (
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/tree"
)

// Tables are all that can be measured.
type Tables struct {
	Engines *Table[engine.Info]
	Trees   *Table[tree.Info]
	Layouts *Table[layout.Info]
}

// NewTables are those of a program that links some of them; a verb each starts it as the runner of its engines, trees and layouts.
func NewTables(engines []engine.Info, trees []tree.Info, layouts []layout.Info, engineVerb, treeVerb, layoutVerb string) Tables {
	t := Tables{
		&Table[engine.Info]{Linked: engines, Verb: engineVerb, Cgo: os.Getenv(CgoVariable)},
		&Table[tree.Info]{Linked: trees, Verb: treeVerb, Plugged: PluggedTrees},
		&Table[layout.Info]{Linked: layouts, Verb: layoutVerb, Plugged: PluggedLayouts},
	}
	for _, e := range subject.Engines() {
		t.Engines.Outside = t.Engines.Outside.With(e.Name, e.Program)
		t.Engines.Rebuilt = t.Engines.Rebuilt.With(e.Name, e.WithCgo)
	}
	for _, of := range subject.Trees() {
		t.Trees.Outside = t.Trees.Outside.With(of.Name, of.Program)
	}
	for _, l := range subject.Layouts() {
		t.Layouts.Outside = t.Layouts.Outside.With(l.Name(), l.Program)
	}
	return t
}

// Runner is the runner of a spec's subject.
func (t Tables) Runner(spec protocol.Spec) (Runner, error) {
	name := spec.Head().Subject
	switch spec.(type) {
	case *protocol.TreeSpec:
		return t.Trees.Runner(name)
	case *protocol.LayoutSpec:
		return t.Layouts.Runner(name)
	}
	return t.Engines.Runner(name)
}

// Programs are this one and the runners that were found.
func (t Tables) Programs() []string {
	all := append([]string{Self()}, t.Engines.Paths()...)
	return Unique(append(append(all, t.Trees.Paths()...), t.Layouts.Paths()...))
}
