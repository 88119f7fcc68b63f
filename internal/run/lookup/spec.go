// Package lookup builds a state in a layout, changes it block by block and looks it
// up, and says what that cost.
//
// Goals: only the layout's calls are timed; every value looked up is compared with the
// generator's; "held" lookups have warm caches and limited memory, cold ones have nothing
// cached; layouts of one rule of roots agree after every sampled block.
// Non-goals: choosing layouts and comparing them (plan/layouts),
// surviving their crashes (runners), explaining (report).
//
// Read in this order: spec.go, chain.go, run.go, count.go, build.go, lookup.go, gets.go, floor.go.
package lookup

import (
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// Verb is what a run is called in run.json.
const Verb = "layouts"

// InFlight are the lookups at once that are measured.
func InFlight() []int { return []int{1, 64} }

func options(s *protocol.LayoutSpec, t *traffic) layout.Options {
	o := layout.Options{Dir: s.Dir, Profile: s.Profile, Create: s.Stage == protocol.Build, MemoryBytes: s.MemoryBytes, Overrides: s.Overrides,
		Accounts: s.Chain.Accounts, Slots: expectedSlots(s.Chain)}
	if t != nil {
		o.Accounts, o.Slots = o.Accounts+uint64(len(t.initial)), o.Slots+t.slots
	}
	return o
}

// Blank is a run of which only the plan is known.
func Blank(spec *protocol.LayoutSpec, info layout.Info) *result.Run {
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
