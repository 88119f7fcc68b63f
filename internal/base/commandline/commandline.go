// Package commandline is how every command takes its arguments: all mistakes are reported
// together, an unknown name with the nearest known one.
//
// Non-goals: what values mean (setting), and which commands there are.
package commandline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/base/setting"
)

// Check makes cmd do its work with a list of the mistakes among args, which begins with the
// unknown flags and what is wrong with settings. args are those of the whole program.
func Check(cmd *cobra.Command, args func() []string, do func(m *setting.Mistakes, args []string) error) *cobra.Command {
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		m := new(setting.Mistakes)
		UnknownFlags(m, cmd, args())
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if s, is := flag.Value.(setting.Setting); is {
				m.Of(flag.Name, s)
			}
		})
		return do(m, arguments)
	}
	return cmd
}

// Unknown is the answer to a command that parent does not have.
func Unknown(m *setting.Mistakes, parent *cobra.Command, name string) error {
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := nearest(names, name); near != "" {
		m.Add("unknown command %q. Did you mean %q?", name, near)
	} else {
		m.Add("unknown command %q: %s --help lists the commands", name, parent.CommandPath())
	}
	return m.Err()
}

// Dashed is the name of a flag that was typed with underscores.
func Dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }

// UnknownFlags names the flags of args that cmd does not have. Commands let them
// through the parser, so that they are reported with all other mistakes.
func UnknownFlags(m *setting.Mistakes, cmd *cobra.Command, args []string) {
	isValue := false
	for _, arg := range args {
		if arg == "--" {
			return
		}
		name, isLong := strings.CutPrefix(arg, "--")
		switch {
		case isValue:
			isValue = false
			continue
		case !isLong && len(arg) > 1 && arg[0] == '-' && arg != "-h":
			m.Add("unknown flag %s: %s --help lists the flags", arg, cmd.CommandPath())
			continue
		case !isLong:
			continue
		}
		name, _, together := strings.Cut(name, "=")
		name = Dashed(name)
		if known := cmd.Flags().Lookup(name); known != nil {
			isValue = !together && known.NoOptDefVal == ""
			continue
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest(names, name); near != "" {
			m.Add("unknown flag --%s. Did you mean --%s?", name, near)
		} else {
			m.Add("unknown flag --%s: %s --help lists the flags", name, cmd.CommandPath())
		}
	}
}

// nearest is the name that was meant: at most two letters differ, and no more than half of them.
func nearest(names []string, name string) (best string) {
	least := 3
	for _, n := range names {
		if d := editDistance(n, name); d < least && 2*d <= min(len(n), len(name)) {
			best, least = n, d
		}
	}
	return best
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// Help says how the flags of commands are listed.
type Help struct {
	// Usual are the flags, separated by spaces, that the help of a command lists if it has more
	// than fit on a screen.
	Usual map[string]string
	// Section is the annotation of a flag that names its section.
	Section string
	// Headings are the sections in their order, each with its heading; "" is that of flags
	// without a section.
	Headings [][2]string
	Hidden   string // a flag that is never listed
}

// Flags lists the usual flags of cmd, or all of them: in sections if they have any.
func (h Help) Flags(cmd *cobra.Command, all bool) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	chosen, isLong := h.Usual[name]
	sections, left, grouped := map[string]*pflag.FlagSet{}, 0, false
	each := func(flag *pflag.Flag) {
		section := strings.Join(flag.Annotations[h.Section], "")
		switch {
		case flag.Hidden || flag.Name == h.Hidden:
			return
		case all || !isLong:
			grouped = grouped || section != ""
		case slices.Contains(strings.Fields(chosen), flag.Name):
			section = ""
		default:
			left++
			return
		}
		if sections[section] == nil {
			sections[section] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		sections[section].AddFlag(flag)
	}
	cmd.LocalFlags().VisitAll(each)
	cmd.InheritedFlags().VisitAll(each)
	var text []string
	for _, s := range h.Headings {
		if flags := sections[s[0]]; flags != nil {
			heading := "Flags"
			if grouped {
				heading = s[1]
			}
			text = append(text, heading+":\n"+strings.TrimRight(flags.FlagUsages(), " \n"))
		}
	}
	if left > 0 {
		text = append(text, fmt.Sprintf("%s --help-all shows %d more flags", cmd.CommandPath(), left))
	}
	return strings.Join(text, "\n\n")
}

// Question is a group of commands in the help of the program.
type Question struct {
	Title    string
	Commands []*cobra.Command
}

// Usage prints what follows the introduction of a help text: of the program the commands by question, its examples and
// controls, of a command its flags.
func (h Help) Usage(cmd *cobra.Command, all bool, questions []Question, controls string) error {
	var b strings.Builder
	list := func(commands []*cobra.Command) {
		for _, c := range commands {
			fmt.Fprintf(&b, "  %-9s %s\n", c.Name(), c.Short)
		}
	}
	switch {
	case !cmd.HasParent():
		for _, q := range questions {
			b.WriteString(q.Title + ":\n")
			list(q.Commands)
		}
		fmt.Fprintf(&b, "\n%s\n\n%s", cmd.Example, controls)
	default:
		fmt.Fprintf(&b, "Usage: %s\n\n", cmd.UseLine())
		if cmd.HasSubCommands() {
			b.WriteString("Commands:\n")
			list(cmd.Commands())
			b.WriteString("\n")
		}
		b.WriteString(h.Flags(cmd, all))
	}
	_, err := fmt.Fprintln(cmd.OutOrStderr(), b.String())
	return err
}

// Complete lets shells complete the last value of a list that a flag takes, if cmd has the flag.
func Complete(cmd *cobra.Command, flag string, values func() []string) {
	if cmd.Flags().Lookup(flag) == nil {
		return
	}
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) (all []string, _ cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		for _, value := range values() {
			all = append(all, before+value)
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic("completion of --" + flag + " is registered twice")
	}
}
