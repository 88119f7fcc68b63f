// Package replay applies a change set to a state tree and says what it cost.
//
// Goals: only the tree's calls are timed, reading and decoding happen ahead of
// them in memory of a fixed size; the version a commit returns is checked every
// time, roots against the set's own where it has them; a call that does not
// return is a result with the stacks that hang, and a tree that lost versions
// says how many.
// Non-goals: choosing trees and comparing them (plan/replays),
// surviving a tree's crash (runners), explaining figures (report).
//
// Read in this order: spec.go, run.go, apply.go, ahead.go, guard.go; then ticks.go,
// roots.go, sample.go.
package replay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// Verb is what a replay is called in run.json.
const Verb = "replay"

// Blank is a run of which only the plan is known; info is empty where the tree
// could not be asked.
func Blank(spec *protocol.TreeSpec, info tree.Info) *result.Run {
	return &result.Run{
		Schema: result.RunSchema, Status: result.Failed, Verb: Verb, Started: time.Now().UTC(), Command: spec.Command,
		Engine: result.Engine{Name: spec.Tree, Version: info.Version, Profile: spec.Profile, Options: map[string]string{},
			RootRule: info.RootRule, Durability: info.Durability, History: info.History},
		Workload:  result.Workload{Name: Verb, Threads: 1, Gets: spec.Gets, Seed: spec.Seed},
		PageCache: "asis",
		Database:  result.Database{Dir: spec.Dir},
		Changes:   &result.ChangeSet{Path: spec.Changes},
		Figures:   result.Figures{Replay: new(result.Replay)},
		Absent:    map[string]string{},
		Warnings:  []engine.Warning{},
	}
}

func openOptions(s *protocol.TreeSpec, stores []string, first int64, create bool, tell func(tree.Event)) tree.Options {
	return tree.Options{Dir: s.Dir, Profile: s.Profile, Create: create, Stores: stores, FirstVersion: first,
		CacheNodes: s.CacheNodes, MemoryBytes: s.MemoryBytes, Overrides: s.Overrides, Log: func(string) {}, Tell: tell}
}

// openSet opens the change set at path, in whatever form it is.
func openSet(path string) (changeset.Source, error) {
	return changeset.Open(os.DirFS(filepath.Dir(path)), filepath.Base(path), "")
}

// firstVersion reads the first version of a set that does not tell.
func firstVersion(path string) (version int64, err error) {
	source, err := openSet(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	var batch changeset.Batch
	if err := source.Next(&batch); err == io.EOF {
		return 0, errors.New("the change set has no versions")
	} else if err != nil {
		return 0, fmt.Errorf("read the change set: %w", err)
	}
	return batch.Version, nil
}
