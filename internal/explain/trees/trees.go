// Package trees explains replays of a change set into versioned state trees.
package trees

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

const method = "trees.md"

// Document says how fast trees take a change set, and whether they agree.
func (in Input) Document() *doc.Document {
	p := &doc.Document{
		Title: "Statelab: change sets into state trees",
		Cards: []doc.Card{in.card()},
	}

	p.Answer("", append(in.answers(), in.workload()...)...)
	p.Warnings = append(doc.Detailed(doc.WarningsOf(in.Warnings)), in.damages()...)
	if in.Status == result.Interrupted {
		p.Warnings = append(p.Warnings, doc.Warning{
			Text:   "the replay was interrupted: runs are missing",
			Remedy: "run it again with --resume",
			Detail: true,
		})
	}

	p.Warnings = append(p.Warnings, in.otherSets()...)
	p.Add("All figures",
		doc.Block{Title: "Speed", Method: method, Table: in.speed(),
			Note: "Leaves are changes; settled counts the final sync too, where it took a " +
				"hundredth of the time or more.",
			Texts: doc.Without([]string{in.harness()})},
		doc.Block{
			Title:  "State and cost",
			Note:   "Memory is the peak of the process.",
			Method: method,
			Table:  in.state(),
		},
		doc.Block{
			Title: "Durability and history",
			Note:  "A tree that keeps less, or writes later, is faster for it.",
			Table: in.labels(),
		})

	p.Add("Counters", doc.Block{
		Title: "Counters that must repeat",
		List:  doc.Each(in.Counters, countersSentence),
	})

	p.Add("As the tree grows", doc.AsDetail(in.charts())...)
	p.Add("Version by version", doc.AsDetail([]doc.Block{in.perVersion(), in.background()})...)
	p.Add("Facts",
		doc.Block{
			Title:  "Roots at the last version",
			Method: method,
			Table:  in.roots(),
			Folded: true,
		},
		doc.Block{
			Title:  "Counters of every pass",
			Method: method,
			Table:  in.counters(),
			Folded: true,
		},
		doc.Block{Title: "Effective options", Table: in.options(), Folded: true},
		doc.Block{Title: "Command", Pre: doc.Shell(in.Command), Folded: true})

	return p
}

// damages tell which folders could not be read.
func (in Input) damages() []doc.Warning {
	return doc.Each(
		doc.Where(in.trees, func(t replayed) bool { return t.problem != "" }),
		func(t replayed) doc.Warning {
			return doc.Warning{
				Text:  "part of a run folder could not be read: " + t.problem,
				Where: t.Tree,
			}
		},
	)
}

// Damaged names what could not be read of the folders; the rest is reported.
func (in Input) Damaged() []string {
	return doc.Each(in.damages(), func(w doc.Warning) string { return w.Where + ": " + w.Text })
}

// workload says what the answers are of: the change set, and the options that were set.
func (in Input) workload() (said []string) {
	c := in.Changes
	of := []string{"change set " + filepath.Base(c.Path)}
	if versions := in.versions(); versions != "" {
		of = append(of, "versions "+versions)
	}

	if leaves := in.leaves(); leaves > 0 {
		of = append(of, unit.Count(leaves)+" changes")
	}

	if c.Order != "" && c.Order != "unknown" {
		of = append(of, "in "+c.Order+" order")
	}

	said = append(said, "Workload: "+strings.Join(of, ", ")+".")
	set := doc.OptionsSet(doc.Each(
		doc.Where(in.trees, func(t replayed) bool { return t.run != nil }),
		func(t replayed) map[string]string { return t.run.Engine.Overrides }))
	if len(set) > 0 {
		said = append(said, "Options that differ from the profile: "+strings.Join(set, ", ")+".")
	}

	return said
}

// versions are those that were asked for.
func (in Input) versions() string {
	if in.Changes.Last == 0 {
		return ""
	}
	return fmt.Sprintf("%d to %d", in.Changes.First, in.Changes.Last)
}

// leaves are the most changes that a tree took.
func (in Input) leaves() (leaves uint64) {
	for _, t := range in.trees {
		leaves = max(leaves, t.Figures.Leaves)
	}
	return leaves
}

func (in Input) card() doc.Card {
	c := in.Changes

	return doc.Card{Name: "replay", Facts: doc.Known([][2]string{
		{"change set", filepath.Base(c.Path)},
		{"form", c.Format},
		{"order", c.Order},
		{"stores", strings.Join(c.Stores, ", ")},
		{"versions", in.versions()},
		{"leaves", unit.Count(in.leaves())},
		{"provenance", c.Provenance},
		{"machine",
			fmt.Sprintf("%s, %d cores, %s", in.Host.CPU, in.Host.Cores,
				unit.Bytes(in.Host.MemoryBytes))},
		{"disk", strings.TrimSpace(in.Host.Device + " " + in.Host.Filesystem)},
		{"measured", in.Started.UTC().Format("2006-01-02 15:04 UTC")},
	})}
}

