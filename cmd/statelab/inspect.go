package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/unit"
	"github.com/statelab/statelab/result"
)

func (a *app) inspectVerb() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "inspect DIR",
		Short: "Show a database's levels and inflection points without reading its data",
		Long: `Inspect opens a Pebble database read-only and prints its level table and the two
cache sizes that matter: IP1 (filters and top-level indexes) and IP2 (those and
all indexes), on disk and as a cache must hold them.`,
	}
	f.outputFlags(cmd)
	cmd.Flags().StringVar(&f.engine, "engine", "", "engine to open it with (default: the database's own)")
	cmd.Flags().BoolVar(&f.ignoreLock, "ignore-lock", false, "look although another process holds the database")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.inspect(cmd, f, args) }
	return cmd
}

// inspection is what inspect --json prints.
type inspection struct {
	Schema     string             `json:"schema"`
	Database   result.Database    `json:"database"`
	Levels     any                `json:"levels"`
	Inflection *result.Inflection `json:"inflection"`
}

func (a *app) inspect(cmd *cobra.Command, f *flags, args []string) error {
	m := new(mistakes)
	m.unknownFlags(cmd, a.args)
	if len(args) != 1 {
		m.add("name one database: statelab inspect DIR")
	}
	if err := m.err(); err != nil {
		return err
	}
	run, err := a.inspectDatabase(args[0], f.ignoreLock, f.quiet)
	if err != nil {
		return err
	}
	if f.json {
		return a.printJSON(inspection{"statelab.inspect/1", run.Database, run.Database.Levels, run.Inflection})
	}
	fmt.Fprintf(a.stdout, "%s in %s (%s %s)\n\n", unit.Bytes(run.Database.Bytes), plural(run.Database.Files, "file"), run.Engine.Name, run.Engine.Version)
	a.printLevels(run)
	return nil
}

// printLevels prints the level table and the inflection points.
func (a *app) printLevels(run *result.Run) {
	if len(run.Database.Levels) == 0 {
		return
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "level\tfiles\tsize\tkeys\tdata blocks\tindex\ttop index\tfilters\t")
	for _, l := range run.Database.Levels {
		filters := unit.Bytes(l.FilterBytes)
		if !l.FilterConsulted && l.FilterBytes > 0 {
			filters += " *"
		}
		fmt.Fprintf(table, "L%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.Level, l.Files, unit.Bytes(l.Bytes), unit.Count(l.Keys), unit.Count(l.DataBlocks),
			unit.Bytes(l.IndexBytes), unit.Bytes(l.TopIndexBytes), filters)
	}
	if err := table.Flush(); err != nil {
		return // stdout is gone: the exit will tell
	}
	i := run.Inflection
	if i == nil {
		return
	}
	fmt.Fprintf(a.stdout, "\n%-41s %10s  %10s\n", "", "on disk", "in cache")
	row := func(name string, s result.Size) {
		fmt.Fprintf(a.stdout, "%-41s %10s  %10s  (%s%% of the database)\n", name, unit.Bytes(s.DiskBytes), unit.Bytes(s.CacheBytes), unit.Significant(s.CachePercent, 3))
	}
	row("IP1: filters Gets consult, top indexes", i.IP1)
	row("IP2: IP1 and all indexes", i.IP2)
	if i.LastLevelFilterBytes > 0 {
		fmt.Fprintf(a.stdout, "* %s of filters on the last level are never consulted by a Get\n", unit.Bytes(i.LastLevelFilterBytes))
	}
}
