package report

import (
	"fmt"
	"path/filepath"

	"github.com/statelab/statelab/result"
)

// ReplayInput is a folder in which a change set was replayed into trees.
type ReplayInput struct {
	result.ReplayOf
	Dir   string
	trees []replayed
}

// replayed is a tree with the folder of its median run.
type replayed struct {
	result.ReplayedTree
	run     *result.Run // nil: could not be read
	ticks   []result.Tick
	problem string
}

// ReplayFromFolder reads a folder that holds replay.json.
func ReplayFromFolder(dir string) (ReplayInput, error) {
	r, err := result.ReadReplay(dir)
	if err != nil {
		return ReplayInput{}, err
	}
	in := ReplayInput{ReplayOf: *r, Dir: dir}
	for _, t := range r.Trees {
		in.trees = append(in.trees, readTree(dir, t))
	}
	return in, nil
}

func readTree(dir string, t result.ReplayedTree) replayed {
	if t.Figures.Replay == nil {
		t.Figures.Replay = new(result.Replay)
	}
	of := replayed{ReplayedTree: t}
	if !filepath.IsLocal(filepath.FromSlash(t.Run)) {
		of.problem = fmt.Sprintf("the run folder %q lies outside the replay: not read", t.Run)
		return of
	}
	folder := filepath.Join(dir, filepath.FromSlash(t.Run))
	var err error
	if of.run, err = result.ReadRun(folder); err != nil {
		of.problem = err.Error()
		return of
	}
	ticks, err := result.ReadSeries(folder)
	if err != nil {
		of.problem = err.Error()
	}
	for _, tick := range ticks {
		if tick.Tree != nil {
			of.ticks = append(of.ticks, tick)
		}
	}
	return of
}