func (in Input) labels() doc.Table {
	return doc.ListOf(
		[]string{"tree", "version", "durability", "history", "root rule"},
		in.trees,
		func(of replayed) []string {
			return []string{of.Tree, of.Version, of.Durability, of.History, of.RootRule}
		},
	)
}

func (in Input) roots() doc.Table {
	var rows [][]string
	for _, of := range in.trees {
		f := of.Figures
		if f.Root == nil {
			continue
		}

		rows = append(rows, []string{of.Tree, fmt.Sprint(f.LastVersion), "all", f.Root.Combined})
		for _, store := range slices.Sorted(maps.Keys(f.Root.Stores)) {
			rows = append(rows, []string{of.Tree, fmt.Sprint(f.LastVersion), store,
				f.Root.Stores[store]})
		}
	}

	return doc.Listing([]string{"tree", "version", "store", "root"}, rows)
}

func (in Input) counters() doc.Table {
	var rows [][]string
	for _, c := range in.Counters {
		if len(c.Values) == 0 {
			rows = append(rows, []string{c.Tree, doc.None, doc.None, c.Why})
		}

		for _, name := range slices.Sorted(maps.Keys(c.Values)) {
			verdict := result.Identical
			if slices.Contains(c.Differ, name) {
				verdict = result.Different
			}

			rows = append(rows, []string{c.Tree, name,
				strings.Join(doc.Each(c.Values[name], unit.Count[int64]), " / "), verdict})
		}
	}

	return doc.Listing([]string{"tree", "counter", "passes", "verdict"}, rows)
}

func (in Input) options() doc.Table {
	var rows [][]string
	for _, of := range in.trees {
		if of.run == nil {
			continue
		}

		for _, name := range slices.Sorted(maps.Keys(of.run.Engine.Options)) {
			rows = append(rows, []string{of.Tree, name, of.run.Engine.Options[name]})
		}
	}

	return doc.Listing([]string{"tree", "option", "value"}, rows)
}

// Input is a folder in which a change set was replayed into trees.
type Input struct {
	result.ReplayOf
	Dir   string `json:"-"`
	trees []replayed
	// others are the change sets of the folders after the first.
	others []other
}

type other struct {
	name    string
	changes result.ChangeSet
}

// replayed is a tree with the folder of its median run.
type replayed struct {
	result.ReplayedTree
	run      *result.Run // nil: could not be read
	ticks    []result.Tick
	versions []result.VersionRow
	events   []result.EventRow
	problem  string
	speeds   []float64 // leaves a second of every repeat; none if one of them cannot be read
	folder   int       // that it was measured in: the trees of one take turns
}

// Read reads folders that hold replay.json. The trees of all but the first are shown
// beside those of the first; their roots are not compared.
func Read(dirs ...string) (in Input, err error) {
	for i, dir := range dirs {
		r, err := result.ReadReplay(dir)
		if err != nil {
			return Input{}, err
		}

		if i == 0 {
			in.ReplayOf, in.Dir = *r, dir
		}

		for _, t := range r.Trees {
			of := readTree(dir, t)
			of.folder = i
			if slices.ContainsFunc(in.trees, func(other replayed) bool {
				return other.Tree == of.Tree
			}) {
				of.Tree = fmt.Sprintf("%s (%s)", of.Tree, filepath.Base(dir))
			}

			in.trees = append(in.trees, of)
		}

		if i > 0 {
			in.others = append(in.others, other{filepath.Base(dir), r.Changes})
		}
	}

	return in, nil
}

func readTree(dir string, t result.ReplayedTree) replayed {
	if t.Figures.Replay == nil {
		t.Figures.Replay = new(result.Replay)
	}

	of := replayed{ReplayedTree: t, run: t.Of}
	if t.Problem != nil {
		of.problem = t.Problem.Error()
		return of
	}

	for _, rel := range t.Runs {
		run, err := result.ReadRun(filepath.Join(dir, filepath.FromSlash(rel)))
		if !filepath.IsLocal(filepath.FromSlash(rel)) || err != nil || run.Figures.Replay == nil {
			of.speeds = nil
			break
		}

		of.speeds = append(of.speeds, run.Figures.OrZero(figure.LeavesPerSecond))
	}

	folder := filepath.Join(dir, filepath.FromSlash(t.Run))
	ticks, err := result.ReadSeries(folder)
	if err != nil {
		of.problem = err.Error()
	}

	of.ticks = doc.Where(ticks, func(tick result.Tick) bool { return tick.Tree != nil })
	var errVersions, errEvents error
	of.versions, errVersions = result.ReadVersions(folder)
	of.events, errEvents = result.ReadEvents(folder)
	if err := cmp.Or(errEvents, errVersions); err != nil { // the last that was found
		of.problem = err.Error()
	}

	return of
}

