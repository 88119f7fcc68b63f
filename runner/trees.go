package runner

import (
	"context"
	"io"
	"os"

	"github.com/statelab/statelab/internal/plan/remote"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/result"
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
	s := service[tree.Tree, replay.Spec, remote.TreeQuestion]{
		word: "tree", items: trees, name: func(t tree.Tree) string { return t.Info().Name },
		schema: replay.SpecSchema, read: func(s *replay.Spec) (string, string) { return s.Schema, s.Tree },
		run: func(ctx context.Context, t tree.Tree, spec *replay.Spec, tell result.Tell) error {
			_, err := replay.Run(ctx, t, spec, tell)
			return err
		},
		describe: func(d *remote.Description, t tree.Tree) { d.Trees = append(d.Trees, t.Info()) },
		asked:    func(q *remote.TreeQuestion) string { return q.Tree },
		check:    func(t tree.Tree, q *remote.TreeQuestion) []error { return t.Check(q.Options()) },
	}
	s.more = map[string]func(context.Context, io.Reader, io.Writer) error{
		remote.HarvestArg: func(ctx context.Context, in io.Reader, out io.Writer) error { return harvest(ctx, in, out, s.find) },
	}
	return s.serve(question, in, events, words)
}
