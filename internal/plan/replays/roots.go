package replays

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/result"
)

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
