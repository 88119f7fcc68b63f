// Package commandline is how every command takes its arguments: all mistakes are reported
// together, an unknown name with the nearest known one.
//
// Non-goals: what values mean (setting), and which commands there are.
package commandline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/spelling"
)

// Check makes cmd do its work with a list of the mistakes among args, which begins with the
// unknown flags and what is wrong with settings. args are those of the whole program.
func Check(
	cmd *cobra.Command, args func() []string, do func(m *setting.Mistakes, args []string) error,
) *cobra.Command {
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		m := new(setting.Mistakes)
		UnknownFlags(m, cmd, args())
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if s, is := flag.Value.(setting.Setting); is {
				m.CheckSetting(flag.Name, s)
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

	if near := spelling.Nearest(names, name); near != "" {
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
		if near := spelling.Nearest(names, name); near != "" {
			m.Add("unknown flag --%s. Did you mean --%s?", name, near)
		} else {
			m.Add("unknown flag --%s: %s --help lists the flags", name, cmd.CommandPath())
		}
	}
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
		text = append(text,
			fmt.Sprintf("%s --help-all shows %d more flags", cmd.CommandPath(), left))
	}

	return strings.Join(text, "\n\n")
}

// Question is a group of commands in the help of the program.
type Question struct {
	Title    string
	Commands []*cobra.Command
}

