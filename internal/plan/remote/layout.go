package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/statelab/statelab/layout"
)

// LayoutQuestion asks what is wrong with options of a layout.
type LayoutQuestion struct {
	Layout      string            `json:"layout"`
	Profile     string            `json:"profile"`
	MemoryBytes int64             `json:"memory_bytes"`
	Overrides   map[string]string `json:"overrides,omitempty"`
}

// Options are those of the question.
func (q LayoutQuestion) Options() layout.Options {
	return layout.Options{Profile: q.Profile, MemoryBytes: q.MemoryBytes, Overrides: q.Overrides, Create: true}
}

// KnownLayout is a layout that has a runner binary, whether it is here or not.
type KnownLayout struct {
	Layout  string
	About   string
	Licence string
	Runner  string   // name of the binary
	Args    []string // that make it a runner
	Fix     string   // the command that makes it
}

// Layout is a layout in a runner that was found.
type Layout struct {
	Path string
	Args []string
	Info layout.Info
}

// Find finds the runner of k and asks it for the layout.
func (k KnownLayout) Find() (*Layout, error) {
	path, err := Known{Runner: k.Runner, Fix: k.Fix}.path()
	if err != nil {
		return nil, err
	}
	l := &Layout{Path: path, Args: k.Args}
	text, err := l.ask(nil, DescribeArg)
	if err != nil {
		return nil, err
	}
	var d Description
	if err := json.Unmarshal(text, &d); err != nil || d.Schema != DescriptionSchema {
		return nil, fmt.Errorf("%s is of another version (it says %q): %s", path, clip(text), k.Fix)
	}
	for _, info := range d.Layouts {
		if info.Name == k.Layout {
			l.Info = info
			return l, nil
		}
	}
	return nil, fmt.Errorf("%s holds no layout %s: %s", path, k.Layout, k.Fix)
}

// Check asks the runner what is wrong with options.
func (l *Layout) Check(q LayoutQuestion) []error {
	q.Layout = l.Info.Name
	question, err := json.Marshal(q)
	if err != nil {
		return []error{err}
	}
	text, err := l.ask(question, CheckArg)
	if err != nil {
		return []error{err}
	}
	var mistakes []string
	if err := json.Unmarshal(text, &mistakes); err != nil {
		return []error{fmt.Errorf("%s %s answered %q: %w", l.Path, CheckArg, clip(text), err)}
	}
	var errs []error
	for _, text := range mistakes {
		errs = append(errs, errors.New(text))
	}
	return errs
}

func (l *Layout) ask(stdin []byte, question string) ([]byte, error) {
	return ask(l.Path, stdin, append(slices.Clip(l.Args), question)...)
}
