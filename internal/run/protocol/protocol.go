// Package protocol is what passes between the planner and its runners: questions
// and answers, and the spec of a run. Events are result.Event, since series hold
// parts of them.
//
// JSON names and schemas are a contract with runners of other versions: names are
// added, none is changed.
// Non-goals: starting runners (plan/runners), serving them (runner).
package protocol

import (
	"encoding/json"
	"io"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/tree"
)

// Questions a runner answers, as its last argument. Without one it carries out the
// spec on its standard input.
const (
	Describe = "describe" // Description on stdout
	Check    = "check"    // a question about options on stdin, a list of mistakes on stdout
	Harvest  = "harvest"  // HarvestOrder on stdin, Harvested on stdout; trees only
)

// maxBytes bounds what either side reads of the other's JSON.
const maxBytes = 16 << 20

// Bounded is r up to the limit of what one side may send the other.
func Bounded(r io.Reader) io.Reader { return io.LimitReader(r, maxBytes) }

// Decode reads what the other side sent.
func Decode(r io.Reader, v any) error { return json.NewDecoder(Bounded(r)).Decode(v) }

// DescriptionSchema is the version of what a runner says of itself.
const DescriptionSchema = "statelab.runner/1"

// Description is what a runner says of itself.
type Description struct {
	Schema  string            `json:"schema"`
	Engines []DescribedEngine `json:"engines"`
	Trees   []tree.Info       `json:"trees,omitempty"`
	Layouts []layout.Info     `json:"layouts,omitempty"`
}

// DescribedEngine is one engine of a runner. Missing says what keeps it from
// running here, and the way to get it.
type DescribedEngine struct {
	engine.Info
	Missing string `json:"missing,omitempty"`
}

// Info is what an adapter says of itself.
type Info interface {
	engine.Info | tree.Info | layout.Info
}

// Common is what every Info has; word is what users call its kind.
func Common[I Info](info I) (word, name string, profiles []engine.Profile) {
	switch info := any(info).(type) {
	case engine.Info:
		return "engine", info.Name, info.Profiles
	case tree.Info:
		return "tree", info.Name, info.Profiles
	case layout.Info:
		return "layout", info.Name, info.Profiles
	}
	return "", "", nil // the types above are all
}

// Pick finds an engine, tree or layout in d, and says what it is missing.
func Pick[I Info](d *Description, name string) (info I, missing string, found bool) {
	for _, e := range d.Engines {
		if info, is := any(e.Info).(I); is && e.Name == name {
			return info, e.Missing, true
		}
	}
	for _, list := range []any{d.Trees, d.Layouts} {
		infos, _ := list.([]I)
		for _, info := range infos {
			if _, has, _ := Common(info); has == name {
				return info, "", true
			}
		}
	}
	return info, "", false
}

// Question asks what is wrong with options.
type Question interface {
	Subject() string // name of the engine, tree or layout
}

// EngineQuestion asks what is wrong with options of an engine, those that can be checked before
// anything is opened.
type EngineQuestion struct {
	Engine  string         `json:"engine"`
	Options engine.Options `json:"options"`
}

func (q EngineQuestion) Subject() string { return q.Engine }

// TreeQuestion asks what is wrong with options of a tree.
type TreeQuestion struct {
	Tree        string            `json:"tree"`
	Dir         string            `json:"dir"`
	Profile     string            `json:"profile"`
	CacheNodes  int64             `json:"cache_nodes"`
	MemoryBytes int64             `json:"memory_bytes"`
	Overrides   map[string]string `json:"overrides,omitempty"`
	Stores      []string          `json:"stores,omitempty"`
}

func (q TreeQuestion) Subject() string { return q.Tree }

// LayoutQuestion asks what is wrong with options of a layout.
type LayoutQuestion struct {
	Layout      string            `json:"layout"`
	Profile     string            `json:"profile"`
	MemoryBytes int64             `json:"memory_bytes"`
	Overrides   map[string]string `json:"overrides,omitempty"`
}

func (q LayoutQuestion) Subject() string { return q.Layout }

// HarvestOrder says what to harvest from a tree's forest into the file Out.
type HarvestOrder struct {
	Tree  string `json:"tree"`
	Dir   string `json:"dir"`
	First int64  `json:"first_version"` // 0: the first it has
	Last  int64  `json:"last_version"`  // 0: the last it has
	Out   string `json:"out"`           // "": only describe the forest
	// Whole: the set will begin where the forest does, so the chain's own roots are its.
	Whole bool `json:"whole,omitempty"`
}

// Harvested is what was harvested.
type Harvested struct {
	Stores []string `json:"stores"`
	First  int64    `json:"first_version"`
	Last   int64    `json:"last_version"`
	Pruned bool     `json:"pruned,omitempty"` // the forest began before First
}
