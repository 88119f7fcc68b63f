package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is every mistake on a command line at once.
type usageError struct{ mistakes []string }

func (e *usageError) Error() string {
	if len(e.mistakes) == 1 {
		return "statelab: " + e.mistakes[0]
	}
	return fmt.Sprintf("statelab: %d mistakes\n  %s", len(e.mistakes), strings.Join(e.mistakes, "\n  "))
}

func usage(format string, args ...any) error {
	return &usageError{[]string{fmt.Sprintf(format, args...)}}
}

// mistakes collects what is wrong with a command line.
type mistakes struct {
	found     []string
	translate func(string) string // into the terms of an experiment file; nil: flags were typed
}

// add notes a mistake, once.
func (m *mistakes) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(m.found, text) {
		m.found = append(m.found, text)
	}
}

func (m *mistakes) addAll(flag string, errs []error) {
	for _, err := range errs {
		if flag != "" {
			m.add("--%s: %v", flag, err)
		} else {
			m.add("%v", err)
		}
	}
}

// err is nil if nothing is wrong.
func (m *mistakes) err() error {
	if len(m.found) == 0 {
		return nil
	}
	if m.translate == nil {
		return &usageError{m.found}
	}
	var translated []string
	for _, text := range m.found {
		translated = append(translated, m.translate(text))
	}
	return &usageError{translated}
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
			m.add("%s: no such flag; %s --help lists them", arg, cmd.CommandPath())
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
		if near := nearest(cmd.Flags(), name); near != "" {
			m.add("--%s: no such flag; did you mean --%s?", name, near)
		} else {
			m.add("--%s: no such flag; %s --help lists them", name, cmd.CommandPath())
		}
	}
}

func nearest(flags *pflag.FlagSet, name string) (best string) {
	least := 3
	flags.VisitAll(func(f *pflag.Flag) {
		if d := editDistance(f.Name, name); d < least {
			best, least = f.Name, d
		}
	})
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

// oneOf reports a value that is none of the legal ones.
func (m *mistakes) oneOf(flag, value string, legal ...string) {
	if !slices.Contains(legal, value) {
		m.add("--%s %q: write one of %s", flag, value, strings.Join(legal, ", "))
	}
}
