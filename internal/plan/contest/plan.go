// Package contest replays one change set into several state trees, each in a
// process of its own, and holds what came of them against each other.
//
// Goals: repeats are interleaved, so that drift of the machine hits all trees
// alike; what is finished stays finished through Ctrl-C or a kill; roots are
// compared version by version, and counters that have to repeat are.
// Non-goals: replaying (replay), starting processes (runners), drawing
// (report).
package contest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/tree"
)

// Plan is a contest before it has run.
type Plan struct {
	Schema  string      `json:"schema"`
	Command []string    `json:"command"`
	Base    replay.Spec `json:"base"` // what all trees share
	Entries []Entry     `json:"entries"`
	Repeats int         `json:"repeats"`
	Trees   string      `json:"trees"`   // folder of the trees' own folders
	Discard bool        `json:"discard"` // each tree's folder goes when its run has succeeded
}

// Entry is one tree with a profile.
type Entry struct {
	Label   string    `json:"label"` // as typed: TREE or TREE:PROFILE
	Profile string    `json:"profile"`
	Info    tree.Info `json:"info"`
}

// PlanSchema is the version of the plan's file.
const PlanSchema = "statelab.replayplan/1"

// PlanFile is the plan inside the folder: what --resume goes on with.
const PlanFile = "plan.json"

const maxPlanBytes = 16 << 20

// WritePlan writes the plan into dir.
func WritePlan(dir string, p Plan) error {
	p.Schema = PlanSchema
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, PlanFile), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// ReadPlan reads the plan of the contest in dir.
func ReadPlan(dir string) (Plan, error) {
	var p Plan
	path := filepath.Join(dir, PlanFile)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return p, fmt.Errorf("%s holds no %s: nothing to go on with", dir, PlanFile)
	}
	if err != nil {
		return p, err
	}
	if info.Size() > maxPlanBytes {
		return p, fmt.Errorf("%s has %d bytes: no plan", path, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("%s is damaged: %w", path, err)
	}
	if p.Schema != PlanSchema {
		return p, fmt.Errorf("%s: schema is %q, this version reads %q", path, p.Schema, PlanSchema)
	}
	return p, nil
}

// step is one repeat of one entry.
type step struct{ entry, repeat int }

// steps in the order they run: forwards, backwards, forwards.
func (p Plan) steps() []step {
	var all []step
	for repeat := range p.Repeats {
		for i := range p.Entries {
			if repeat%2 == 1 {
				i = len(p.Entries) - 1 - i
			}
			all = append(all, step{i, repeat})
		}
	}
	return all
}

// Taken are folders that the plan's trees would need and that hold something.
func (p Plan) Taken() (names []string) {
	for _, s := range p.steps() {
		if !empty(filepath.Join(p.Trees, p.name(s))) {
			names = append(names, p.name(s))
		}
	}
	return names
}

// name of a step's folders.
func (p Plan) name(s step) string {
	name := strings.ReplaceAll(p.Entries[s.entry].Label, ":", "-")
	if p.Repeats > 1 {
		name += fmt.Sprintf("-%d", s.repeat+1)
	}
	return name
}
