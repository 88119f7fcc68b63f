// Command statelab-run-replaytest is a runner for the tests of replay: a small
// durable tree that fails on demand, and one that has other roots.
package main

import (
	"context"

	"github.com/statelab/statelab/internal/run/replay/replaytest"
	"github.com/statelab/statelab/runner"
	"github.com/statelab/statelab/tree"
)

func main() { runner.Trees(replaytest.Tree{}, impostor{}) }

// impostor claims the same root rule and breaks it from version 20 on.
type impostor struct{ replaytest.Tree }

func (i impostor) Info() tree.Info {
	info := i.Tree.Info()
	info.Name = "replaytest-impostor"
	return info
}

func (i impostor) Open(ctx context.Context, o tree.Options) (tree.Forest, error) {
	o.Overrides = map[string]string{replaytest.WrongRootAt: "20"}
	return i.Tree.Open(ctx, o)
}
