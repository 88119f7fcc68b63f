package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/report/doc"
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
	if i := slices.IndexFunc(all,
		func(e engine.Engine) bool { return e.Info().Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

func (a *app) enginesVerb() *cobra.Command {
	var asJSON, listsWorkloads bool
	cmd := &cobra.Command{
		Use:   "engines [ENGINE]",
		Short: "List engines, trees, layouts and profiles, and what is missing",
		Long: "List engines, trees, layouts and profiles, and what is missing. Of one engine, " +
			"also its options.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, names []string) error {
			if listsWorkloads {
				return a.show(workloads())
			}

			rows := runners.EngineRows(a.tables.Engines)
			if len(names) > 0 {
				row, err := rowOf(rows, names[0])
				if err != nil {
					return err
				}

				if asJSON {
					return a.printJSON(row)
				}

				return a.show(runners.OptionsOf(row))
			}

			if asJSON {
				return a.printJSON(rows)
			}

			return a.show(runners.ListOf(rows, a.tables))
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&listsWorkloads, "workloads", false,
		"list the workloads of load and sweep instead")
	return cmd
}

// rowOf is the engine of that name.
func rowOf(rows []runners.EngineRow, name string) (row runners.EngineRow, err error) {
	var names []string
	for _, row := range rows {
		if row.Name == name {
			return row, nil
		}
		names = append(names, row.Name)
	}

	return row, engine.Fail(engine.CodeUsage, "unknown engine %q: use one of %s", name,
		strings.Join(names, ", "))
}

// workloads lists those that load and sweep can issue, under their names in db_bench.
func workloads() *doc.Document {
	d := &doc.Document{Title: "Workloads"}
	d.Add("Workloads", doc.Block{Table: doc.ListOf(
		[]string{"verb", "--workload", "what it does"},
		workload.All(),
		func(w workload.About) []string { return []string{w.Verb, w.Name, w.Text} },
	)})
	return d
}

// finder finds engines for a sweep, and reports what is missing to m.
type finder struct {
	*app
	m    *mistakes
	flag string // that names the engine; "": the database does, and nobody typed it
}

// finder finds for a command whose --engine was typed or not.
func (a *app) finder(m *mistakes, typed bool) finder {
	if typed {
		return finder{a, m, "engine"}
	}
	return finder{a, m, ""}
}

// Find implements sweep.Engines.
func (f finder) Find(names ...string) engine.Engine {
	f.tables.Engines.FindAll(f.flag, names, &f.m.Mistakes)
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
