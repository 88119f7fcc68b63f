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
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
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
	return &Work{
		Replays:  r,
		plan:     p,
		executor: executor,
		Result:   &result.ReplayOf{Started: time.Now().UTC(), Command: r.Command},
	}
}

// Points are the trees.
func (c *Work) Points() (points []plan.Point) {
	for _, e := range c.Entries {
		points = append(points, plan.Point{
			Name:  plan.FileName(e.Label),
			Label: e.Label,
			Class: c.Class,
		})
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
func (c *Work) Measure(
	ctx context.Context, s plan.Step, folder string, tell result.EventFunc,
) (*result.Run, error) {
	e := c.Entries[s.Point]
	spec := c.Base
	spec.Schema, spec.Command = schema.TreeSpec, c.Command
	spec.Tree, spec.Profile, spec.Overrides = e.Info.Name, e.Profile, e.Options
	spec.Out, spec.Dir = filepath.Join(c.plan.Out, folder),
		filepath.Join(c.Trees, filepath.Base(folder))
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
	r.Status, r.Error, r.FailureInfo = so.Status, so.Error, so.FailureInfo
	if len(different) > 0 && so.Status != result.Interrupted {
		r.Status, r.Error, r.FailureInfo = result.Failed, "trees disagree on roots",
			result.FailureInfo{}
	}

	if len(failed) > 0 && so.Status == result.Failed {
		r.Error += "; failed: " + strings.Join(failed, ", ")
	}

	return result.WriteReplay(c.plan.Out, r)
}

// repeats are the runs of an entry that are there.
func (c *Work) repeats(i int) []plan.Repeat[*result.Run] {
	return plan.Repeats(c.plan, c.Points(), i, c.runs)
}

// tree is what came of an entry; not ok: none of its runs is there.
func (c *Work) tree(i int, e Entry) (t result.ReplayedTree, ok bool) {
	repeats := c.repeats(i)
	if len(repeats) == 0 {
		return t, false
	}

	for _, r := range repeats {
		run := r.Of
		for _, w := range run.Warnings {
			c.Result.Warnings = plan.AddWarning(c.Result.Warnings, e.Label, w)
		}

		if c.Result.Host.Kernel == "" && run.Host.Kernel != "" {
			c.Result.Host = run.Host
		}

		if run.Changes != nil && run.Changes.Format != "" {
			c.Result.Changes = *run.Changes
		}
	}

	s := plan.Summarize(repeats, result.TreeRule(), plan.EndOfRun)
	return result.ReplayedTree{
		Tree:        e.Label,
		Version:     e.Info.Version,
		RootRule:    e.Info.RootRule,
		Durability:  e.Info.Durability,
		History:     e.Info.History,
		Run:         s.Shown.Folder,
		Runs:        s.Runs,
		Status:      s.Status,
		Error:       s.Error,
		FailureInfo: s.FailureInfo,
		Spread:      s.Spread,
		Figures:     s.Shown.Of.Figures,
	}, true
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

	if resident, known := t.RSSBytes.Number(); known {
		parts = append(parts, "memory "+unit.Bytes(int64(resident)))
	}

	if t.DiskBytes != nil {
		parts = append(parts, "disk "+unit.Bytes(*t.DiskBytes))
	}

	e.Note = strings.Join(parts, ", ")
	return e
}

// Declared are the replays that an experiment declares, and what its change set knows of itself.
func Declared(
	e *experiment.Experiment, here *runners.Table[tree.Info], command []string, m *setting.Mistakes,
) (Replays, changeset.Info) {
	s := experiment.SubjectAs[*experiment.ReplayConfig](e)
	base := protocol.TreeSpec{
		Overrides: e.Options.Fixed(), CacheNodes: int64(s.CacheNodes.Value()),
		MemoryBytes: s.Memory.Value(), Changes: output.Absolute(s.Changes.Value()),
		Stores:   s.Stores.All(),
		Versions: int64(s.Versions.Value()), RootsEvery: int64(s.RootsEvery.Value()),
		CommitLimitNanos: int64(s.CommitLimit.Value()), Gets: s.Gets.Value(),
		Seed: e.Seed.Value(),
	}

	info := infoOf(s.Changes.Value(), m)
	stores := info.Stores
	if len(base.Stores) > 0 {
		stores = base.Stores
	}

	entries := Entries(s.Tree.All(), e.Options.All(), base, stores, here, m)
	if base.Gets > 0 && len(entries) == 1 && entries[0].Info.RootRule == result.NoRoots {
		m.At("gets", "", "the tree %s keeps nothing to look up", entries[0].Label)
	}

	r := Replays{
		Command: command,
		Base:    base,
		Entries: entries,
		Discard: s.Discard.Value(),
		Class:   e.Constraint.Value(),
	}

	return r, info
}

// infoOf opens the set as the runners will, and says what it knows of itself.
func infoOf(path string, m *setting.Mistakes) (info changeset.Info) {
	if path == "" {
		m.At("changes", "", "name the change set: %s (statelab changeset makes one)",
			m.Name("changes", "set.slcs"))
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

// Entries are the trees of a list, with every setting of their options; what is wrong with them
// goes to m. Without stores, the set has said what is wrong, or names its stores later.
func Entries(labels []string, options []setting.Option, base protocol.TreeSpec, stores []string,
	here *runners.Table[tree.Info],
	m *setting.Mistakes) (entries []Entry) {
	settings, names := setting.Points(options)
	for _, t := range here.Choose("tree", labels, m) {
		for i, overrides := range settings {
			if len(stores) > 0 {
				m.All("tree "+t.Label,
					t.Check(protocol.TreeQuestion{
						Tree:        t.Info.Name,
						Profile:     t.Profile,
						CacheNodes:  base.CacheNodes,
						MemoryBytes: base.MemoryBytes,
						Overrides:   overrides,
						Stores:      stores,
					}))
			}

			entries = append(entries, Entry{
				Label:   t.Label + names[i],
				Profile: t.Profile,
				Options: overrides,
				Info:    t.Info,
			})
		}
	}

	return entries
}

// Steps are what each run of a set will take that says how many changes it has; only reading the
// whole of another tells.
func (r Replays) Steps(
	info changeset.Info, how plan.Plan, on estimate.Machine,
) (steps []estimate.Step) {
	if info.Totals == nil {
		return nil
	}

	bytes, _ := host.FilesIn(r.Base.Changes)
	for _, step := range plan.Order(len(r.Entries), how.Repeats, how.Seed) {
		steps = append(steps,
			estimate.Replay(estimate.ReplaySpec{
				Tree:       r.Entries[step.Point].Info.Name,
				Changes:    info.Totals.Changes,
				Bytes:      bytes,
				Stores:     len(info.Stores),
				CacheNodes: r.Base.CacheNodes,
			}, on))
	}

	return steps
}

// repeating are the counters that the same changes must give again, whatever the
// machine does meanwhile. Bytes on disk are not among them: compactions run when
// they find the time.
func repeating(of *result.Figures) map[string]int64 {
	counts := map[string]int64{"leaves": int64(of.Leaves)}
	for _, f := range []figure.Figure{figure.NodesWritten, figure.TreeSize, figure.DBGets,
		figure.DBSets, figure.DBBytes,
		figure.CacheHits, figure.CacheMisses} {
		if n, known := of.Number(f); known {
			counts[f.Key] = int64(n)
		}
	}

	return counts
}

// counterVerdicts holds each tree against a second pass of itself.
func (c *Work) counterVerdicts() []result.CountersAgree {
	var verdicts []result.CountersAgree
	for i, e := range c.Entries {
		var passes []*result.Figures
		for _, r := range c.repeats(i) {
			if run := r.Of; run.Status == result.OK && run.Figures.ResumedAt == nil {
				passes = append(passes, &run.Figures)
			}
		}

		v := agree(passes, e.Info.RootRule != result.NoRoots)
		v.Tree = e.Label
		verdicts = append(verdicts, v)
	}

	return verdicts
}

// agree compares the counters of passes over the same changes.
func agree(passes []*result.Figures, roots bool) result.CountersAgree {
	if len(passes) < 2 {
		return result.CountersAgree{
			Verdict: result.CannotTell,
			Why:     "it takes two whole passes: --repeats 2",
		}
	}

	v := result.CountersAgree{Verdict: result.Identical, Values: map[string][]int64{}}
	for _, pass := range passes {
		for name, n := range repeating(pass) {
			v.Values[name] = append(v.Values[name], n)
		}
	}

	for name, values := range v.Values {
		if len(values) == len(passes) && slices.Min(values) != slices.Max(values) {
			v.Differ = append(v.Differ, name)
		}
	}

	if roots && slices.ContainsFunc(passes,
		func(p *result.Figures) bool { return p.RootsDigest != passes[0].RootsDigest }) {
		v.Differ = append(v.Differ, "roots")
	}

	slices.Sort(v.Differ)
	if len(v.Differ) > 0 {
		v.Verdict = result.Different
	}

	return v
}

// competitor is one run's roots by version.
type competitor struct {
	name  string
	roots map[int64]result.Roots
}

// rootVerdicts compares the roots of all runs of one root rule, those of failed
// runs too as far as they came.
func (c *Work) rootVerdicts() ([]result.RootsVerdict, error) {
	byRule := map[string][]competitor{}
	checked := map[string]uint64{}
	trees := map[string][]string{}
	for i, e := range c.Entries {
		rule := e.Info.RootRule
		if rule == result.NoRoots {
			continue
		}

		for _, r := range c.repeats(i) {
			run := r.Of
			stored, err := result.ReadRoots(filepath.Join(c.plan.Out, r.Folder))
			if err != nil {
				return nil, fmt.Errorf("roots of %s: %w", r.Folder, err)
			}

			name := e.Label
			if r.Number > 0 {
				name += fmt.Sprintf(" (repeat %d)", r.Number+1)
			}

			roots := make(map[int64]result.Roots, len(stored))
			for _, r := range stored {
				roots[r.Version] = r.Roots
			}

			byRule[rule] = append(byRule[rule], competitor{name, roots})
			if run.Figures.Replay != nil {
				checked[rule] += run.Figures.RootsChecked
			}

			if !slices.Contains(trees[rule], e.Label) {
				trees[rule] = append(trees[rule], e.Label)
			}
		}
	}

	var verdicts []result.RootsVerdict
	for _, rule := range slices.Sorted(maps.Keys(byRule)) {
		v := judge(byRule[rule])
		v.RootRule, v.Trees = rule, trees[rule]
		if v.Verdict == result.CannotTell && checked[rule] > 0 {
			v.Verdict, v.Why = result.Identical,
				fmt.Sprintf("to the roots in the change set, %d times", checked[rule])
		}

		verdicts = append(verdicts, v)
	}

	return verdicts, nil
}

// judge finds the first version at which two runs have different roots.
func judge(all []competitor) result.RootsVerdict {
	versions := map[int64]int{} // runs that know it
	for _, c := range all {
		for version := range c.roots {
			versions[version]++
		}
	}

	v := result.RootsVerdict{
		Verdict: result.CannotTell,
		Why:     "no version has the roots of two runs",
	}

	for _, version := range slices.Sorted(maps.Keys(versions)) {
		if versions[version] < 2 {
			continue
		}

		v.Compared++
		v.Verdict, v.Why = result.Identical, ""
		by := map[string][]string{}
		for _, c := range all {
			if r, known := c.roots[version]; known {
				by[r.Combined] = append(by[r.Combined], c.name)
			}
		}

		if len(by) == 1 {
			v.LastAgreement = version
			continue
		}

		v.Verdict, v.FirstDifference, v.ByRoot = result.Different, version, by
		v.DifferingStores = differing(all, version)
		return v
	}

	v.LastAgreement = 0 // says something of a difference only
	return v
}

// differing are the stores whose roots are not all equal.
func differing(all []competitor, version int64) []string {
	seen := map[string]string{}
	differ := map[string]bool{}
	for _, c := range all {
		for store, root := range c.roots[version].Stores {
			if before, known := seen[store]; known && before != root {
				differ[store] = true
			}
			seen[store] = root
		}
	}

	return slices.Sorted(maps.Keys(differ))
}

// ExpectRoots is a set with the roots that a replay of it found: any tree of the
// same rule must find them again.
func ExpectRoots(set changeset.Source, runDir string, m *setting.Mistakes) changeset.Source {
	run, err := result.ReadRun(runDir)
	if errors.Is(err, fs.ErrNotExist) {
		m.Add("--roots %s holds no run: name the run folder of a finished replay (example: "+
			"R/points/iavl1)", runDir)
		return set
	}

	if err != nil {
		m.Unread("roots", "", "%v", err)
		return set
	}

	order := set.Info().Order.String()
	switch {
	case run.Verb != "replay" || run.Changes == nil || run.Engine.RootRule == "" ||
		run.Status != result.OK:
		m.Add("--roots %s is not a finished replay into a tree with roots: name the run folder "+
			"of one (example: R/points/iavl1)", runDir)
		return set
	case run.Changes.Order != order:
		m.Add("--roots %s: it replayed a set of order %s, but this set has order %s, so the "+
			"roots differ", runDir, run.Changes.Order, order)
		return set
	}

	lines, err := result.ReadRoots(runDir)
	if err != nil {
		m.Add("--roots: %v", err)
		return set
	}

	roots := map[int64]changeset.NamedRoots{}
	for _, line := range lines {
		at, err := named(line)
		if err != nil {
			m.Add("--roots %s: %v", runDir, err)
			return set
		}

		roots[line.Version] = at
	}

	return changeset.WithRoots(set, run.Engine.RootRule, roots)
}

func named(line result.RootsAt) (roots changeset.NamedRoots, err error) {
	roots.Stores = map[string][]byte{}
	if roots.Combined, err = hex.DecodeString(line.Combined); err != nil {
		return roots, fmt.Errorf("combined root of version %d: %w", line.Version, err)
	}

	for name, text := range line.Roots.Stores {
		if roots.Stores[name], err = hex.DecodeString(text); err != nil {
			return roots, fmt.Errorf("root of version %d, store %s: %w", line.Version, name, err)
		}
	}

	return roots, nil
}