// Usage prints what follows the introduction of a help text: of the program the commands by
// question, its examples and controls, of a command its flags.
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

	err := cmd.RegisterFlagCompletionFunc(flag, func(
		_ *cobra.Command, _ []string, typed string,
	) (all []string, _ cobra.ShellCompDirective) {
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

// Line is a command line that is checked: all that is wrong with it is told together.
type Line struct{ setting.Mistakes }

// Readable notes a path that is not there, as it was typed; flag is "" for an argument.
func (l *Line) Readable(flag, path string) bool {
	return l.Present(flag, path, engine.CodeNotFound)
}

// NoArguments notes arguments of a command that takes none.
func (l *Line) NoArguments(args []string) {
	for _, arg := range args {
		l.Add("%q: unexpected argument; a value follows its flag, as in --db DIR", arg)
	}
}

// One reports whether there is one argument, a path that is there; asked says what to name.
func (l *Line) One(args []string, asked string) bool {
	if len(args) != 1 {
		l.Add("name one %s", asked)
		return false
	}
	return l.Readable("", args[0])
}

// Typed are the flags that were given, of those named; none named: of all.
func Typed(flags *pflag.FlagSet, names ...string) (given []string) {
	flags.Visit(func(flag *pflag.Flag) {
		if len(names) == 0 || slices.Contains(names, flag.Name) {
			given = append(given, flag.Name)
		}
	})
	return given
}

// Refuse notes the flags that were given, of those named.
func (l *Line) Refuse(flags *pflag.FlagSet, why string, names ...string) {
	for _, flag := range Typed(flags, names...) {
		l.Add("--%s: %s", flag, why)
	}
}

// NewFile checks the path of a file to make, and returns it in full; before is what a mistake
// begins with. force, where the verb has that flag, lets it replace one.
func (l *Line) NewFile(before, path string, force *bool) string {
	err := output.File(path, Replaces(force))
	switch {
	case engine.CodeOf(err) == engine.CodeExists && force != nil:
		l.Add("%s%v, or add --force to replace it", before, err)
	case err != nil:
		l.Add("%s%v", before, err)
	}
	return output.Absolute(path)
}

// NewFileIf is NewFile for the value of a flag that may be left out.
func (l *Line) NewFileIf(flag, path string, force *bool) {
	if path != "" {
		l.NewFile("--"+flag+": ", path, force)
	}
}

// NewOut checks the file of --out, which never replaces one, and returns it in full.
func (l *Line) NewOut(out, example string) string {
	if out == "" {
		l.Add("--out is missing: name a new file (example: --out %s)", example)
		return ""
	}
	return l.NewFile("--out: ", out, nil)
}

// NewFolder checks --out of a verb that makes a whole folder, and returns it in full.
func (l *Line) NewFolder(out, example string) string {
	if out == "" {
		l.Add("--out is missing: name a new folder (example: --out %s)", example)
	} else if err := output.NewFolder(out); err != nil {
		l.Add("--out: %v", err)
	}
	return output.Absolute(out)
}

// Results checks --out of a verb that adds to a folder, where it is given.
func (l *Line) Results(out string) {
	if out == "" {
		return
	}
	if err := output.Folder(out); err != nil {
		l.Add("--out: %v", err)
	}
}

// Replaces is what --force allows; nil is a verb without that flag.
func Replaces(force *bool) output.Replaces {
	if force != nil && *force {
		return output.Anything
	}
	return nil
}

// Names are those that commands and flags had in earlier releases.
type Names struct {
	Commands     map[string]string            // now: a command with flags, perhaps
	Flags        map[string]map[string]string // by the command that has them now
	Removed      map[string]string            // commands, with what to do instead
	RemovedFlags map[string]map[string]string // of commands, with what to do instead
}

// command is the place of the command in args, behind help if help is asked for; -1: there is none.
func command(args []string) (at int, helps bool) {
	at = slices.IndexFunc(args, isWord)
	if helps = at >= 0 && args[at] == "help"; helps {
		next := slices.IndexFunc(args[at+1:], isWord)
		if next < 0 {
			return -1, true
		}
		at += 1 + next
	}

	return at, helps
}

// Current are args with the names of this release, and what to tell the user about those that
// were replaced.
func (n Names) Current(args []string) (now, notes []string) {
	now = slices.Clone(args)
	at, helps := command(now)
	if at < 0 {
		return now, nil
	}

	note := func(before, after string) {
		notes = append(notes,
			fmt.Sprintf("%q is now %q; the old name works until the next release", before, after))
	}

	if name, is := n.Commands[now[at]]; is {
		note("statelab "+now[at], "statelab "+name)
		words := strings.Fields(name)
		if helps { // help names commands alone
			words = slices.DeleteFunc(words, func(word string) bool {
				return !isWord(word) || word == "node"
			})
		}

		now = slices.Replace(now, at, at+1, words...)
	}

	if at >= len(now) {
		return now, notes
	}

	for before, after := range n.Flags[now[at]] {
		for i, arg := range now {
			name, value, together := strings.Cut(arg, "=")
			if name != "--"+before {
				continue
			}

			note(name, "--"+after)
			if now[i] = "--" + after; together {
				now[i] += "=" + value
			}
		}
	}

	return now, notes
}

// RemovedNote is what to say of args that name a command or a flag that was removed; "" of others.
func (n Names) RemovedNote(args []string) string {
	at, _ := command(args)
	if at < 0 {
		return ""
	}

	for flag, text := range n.RemovedFlags[args[at]] {
		if slices.ContainsFunc(args, func(arg string) bool {
			return arg == "--"+flag || strings.HasPrefix(arg, "--"+flag+"=")
		}) {
			return text
		}
	}

	return n.Removed[args[at]]
}

func isWord(arg string) bool { return !strings.HasPrefix(arg, "-") }

// AsTyped is a message with paths as args name them: what worked knows full paths only.
func AsTyped(message string, args []string) string {
	for _, arg := range args {
		if _, value, is := strings.Cut(arg, "="); is {
			arg = value
		}

		if arg != "" {
			message = strings.ReplaceAll(message, output.Absolute(arg), arg)
		}
	}

	return message
}

// NamesNothing reports whether err is that one of args names a path that does not exist.
func NamesNothing(err error, args []string) bool {
	at, is := errors.AsType[*fs.PathError](err)
	return is && slices.ContainsFunc(args, func(arg string) bool {
		_, value, _ := strings.Cut(arg, "=")
		full := output.Absolute(at.Path)
		return full == output.Absolute(arg) || value != "" && full == output.Absolute(value)
	})
}

// NotUTF8 refuses paths that plans and result folders, which are JSON, cannot name: a
// runner would be sent to another path.
func NotUTF8(args []string) error {
	here, err := os.Getwd()
	if err != nil {
		return setting.Usage("find the current directory: %v", err)
	}

	for _, path := range append([]string{here}, args...) {
		if !utf8.ValidString(path) {
			return setting.Usage("%q is not valid UTF-8: rename the file or folder, or name it "+
				"through a link", path)
		}
	}

	return nil
}
