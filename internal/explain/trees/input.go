// Package trees explains replays of a change set into versioned state trees.
package trees

import (
	"fmt"
	"path/filepath"

	"github.com/statelab/statelab/result"
)

// Input is a folder in which a change set was replayed into trees.
type Input struct {
	result.ReplayOf
	Dir   string
	trees []replayed
}

// JSON is what the folder says, for a program.
func (in Input) JSON() any { return in.ReplayOf }

// replayed is a tree with the folder of its median run.
type replayed struct {
	result.ReplayedTree
	run     *result.Run // nil: could not be read
	ticks   []result.Tick
	problem string
}

// Read reads a folder that holds replay.json.
func Read(dir string) (Input, error) {
	r, err := result.ReadReplay(dir)
	if err != nil {
		return Input{}, err
	}
	in := Input{ReplayOf: *r, Dir: dir}
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
