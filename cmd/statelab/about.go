package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/host"
)

// version of statelab; CHANGELOG.md tells what moved a number in it.
const version = "0.1.0"

func (a *app) versionVerb() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version of statelab and of the engines in it", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(a.stdout, "statelab %s, %s %s/%s%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision())
			for _, row := range a.engineRows() {
				if row.Available {
					fmt.Fprintf(a.stdout, "%-9s %s\n", row.Name, row.Version)
				}
			}
			return nil
		}}
}

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return ", commit " + s.Value[:min(12, len(s.Value))]
		}
	}
	return ""
}

func (a *app) workloadsVerb() *cobra.Command {
	return &cobra.Command{Use: "workloads", Short: "List the workloads", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, w := range workload.All() {
				fmt.Fprintf(a.stdout, "%-5s --workload %-17s %s\n", w.Verb, w.Name, w.Text)
			}
			return nil
		}}
}

func (a *app) doctorVerb() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{Use: "doctor", Short: "Examine this machine: what would spoil a measurement, and the remedy", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			findings := host.Doctor(a.ctx, dir)
			if asJSON {
				return a.printJSON(findings)
			}
			doubts := 0
			for _, f := range findings {
				if f.Verdict != host.OK {
					doubts++
				}
			}
			fmt.Fprintf(a.stdout, "%s of %d would touch a measurement in %s\n\n", plural(doubts, "finding"), len(findings), dir)
			table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, f := range findings {
				fmt.Fprintf(table, "%s\t%s\t%s\n", f.Verdict, f.Name, f.State)
				if f.Verdict != host.OK {
					fmt.Fprintf(table, "\t\tspoils: %s\n\t\tremedy: %s\n", f.Spoils, f.Remedy)
				}
			}
			return table.Flush()
		}}
	cmd.Flags().StringVar(&dir, "db", ".", "where databases are going to be")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) volumeVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "volume", Short: "Make a private loop device: databases in it get exact device reads (root)",
		Long: `A volume is a file with a filesystem, mounted through a loop device of its own.
The kernel's counters of that device are then those of the database alone.

  statelab volume create V --size 4GiB     (mounts V.mount)
  statelab load --db V.mount/D --keys 5M
  statelab volume remove V`,
		RunE: func(cmd *cobra.Command, args []string) error { return usage("volume create or volume remove") }}
	var size string
	create := &cobra.Command{Use: "create IMAGE --size SIZE", Short: "Make and mount a volume", RunE: func(_ *cobra.Command, args []string) error {
		m := new(mistakes)
		bytes, err := unit.ParseBytes(size)
		if err != nil {
			m.add("--size: %v", err)
		}
		if len(args) != 1 {
			m.add("name one image file: statelab volume create V --size 4GiB")
		}
		if err := m.err(); err != nil {
			return err
		}
		mount, err := host.VolumeCreate(a.ctx, absolute(args[0]), bytes)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.stdout, mount)
		return nil
	}}
	create.Flags().StringVar(&size, "size", "", "bytes of the volume, such as 4GiB")
	remove := &cobra.Command{Use: "remove IMAGE", Short: "Unmount a volume and delete it with all databases inside", RunE: func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("name one image file: statelab volume remove V")
		}
		return host.VolumeRemove(absolute(args[0]))
	}}
	cmd.AddCommand(create, remove)
	return cmd
}
