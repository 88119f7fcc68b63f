package main

import (
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/plan/experiment"
)

// flagGroups are the headings of a measuring verb's flags: by section of the experiment file,
// then those that no file holds.
var flagGroups = [][2]string{
	{"subject", "What is measured"}, {"database", "Database"}, {"load", "Keys of a database that is loaded"}, {"state", "State and its lookups"},
	{"changes", "Changes"}, {"workload", "Workload"}, {"price", "Price"}, {"disk", "Disk"}, {experiment.Run, "Runs"}, {"cluster", "Cluster"},
	{"", "Results and control"},
}

// flagUsages lists the flags of cmd, in groups if an experiment declares them.
func flagUsages(cmd *cobra.Command) string {
	groups, grouped := map[string]*pflag.FlagSet{}, false
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		section := strings.Join(flag.Annotations[experiment.Section], "")
		if groups[section] == nil {
			groups[section] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		groups[section].AddFlag(flag)
		grouped = grouped || section != ""
	})
	if !grouped {
		return "Flags:\n" + strings.TrimRight(cmd.LocalFlags().FlagUsages(), " \n")
	}
	var all []string
	for _, group := range flagGroups {
		if flags := groups[group[0]]; flags != nil && flags.HasAvailableFlags() {
			all = append(all, group[1]+":\n"+strings.TrimRight(flags.FlagUsages(), " \n"))
		}
	}
	return strings.Join(all, "\n\n")
}

// knowFlagUsages runs once: cobra keeps functions of templates in a map of all commands.
var knowFlagUsages = sync.OnceFunc(func() { cobra.AddTemplateFunc("flagUsages", flagUsages) })

// groupFlags makes the help of root and its verbs list flags as flagUsages does.
func groupFlags(root *cobra.Command) {
	knowFlagUsages()
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{flagUsages .}}", 1))
}
