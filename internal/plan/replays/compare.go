package replays

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// Entries are the trees of a list, with every setting of their options; what is wrong with them goes
// to m. Without stores, the set has said what is wrong, or names its stores later.
func Entries(labels []string, options []setting.Option, base protocol.TreeSpec, stores []string, here *runners.Table[tree.Info],
	m *setting.Mistakes) (entries []Entry) {
	settings, names := setting.Points(options)
	for _, t := range here.Choose("tree", labels, m) {
		for i, overrides := range settings {
			if len(stores) > 0 {
				m.All("tree "+t.Label, t.Check(protocol.TreeQuestion{Tree: t.Info.Name, Profile: t.Profile, CacheNodes: base.CacheNodes,
					MemoryBytes: base.MemoryBytes, Overrides: overrides, Stores: stores}))
			}
			entries = append(entries, Entry{Label: t.Label + names[i], Profile: t.Profile, Options: overrides, Info: t.Info})
		}
	}
	return entries
}

// Steps are what each run of a set will take that says how many changes it has; only reading the whole
// of another tells.
func (r Replays) Steps(info changeset.Info, how plan.Plan, on estimate.Machine) (steps []estimate.Step) {
	if info.Totals == nil {
		return nil
	}
	bytes, _ := host.FilesIn(r.Base.Changes)
	for _, step := range plan.Order(len(r.Entries), how.Repeats, how.Seed) {
		steps = append(steps, estimate.Replay(estimate.ReplaySpec{Tree: r.Entries[step.Point].Info.Name, Changes: info.Totals.Changes, Bytes: bytes,
			Stores: len(info.Stores), CacheNodes: r.Base.CacheNodes}, on))
	}
	return steps
}

// repeating are the counters that the same changes must give again, whatever the
// machine does meanwhile. Bytes on disk are not among them: compactions run when
// they find the time.
func repeating(f *result.Replay) map[string]*int64 {
	leaves := int64(f.Leaves)
	return map[string]*int64{
		"leaves": &leaves, "nodes": f.Nodes, "tree_size": f.TreeSize, "db_gets": f.DBGets, "db_sets": f.DBSets, "db_bytes": f.DBBytes,
		"cache_hits": f.CacheHits, "cache_misses": f.CacheMisses,
	}
}

// counterVerdicts holds each tree against a second pass of itself.
func (c *Work) counterVerdicts() []result.CountersAgree {
	var verdicts []result.CountersAgree
	for i, e := range c.Entries {
		var passes []*result.Replay
		for repeat := range c.plan.Repeats {
			if run := c.runs[plan.Step{Point: i, Repeat: repeat}]; run != nil && run.Status == result.OK && run.Figures.ResumedAt == nil {
				passes = append(passes, run.Figures.Replay)
			}
		}
		v := agree(passes, e.Info.RootRule != result.NoRoots)
		v.Tree = e.Label
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// agree compares the counters of passes over the same changes.
func agree(passes []*result.Replay, roots bool) result.CountersAgree {
	if len(passes) < 2 {
		return result.CountersAgree{Verdict: result.CannotTell, Why: "it takes two whole passes: --repeats 2"}
	}
	v := result.CountersAgree{Verdict: result.Identical, Values: map[string][]int64{}}
	for _, pass := range passes {
		for name, n := range repeating(pass) {
			if n != nil {
				v.Values[name] = append(v.Values[name], *n)
			}
		}
	}
	for name, values := range v.Values {
		if len(values) == len(passes) && slices.Min(values) != slices.Max(values) {
			v.Differ = append(v.Differ, name)
		}
	}
	if roots && slices.ContainsFunc(passes, func(p *result.Replay) bool { return p.RootsDigest != passes[0].RootsDigest }) {
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
		for repeat := range c.plan.Repeats {
			s := plan.Step{Point: i, Repeat: repeat}
			run := c.runs[s]
			if run == nil {
				continue
			}
			folder := c.plan.Folder(c.Points(), s)
			stored, err := result.ReadRoots(filepath.Join(c.plan.Out, folder))
			if err != nil {
				return nil, fmt.Errorf("roots of %s: %w", folder, err)
			}
			name := e.Label
			if repeat > 0 {
				name += fmt.Sprintf(" (repeat %d)", repeat+1)
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
			v.Verdict, v.Why = result.Identical, fmt.Sprintf("to the roots in the change set, %d times", checked[rule])
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
	v := result.RootsVerdict{Verdict: result.CannotTell, Why: "no version has the roots of two runs"}
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
		m.Add("--roots %s holds no run: name the run folder of a finished replay (example: R/points/iavl1)", runDir)
		return set
	}
	if err != nil {
		m.Unread("roots", "", "%v", err)
		return set
	}
	order := set.Info().Order.String()
	switch {
	case run.Verb != "replay" || run.Changes == nil || run.Engine.RootRule == "" || run.Status != result.OK:
		m.Add("--roots %s is not a finished replay into a tree with roots: name the run folder of one (example: R/points/iavl1)", runDir)
		return set
	case run.Changes.Order != order:
		m.Add("--roots %s: it replayed a set of order %s, but this set has order %s, so the roots differ", runDir, run.Changes.Order, order)
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
