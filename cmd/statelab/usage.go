package main

import (
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/plan/sweep"
)

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
func (a *app) checked(cmd *cobra.Command, do func(m *mistakes, args []string) error) *cobra.Command {
	return commandline.Check(cmd, func() []string { return a.args }, func(m *setting.Mistakes, args []string) error {
		return do(&mistakes{commandline.Line{Mistakes: *m}}, args)
	})
}

// noArguments is for commands that take none.
func noArguments(_ *cobra.Command, args []string) error {
	m := new(mistakes)
	m.NoArguments(args)
	return m.Err()
}

// find finds a database that is only looked at, and the engine that reads it.
func (a *app) find(w sweep.Wanted, m *mistakes) sweep.Target {
	return w.Find(finder{a, m}, &m.Mistakes)
}

// outFolder is where results go: --out, or a new folder.
func outFolder(out, verb string) string {
	if out != "" {
		return absolute(out)
	}
	return absolute(filepath.Join("statelab-runs", verb+"-"+time.Now().UTC().Format("20060102-150405.000")))
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
