// Package bench runs one point: phases, workers and the loop between the two
// clock reads.
//
// Goals: only the engine's call is timed; workers share nothing while they run;
// every counter is a difference between two snapshots at a phase's ends; a
// failed Get or a wrong value fails the run.
// Non-goals: choosing points (sweep), surviving an engine's crash (supervise),
// explaining figures (report).
//
// Read in this order: spec.go, read.go, warm.go, phase.go, worker.go, figures.go;
// then load.go and write.go.
package bench

import (
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

// SpecSchema is the version of what a planner tells a runner.
const SpecSchema = "statelab.spec/1"

// Verbs of a runner.
const (
	Inspect = "inspect"
	Load    = "load"
	Read    = "read"
)

// Page cache modes.
const (
	Direct = "direct" // O_DIRECT: block reads are device reads
	Cold   = "cold"   // the database's pages are dropped first, and proved to be gone
	Warm   = "warm"   // the database's pages are read in first
	AsIs   = "asis"
)

// PageCacheModes in the order of help texts.
func PageCacheModes() []string { return []string{AsIs, Direct, Cold, Warm} }

// Spec is all that a runner is told: one point.
type Spec struct {
	Schema  string   `json:"schema"`
	Verb    string   `json:"verb"`
	Out     string   `json:"out"`     // the run folder; exists
	Command []string `json:"command"` // for run.json

	Engine     string            `json:"engine"`
	Dir        string            `json:"dir"`
	Profile    string            `json:"profile"`
	Overrides  map[string]string `json:"overrides,omitempty"`
	ReadOnly   bool              `json:"read_only"`
	Foreign    bool              `json:"foreign"` // not loaded by statelab: keys are sampled
	IgnoreLock bool              `json:"ignore_lock"`
	CacheAsked string            `json:"cache_asked"` // as typed
	CacheBytes int64             `json:"cache_bytes"` // 0: the profile's
	// MemoryBytes is one budget for the engine, its page cache included. 0: none.
	MemoryAsked string `json:"memory_asked,omitempty"` // as typed
	MemoryBytes int64  `json:"memory_bytes,omitempty"`

	Handles   int    `json:"handles"`
	PageCache string `json:"page_cache"`

	Workload     string  `json:"workload"`
	Threads      int     `json:"threads"`
	Seed         uint64  `json:"seed"`
	Gets         uint64  `json:"gets"`
	WarmupGets   uint64  `json:"warmup_gets"`
	WarmupAuto   bool    `json:"warmup_auto"` // until the reads per Get stop changing
	WarmupRule   string  `json:"warmup_rule"`
	MissingShare float64 `json:"missing_share"`
	ZipfTheta    float64 `json:"zipf_theta"`
	Rate         float64 `json:"rate_per_second"` // 0: closed loop
	SampleKeys   int     `json:"sample_keys"`     // of a foreign database
	Writers      int     `json:"writers"`
	WriteRate    float64 `json:"write_rate_per_second"` // 0: as fast as they go
	Puts         uint64  `json:"puts"`                  // overwrite
	BatchKeys    int     `json:"batch_keys"`

	// AccessGets is how many of the measured Gets are replayed with a cache that
	// admits nothing, to learn the accesses by type. 0: none.
	AccessGets uint64 `json:"access_gets"`
	// Accesses per Get by type, where an earlier point of the same database and
	// workload has found them.
	Accesses map[string]float64 `json:"accesses,omitempty"`

	// Load.
	Keys       uint64 `json:"keys"`
	KeyBytes   int    `json:"key_bytes"`
	KeyHash    string `json:"key_hash"`
	ValueModel string `json:"value_model"`
	ValueBytes int    `json:"value_bytes"`
	Resume     bool   `json:"resume"`
}

// Event is progress that a runner reports while it works.
type Event = result.Event

// Tell receives events; it must be quick and safe for concurrent use.
type Tell = result.Tell

// WhenDiskIsFull is the way out for the user.
func (s *Spec) WhenDiskIsFull() string {
	if s.Verb == Load {
		return fmt.Sprintf("the disk is full: free some space and go on with statelab load --resume --db %s, or load fewer --keys", s.Dir)
	}
	return "the disk is full: free some space and do it again"
}

func (s *Spec) openOptions() engine.Options {
	return engine.Options{
		Dir: s.Dir, Profile: s.Profile, ReadOnly: s.ReadOnly, Foreign: s.Foreign, IgnoreLock: s.IgnoreLock,
		CacheBytes: s.CacheBytes, MemoryBytes: s.MemoryBytes, Handles: s.Handles, Direct: s.PageCache == Direct, Overrides: s.Overrides,
	}
}
