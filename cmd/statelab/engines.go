package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/plan/runners"
)

// engine finds an engine by name, here or in its runner.
func (a *app) engine(name string, m *mistakes) engine.Engine {
	a.tables.Engines.FindAll("engine", []string{name}, &m.Mistakes)
	found := a.tables.Engines.Found[name]
	if found == nil {
		return nil
	}
	if e := linked(name); e != nil && found.Path == runners.Self() {
		return e
	}
	return runners.Engine{Found: found}
}

// linked is an engine of this binary, whichever build is measured: for looking into a database in
// this process; nil for one that it does not link.
func linked(name string) engine.Engine {
	all := embedded()
	if i := slices.IndexFunc(all, func(e engine.Engine) bool { return e.Info().Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

func (a *app) enginesVerb() *cobra.Command {
	var asJSON, workloads bool
	cmd := &cobra.Command{Use: "engines", Short: "List engines, trees, layouts and profiles, and what is missing", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			if workloads {
				for _, w := range workload.All() {
					fmt.Fprintf(a.stdout, "%-5s --workload %-17s %s\n", w.Verb, w.Name, w.Text)
				}
				return nil
			}
			rows := runners.EngineRows(a.tables.Engines)
			if asJSON {
				return a.printJSON(rows)
			}
			for _, row := range rows {
				row.Text(a.stdout)
			}
			runners.List(a.stdout, "Trees, for statelab replay --tree", a.tables.Trees)
			runners.List(a.stdout, "Layouts of state, for statelab layouts --layout", a.tables.Layouts)
			runners.Watchable(a.stdout)
			runners.Capabilities(a.stdout, rows)
			return nil
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&workloads, "workloads", false, "list the workloads of load and sweep instead")
	return cmd
}

// finder finds engines for a sweep, and reports what is missing to m.
type finder struct {
	*app
	m *mistakes
}

// Find implements sweep.Engines.
func (f finder) Find(names ...string) engine.Engine {
	f.tables.Engines.FindAll("engine", names, &f.m.Mistakes)
	for _, name := range names {
		if f.tables.Engines.Found[name] != nil {
			return f.engine(name, f.m)
		}
	}
	return nil
}

// Known implements sweep.Engines.
func (f finder) Known(name string) bool { return slices.Contains(f.tables.Engines.Names(), name) }

// UseLibrary implements sweep.Engines.
func (f finder) UseLibrary(options ...map[string]string) {
	f.tables.Engines.UseLibrary(options...)
}

// MemTables implements sweep.Engines.
func (finder) MemTables(name, profile string, cacheBytes int64, readOnly bool) int64 {
	return curve.MemTables(name, profile, cacheBytes, readOnly)
}
