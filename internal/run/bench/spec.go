// Package bench runs one point of an engine: its phases, and what the timed loop gets
// and checks.
//
// Goals: only the engine's call is timed; workers share nothing while they run;
// every counter is a difference between two snapshots at a phase's ends; a
// failed Get or a wrong value fails the run.
// Non-goals: choosing points (sweep), surviving an engine's crash (runners),
// explaining figures (report).
//
// Read in this order: spec.go, read.go, warm.go, team.go, gets.go, figures.go;
// then load.go and write.go.
package bench

import (
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/run/protocol"
)

// What the planner tells a runner, under the names that this package's users know.
type Spec = protocol.EngineSpec

const (
	SpecSchema               = protocol.EngineSchema
	Inspect, Load, Read      = protocol.Inspect, protocol.Load, protocol.Read
	Direct, Cold, Warm, AsIs = protocol.Direct, protocol.Cold, protocol.Warm, protocol.AsIs
)

// PageCacheModes in the order of help texts.
func PageCacheModes() []string { return []string{AsIs, Direct, Cold, Warm} }

func openOptions(s *Spec) engine.Options {
	return engine.Options{
		Dir: s.Dir, Profile: s.Profile, ReadOnly: s.ReadOnly, Foreign: s.Foreign, IgnoreLock: s.IgnoreLock,
		CacheBytes: s.CacheBytes, MemoryBytes: s.MemoryBytes, Handles: s.Handles, Direct: s.PageCache == Direct, Overrides: s.Overrides, Part: s.Part,
	}
}
