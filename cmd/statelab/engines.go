package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
)

// engine finds an engine by name, here or in its runner.
func (a *app) engine(name string, m *mistakes) engine.Engine {
	a.tables.engines.FindAll("engine", []string{name}, &m.Mistakes)
	found := a.tables.engines.Found[name]
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

// tellLibrary lets the native runner know which library it is asked about before
// any option reaches it: its answers depend on that.
func (a *app) tellLibrary(m *mistakes, overrides ...map[string]string) {
	for _, o := range overrides {
		path, given := o[libraryOption]
		if !given {
			continue
		}
		if err := os.Setenv(libraryVariable, absolute(path)); err != nil {
			m.add("--set %s=%s: %v", libraryOption, path, err)
		}
		return
	}
}

// The names engines/cengine takes its library by.
const (
	libraryOption   = "library"
	libraryVariable = "STATELAB_NATIVE_LIBRARY"
)

// engineRow is a row of engines --json.
type engineRow struct {
	engine.Info
	Available bool   `json:"available"`
	Missing   string `json:"missing,omitempty"` // why not, and the command that fixes it
	Runner    string `json:"runner,omitempty"`  // path of the engine's own runner
}

func (a *app) engineRows() (rows []engineRow) {
	for _, info := range a.tables.engines.Linked {
		row := engineRow{Info: info, Available: true}
		switch found, err := a.tables.engines.Look(info.Name); {
		case err != nil:
			row.Available, row.Missing = false, err.Error()
		case found.Path != runners.Self():
			row.Info, row.Runner = found.Info, found.Path
		}
		rows = append(rows, row)
	}
	for _, known := range a.tables.engines.Outside {
		found, err := a.tables.engines.Look(known.Name)
		if err != nil {
			rows = append(rows, engineRow{Missing: err.Error(), Info: engine.Info{
				Name: known.Name, Route: "runner " + known.Runner, Licence: known.Licence, Capabilities: []engine.Capability{}, Profiles: []engine.Profile{}}})
			continue
		}
		rows = append(rows, engineRow{Info: found.Info, Available: found.Missing == "", Missing: found.Missing, Runner: found.Path})
	}
	return rows
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
			rows := a.engineRows()
			if asJSON {
				return a.printJSON(rows)
			}
			for _, row := range rows {
				fmt.Fprintf(a.stdout, "%s %s (%s, %s)\n", row.Name, cmp.Or(row.Version, "?"), row.Route, row.Licence)
				if measures := a.measures(row); measures != "" {
					fmt.Fprintf(a.stdout, "  measured by: %s\n", measures)
				}
				if !row.Available {
					fmt.Fprintf(a.stdout, "  does not run here: %s\n", row.Missing)
				}
				if len(row.Capabilities) > 0 {
					fmt.Fprintf(a.stdout, "  can: %s\n", strings.Join(words(row.Capabilities), ", "))
				}
				if row.Durability != "" {
					fmt.Fprintf(a.stdout, "  durability: %s\n", row.Durability)
				}
				for _, p := range row.Profiles {
					fmt.Fprintf(a.stdout, "  --profile %-14s %s\n", p.Name, p.About)
				}
			}
			listed(a, "Trees, for statelab replay --tree", a.tables.trees)
			listed(a, "Layouts of state, for statelab layouts --layout", a.tables.layouts)
			fmt.Fprintln(a.stdout, "\nWhat \"can\" lists:")
			for _, c := range capabilities() {
				if slices.ContainsFunc(rows, func(row engineRow) bool { return row.Has(c[0]) }) {
					fmt.Fprintf(a.stdout, "  %-15s %s\n", c[0], c[1])
				}
			}
			return nil
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&workloads, "workloads", false, "list the workloads of load and sweep instead")
	return cmd
}

// capabilities are those of engines, with what they mean to a user.
func capabilities() [][2]engine.Capability {
	return [][2]engine.Capability{
		{engine.CanReadBlocks, "block reads are counted by type and level"},
		{engine.CanTraceAccesses, "the block accesses of a Get can be shown"},
		{engine.CanDirect, "--page-cache direct: reads with O_DIRECT"},
		{engine.CanIngest, "--workload fillsorted: a database is built from sorted keys"},
		{engine.CanReadForeign, "--use-existing: databases of other programs, which are never written"},
		{engine.CanBudget, "--memory: one budget for all that the engine keeps in memory"},
		{engine.CanGetMany, "--workload multireadrandom: a call of its own for several keys"},
		{engine.SharesReads, "a Get that waits for another Get's read of a block counts as a cache miss"},
		{engine.UsesPageCache, "it maps its files: the operating system's page cache is its cache"},
		{engine.FaultsInGo, "a page fault keeps one of Go's processors waiting"},
		{engine.HasNoCache, "it has no block cache: --cache has no effect"},
		{engine.HasNoHandles, "it keeps all files open: --handles has no effect"},
		{engine.AllocatesPerGet, "a Get allocates memory"},
		{engine.IsVolatile, "nothing is stored on disk"},
		{engine.KeepsNothing, "every key is found, with any value: answers are not checked"},
	}
}

// measures says which build of an engine measures that there are two of, and why.
func (a *app) measures(row engineRow) string {
	known := a.tables.engines.Rebuilt.Of(row.Name)
	switch {
	case known == nil || !row.Available:
		return ""
	case row.Runner != "":
		return fmt.Sprintf("%s, with cgo as nodes run it (%s=%s: this program, in pure Go)", row.Runner, runners.CgoVariable, runners.NeverCgo)
	case a.tables.engines.Cgo == runners.NeverCgo:
		return fmt.Sprintf("this program, in pure Go, as %s=%s asks", runners.CgoVariable, runners.NeverCgo)
	}
	return fmt.Sprintf("this program, in pure Go; with cgo as nodes run it: %s", known.Fix)
}

// listed names trees or layouts and what builds them. It asks no runner.
func listed[Info protocol.Info](a *app, heading string, table *runners.Table[Info]) {
	fmt.Fprintf(a.stdout, "\n%s:\n", heading)
	for _, info := range table.Linked {
		_, name, _ := protocol.Common(info)
		fmt.Fprintf(a.stdout, "%s (built in)\n", name)
	}
	for _, known := range table.Outside {
		fmt.Fprintf(a.stdout, "%s (%s, %s)\n  %s\n  built by: %s\n", known.Name, known.Runner, known.Licence, known.About, known.Fix)
	}
}

func words[T ~string](values []T) (words []string) {
	for _, v := range values {
		words = append(words, string(v))
	}
	return words
}

// finder finds engines for a sweep, and reports what is missing to m.
type finder struct {
	*app
	m *mistakes
}

// Find implements sweep.Engines.
func (f finder) Find(names ...string) engine.Engine {
	f.tables.engines.FindAll("engine", names, &f.m.Mistakes)
	for _, name := range names {
		if f.tables.engines.Found[name] != nil {
			return f.engine(name, f.m)
		}
	}
	return nil
}

// Known implements sweep.Engines.
func (f finder) Known(name string) bool { return slices.Contains(f.tables.engines.Names(), name) }

// UseLibrary implements sweep.Engines.
func (f finder) UseLibrary(options ...map[string]string) { f.tellLibrary(f.m, options...) }

// MemTables implements sweep.Engines.
func (finder) MemTables(name, profile string, cacheBytes int64, readOnly bool) int64 {
	if !subject.IsPebble(name) {
		return 0
	}
	bytes, err := pebbledb.OpenReserveBytes(name, profile, cacheBytes, readOnly)
	if err != nil {
		return 0 // a profile that is not known is reported as such
	}
	return bytes
}
