// Package runner makes a runner: a program that measures one point.
//
// The planner (statelab) starts a runner per point, writes one spec to its
// standard input and reads events, one JSON object a line, from its standard
// output. The runner writes the run folder itself; its standard error is free
// for the engine's own words. A runner that dies leaves the planner to say so.
//
// An engine that cannot be linked into the main binary gets a runner of its own:
//
//	func main() { runner.Main(myengine.Engine{}) }
package runner

import (
	"context"
	"io"
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/plan/remote"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// Main serves one spec on the standard streams, or answers the question its
// argument asks, and exits.
func Main(engines ...engine.Engine) {
	os.Exit(Serve(asked(), os.Stdin, os.Stdout, os.Stderr, engines))
}

// Serve answers a question, or measures the spec on in where none is asked, and
// returns the exit code: 0 done, 1 failed or interrupted, 2 a spec that cannot be
// run.
func Serve(question string, in io.Reader, events, words io.Writer, engines []engine.Engine) int {
	s := service[engine.Engine, bench.Spec, remote.Question]{
		word: "engine", items: engines, name: func(e engine.Engine) string { return e.Info().Name },
		schema: bench.SpecSchema, read: func(s *bench.Spec) (string, string) { return s.Schema, s.Engine },
		run: func(ctx context.Context, e engine.Engine, spec *bench.Spec, tell result.Tell) error {
			_, err := bench.Run(ctx, e, spec, tell)
			return err
		},
		describe: func(d *remote.Description, e engine.Engine) {
			d.Engines = append(d.Engines, remote.Described{Info: e.Info(), Missing: missing(e)})
		},
		asked: func(q *remote.Question) string { return q.Engine },
		check: func(e engine.Engine, q *remote.Question) []error { return e.Check(q.Options.Options()) },
	}
	return s.serve(question, in, events, words)
}

// missing is what keeps an engine from running here.
func missing(e engine.Engine) string {
	if d, ok := e.(engine.Dependent); ok {
		if err := d.Ready(); err != nil {
			return err.Error()
		}
	}
	return ""
}
