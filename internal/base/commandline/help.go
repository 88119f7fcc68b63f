package commandline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
