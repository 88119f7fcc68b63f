package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/explain/compare"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
)

// questions are the verbs by what they answer, in the order of the help.
func (a *app) questions() []commandline.Question {
	return []commandline.Question{
		{Title: "Ask a node", Commands: []*cobra.Command{a.watchVerb(), a.adviseVerb()}},
		{
			Title: "Measure",
			Commands: []*cobra.Command{a.loadVerb(), a.sweepVerb(), a.replayVerb(),
				a.layoutsVerb(), a.diskVerb(), a.runVerb()},
		},
		{
			Title: "Explain and predict",
			Commands: []*cobra.Command{a.inspectVerb(), a.traceVerb(), a.simulateVerb(),
				a.predictVerb(), a.tuneVerb(), a.priceVerb()},
		},
		{
			Title:    "Compare and share",
			Commands: []*cobra.Command{a.reportVerb(), a.compareVerb(), a.packVerb()},
		},
		{
			Title:    "Chain data",
			Commands: []*cobra.Command{a.changesetVerb(), a.accessesVerb(), a.importVerb()},
		},
		{
			Title: "This machine",
			Commands: []*cobra.Command{a.enginesVerb(), a.doctorVerb(), a.volumeVerb(),
				a.clusterVerb()},
		},
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "statelab",
		Short: "What does it really cost to look up a piece of blockchain state?",
		Long: `Statelab measures what a lookup of blockchain state costs, down to the device,
explains it by block type and level, and says how large a cache must be.`,
		Example: `  sudo statelab watch --name geth               what your running node reads
  statelab advise CHAINDATA                     which cache your node needs
  statelab sweep --keys 5M --cache 0.1%,1%,3%   make a database and measure it`,
		SilenceUsage: true, SilenceErrors: true, Version: host.VersionLine(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}

			m := new(mistakes)
			commandline.UnknownFlags(&m.Mistakes, cmd, a.args)
			return m.Err()
		},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.helpAll {
				return pflag.ErrHelp
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	root.FParseErrWhitelist.UnknownFlags = true // they are told with all other mistakes
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().BoolVar(&a.quiet, "quiet", false,
		"show no progress; warnings are shown all the same")
	root.PersistentFlags().BoolVar(&a.helpAll, "help-all", false,
		"help with all flags, in sections")
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil {
				return usage("%v", err)
			}

			if len(rest) > 0 {
				return unknownCommand(found, rest[0])
			}

			found.InitDefaultHelpFlag()
			return found.Help()
		},
	})

	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(commandline.Dashed(name))
	})
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	questions := a.questions()
	for _, q := range questions {
		root.AddCommand(q.Commands...)
	}

	for _, verb := range root.Commands() { // to which cobra has just given the root's function
		setting.KeepAliases(verb.Flags())
	}

	root.SetUsageFunc(func(cmd *cobra.Command) error {
		return flagHelp.Usage(cmd, a.helpAll, questions, controls)
	})
	completeValues(root, newTables())
	if runtime.GOOS != "linux" {
		a.needLinux(runtime.GOOS, root.Commands())
	}

	return root
}

// mistakes collects what is wrong with a command line or an experiment file.
type mistakes struct{ commandline.Line }

// usage is one mistake.
func usage(format string, args ...any) error { return setting.Usage(format, args...) }

func unknownCommand(parent *cobra.Command, name string) error {
	return commandline.Unknown(new(setting.Mistakes), parent, name)
}

// group makes cmd, which does nothing itself, name its commands.
func (a *app) group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	return a.checked(cmd, func(m *mistakes, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		m.Add("%s needs a command: %s --help lists them", cmd.Name(), cmd.CommandPath())
		return m.Err()
	})
}

// checked makes cmd do its work with a list of the mistakes on its command line.
func (a *app) checked(
	cmd *cobra.Command, do func(m *mistakes, args []string) error,
) *cobra.Command {
	return commandline.Check(
		cmd,
		func() []string { return a.args },
		func(m *setting.Mistakes, args []string) error {
			return do(&mistakes{commandline.Line{Mistakes: *m}}, args)
		},
	)
}

// noArguments is for commands that take none.
func noArguments(_ *cobra.Command, args []string) error {
	m := new(mistakes)
	m.NoArguments(args)
	return m.Err()
}

