package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/setting"
)

// mostMistakes are shown of a command line or file; more do not help.
const mostMistakes = 30

// usageError is every mistake on a command line at once.
type usageError struct{ setting.Mistakes }

func (e usageError) Error() string {
	if len(e.Found) == 1 {
		return e.Found[0]
	}
	shown := e.Found
	if len(shown) > mostMistakes { // of a long list, or of a file that is no experiment
		shown = append(slices.Clone(shown[:mostMistakes]), fmt.Sprintf("and %d more", len(e.Found)-mostMistakes))
	}
	return fmt.Sprintf("%d mistakes\n  %s", len(e.Found), strings.Join(shown, "\n  "))
}

func usage(format string, args ...any) error {
	m := new(mistakes)
	m.add(format, args...)
	return m.err()
}

// mistakes collects what is wrong with a command line or an experiment file.
type mistakes struct{ setting.Mistakes }

// add notes a mistake, once.
func (m *mistakes) add(format string, args ...any) { m.Add(format, args...) }

// cannotRead notes a file or folder that cannot be read: no mistake in what was typed as far as
// anybody knows, unless it does not exist.
func (m *mistakes) cannotRead(format string, args ...any) { m.Unread("", "", format, args...) }

// addAll notes mistakes that are not about one setting, or those about that of a flag.
func (m *mistakes) addAll(flag string, errs []error) { m.All(flag, errs) }

// err is nil if nothing is wrong.
func (m *mistakes) err() error {
	if len(m.Found) == 0 {
		return nil
	}
	f := &engine.Failure{Err: usageError{m.Mistakes}}
	if m.Typed {
		f.Code = engine.CodeUsage
	}
	if m.Why != nil {
		f.Remedy = m.Why.Remedy
		if !m.Typed || failure.Relative(m.Why.Code) {
			f.Code = m.Why.Code
		}
	}
	return f
}

// parse reads the text of a flag that is no setting yet.
func parse[T any](m *mistakes, flag, text string, kind setting.Kind[T]) T {
	v := setting.One(new(setting.Value[T]), kind)
	_ = v.Set(text) // Of has its error
	m.Of(flag, v)
	return v.V()
}

// unknownCommand is the answer to a command that parent does not have.
func unknownCommand(parent *cobra.Command, name string) error {
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := nearest(names, name); near != "" {
		return usage("unknown command %q. Did you mean %q?", name, near)
	}
	return usage("unknown command %q: %s --help lists the commands", name, parent.CommandPath())
}

// group makes cmd, which does nothing itself, name its commands.
func (a *app) group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	return a.checked(cmd, func(m *mistakes, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		m.add("%s needs a command: %s --help lists them", cmd.Name(), cmd.CommandPath())
		return m.err()
	})
}

// checked makes cmd do its work with a list of the mistakes on its command line, which begins
// with the unknown flags.
func (a *app) checked(cmd *cobra.Command, do func(m *mistakes, args []string) error) *cobra.Command {
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m := new(mistakes)
		m.unknownFlags(cmd, a.args)
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if s, is := flag.Value.(setting.Setting); is {
				m.Of(flag.Name, s)
			}
		})
		return do(m, args)
	}
	return cmd
}

// noArguments is for commands that take none.
func noArguments(_ *cobra.Command, args []string) error {
	m := new(mistakes)
	m.noArguments(args)
	return m.err()
}

func dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }

// unknownFlags names the flags of args that cmd does not have. Commands let them
// through the parser, so that they are reported with all other mistakes.
func (m *mistakes) unknownFlags(cmd *cobra.Command, args []string) {
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
			m.add("unknown flag %s: %s --help lists the flags", arg, cmd.CommandPath())
			continue
		case !isLong:
			continue
		}
		name, _, together := strings.Cut(name, "=")
		name = dashed(name)
		if known := cmd.Flags().Lookup(name); known != nil {
			isValue = !together && known.NoOptDefVal == ""
			continue
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest(names, name); near != "" {
			m.add("unknown flag --%s. Did you mean --%s?", name, near)
		} else {
			m.add("unknown flag --%s: %s --help lists the flags", name, cmd.CommandPath())
		}
	}
}

func nearest(names []string, name string) (best string) {
	least := 3
	for _, n := range names {
		if d := editDistance(n, name); d < least {
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
