// Package claims judges what others published about the cost of state by the figures
// of a run. It draws nothing.
package claims

import (
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// Published is a figure as its author gives it: one number, or a range.
type Published struct {
	Low, High float64
	Unit      string
	Source    string // its address
}

// claim is what somebody published about the cost of state.
type claim struct {
	By    string
	Says  string
	Given string // under what, as its author says
	Published
	layouts []string // that it is about
	upTo    uint64   // accounts that it is of; 0: any number
	why     string   // our machine cannot tell
	own     string   // layout that is the author's own
	standIn string   // what was measured in its place
	judge   func(Evidence, claim) finding
}

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

// Sizes that claims speak of.
const (
	Billion     = 1_000_000_000
	mainNetwork = 100_000_000 // accounts from which a state is as large as a main network's
)

// Addresses of claims.
const (
	trieDBReadme = "https://github.com/base/triedb/blob/main/README.md"
	monadDocs    = "https://docs.monad.xyz/monad-arch/execution/monaddb"
	qmdbPaper    = "https://arxiv.org/abs/2501.05262"
	nomtSlides   = "https://hackmd.io/@Xo-wxO7bQkKidH1LrqACsw/rkG0lmjWyg"
	pebbleStudy  = "https://github.com/QuarkChain/bench_kvdb"
	pebbleReply  = "https://ethresear.ch/t/23711" // its answer of 2026-01-27
)

// all are the sides of the argument, in the order in which it went.
func all() []claim {
	of := func(low, high float64, unit, source string) Published { return Published{low, high, unit, source} }
	inKV := []string{"geth-hash", "geth-path"}
	return []claim{
		{By: "TrieDB", Says: "a trie in a key-value store costs O(log N * log N)", Given: "every node is searched for in the whole store",
			Published: of(0, 0, "reads ~ nodes * log N", trieDBReadme), layouts: inKV, judge: judgeGrowth},
		{By: "TrieDB", Says: "~50 disk operations a lookup, with a trie in a key-value store",
			Given:     "a chain like Ethereum or Base; upper nodes can be shared in a block",
			Published: of(50, 50, "reads a lookup", trieDBReadme), layouts: inKV, judge: judgeManyReads},
		{By: "TrieDB", Says: "~8 disk operations a lookup, with a layout made for the trie", Given: "the same chain, a node at a time",
			Published: of(8, 8, "reads a lookup", trieDBReadme), layouts: []string{"chunktrie:unpinned"}, standIn: "chunktrie, built after the description of Monad DB",
			judge: judgeNodes},
		{By: "TrieDB", Says: "~4 disk operations a lookup, with several levels of the trie in a page", Given: "the same chain",
			Published: of(4, 4, "reads a lookup", trieDBReadme), layouts: []string{"triedb", "pagetrie"}, upTo: mainNetwork, own: "triedb",
			standIn: "pagetrie, built after its description", judge: judgeFewReads},
		{By: "Monad DB", Says: "one read for every node: the trie itself lies on the disk", Given: "no store below the trie",
			Published: of(1, 1, "reads a node", monadDocs), layouts: []string{"chunktrie:unpinned"},
			standIn: "chunktrie, built after its description: one read a node is so by construction", judge: judgeReadPerNode},
		{By: "Pebble study", Says: "a Get costs about 2 reads above IP1, 1.0-1.3 above IP2, whatever the size", Given: "a cache of 0.2%, or of 0.9%, of the database",
			Published: of(1, 2, "reads a Get", pebbleStudy), layouts: []string{"flat-pebble"}, judge: judgePerGet},
		{By: "Pebble study, forum", Says: "1-2 reads a db.Get, hash scheme",
			Given:     "geth's default cache of 2 GB: the study's model with random Gets, not an observation",
			Published: of(1, 2, "reads a Get", pebbleReply), layouts: []string{"geth-hash"}, judge: judgePerNode},
		{By: "Pebble study, forum", Says: "0.3-0.9 reads a db.Get, path scheme", Given: "observed on a geth node with its default cache of 2 GB",
			Published: of(0.3, 0.9, "reads a Get", pebbleReply), layouts: []string{"geth-path"}, judge: judgePerNode},
		{By: "QMDB", Says: "one SSD read a Get", Given: "the index in memory",
			Published: of(1, 1, "reads a Get", qmdbPaper), layouts: []string{"qmdb"}, judge: judgeFewReads},
		{By: "QMDB", Says: "2.3 bytes of memory an entry", Given: "the index on the SSD too (hybrid)",
			Published: of(2.3, 2.3, "bytes an entry", qmdbPaper), layouts: []string{"qmdb"}, judge: judgeIndexMemory},
		{By: "QMDB", Says: "2.28 M updates a second", Given: "a server of its authors' choice",
			Published: of(2.28e6, 2.28e6, "updates/s", qmdbPaper), layouts: []string{"qmdb"}, why: "the server of its authors decides it", judge: judgeSpeed},
		{By: "NOMT", Says: "3 reads a key: 1 of the value, 2 of the trie", Given: "1B accounts at random, upper pages in memory",
			Published: of(3, 3, "reads a key", nomtSlides), layouts: []string{"nomt:prove"}, upTo: Billion, judge: judgeRingReads},
		{By: "NOMT", Says: "5 writes a key: 2 of the value, 3 of the trie", Given: "1B accounts at random",
			Published: of(5, 5, "writes a key", nomtSlides), layouts: []string{"nomt"}, judge: judgeWrites},
		{By: "NOMT", Says: "25 K transfers a second", Given: "a goal of its authors, at 1B accounts",
			Published: of(25e3, 25e3, "transfers/s", nomtSlides), layouts: []string{"nomt"}, why: "a goal for 1B accounts and its authors' disk", judge: judgeSpeed},
	}
}

// Judged is a claim with what the run says of it.
type Judged struct {
	claim
	finding
}

// Verdict is the finding, with the name of the stand-in that was measured.
func (j Judged) Verdict() string {
	v := j.finding.Verdict()
	if j.standIn != "" && (j.Word == Holds || j.Word == HoldsIf || j.Word == Fails) {
		v += " (of " + j.standIn + ")"
	}
	return v
}

// Judge judges every claim by a comparison; nil if it has no figures.
func Judge(l *result.Layouts) (found []Judged) {
	e := Evidence{l}
	if Largest(l) == 0 {
		return nil
	}
	for _, c := range all() {
		if c.own != "" && len(e.Sizes(c.own)) > 0 {
			c.standIn = ""
		}
		found = append(found, Judged{c, c.found(e)})
	}
	return found
}

// found is the finding of a claim. Judges see at least one of its layouts. A state that
// fitted in memory confirms nothing about one that does not.
func (c claim) found(e Evidence) finding {
	here := slices.DeleteFunc(slices.Clone(c.layouts), func(layout string) bool { return len(e.Sizes(layout)) == 0 })
	if len(here) == 0 {
		return finding{Word: Untested, Clause: "needs --layout " + strings.Join(c.layouts, " or "), Needs: c.layouts}
	}
	c.layouts = here
	f := c.judge(e, c)
	if f.Word != Holds && f.Word != HoldsIf {
		return f
	}
	for _, layout := range c.layouts {
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