// find finds a database that is only looked at, and the engine that reads it.
func (a *app) find(w sweep.Wanted, m *mistakes) sweep.Target {
	return w.Find(a.finder(m, w.Engine != ""), &m.Mistakes)
}

// outFolder is where results go: --out, or a new folder.
func outFolder(out, verb string) string {
	if out != "" {
		return absolute(out)
	}
	return absolute(filepath.Join("statelab-runs", verb+"-"+
		time.Now().UTC().Format("20060102-150405.000")))
}

// makeOut makes the folder of --out, if it is asked for; the end of the command tidies it.
func (a *app) makeOut(out string, folder func(string) (tidy func() error, err error)) error {
	if out == "" {
		return nil
	}

	tidy, err := folder(out)
	if err != nil {
		return usage("--out: %v", err)
	}

	a.ends = append(a.ends, tidy)
	return nil
}

// refuseOther keeps results from being mixed with a folder's other contents.
func refuseOther(dir string) error {
	if err := output.Folder(dir); err != nil {
		return usage("--out: %v", err)
	}
	return nil
}

func absolute(path string) string { return output.Absolute(path) }

// command is what to type to do this again.
func (a *app) command() []string { return append([]string{"statelab"}, a.args...) }

func plural(n int, word string) string { return unit.Plural(n, word) }

// flagHelp lists flags by section of the experiment file, then those that no file holds.
var flagHelp = commandline.Help{
	Usual:   usual,
	Section: experiment.Section,
	Hidden:  "help-all",
	Headings: [][2]string{
		{"subject", "What is measured"},
		{"database", "Database"},
		{"load", "Keys of a database that is loaded"},
		{"state", "State and its lookups"},
		{"changes", "Changes"},
		{"workload", "Workload"},
		{"price", "Price"},
		{"disk", "Disk"},
		{experiment.Run, "Runs"},
		{"cluster", "Cluster"},
		{"", "Results and control"},
	},
}

// usual are the flags that the help of a verb shows if it has more than fit on a screen: those
// that most people use. --help-all shows the others, too.
var usual = map[string]string{
	"load": "db keys key-bytes value-bytes value-model engine profile cache set workload age " +
		"threads seed resume out dry-run json metrics",
	"sweep": "db use-existing keys engine profile cache simulate memory set workload gets warmup " +
		"missing threads rate page-cache repeats seed on " +
		"out resume dry-run json",
	"replay": "tree changes versions stores memory set db discard gets repeats seed on out " +
		"resume dry-run print-experiment json strict",
	"layouts": "layout accounts contracts slots contract-slots predict-accounts predict-memory " +
		"accesses memory set reads updates update-blocks repeats seed on " +
		"out resume dry-run print-experiment json strict",
	"price": "layout accounts contract-slots at contract-at slots-at at-memory hardware " +
		"gas-per-second from memory repeats seed out resume dry-run json strict",
	"run": "on out resume dry-run schema json strict",
	"compare": "run by allow fail-if margin repeats page csv bench out json db keys engine cache " +
		"gets threads",
	"predict": "db keys levels cache engine profile gets warmup missing threads cores hardware " +
		"value-bytes value-model reserve out json",
	"trace": "db run out workload gets warmup missing zipf threads seed use-existing table " +
		"accesses force json on parts",
	"advise": "cache memory gets-per-second latency-goal node-metrics state-growth table " +
		"accesses scheme missing write-rate verify out ignore-lock cores " +
		"profile json",
	"inspect": "as cache missing table engine sample-keys ignore-lock json strict on parts",
}

// controls is what the help of the program says of all commands.
const controls = `"statelab COMMAND --help" shows its flags. Progress and warnings go to stderr.
Exit codes: 0 done; 1 failed; 2 a mistaken command; 3 a warning, with --strict.`

