// Package replays replays one change set into several state trees, each in a process
// of its own, and compares what came of them.
//
// Goals: roots are compared version by version, and counters that must repeat are.
// A run that was cut short goes on where its tree is.
// Non-goals: the order of runs and what is finished (plan), replaying (replay),
// drawing (explain).
package replays

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// Entry is one tree with a profile.
type Entry = plan.Entry[tree.Info]

// Replays is what to measure.
type Replays struct {
	Command []string
	Base    protocol.TreeSpec // what all trees share
	Entries []Entry
	Trees   string // folder of the trees' own folders
	Class   string // hardware that it asks for; empty: any
	Discard bool   // each tree's folder goes when its run has succeeded
}

// Work is a comparison while it is carried out.
type Work struct {
	Replays
	plan     plan.Plan
	executor plan.Executor
	runs     map[plan.Step]*result.Run
	Result   *result.ReplayOf
}

// New is the work of measuring r in the folder of p.
func New(r Replays, p plan.Plan, executor plan.Executor) *Work {
	return &Work{Replays: r, plan: p, executor: executor, Result: &result.ReplayOf{Started: time.Now().UTC(), Command: r.Command}}
}

// Points are the trees.
func (c *Work) Points() (points []plan.Point) {
	for _, e := range c.Entries {
		points = append(points, plan.Point{Name: plan.FileName(e.Label), Label: e.Label, Class: c.Class})
	}
	return points
}

// Status of a run.
func (c *Work) Status(run *result.Run) string { return run.Status }

// Stored reads a run.
func (c *Work) Stored(folder string) (*result.Run, bool) {
	run, err := result.ReadRun(folder)
	return run, err == nil
}

// Measure replays into one tree.
func (c *Work) Measure(ctx context.Context, s plan.Step, folder string, tell result.Tell) (*result.Run, error) {
	e := c.Entries[s.Point]
	spec := c.Base
	spec.Schema, spec.Command = protocol.TreeSchema, c.Command
	spec.Tree, spec.Profile, spec.Overrides = e.Info.Name, e.Profile, e.Options
	spec.Out, spec.Dir = filepath.Join(c.plan.Out, folder), filepath.Join(c.Trees, filepath.Base(folder))
	if err := plan.Claim(spec.Dir, c.plan.Out); err != nil {
		return nil, err
	}
	if spec.Resume = resumable(e, spec.Out); !spec.Resume {
		if err := plan.Clear(spec.Dir, c.plan.Out); err != nil {
			return nil, fmt.Errorf("clear the tree's folder: %w", err)
		}
	}
	run, err := c.executor.Do(ctx, runners.Job{
		Spec: &spec, Blank: func() *result.Run { return replay.Blank(&spec, e.Info) }}, tell)
	if err != nil {
		return nil, err
	}
	// A repeat's tree only takes room once its run is done.
	if run.Status == result.OK && (c.Discard || s.Repeat < c.plan.Repeats-1) {
		if err := plan.Release(spec.Dir, c.plan.Out); err != nil {
			return nil, fmt.Errorf("remove the tree of %s: %w", e.Label, err)
		}
	}
	return run, nil
}

// resumable reports whether a run began before that its tree can go on from: one
// that keeps something and has committed a version.
func resumable(e Entry, folder string) bool {
	info, err := os.Stat(filepath.Join(folder, result.AcknowledgedFile))
	return err == nil && info.Size() > 0 && !e.Info.Has(tree.IsVolatile)
}

// Conclude writes replay.json.
func (c *Work) Conclude(done map[plan.Step]*result.Run, so plan.Outcome) error {
	c.runs = done
	r := c.Result
	r.Trees, r.Warnings = nil, nil
	var failed, different []string
	for i, e := range c.Entries {
		t, ok := c.tree(i, e)
		if !ok {
			continue
		}
		r.Trees = append(r.Trees, t)
		if t.Status == result.Failed {
			failed = append(failed, e.Label)
		}
	}
	var err error
	if r.Roots, err = c.rootVerdicts(); err != nil {
		return err
	}
	for _, v := range r.Roots {
		if v.Verdict == result.Different {
			different = append(different, v.RootRule)
		}
	}
	r.Counters = c.counterVerdicts()
	r.Status, r.Error, r.Why = so.Status, so.Error, so.Why
	if len(different) > 0 && so.Status != result.Interrupted {
		r.Status, r.Error, r.Why = result.Failed, "trees disagree on roots", result.Why{}
	}
	if len(failed) > 0 && so.Status == result.Failed {
		r.Error += "; failed: " + strings.Join(failed, ", ")
	}
	return result.WriteReplay(c.plan.Out, r)
}

