package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestHelpListsEveryFlag: a section of the experiment file without a heading would hide its flags.
func TestHelpListsEveryFlag(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		listed := flagUsages(cmd)
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden && !strings.Contains(listed, " --"+flag.Name+" ") {
				t.Errorf("%s: the help lacks --%s", cmd.CommandPath(), flag.Name)
			}
		})
		if usage := cmd.UsageString(); cmd.HasAvailableLocalFlags() && !strings.Contains(usage, listed) {
			t.Errorf("%s: the usage does not list its flags by group:\n%s", cmd.CommandPath(), usage)
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check((&app{stdout: io.Discard, stderr: io.Discard}).root())
}