// Names of the release before this one work until the next one. Each use prints the new name.
var names = commandline.Names{
	Commands: map[string]string{
		"read":      "sweep",
		"fidelity":  "inspect --as node",
		"serve":     "report --serve",
		"publish":   "pack create",
		"verify":    "pack verify",
		"site":      "pack site",
		"workloads": "engines --workloads",
		"version":   "--version",
	},
	Flags: map[string]map[string]string{
		"predict": {"layout": "levels"},
		"load":    {"where": "on"},
		"sweep":   {"where": "on"},
		"replay":  {"where": "on"},
		"layouts": {"where": "on"},
		"run":     {"where": "on"},
	},
	Removed: map[string]string{
		"bisect": "bisect was removed: examples/bisect does the same with git bisect run and " +
			"statelab compare --fail-if",
	},
	RemovedFlags: map[string]map[string]string{"predict": {
		"force": "predict --force was removed: predict --out makes a folder, which must be new, " +
			"and report --picture FILE --force of that folder replaces a picture",
		"validate": "predict --validate was removed: statelab-studies validate LOGS does it (in " +
			"statelab's source: go run ./cmd/statelab-studies validate LOGS)",
	}},
}

// completeValues lets shells complete what the flags of a command and of those below it can be.
func completeValues(cmd *cobra.Command, all runners.Tables) {
	for _, below := range cmd.Commands() {
		completeValues(below, all)
	}

	fixed := map[string][]string{
		"engine":      all.Engines.Names(),
		"tree":        all.Trees.Names(),
		"layout":      all.Layouts.Names(),
		"page-cache":  bench.PageCacheModes(),
		"workload":    workload.Names(cmd.Name()),
		"key-hash":    {keyspace.Mix, keyspace.Keccak256},
		"value-model": {keyspace.Random, keyspace.Table32, keyspace.TrieNode},
		"batch-order": {experiment.RandomOrder, experiment.SortedOrder},
		"scheme":      accesses.KeySchemes(),
		"policy":      nil,
		"fail-if":     compare.Names(),
	}

	if cmd.Name() != "load" { // sweep and others read
		fixed["workload"] = workload.Names("sweep")
	}

	if cmd.Name() == "predict" {
		fixed["engine"] = subject.Pebbles()
	}

	for _, p := range cachesim.Policies() {
		fixed["policy"] = append(fixed["policy"], string(p))
	}

	for flag, values := range fixed {
		commandline.Complete(cmd, flag, func() []string { return values })
	}

	commandline.Complete(cmd, "profile", func() []string { return profilesOf(cmd, all) })
}

// profilesOf are those of the engines that the command line names, where the command has
// --engine. An engine that is not here has none.
func profilesOf(cmd *cobra.Command, all runners.Tables) (names []string) {
	chosen := cmd.Flags().Lookup("engine")
	switch {
	case cmd.Name() == "generate":
		for _, p := range changeset.Profiles() {
			names = append(names, p.Name)
		}
	case chosen == nil || cmd.Name() == "predict":
		for _, p := range pebbledb.Profiles() {
			names = append(names, p.Name)
		}
	default:
		for _, name := range setting.Split(cmp.Or(chosen.Value.String(),
			embedded()[0].Info().Name)) {
			if found, err := all.Engines.Find(name); err == nil {
				for _, p := range found.Info.Profiles {
					names = append(names, p.Name)
				}
			}
		}
	}

	return runners.Unique(names)
}

// measuring are the commands that need Linux: they count device reads, drop the page
// cache and limit memory by means of its kernel.
var measuring = []string{"load", "sweep", "replay", "layouts", "price", "run", "disk", "volume",
	"cluster", "watch"}

// errNeedsLinux says what a system other than Linux can do instead.
func errNeedsLinux(what, system string) error {
	return fmt.Errorf("%s needs Linux, and this is %s: measurements use its counters, page cache "+
		"control and memory limits. "+
		"Measure on a Linux machine and copy the results here: predict, simulate, trace, "+
		"inspect, advise, import, report, compare and "+
		"pack work on %s", what, system, system)
}

// needLinux makes the measuring commands say that they need Linux; their help stays.
func (a *app) needLinux(system string, commands []*cobra.Command) {
	for _, cmd := range commands {
		name, _, _ := strings.Cut(strings.TrimPrefix(cmd.CommandPath(), "statelab "), " ")
		for _, of := range measuring {
			if name == of {
				cmd.RunE = func(cmd *cobra.Command, _ []string) error {
					return errNeedsLinux(cmd.CommandPath(), system)
				}
				cmd.Args, cmd.FParseErrWhitelist.UnknownFlags = nil, true
				a.needLinux(system, cmd.Commands())
			}
		}
	}
}
