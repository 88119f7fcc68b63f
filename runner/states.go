package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/statelab/statelab/internal/layouts"
	"github.com/statelab/statelab/internal/remote"
	"github.com/statelab/statelab/state"
)

// States is Main for layouts of state: a binary for those that cannot be linked
// into the main one.
//
//	func main() { runner.States(mylayout.Layout{}) }
func States(layouts ...state.Layout) {
	os.Exit(ServeStates(strings.Join(os.Args[1:], " "), os.Stdin, os.Stdout, os.Stderr, layouts))
}

// ServeStates answers a question, or carries out the spec on in where none is
// asked, and returns the exit code: 0 done, 1 failed or interrupted, 2 a spec that
// cannot be run.
func ServeStates(question string, in io.Reader, events, words io.Writer, all []state.Layout) int {
	ctx, stop := interruptible()
	defer stop()
	var err error
	switch question {
	case remote.DescribeArg:
		err = describeStates(events, all)
	case remote.CheckArg:
		err = checkState(in, events, all)
	case "":
		return runState(ctx, in, events, words, all)
	default:
		err = fmt.Errorf("no question %q: a runner is started by statelab, not by hand", question)
	}
	if err != nil {
		fmt.Fprintln(words, "runner:", err)
		return 1
	}
	return 0
}

func runState(ctx context.Context, in io.Reader, events, words io.Writer, all []state.Layout) int {
	var spec layouts.Spec
	if err := json.NewDecoder(io.LimitReader(in, maxSpecBytes)).Decode(&spec); err != nil {
		fmt.Fprintf(words, "runner: read the spec: %v (a runner is started by statelab, not by hand)\n", err)
		return 2
	}
	if spec.Schema != layouts.SpecSchema {
		fmt.Fprintf(words, "runner: the spec has schema %q, this runner reads %q: use runner and statelab of one version\n", spec.Schema, layouts.SpecSchema)
		return 2
	}
	l, err := findLayout(all, spec.Layout)
	if err != nil {
		fmt.Fprintf(words, "runner: %v\n", err)
		return 2
	}
	if _, err := layouts.Run(ctx, l, &spec, teller(events)); err != nil {
		fmt.Fprintln(words, err) // for the case that the run folder could not be written
		return 1
	}
	return 0
}

func describeStates(out io.Writer, all []state.Layout) error {
	d := remote.Description{Schema: remote.DescriptionSchema}
	for _, l := range all {
		d.Layouts = append(d.Layouts, l.Info())
	}
	return json.NewEncoder(out).Encode(d)
}

func checkState(in io.Reader, out io.Writer, all []state.Layout) error {
	var question remote.LayoutQuestion
	if err := json.NewDecoder(io.LimitReader(in, maxSpecBytes)).Decode(&question); err != nil {
		return fmt.Errorf("read the options to check: %w", err)
	}
	l, err := findLayout(all, question.Layout)
	if err != nil {
		return err
	}
	mistakes := []string{}
	for _, wrong := range l.Check(question.Options()) {
		mistakes = append(mistakes, wrong.Error())
	}
	return json.NewEncoder(out).Encode(mistakes)
}

func findLayout(all []state.Layout, name string) (state.Layout, error) {
	var names []string
	for _, l := range all {
		if l.Info().Name == name {
			return l, nil
		}
		names = append(names, l.Info().Name)
	}
	return nil, fmt.Errorf("no layout %q here, only %s", name, strings.Join(names, ", "))
}
