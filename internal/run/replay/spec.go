// Package replay applies a change set to a state tree and says what it cost.
//
// Goals: only the tree's calls are timed, reading and decoding happen ahead of
// them in memory of a fixed size; the version a commit returns is checked every
// time, roots against the set's own where it has them; a call that does not
// return is a result with the stacks that hang, and a tree that lost versions
// says how many.
// Non-goals: choosing trees and holding them against each other (contest),
// surviving a tree's crash (supervise), explaining figures (report).
//
// Read in this order: spec.go, run.go, apply.go, ahead.go, guard.go; then ticks.go,
// roots.go, sample.go, read.go.
package replay

import (
	"fmt"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// SpecSchema is the version of what a planner tells a runner of trees.
const SpecSchema = "statelab.replayspec/1"

// Verb is what a replay is called in run.json.
const Verb = "replay"

// Spec is all that a runner is told: one change set into one tree.
type Spec struct {
	Schema  string   `json:"schema"`
	Out     string   `json:"out"`     // the run folder; exists
	Command []string `json:"command"` // for run.json

	Tree        string            `json:"tree"`
	Dir         string            `json:"dir"` // of the tree
	Profile     string            `json:"profile"`
	Overrides   map[string]string `json:"overrides,omitempty"`
	CacheNodes  int64             `json:"cache_nodes"`
	MemoryBytes int64             `json:"memory_bytes"`

	Changes  string   `json:"changes"`          // path of the change set
	Stores   []string `json:"stores,omitempty"` // to replay; none: all that the set names
	Versions int64    `json:"versions"`         // how many of the set to apply, from its first; 0: all
	// RootsEvery is how many versions apart roots are stored; 0 chooses a distance
	// that stores at most 10,000 of them.
	RootsEvery int64 `json:"roots_every"`
	// CommitLimitNanos is how long a call of the tree may take; 0: for ever.
	CommitLimitNanos int64 `json:"commit_limit_ns"`
	// Resume goes on with the tree in Dir, at the version it is found at.
	Resume bool `json:"resume"`

	Gets uint64 `json:"gets"` // after the writes; half of present keys
	Seed uint64 `json:"seed"`
}

func (s *Spec) commitLimit() time.Duration { return time.Duration(s.CommitLimitNanos) }

// WhenDiskIsFull is the way out for the user.
func (s *Spec) WhenDiskIsFull() string {
	return fmt.Sprintf("the disk is full: free some space and go on with the same command and --resume (the tree is in %s), or replay fewer --versions", s.Dir)
}

// Blank is a run of which only the plan is known; info is empty where the tree
// could not be asked.
func Blank(spec *Spec, info tree.Info) *result.Run {
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

func (s *Spec) openOptions(stores []string, first int64, create bool, log func(string)) tree.Options {
	return tree.Options{Dir: s.Dir, Profile: s.Profile, Create: create, Stores: stores, FirstVersion: first,
		CacheNodes: s.CacheNodes, MemoryBytes: s.MemoryBytes, Overrides: s.Overrides, Log: log}
}
