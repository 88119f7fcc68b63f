// Package trees explains replays of a change set into versioned state trees.
package trees

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/statelab/statelab/result"
)

// Input is a folder in which a change set was replayed into trees.
type Input struct {
	result.ReplayOf
	Dir   string
	trees []replayed
	// others are the change sets of the folders after the first.
	others []other
}

type other struct {
	name    string
	changes result.ChangeSet
}

// JSON is what the folder says, for a program.
func (in Input) JSON() any { return in.ReplayOf }

// replayed is a tree with the folder of its median run.
type replayed struct {
	result.ReplayedTree
	run      *result.Run // nil: could not be read
	ticks    []result.Tick
	versions []result.VersionRow
	events   []result.EventRow
	problem  string
}

// Read reads folders that hold replay.json. The trees of all but the first are shown
// beside those of the first; their roots are not compared.
func Read(dirs ...string) (in Input, err error) {
	for i, dir := range dirs {
		r, err := result.ReadReplay(dir)
		if err != nil {
			return Input{}, err
		}
		if i == 0 {
			in.ReplayOf, in.Dir = *r, dir
		}
		for _, t := range r.Trees {
			of := readTree(dir, t)
			if slices.ContainsFunc(in.trees, func(other replayed) bool { return other.Tree == of.Tree }) {
				of.Tree = fmt.Sprintf("%s (%s)", of.Tree, filepath.Base(dir))
			}
			in.trees = append(in.trees, of)
		}
		if i > 0 {
			in.others = append(in.others, other{filepath.Base(dir), r.Changes})
		}
	}
	return in, nil
}

func readTree(dir string, t result.ReplayedTree) replayed {
	if t.Figures.Replay == nil {
		t.Figures.Replay = new(result.Replay)
	}
	of := replayed{ReplayedTree: t, run: t.Of}
	if t.Problem != nil {
		of.problem = t.Problem.Error()
		return of
	}
	folder := filepath.Join(dir, filepath.FromSlash(t.Run))
	ticks, err := result.ReadSeries(folder)
	if err != nil {
		of.problem = err.Error()
	}
	for _, tick := range ticks {
		if tick.Tree != nil {
			of.ticks = append(of.ticks, tick)
		}
	}
	var errVersions, errEvents error
	of.versions, errVersions = result.ReadVersions(folder)
	of.events, errEvents = result.ReadEvents(folder)
	if err := cmp.Or(errEvents, errVersions); err != nil { // the last that was found
		of.problem = err.Error()
	}
	return of
}
