package main

import (
	"fmt"
	"slices"
	"strings"

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

// usual are the flags that the help of a verb shows if it has more than fit on a screen: those
// that most people use. --help-all shows the others, too.
var usual = map[string]string{
	"load": "db keys key-bytes value-bytes value-model engine profile cache set workload age threads seed resume out dry-run json metrics",
	"sweep": "db use-existing keys engine profile cache memory set workload gets warmup missing threads rate page-cache repeats seed on " +
		"out resume dry-run json strict",
	"replay": "tree changes versions stores memory set db discard gets repeats seed on out resume dry-run print-experiment json strict",
	"layouts": "layout accounts contracts slots contract-slots at at-memory accesses memory set reads updates update-blocks repeats seed on " +
		"out resume dry-run print-experiment json strict",
	"price":   "layout accounts contract-slots at contract-at hardware gas-per-second from memory repeats seed out resume dry-run json strict",
	"run":     "on out resume dry-run schema json strict",
	"compare": "run by allow fail-if margin repeats page csv bench out json db keys engine cache gets threads",
	"predict": "db keys levels cache engine profile gets warmup missing threads cores hardware value-bytes value-model reserve out json",
	"trace":   "db run out workload gets warmup missing zipf threads seed use-existing table accesses force json on parts",
	"advise": "cache memory gets-per-second latency-goal node-metrics table accesses scheme missing write-rate verify out ignore-lock cores " +
		"profile json",
	"inspect": "as cache missing table engine sample-keys ignore-lock json strict on parts",
}

// usage prints what follows the introduction of a help text: the verbs, or the flags.
func (a *app) usage(cmd *cobra.Command, questions []question) error {
	var b strings.Builder
	list := func(commands []*cobra.Command) {
		for _, c := range commands {
			fmt.Fprintf(&b, "  %-9s %s\n", c.Name(), c.Short)
		}
	}
	if cmd.HasParent() {
		fmt.Fprintf(&b, "Usage: %s\n\n", cmd.UseLine())
		if cmd.HasSubCommands() {
			b.WriteString("Commands:\n")
			list(cmd.Commands())
			b.WriteString("\n")
		}
		b.WriteString(flagUsages(cmd, a.helpAll))
		_, err := fmt.Fprintln(cmd.OutOrStderr(), b.String())
		return err
	}
	for _, q := range questions {
		b.WriteString(q.title + ":\n")
		list(q.verbs)
	}
	fmt.Fprintf(&b, "\n%s\n\n", cmd.Example)
	b.WriteString(`"statelab COMMAND --help" shows a command's flags, "statelab --version" the version
of this program. Results go to stdout, progress (unless --quiet) and warnings to
stderr. Exit codes: 0 done; 1 failed; 2 a mistake on the command line; 3 done, but
--strict made a warning fatal.`)
	_, err := fmt.Fprintln(cmd.OutOrStderr(), b.String())
	return err
}

// flagUsages lists the usual flags of cmd, or all of them: in groups if an experiment declares them.
func flagUsages(cmd *cobra.Command, all bool) string {
	name := strings.TrimPrefix(cmd.CommandPath(), "statelab ")
	chosen, isLong := usual[name]
	groups, hidden := map[string]*pflag.FlagSet{}, 0
	add := func(section string, flag *pflag.Flag) {
		if groups[section] == nil {
			groups[section] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		groups[section].AddFlag(flag)
	}
	grouped := false
	each := func(flag *pflag.Flag) {
		section := strings.Join(flag.Annotations[experiment.Section], "")
		switch {
		case flag.Hidden || flag.Name == "help-all":
		case all || !isLong:
			grouped = grouped || section != ""
			add(section, flag)
		case slices.Contains(strings.Fields(chosen), flag.Name):
			add("", flag)
		default:
			hidden++
		}
	}
	cmd.LocalFlags().VisitAll(each)
	cmd.InheritedFlags().VisitAll(each)
	if !grouped {
		text := "Flags:\n"
		for _, flags := range groups {
			text += strings.TrimRight(flags.FlagUsages(), " \n")
		}
		if hidden > 0 {
			text += fmt.Sprintf("\n\nstatelab %s --help-all shows %d more flags", name, hidden)
		}
		return text
	}
	var text []string
	for _, group := range flagGroups {
		if flags := groups[group[0]]; flags != nil {
			text = append(text, group[1]+":\n"+strings.TrimRight(flags.FlagUsages(), " \n"))
		}
	}
	return strings.Join(text, "\n\n")
}
