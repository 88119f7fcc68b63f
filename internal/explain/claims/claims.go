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

// claim is what somebody published about the cost of state.
type claim struct {
	By, Source string // source: its address
	Says       string
	Given      string // under what, as its author says
	judge      func(Evidence) finding
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
	Holds    = "holds"
	HoldsIf  = "holds if"
	Fails    = "does not hold"
	Untested = "not tested here"
)

// verdict is the word, and what limits it.
func (f finding) Verdict() string {
	switch f.Word {
	case HoldsIf:
		return f.Word + " " + f.Clause
	case Untested:
		return f.Word + ": " + f.Clause
	}
	return f.Word
}

// figures are our figures as a sentence.
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
	pebbleReply  = "a reply in that study's forum thread, passed on to us"
)

// All are the sides of the argument, in the order in which it went.
func All() []claim {
	return []claim{
		{"TrieDB", trieDBReadme, "a trie in a key-value store costs O(log N * log N)", "every node is searched for in the whole store",
			func(e Evidence) finding { return judgeGrowth(e, "geth-hash", "geth-path") }},
		{"TrieDB", trieDBReadme, "~50 disk operations a lookup, with a trie in a key-value store", "a chain like Ethereum or Base; upper nodes can be shared in a block",
			func(e Evidence) finding { return judgeManyReads(e, 50, "geth-hash", "geth-path") }},
		{"TrieDB", trieDBReadme, "~8 with a layout made for the trie", "the same chain, a node at a time",
			func(e Evidence) finding { return judgeNodes(e, 8, "chunktrie:unpinned") }},
		{"TrieDB", trieDBReadme, "~4 with several levels of the trie in a page", "the same chain",
			func(e Evidence) finding { return judgeFewReads(e, 4, mainNetwork, "pagetrie") }},
		{"Monad DB", monadDocs, "one read for every node: the trie itself lies on the disk", "no store below the trie",
			func(e Evidence) finding { return judgeReadPerNode(e, "chunktrie:unpinned") }},
		{"Pebble study", pebbleStudy, "a Get costs 1-2 reads, whatever the size", "filters and top indexes in memory: 0.2% of the database",
			func(e Evidence) finding { return judgePerGet(e, 1, 2, "flat-pebble") }},
		{"Pebble study, forum", pebbleReply, "1-2 reads a Get of a node, hash scheme", "geth's default cache of 2 GB, real blocks",
			func(e Evidence) finding { return judgePerGet(e, 1, 2, "geth-hash") }},
		{"Pebble study, forum", pebbleReply, "0.3-0.9 reads a Get of a node, path scheme", "geth's default cache of 2 GB, real blocks",
			func(e Evidence) finding { return judgePerGet(e, 0.3, 0.9, "geth-path") }},
		{"QMDB", qmdbPaper, "one SSD read a Get", "the index in memory",
			func(e Evidence) finding { return judgeFewReads(e, 1, 0, "qmdb") }},
		{"QMDB", qmdbPaper, "2.3 bytes of memory an entry", "the index on the SSD too (hybrid)",
			func(e Evidence) finding { return judgeIndexMemory(e, 2.3, "qmdb") }},
		{"QMDB", qmdbPaper, "2.28 M updates a second", "a server of its authors' choice",
			func(e Evidence) finding { return judgeSpeed(e, "the server of its authors decides it", "qmdb") }},
		{"NOMT", nomtSlides, "3 reads a key: 1 of the value, 2 of the trie", "1e9 accounts at random, upper pages in memory",
			func(e Evidence) finding { return judgeRingReads(e, 3, Billion, "nomt:prove") }},
		{"NOMT", nomtSlides, "5 writes a key: 2 of the value, 3 of the trie", "1e9 accounts at random",
			func(e Evidence) finding { return judgeWrites(e, 5, "nomt") }},
		{"NOMT", nomtSlides, "25 K transfers a second", "a goal of its authors, at 1e9 accounts",
			func(e Evidence) finding {
				return judgeSpeed(e, "a goal for 1e9 accounts and its authors' disk", "nomt")
			}},
	}
}

// Judged is a claim with what the run says of it.
type Judged struct {
	claim
	finding
}

// Judge holds every claim against a comparison; nil if it has no figures.
func Judge(l *result.Layouts) (all []Judged) {
	e := Evidence{l}
	measured := false
	for _, row := range l.Rows {
		measured = measured || row.Status == result.OK
	}
	if !measured {
		return nil
	}
	for _, c := range All() {
		all = append(all, Judged{c, c.judge(e)})
	}
	return all
}

// Sentence counts the verdicts.
func Sentence(all []Judged) string {
	count := map[string]int{}
	for _, j := range all {
		count[j.Word]++
	}
	return fmt.Sprintf("Of %d published claims, %d hold here (%d of them under a condition), %d do not, %d are not tested.",
		len(all), count[Holds]+count[HoldsIf], count[HoldsIf], count[Fails], count[Untested])
}

// Elsewhere counts the claims about layouts that the run does not have.
func Elsewhere(all []Judged) string {
	var needs []string
	n := 0
	for _, j := range all {
		if j.Needs == nil {
			continue
		}
		n++
		for _, layout := range j.Needs {
			if !slices.Contains(needs, layout) {
				needs = append(needs, layout)
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Claims about layouts that are not in this run: %d, for --layout %s.", n, strings.Join(needs, ","))
}
