package contest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// RunTree replays one spec in a process of its own.
type RunTree func(ctx context.Context, e Entry, spec *replay.Spec, tell result.Tell) (*result.Run, error)

// Progress is told what the contest is at; n and repeat count from 1.
type Progress func(n, of int, e Entry, repeat int, event result.Event)

// runsDir holds the run folders.
const runsDir = "runs"

// contest is a plan while it is carried out.
type contest struct {
	plan     Plan
	out      string
	measure  RunTree
	progress Progress
	runs     map[step]*result.Run
	result   *result.ReplayOf
}

// Run carries out the plan in the folder out. Runs that an earlier Run has
// finished there are not repeated, unfinished ones go on where their tree is.
func Run(ctx context.Context, plan Plan, out string, measure RunTree, progress Progress) (*result.ReplayOf, error) {
	c := &contest{plan: plan, out: out, measure: measure, progress: progress, runs: map[step]*result.Run{},
		result: &result.ReplayOf{Started: time.Now().UTC(), Command: plan.Command}}
	if err := os.MkdirAll(filepath.Join(out, runsDir), 0o755); err != nil {
		return nil, fmt.Errorf("make the replay's folder: %w", err)
	}
	if err := WritePlan(out, plan); err != nil {
		return nil, err
	}
	err := c.run(ctx)
	if concludeErr := c.conclude(ctx, err); err == nil {
		err = concludeErr
	}
	return c.result, errors.Join(err, result.WriteReplay(out, c.result))
}

func (c *contest) run(ctx context.Context) error {
	steps := c.plan.steps()
	for _, s := range steps {
		if run, err := result.ReadRun(c.folder(s)); err == nil && run.Status == result.OK {
			c.runs[s] = run
		}
	}
	for n, s := range steps {
		if c.runs[s] != nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.step(ctx, s, n+1, len(steps)); err != nil {
			return err
		}
		if err := c.conclude(ctx, nil); err != nil {
			return err
		}
		c.result.Status = result.Interrupted // until the last run is in
		if err := result.WriteReplay(c.out, c.result); err != nil {
			return err
		}
	}
	return nil
}

func (c *contest) step(ctx context.Context, s step, n, of int) error {
	e := c.plan.Entries[s.entry]
	spec := c.plan.Base
	spec.Schema, spec.Command = replay.SpecSchema, c.plan.Command
	spec.Tree, spec.Profile = e.Info.Name, e.Profile
	spec.Out, spec.Dir = c.folder(s), filepath.Join(c.plan.Trees, c.plan.name(s))
	if spec.Resume = c.resumable(e, spec.Out); !spec.Resume {
		if err := os.RemoveAll(spec.Dir); err != nil {
			return fmt.Errorf("clear the tree's folder: %w", err)
		}
	}
	run, err := c.measure(ctx, e, &spec, func(event result.Event) { c.progress(n, of, e, s.repeat+1, event) })
	if err != nil {
		return err
	}
	c.runs[s] = run
	// A repeat's tree only takes room once its run is done.
	if run.Status == result.OK && (c.plan.Discard || s.repeat < c.plan.Repeats-1) {
		if err := os.RemoveAll(spec.Dir); err != nil {
			return fmt.Errorf("remove the tree of %s: %w", e.Label, err)
		}
	}
	return nil
}

// resumable reports whether a run began before that its tree can go on from: one
// that keeps something and has committed a version.
func (c *contest) resumable(e Entry, folder string) bool {
	info, err := os.Stat(filepath.Join(folder, result.AcknowledgedFile))
	return err == nil && info.Size() > 0 && !e.Info.Has(tree.IsVolatile)
}

func empty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err != nil || len(entries) == 0
}

func (c *contest) folder(s step) string { return filepath.Join(c.out, runsDir, c.plan.name(s)) }

// conclude brings replay.json up to what is measured.
func (c *contest) conclude(ctx context.Context, runErr error) error {
	r := c.result
	r.Trees, r.Warnings = nil, nil
	var failed, different []string
	for i, e := range c.plan.Entries {
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
	r.Status, r.Error = result.OK, ""
	switch {
	case runErr != nil && ctx.Err() != nil:
		r.Status = result.Interrupted
		r.Error = fmt.Sprintf("interrupted: statelab replay --resume --out %s goes on", c.out)
	case runErr != nil:
		r.Status, r.Error = result.Failed, runErr.Error()
	case len(different) > 0:
		r.Status, r.Error = result.Failed, "trees disagree on roots"
		if len(failed) > 0 {
			r.Error += "; failed: " + strings.Join(failed, ", ")
		}
	case len(failed) > 0:
		r.Status, r.Error = result.Failed, "failed: "+strings.Join(failed, ", ")
	}
	return nil
}

// tree is what came of an entry: the repeat with the median rate, and the spread
// of all.
func (c *contest) tree(i int, e Entry) (t result.ReplayedTree, ok bool) {
	t = result.ReplayedTree{Tree: e.Label, Version: e.Info.Version, RootRule: e.Info.RootRule, Durability: e.Info.Durability, History: e.Info.History, Status: result.OK}
	var done []*result.Run
	folder := map[*result.Run]string{}
	for repeat := range c.plan.Repeats {
		run := c.runs[step{i, repeat}]
		if run == nil {
			continue
		}
		folder[run] = filepath.Join(runsDir, c.plan.name(step{i, repeat}))
		t.Runs = append(t.Runs, folder[run])
		for _, w := range run.Warnings {
			c.warn(e.Label, w)
		}
		if c.result.Host.Kernel == "" && run.Host.Kernel != "" {
			c.result.Host = run.Host
		}
		if run.Changes != nil && run.Changes.Format != "" {
			c.result.Changes = *run.Changes
		}
		if run.Status != result.OK && t.Error == "" {
			t.Status, t.Error, t.Figures, t.Run = run.Status, run.Error, run.Figures, folder[run]
		}
		if run.Status == result.OK {
			done = append(done, run)
		}
	}
	if len(done) > 0 {
		slices.SortStableFunc(done, func(a, b *result.Run) int { return cmp.Compare(speed(a), speed(b)) })
		median := done[(len(done)-1)/2] // of two, the slower
		t.Figures, t.Run = median.Figures, folder[median]
		if len(done) > 1 {
			t.Spread = map[string]result.Range{"leaves_per_second": {Low: speed(done[0]), High: speed(done[len(done)-1])}}
		}
	}
	return t, len(t.Runs) > 0
}

// speed of a run that succeeded.
func speed(run *result.Run) float64 { return run.Figures.Replay.LeavesPerSecond }

// warn notes a warning of a tree's run, once per tree.
func (c *contest) warn(label string, w engine.Warning) {
	w.Text = label + ": " + w.Text
	if !slices.Contains(c.result.Warnings, w) {
		c.result.Warnings = append(c.result.Warnings, w)
	}
}
