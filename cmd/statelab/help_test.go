package main

import (
	"context"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestHelpAllListsEveryFlag: a section of the experiment file without a heading would hide its
// flags.
func TestHelpAllListsEveryFlag(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		listed := flagHelp.Flags(cmd, true)
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden && flag.Name != "help-all" &&
				!strings.Contains(listed, " --"+flag.Name+" ") {
				t.Errorf("%s: the help lacks --%s", cmd.CommandPath(), flag.Name)
			}
		})

		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}

	check((&app{stdout: io.Discard, stderr: io.Discard}).root())
}

// TestHelpFitsAScreen: a help text has at most 40 lines, and names only flags that exist.
func TestHelpFitsAScreen(t *testing.T) {
	const most = 40
	a := &app{
		ctx:    context.Background(),
		stdout: io.Discard,
		stderr: io.Discard,
		tables: newTables(),
	}

	root := a.root()
	left := maps.Clone(usual)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		var text strings.Builder
		cmd.SetOut(&text)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}

		if n := strings.Count(text.String(), "\n"); n > most {
			t.Errorf("%s --help has %d lines, and at most %d are allowed", cmd.CommandPath(), n,
				most)
		}

		for line := range strings.Lines(text.String()) {
			if cmd == root && len(line) > 84 {
				t.Errorf("the help has a long line: %s", line)
			}
		}

		name := strings.TrimPrefix(cmd.CommandPath(), "statelab ")
		for _, flag := range strings.Fields(left[name]) {
			if cmd.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no flag --%s, which its help shows", name, flag)
			}
		}

		delete(left, name)
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}

	check(root)
	if len(left) > 0 {
		t.Errorf("no such commands: %v", left)
	}
}

// --help-all shows the flags that --help leaves out, in sections; manual pages have them too.
func TestHelpAll(t *testing.T) {
	short, all := must(t, "sweep", "--help").stdout, must(t, "sweep", "--help-all").stdout
	for _, want := range []string{"\nCluster:\n", " --db-at ", "\nDisk:\n"} {
		if strings.Contains(short, want) || !strings.Contains(all, want) {
			t.Errorf("%q belongs into --help-all alone", want)
		}
	}
}
