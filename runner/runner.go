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
	"io"
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/run/protocol"
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
	s := service[engine.Engine, engine.Info, protocol.EngineSpec, protocol.EngineQuestion]{items: engines, schema: protocol.EngineSchema, run: bench.Run,
		describe: func(d *protocol.Description, e engine.Engine) {
			d.Engines = append(d.Engines, protocol.DescribedEngine{Info: e.Info(), Missing: missing(e)})
		},
		check: func(e engine.Engine, q protocol.EngineQuestion) []error { return e.Check(q.Options.Options()) },
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
