package runners

import (
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/tree"
)

// Installed is an engine, tree or layout of this version, and the program that measures it.
type Installed struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Program string `json:"program,omitempty"` // its file's name
	Beside  bool   `json:"beside_statelab"`   // else on PATH
	Missing string `json:"missing,omitempty"` // why it does not run here
}

// Installed lists all that can be measured, whether it runs here or not.
func (t Tables) Installed() []Installed {
	return append(append(installed(t.Engines), installed(t.Trees)...), installed(t.Layouts)...)
}

func installed[Info protocol.Info](t *Table[Info]) (all []Installed) {
	kind, _, _ := protocol.Common(*new(Info))
	for _, name := range t.Names() {
		i := Installed{Kind: kind, Name: name}
		found, err := t.FindKnown(name)
		if err != nil {
			i.Missing = err.Error()
			all = append(all, i)
			continue
		}

		switch info := any(found.Info).(type) {
		case engine.Info:
			i.Version = info.Version
		case tree.Info:
			i.Version = info.Version
		case layout.Info:
			i.Version = info.Version
		}

		i.Program, i.Missing = filepath.Base(found.Path), found.Missing
		i.Beside = filepath.Dir(found.Path) == filepath.Dir(Self())
		all = append(all, i)
	}

	return all
}
