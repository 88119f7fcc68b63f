package runner

import (
	"io"
	"os"

	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
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
	s := service[layout.Layout, layout.Info, protocol.LayoutSpec, protocol.LayoutQuestion]{items: all, schema: protocol.LayoutSchema, run: lookup.Run,
		describe: func(d *protocol.Description, l layout.Layout) { d.Layouts = append(d.Layouts, l.Info()) },
		check:    func(l layout.Layout, q protocol.LayoutQuestion) []error { return l.Check(q.Options()) },
	}
	return s.serve(question, in, events, words)
}
