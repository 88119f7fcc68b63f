package trees

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// answers are the sentences that the user came for: who is fastest, and whether
// the trees are the same.
func (in Input) answers() []string {
	all := []string{in.fastest()}
	for _, v := range in.Roots {
		all = append(all, rootsSentence(v))
	}
	return all
}

// fastest ranks the trees that keep something.
func (in Input) fastest() string {
	ok := slices.DeleteFunc(slices.Clone(in.trees), func(t replayed) bool {
		return t.Status != result.OK || t.Figures.Leaves == 0 // its run cannot be read
	})
	failed := len(in.trees) - len(ok)
	done := slices.DeleteFunc(ok, func(t replayed) bool { return t.RootRule == result.NoRoots })
	slices.SortStableFunc(done, func(a, b replayed) int { return cmp.Compare(b.Figures.LeavesPerSecond, a.Figures.LeavesPerSecond) })
	var text string
	switch {
	case len(done) == 0 && failed > 0:
		text = "No tree came to the end."
	case len(done) == 0:
		text = "Only trees that keep nothing were replayed: what they cost is the harness."
	default:
		f := done[0].Figures
		text = fmt.Sprintf("%s applies %s leaves/s", done[0].Tree, unit.Count(int64(f.LeavesPerSecond)))
		if len(done) > 1 {
			second := done[1]
			text += fmt.Sprintf(", %s times %s", unit.Significant(f.LeavesPerSecond/second.Figures.LeavesPerSecond, 3), second.Tree)
			if !apartFrom(done[0], second) {
				text += " (their repeats overlap or there is one of each: not a ranking)"
			}
		}
		text += "."
	}
	if failed > 0 && len(done) > 0 {
		text += fmt.Sprintf(" %d of %d trees failed.", failed, len(in.trees))
	}
	return text
}

// apartFrom reports whether every repeat of a was faster than every one of b.
func apartFrom(a, b replayed) bool {
	ra, oka := a.Spread["leaves_per_second"]
	rb, okb := b.Spread["leaves_per_second"]
	return oka && okb && ra.Low > rb.High
}

// rootsSentence is the verdict on one root rule.
func rootsSentence(v result.RootsVerdict) string {
	names := strings.Join(v.Trees, ", ")
	switch v.Verdict {
	case result.Identical:
		if v.Why != "" {
			return fmt.Sprintf("Roots (%s): %s identical %s.", v.RootRule, names, v.Why)
		}
		return fmt.Sprintf("Roots (%s): identical at all %s versions compared, %s.", v.RootRule, unit.Count(v.Compared), names)
	case result.Different:
		var sides []string
		for _, root := range slices.Sorted(maps.Keys(v.ByRoot)) {
			sides = append(sides, fmt.Sprintf("%s of %s", view.Clip(root, 13), strings.Join(v.ByRoot[root], ", ")))
		}
		text := fmt.Sprintf("Roots (%s): DIFFERENT, first seen at version %d: %s", v.RootRule, v.FirstDifference, strings.Join(sides, " against "))
		if len(v.DifferingStores) > 0 {
			text += "; stores " + strings.Join(v.DifferingStores, ", ")
		}
		if v.LastAgreement > 0 {
			return text + fmt.Sprintf(". All agree at version %d.", v.LastAgreement)
		}
		return text + ". They agree at no version compared."
	}
	return fmt.Sprintf("Roots (%s): cannot tell, %s (%s).", v.RootRule, v.Why, names)
}

// countersSentence says whether a second pass counted the same.
func countersSentence(c result.CountersAgree) string {
	switch c.Verdict {
	case result.Identical:
		passes := 0
		for _, values := range c.Values {
			passes = max(passes, len(values))
		}
		return fmt.Sprintf("%s: identical in %d passes (%s)", c.Tree, passes, strings.Join(slices.Sorted(maps.Keys(c.Values)), ", "))
	case result.Different:
		return fmt.Sprintf("%s: %s differ between passes", c.Tree, strings.Join(c.Differ, ", "))
	}
	return fmt.Sprintf("%s: cannot tell, %s", c.Tree, c.Why)
}
