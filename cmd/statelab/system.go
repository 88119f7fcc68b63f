package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// measuring are the commands that need Linux: they count device reads, drop the page
// cache and limit memory by means of its kernel.
var measuring = []string{"load", "sweep", "replay", "layouts", "price", "run", "disk", "volume", "cluster", "watch"}

// errNeedsLinux says what a system other than Linux can do instead.
func errNeedsLinux(what, system string) error {
	return fmt.Errorf("%s needs Linux, and this is %s: measurements use its counters, page cache control and memory limits. "+
		"Measure on a Linux machine and copy the results here: predict, simulate, trace, inspect, advise, import, report, compare and "+
		"pack work on %s", what, system, system)
}

// needLinux makes the measuring commands say that they need Linux; their help stays.
func (a *app) needLinux(system string, commands []*cobra.Command) {
	for _, cmd := range commands {
		name, _, _ := strings.Cut(strings.TrimPrefix(cmd.CommandPath(), "statelab "), " ")
		for _, of := range measuring {
			if name == of {
				cmd.RunE = func(cmd *cobra.Command, _ []string) error { return errNeedsLinux(cmd.CommandPath(), system) }
				cmd.Args, cmd.FParseErrWhitelist.UnknownFlags = nil, true
				a.needLinux(system, cmd.Commands())
			}
		}
	}
}