// tree is what came of an entry: the repeat that represents it by its rate, and
// the spread of all.
func (c *Work) tree(i int, e Entry) (t result.ReplayedTree, ok bool) {
	t = result.ReplayedTree{Tree: e.Label, Version: e.Info.Version, RootRule: e.Info.RootRule, Durability: e.Info.Durability, History: e.Info.History,
		Status: result.OK}
	var done []*result.Run
	folder := map[*result.Run]string{}
	for repeat := range c.plan.Repeats {
		s := plan.Step{Point: i, Repeat: repeat}
		run := c.runs[s]
		if run == nil {
			continue
		}
		folder[run] = c.plan.Folder(c.Points(), s)
		t.Runs = append(t.Runs, folder[run])
		for _, w := range run.Warnings {
			c.warn(e.Label, w)
		}
		if c.Result.Host.Kernel == "" && run.Host.Kernel != "" {
			c.Result.Host = run.Host
		}
		if run.Changes != nil && run.Changes.Format != "" {
			c.Result.Changes = *run.Changes
		}
		if run.Status != result.OK && t.Status == result.OK {
			t.Status, t.Error, t.Why, t.Figures, t.Run = run.Status, run.Error, run.Why, run.Figures, folder[run]
		}
		if run.Status == result.OK {
			done = append(done, run)
		}
	}
	if len(done) > 0 {
		shown, spread := result.OfTree(done)
		t.Figures, t.Run, t.Spread = shown.Figures, folder[shown], spread
	}
	return t, len(t.Runs) > 0
}

// warn notes a warning of a tree's run, once per tree; one about the machine, once.
func (c *Work) warn(label string, w engine.Warning) {
	if result.Told(c.Result.Warnings, w) {
		return
	}
	w.Text = label + ": " + w.Text
	if !slices.Contains(c.Result.Warnings, w) {
		c.Result.Warnings = append(c.Result.Warnings, w)
	}
}

// WithNote says in a replay's event where the tree stands.
func WithNote(e result.Event) result.Event {
	if e.Tick == nil || e.Tick.Tree == nil {
		return e
	}
	t := e.Tick.Tree
	parts := []string{unit.Count(int64(e.Tick.OpsPerSecond)) + " leaves/s"}
	if t.TreeSize != nil {
		parts = append(parts, unit.ShortCount(float64(*t.TreeSize))+" leaves in the tree")
	}
	parts = append(parts, "memory "+unit.Bytes(t.RSSBytes))
	if t.DiskBytes != nil {
		parts = append(parts, "disk "+unit.Bytes(*t.DiskBytes))
	}
	e.Note = strings.Join(parts, ", ")
	return e
}

// Declared are the replays that an experiment declares, and what its change set knows of itself.
func Declared(e *experiment.Experiment, here *runners.Table[tree.Info], command []string, m *setting.Mistakes) (Replays, changeset.Info) {
	s := experiment.Of[*experiment.Replayed](e)
	base := protocol.TreeSpec{
		Overrides: e.Options.Fixed(), CacheNodes: int64(s.CacheNodes.V()), MemoryBytes: s.Memory.V(), Changes: output.Absolute(s.Changes.V()), Stores: s.Stores.All(),
		Versions: int64(s.Versions.V()), RootsEvery: int64(s.RootsEvery.V()), CommitLimitNanos: int64(s.CommitLimit.V()), Gets: s.Gets.V(), Seed: e.Seed.V(),
	}
	info := infoOf(s.Changes.V(), m)
	stores := info.Stores
	if len(base.Stores) > 0 {
		stores = base.Stores
	}
	entries := Entries(s.Tree.All(), e.Options.All(), base, stores, here, m)
	if base.Gets > 0 && len(entries) == 1 && entries[0].Info.RootRule == result.NoRoots {
		m.At("gets", "", "the tree %s keeps nothing to look up", entries[0].Label)
	}
	r := Replays{Command: command, Base: base, Entries: entries, Discard: s.Discard.V(), Class: e.Constraint.V()}
	return r, info
}

// infoOf opens the set as the runners will, and says what it knows of itself.
func infoOf(path string, m *setting.Mistakes) (info changeset.Info) {
	if path == "" {
		m.At("changes", "", "name the change set: %s (statelab changeset makes one)", m.Name("changes", "set.slcs"))
		return info
	}
	full := output.Absolute(path)
	source, err := changeset.OpenFile(full, "")
	if err != nil {
		m.At("changes", "", "%v", err)
		return info
	}
	info = source.Info()
	if err := source.Close(); err != nil {
		m.At("changes", "", "%v", err)
	}
	return info
}
