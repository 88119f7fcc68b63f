// Package claims judges what others published about the cost of state by the figures
// of a run. It draws nothing.
package claims

import (
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// finding is what a run says of a claim.
type finding struct {
	Word   string
	Clause string   // under what it holds, or why it was not tested
	Needs  []string // layouts that it is about, if the run has none of them
	ours   []string
	Places []string // of our figures in layouts.json
}

// Words of findings.
const (
	Holds      = "holds"
	HoldsIf    = "holds if"
	Fails      = "does not hold"
	CannotTell = "cannot tell here"
	Untested   = "not tested here"
)

// Verdict is the word, and what limits it.
func (f finding) Verdict() string {
	switch f.Word {
	case HoldsIf:
		return f.Word + " " + f.Clause
	case Untested, CannotTell:
		return f.Word + ": " + f.Clause
	}
	return f.Word
}

// Figures are our figures as a sentence.
func (f finding) Figures() string {
	if len(f.ours) == 0 {
		return view.None
	}
	return strings.Join(f.ours, "; ") + "."
}

func (f *finding) note(text string, places ...string) {
	if text != "" {
		f.ours, f.Places = append(f.ours, text), append(f.Places, places...)
	}
}

// Judged is a claim with what the run says of it.
type Judged struct {
	subject.Claim
	finding
}

// Verdict is the finding, with the name of the stand-in that was measured.
func (j Judged) Verdict() string {
	v := j.finding.Verdict()
	if j.StandIn != "" && (j.Word == Holds || j.Word == HoldsIf || j.Word == Fails) {
		v += " (of " + j.StandIn + ")"
	}
	return v
}

// Judge judges every claim by a comparison; nil if it has no figures.
func Judge(l *result.Layouts) (found []Judged) {
	e := Evidence{l}
	if Largest(l) == 0 {
		return nil
	}
	for _, c := range subject.Claims() {
		if c.Own != "" && len(e.Sizes(c.Own)) > 0 {
			c.StandIn = ""
		}
		found = append(found, Judged{c, judge(e, c)})
	}
	return found
}

// rules judge a claim; they see at least one of its layouts.
var rules = map[subject.Rule]func(Evidence, subject.Claim) finding{subject.Growth: judgeGrowth, subject.ManyReads: judgeManyReads,
	subject.NodeReads: judgeNodes, subject.FewReads: judgeFewReads, subject.RingReads: judgeRingReads, subject.ReadPerNode: judgeReadPerNode,
	subject.PerGet: judgePerGet, subject.PerNode: judgePerNode, subject.IndexMemory: judgeIndexMemory, subject.Writes: judgeWrites,
	subject.Speed: judgeSpeed}

// judge is the finding of a claim. A state that fitted in memory confirms nothing about one that
// does not.
func judge(e Evidence, c subject.Claim) finding {
	here := slices.DeleteFunc(slices.Clone(c.Layouts), func(layout string) bool { return len(e.Sizes(layout)) == 0 })
	if len(here) == 0 {
		return finding{Word: Untested, Clause: "needs --layout " + strings.Join(c.Layouts, " or "), Needs: c.Layouts}
	}
	c.Layouts = here
	f := rules[c.Rule](e, c)
	if f.Word != Holds && f.Word != HoldsIf {
		return f
	}
	for _, layout := range c.Layouts {
		if i, ok := e.Largest(layout); ok && !e.fitted(i) {
			return f
		}
	}
	f.Word, f.Clause = CannotTell, "the state fitted in memory, build a larger one or hold less memory (--accounts, --memory)"
	return f
}

// Sentence counts the verdicts.
func Sentence(all []Judged) string {
	count := map[string]int{}
	for _, j := range all {
		count[j.Word]++
	}
	holds := "%d hold here"
	if n := count[HoldsIf]; n > 0 {
		holds += fmt.Sprintf(" (%d of them under a condition)", n)
	}
	var parts []string
	for _, part := range []struct {
		n      int
		format string
	}{{count[Holds] + count[HoldsIf], holds}, {count[Fails], "%d do not hold"},
		{count[CannotTell], "%d cannot be told from this run, because the state fitted in memory"}, {count[Untested], "%d are not tested"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf(part.format, part.n))
		}
	}
	return fmt.Sprintf("Of %d published claims, %s.", len(all), strings.Join(parts, ", "))
}

// Elsewhere counts the claims about layouts that the run does not have.
func Elsewhere(all []Judged) string {
	var needs []string
	n := 0
	for _, j := range all {
		if j.Needs != nil {
			n, needs = n+1, append(needs, j.Needs...)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Claims about layouts that are not in this run: %d, for --layout %s.", n, strings.Join(view.Distinct(needs, strings.Clone), ","))
}
