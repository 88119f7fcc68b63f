package runner

import (
	"context"
	"io"
	"os"

	"github.com/statelab/statelab/internal/plan/remote"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// States is Main for layouts of state: a binary for those that cannot be linked
// into the main one.
//
//	func main() { runner.States(mylayout.Layout{}) }
func States(layouts ...layout.Layout) {
	os.Exit(ServeStates(asked(), os.Stdin, os.Stdout, os.Stderr, layouts))
}

// ServeStates answers a question, or carries out the spec on in where none is
// asked, and returns the exit code: 0 done, 1 failed or interrupted, 2 a spec that
// cannot be run.
func ServeStates(question string, in io.Reader, events, words io.Writer, all []layout.Layout) int {
	s := service[layout.Layout, lookup.Spec, remote.LayoutQuestion]{
		word: "layout", items: all, name: func(l layout.Layout) string { return l.Info().Name },
		schema: lookup.SpecSchema, read: func(s *lookup.Spec) (string, string) { return s.Schema, s.Layout },
		run: func(ctx context.Context, l layout.Layout, spec *lookup.Spec, tell result.Tell) error {
			_, err := lookup.Run(ctx, l, spec, tell)
			return err
		},
		describe: func(d *remote.Description, l layout.Layout) { d.Layouts = append(d.Layouts, l.Info()) },
		asked:    func(q *remote.LayoutQuestion) string { return q.Layout },
		check:    func(l layout.Layout, q *remote.LayoutQuestion) []error { return l.Check(q.Options()) },
	}
	return s.serve(question, in, events, words)
}