// answers are the sentences that the user came for: who is fastest, and whether
// the trees are the same.
func (in Input) answers() []string {
	return append([]string{in.fastest()}, doc.Each(in.Roots, rootsSentence)...)
}

// fastest ranks the trees that keep something.
func (in Input) fastest() string {
	// else its run cannot be read
	ok := doc.Where(in.trees, func(t replayed) bool {
		return t.Status == result.OK && t.Figures.Leaves > 0
	})
	failed := len(in.trees) - len(ok)
	done := doc.Where(ok, func(t replayed) bool { return t.RootRule != result.NoRoots })
	slices.SortStableFunc(done, func(a, b replayed) int {
		return cmp.Compare(b.Figures.OrZero(figure.LeavesPerSecond),
			a.Figures.OrZero(figure.LeavesPerSecond))
	})

	var text string
	switch {
	case len(done) == 0 && failed > 0:
		text = "No tree came to the end."
	case len(done) == 0:
		text = "Only trees that keep nothing were replayed: what they cost is the harness."
	default:
		text = ranked(done)
	}

	if failed > 0 && len(done) > 0 {
		text += fmt.Sprintf(" %d of %d trees failed.", failed, len(in.trees))
	}

	return text
}

// ranked are the trees, the fastest first, those apart that keep something else: what survives and
// what history there is costs time, so only equals are ranked.
func ranked(done []replayed) string {
	kept := func(t replayed) string { return t.Durability + "; history: " + t.History }
	var sentences []string
	groups := doc.Distinct(done, kept)
	for _, keeps := range groups {
		equals := doc.Where(done, func(t replayed) bool { return kept(t) == keeps })
		text := among(equals)
		if len(groups) > 1 {
			text += " (" + keeps + ")"
		}

		sentences = append(sentences, text+".")
	}

	if len(groups) > 1 {
		sentences = append(sentences, "Only trees with equal durability and history are ranked: "+
			"a tree that keeps less can be faster.")
	}

	return strings.Join(sentences, " ")
}

// among ranks trees that keep the same, the fastest first, by the rule of statelab compare.
func among(equals []replayed) string {
	first := equals[0]
	text := fmt.Sprintf("%s applies %s leaves/s", first.Tree,
		unit.Count(int64(first.Figures.OrZero(figure.LeavesPerSecond))))
	if len(equals) == 1 {
		return text
	}

	rule := difference.Rule{
		Alpha:   difference.Alpha / float64(len(equals)-1),
		Machine: true,
		Margin:  func(bool) float64 { return difference.Margin },
	}

	var slower, alike, apart []string
	for _, t := range equals[1:] {
		rule.Interleaved = t.folder == first.folder
		found := difference.Decide(
			difference.Sample{Values: t.speeds},
			difference.Sample{Values: first.speeds},
			rule,
		)

		switch {
		case found.Reason == difference.FewRuns:
			others := doc.List(equals[1:], func(t replayed) string {
				return t.Tree + " " + unit.Count(int64(t.Figures.OrZero(figure.LeavesPerSecond)))
			})
			return fmt.Sprintf("%s, %s, from too few runs to rank them (%d are needed of each: "+
				"--repeats %d)", text, others, found.Needs, found.Needs)
		case found.Reason == difference.NoTurns:
			apart = append(apart, t.Tree)
		case found.Matters:
			times := first.Figures.OrZero(figure.LeavesPerSecond) /
				t.Figures.OrZero(figure.LeavesPerSecond)
			slower = append(slower, unit.Significant(times, 3)+" times "+t.Tree)
		default:
			alike = append(alike, t.Tree)
		}
	}

	if len(slower) > 0 {
		text += ", " + strings.Join(slower, ", ")
	}

	if len(alike) > 0 {
		text += "; not significantly different: " + strings.Join(alike, ", ")
	}

	if len(apart) > 0 {
		text += "; not compared with " + strings.Join(apart, ", ") +
			", whose runs were not interleaved with it"
	}

	return text
}

