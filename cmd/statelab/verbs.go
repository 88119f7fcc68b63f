package main

import (
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/observe/host"
)

// questions are the verbs by what they answer, in the order of the help.
func (a *app) questions() []commandline.Question {
	return []commandline.Question{
		{Title: "Ask a node", Commands: []*cobra.Command{a.watchVerb(), a.adviseVerb()}},
		{Title: "Measure", Commands: []*cobra.Command{a.loadVerb(), a.sweepVerb(), a.replayVerb(), a.layoutsVerb(), a.diskVerb(), a.runVerb()}},
		{Title: "Explain and predict", Commands: []*cobra.Command{a.inspectVerb(), a.traceVerb(), a.simulateVerb(), a.predictVerb(), a.tuneVerb(), a.priceVerb()}},
		{Title: "Compare and share", Commands: []*cobra.Command{a.reportVerb(), a.compareVerb(), a.packVerb()}},
		{Title: "Chain data", Commands: []*cobra.Command{a.changesetVerb(), a.accessesVerb(), a.importVerb()}},
		{Title: "This machine", Commands: []*cobra.Command{a.enginesVerb(), a.doctorVerb(), a.volumeVerb(), a.clusterVerb()}},
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
	root.PersistentFlags().BoolVar(&a.quiet, "quiet", false, "show no progress; warnings are shown all the same")
	root.PersistentFlags().BoolVar(&a.helpAll, "help-all", false, "help with all flags, in sections")
	root.SetHelpCommand(&cobra.Command{Use: "help [command]", Short: "Help about any command", RunE: func(cmd *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		if err != nil {
			return usage("%v", err)
		}
		if len(rest) > 0 {
			return unknownCommand(found, rest[0])
		}
		found.InitDefaultHelpFlag()
		return found.Help()
	}})
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(commandline.Dashed(name))
	})
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	questions := a.questions()
	for _, q := range questions {
		root.AddCommand(q.Commands...)
	}
	root.SetUsageFunc(func(cmd *cobra.Command) error { return flagHelp.Usage(cmd, a.helpAll, questions, controls) })
	completeValues(root, newTables())
	if runtime.GOOS != "linux" {
		a.needLinux(runtime.GOOS, root.Commands())
	}
	return root
}
