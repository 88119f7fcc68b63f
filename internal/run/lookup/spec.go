// Package lookup builds a state in a layout, changes it block by block and looks it
// up, and says what that cost.
//
// Goals: only the layout's calls are timed; every value looked up is held against the
// generator; caches are warm and memory is held where that is said, nothing is cached
// where cold is said; layouts of one rule of roots agree after every sampled block.
// Non-goals: choosing layouts (cmd), holding them against each other (compare),
// surviving their crashes (supervise), explaining (report).
//
// Read in this order: spec.go, chain.go, run.go, count.go, build.go, lookup.go, memory.go.
package lookup

import (
	"fmt"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// SpecSchema is the version of what a planner tells a runner of layouts.
const SpecSchema = "statelab.layoutspec/1"

// Stages of a layout at one size, a process each: memory and caches of the second
// owe nothing to the first.
const (
	Build  = "build"  // a new state, then blocks of updates
	Lookup = "lookup" // of the state that was built
)

// Verb is what a run is called in run.json.
const Verb = "layouts"

// Spec is all that a runner is told.
type Spec struct {
	Schema  string   `json:"schema"`
	Stage   string   `json:"stage"`
	Out     string   `json:"out"`     // the run folder; exists
	Command []string `json:"command"` // for run.json

	Layout      string            `json:"layout"`
	Dir         string            `json:"dir"` // of the state
	Profile     string            `json:"profile"`
	Overrides   map[string]string `json:"overrides,omitempty"`
	MemoryBytes int64             `json:"memory_bytes"` // 0: the profile's, and nothing is held

	Chain Chain  `json:"chain"`
	Reads uint64 `json:"reads"` // lookups of each kind
}

// InFlight are the lookups at once that are measured.
func InFlight() []int { return []int{1, 64} }

func (s *Spec) options() layout.Options {
	return layout.Options{Dir: s.Dir, Profile: s.Profile, Create: s.Stage == Build, MemoryBytes: s.MemoryBytes, Overrides: s.Overrides,
		Accounts: s.Chain.Accounts, Slots: s.Chain.expectedSlots()}
}

// WhenDiskIsFull is the way out for the user.
func (s *Spec) WhenDiskIsFull() string {
	return fmt.Sprintf("the disk is full: free some space, or compare fewer --accounts (the state is in %s)", s.Dir)
}

// Blank is a run of which only the plan is known.
func Blank(spec *Spec, info layout.Info) *result.Run {
	return &result.Run{
		Schema: result.RunSchema, Status: result.Failed, Verb: Verb, Started: time.Now().UTC(), Command: spec.Command,
		Engine: result.Engine{Name: spec.Layout, Version: info.Version, Profile: spec.Profile, Options: map[string]string{},
			RootRule: string(info.Root), Durability: info.Durability, History: info.History},
		Workload:  result.Workload{Name: spec.Stage, Keys: spec.Chain.Accounts, Threads: 1, Gets: spec.Reads, Seed: spec.Chain.Seed},
		PageCache: "cold",
		Database:  result.Database{Dir: spec.Dir},
		Figures:   result.Figures{State: &result.State{Accounts: spec.Chain.Accounts}},
		Absent:    map[string]string{},
		Warnings:  []engine.Warning{},
	}
}
