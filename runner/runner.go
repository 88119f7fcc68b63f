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
//
// The program is called statelab-run-NAME. statelab looks for it next to itself and on PATH, by the
// names in its own internal/subject, and both must be of one version: a runner is a part of
// statelab. A module outside measures its engine with package measure, or as a shared library
// (docs/native.md).
package runner

import (
	"context"
	"io"
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/tree"
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
	s := service[engine.Engine, engine.Info, protocol.EngineSpec,
		protocol.EngineQuestion]{items: engines, schema: schema.EngineSpec, run: bench.Run,
		describe: func(d *protocol.Description, e engine.Engine) {
			d.Engines = append(d.Engines, protocol.DescribedEngine{
				Info:    e.Info(),
				Missing: missing(e),
			})
		},
		check: func(e engine.Engine, q protocol.EngineQuestion) []error {
			return e.Check(q.Options)
		},
	}

	return s.serve(question, in, events, words)
}

// Trees is Main for state trees: a binary for those that cannot be linked into
// the main one.
//
//	func main() { runner.Trees(mytree.Tree{}) }
func Trees(trees ...tree.Tree) {
	os.Exit(ServeTrees(asked(), os.Stdin, os.Stdout, os.Stderr, trees))
}

// ServeTrees is Serve for state trees.
func ServeTrees(question string, in io.Reader, events, words io.Writer, trees []tree.Tree) int {
	s := service[tree.Tree, tree.Info, protocol.TreeSpec, protocol.TreeQuestion]{items: trees,
		schema: schema.TreeSpec, run: replay.Run,
		describe: func(d *protocol.Description, t tree.Tree) {
			d.Trees = append(d.Trees, t.Info())
		},
		check: func(t tree.Tree, q protocol.TreeQuestion) []error {
			return t.Check(tree.Options{
				Dir:         q.Dir,
				Profile:     q.Profile,
				CacheNodes:  q.CacheNodes,
				MemoryBytes: q.MemoryBytes,
				Overrides:   q.Overrides,
				Stores:      q.Stores,
				Create:      true,
			})
		},
	}

	s.more = map[string]func(context.Context, io.Reader, io.Writer) error{
		protocol.Harvest: func(ctx context.Context, in io.Reader, out io.Writer) error {
			return harvest(ctx, in, out, s.find)
		},
	}

	return s.serve(question, in, events, words)
}

// Layouts is Main for layouts of state: a binary for those that cannot be linked
// into the main one.
//
//	func main() { runner.Layouts(mylayout.Layout{}) }
func Layouts(layouts ...layout.Layout) {
	os.Exit(ServeLayouts(asked(), os.Stdin, os.Stdout, os.Stderr, layouts))
}

// ServeLayouts is Serve for layouts of state.
func ServeLayouts(question string, in io.Reader, events, words io.Writer, all []layout.Layout) int {
	s := service[layout.Layout, layout.Info, protocol.LayoutSpec,
		protocol.LayoutQuestion]{items: all, schema: schema.LayoutSpec, run: lookup.Run,
		describe: func(d *protocol.Description, l layout.Layout) {
			d.Layouts = append(d.Layouts, l.Info())
		},
		check: func(l layout.Layout, q protocol.LayoutQuestion) []error {
			return l.Check(layout.Options{
				Profile:     q.Profile,
				MemoryBytes: q.MemoryBytes,
				Overrides:   q.Overrides,
				Create:      true,
			})
		},
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