// rootsSentence is the verdict on one root rule.
func rootsSentence(v result.RootsVerdict) string {
	names := strings.Join(v.Trees, ", ")
	switch v.Verdict {
	case result.Identical:
		if v.Why != "" {
			return fmt.Sprintf("Roots (%s): %s identical %s.", v.RootRule, names, v.Why)
		}
		return fmt.Sprintf("Roots (%s): identical at all %s versions compared, %s.", v.RootRule,
			unit.Count(v.Compared), names)
	case result.Different:
		var sides []string
		for _, root := range slices.Sorted(maps.Keys(v.ByRoot)) {
			sides = append(sides,
				fmt.Sprintf("%s of %s", doc.Clip(root, 13), strings.Join(v.ByRoot[root], ", ")))
		}

		text := fmt.Sprintf("Roots (%s): DIFFERENT, first seen at version %d: %s", v.RootRule,
			v.FirstDifference, strings.Join(sides, " against "))
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
		return fmt.Sprintf("%s: identical in %d passes (%s)", c.Tree, passes,
			strings.Join(slices.Sorted(maps.Keys(c.Values)), ", "))
	case result.Different:
		return fmt.Sprintf("%s: %s differ between passes", c.Tree, strings.Join(c.Differ, ", "))
	}

	return fmt.Sprintf("%s: cannot tell, %s", c.Tree, c.Why)
}

type column = doc.Column[replayed]

// columnOf is the column of a figure of a tree.
func columnOf(f figure.Figure) column {
	return doc.ColumnOf(f, func(of replayed) figure.Value { return of.Figures.Value(f) })
}

// treeColumn is a column of figures of a tree.
func treeColumn(name, unit string, value func(result.Figures) *float64) column {
	return doc.Optional(name, unit, nil, func(of replayed) *float64 { return value(of.Figures) })
}

// quantile is a column of a quantile of durations.
func quantile(
	name, unit string, in doc.Scale, of func(result.Figures) *result.Latency,
	value func(*result.Latency) float64,
) column {
	return treeColumn(name, "", func(f result.Figures) *float64 {
		return doc.Via(of(f),
			value)
	}).In(in).Named(name, unit)
}

func (in Input) table(columns ...column) doc.Table {
	failed := func(of replayed) string {
		if of.Status == result.OK {
			return ""
		}
		return cmp.Or(of.WithRemedy(of.Error), of.Status)
	}
	tree := doc.Words("tree", func(of replayed) string { return of.Tree })
	return doc.TableOf(in.trees, failed, append([]column{tree}, columns...)...)
}

// speed is what a tree does in a second.
func (in Input) speed() doc.Table {
	commit := func(f result.Figures) *result.Latency { return f.CommitNanos }
	p50, p99 := func(l *result.Latency) float64 { return float64(l.P50) },
		func(l *result.Latency) float64 { return float64(l.P99) }
	return in.table(
		columnOf(figure.LeavesPerSecond),
		column{Name: "repeats", Unit: "from to", Spare: 1, Words: func(of replayed) string {
			r, ok := of.Spread[figure.LeavesPerSecond.Key]
			if !ok {
				return doc.None
			}
			return doc.ShortCount(r.Low) + " " + doc.ShortCount(r.High)
		}},
		treeColumn("settled", "per s", func(f result.Figures) *float64 {
			return doc.When(f.OrZero(figure.LeavesPerSecond.Settled()) < .99*f.OrZero(
				figure.LeavesPerSecond,
			),
				f.OrZero(figure.LeavesPerSecond.Settled()))
		}),
		treeColumn("last window", "per s", func(f result.Figures) *float64 {
			return doc.Via(f.LastWindow,
				func(w *result.Window) float64 { return w.LeavesPerSecond })
		}),
		columnOf(figure.NodesPerSecond),
		quantile("commit", "p50 ms", doc.Millis, commit, p50),
		quantile("commit", "p99 ms", doc.Millis, commit, p99),
		columnOf(figure.DBGetsPerSecond),
		quantile("Get", "p50 us", doc.Micros,
			func(f result.Figures) *result.Latency { return f.ServiceNanos }, p50),
	)
}

// state is what a tree has become and what it takes.
func (in Input) state() doc.Table {
	return in.table(
		columnOf(figure.PeakMemory).Suited(in.trees), columnOf(figure.DiskBytes).Suited(in.trees),
		columnOf(figure.DeviceWriteAmplification), columnOf(figure.TreeSize),
		columnOf(figure.TreeHeight).Formatted(doc.Digits), columnOf(figure.CacheHits),
		columnOf(figure.CacheMisses), columnOf(figure.LogHitsPerSecond).Spared(1))
}

// harness says how much of the fastest tree's time was the harness'.
func (in Input) harness() string {
	worst, of := 0.0, replayed{}
	for _, t := range in.trees {
		if p := t.Figures.Pointer(figure.HarnessPercent); t.Status == result.OK &&
			t.RootRule != result.NoRoots && p != nil && *p > worst {
			worst, of = *p, t
		}
	}

	if of.Tree == "" {
		return ""
	}

	return fmt.Sprintf("Statelab's own work: %s per leaf, at most %s%% of the time of a tree (%s).",
		doc.Nanos(of.Figures.OrZero(figure.HarnessTimePerLeaf)), unit.Significant(worst, 2),
		of.Tree)
}
