package runner

import (
	"context"
	"io"
	"os"

	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/tree"
)

// Trees is Main for state trees: a binary for those that cannot be linked into
// the main one.
//
//	func main() { runner.Trees(mytree.Tree{}) }
func Trees(trees ...tree.Tree) {
	os.Exit(ServeTrees(asked(), os.Stdin, os.Stdout, os.Stderr, trees))
}

// ServeTrees answers a question, or replays the spec on in where none is asked,
// and returns the exit code: 0 done, 1 failed or interrupted, 2 a spec that cannot
// be run.
func ServeTrees(question string, in io.Reader, events, words io.Writer, trees []tree.Tree) int {
	s := service[tree.Tree, tree.Info, protocol.TreeSpec, protocol.TreeQuestion]{items: trees, schema: protocol.TreeSchema, run: replay.Run,
		describe: func(d *protocol.Description, t tree.Tree) { d.Trees = append(d.Trees, t.Info()) },
		check:    func(t tree.Tree, q protocol.TreeQuestion) []error { return t.Check(q.Options()) },
	}
	s.more = map[string]func(context.Context, io.Reader, io.Writer) error{
		protocol.Harvest: func(ctx context.Context, in io.Reader, out io.Writer) error { return harvest(ctx, in, out, s.find) },
	}
	return s.serve(question, in, events, words)
}
