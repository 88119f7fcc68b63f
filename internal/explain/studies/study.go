// Package studies goes through a published study claim by claim: what it says, what the
// folders of runs beside it say, and the difference.
//
// A study is a folder with study.yaml (the published figures as data, each with its unit,
// source and the figure of ours that answers it), experiment files, and runs/, the results
// that were measured or predicted with them. A verdict is computed from those results each
// time; none is written down.
// Non-goals: measuring; claims about layouts, which package claims judges.
package studies

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// File is what makes a folder a study.
const File = "study.yaml"

// RunsDir holds the results a study is judged by.
const RunsDir = "runs"

// maxFileBytes bounds a study and each of its results.
const maxFileBytes = 16 << 20

// Study is study.yaml as written.
type Study struct {
	Title, Question string
	Sources         []string // addresses
	// sentences; {id} stands for our figure of the claim with that id, {id.published} for theirs
	Answers []string
	// RUN PATH by id: figures of ours of which nothing is published, for the answers
	Figures  map[string]string
	Misleads []string // where its readers could go wrong
	// Differ says by how much loads of this kind were measured to differ, for the claims that rest
	// on one of them.
	Differ  string
	Runs    map[string]Run // results by the name of their folder or file below runs/
	Groups  []Group        `yaml:"claims"`
	Charts  Charts
	Parts   []Part           // sections that have pages of their own
	Layouts string           // a run of statelab layouts, judged by package claims
	results map[string]any   // decoded; of a run with a result for each load, of the first
	each    map[string][]any // of such a run: decoded, of all loads
	layouts *result.Layouts  // of Layouts
	known   map[string]Claim // by id
	claims  []Claim
}

// Part is a page of its own with some of a study's sections. The study's page links to it.
type Part struct {
	File            string // its name in docs/studies, without .md
	Title, Question string
	Answers         []string // as those of a study
	Sections        []string
}

// Run is a result with the command that made it.
type Run struct {
	Command string // that makes it again
	Of      string // what was measured or predicted: size, conditions
	// Loads are the databases that each figure is measured on, from different seeds; 0: one. Their
	// results are in NAME, NAME-load-2 and so on, or NAME sums all of them up.
	Loads int
}

// Group is claims of one kind; its texts may hold {name} for the values of a row.
type Group struct {
	Section             string
	ID, Says, Given     string
	Unit, Source        string
	Bound               string  // "", most or least: a figure to meet, not to exceed, or to reach
	Tolerance           float64 // share of the published figure; 0: a hundredth
	Slack               float64 // further tolerance, in the unit
	Measured, Predicted string  // RUN PATH of our figure
	Model               string  // RUN PATH of a figure that a formula gives
	Timed               bool    // the figure is a speed: a busy machine cannot tell
	Band                string  // RUN PATH of a predicted point whose low and high span chance
	Low, High           string  // RUN PATHs of the ends of the 95 % interval between loads
	Without             string  // RUN PATH of the figure where Given does not hold
	If                  string  // the condition of Band or Without
	Explained           string  // why the figures differ
	Cannot              string  // why this machine cannot tell
	Rows                []map[string]string
	// of a group without rows; a ratio of published figures, "3 / 2", is computed
	Published string
}

// Claim is one published figure with what was found of it.
type Claim struct {
	Group
	Theirs subject.Published
	// of Theirs: the figures of a ratio
	Parts                                        []subject.Published
	MeasuredFigure, PredictedFigure, ModelFigure *float64
	low, high, withoutFigure                     *float64
	least, most                                  *float64 // of the interval between loads
	Word, Clause                                 string
}

// Open reads a study. More folders hold results measured elsewhere: one whose sweep has the name of
// one of the study's runs takes its place. NAME=FILE.json puts a file in the place of run NAME.
func Open(dir string, fresh ...string) (*Study, error) {
	text, err := readBounded(filepath.Join(dir, File))
	if err != nil {
		return nil, err
	}

	s, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, File), err)
	}

	for name := range s.Runs {
		if err := s.add(name, filepath.Join(dir, RunsDir, name)); err != nil {
			return nil, err
		}

		if err := s.addLoads(name, filepath.Join(dir, RunsDir, name)); err != nil {
			return nil, err
		}
	}

	layouts := filepath.Join(dir, RunsDir, s.Layouts)
	for _, folder := range fresh {
		if name, file, given := strings.Cut(folder, "="); given && s.Runs[name].Command != "" {
			if err := s.add(name, strings.TrimSuffix(file, ".json")); err != nil {
				return nil, err
			}
			continue
		}

		if name, is := s.resembling(folder); is {
			if name == "" {
				return nil, fmt.Errorf("%s: no run of %s is of the same kind, or of the same trees",
					folder, dir)
			}

			if err := s.add(name, folder); err != nil {
				return nil, err
			}

			if name == s.Layouts {
				layouts = folder
			}

			continue
		}

		sweep, err := result.ReadSweep(folder)
		if err != nil {
			return nil, err
		}

		if _, known := s.Runs[sweep.Name]; !known {
			return nil, fmt.Errorf("%s: its name is %q, but the runs of %s are %s: only a sweep "+
				"with the name and the size of one of these can be put in its place", folder,
				sweep.Name, dir, strings.Join(slices.Sorted(maps.Keys(s.Runs)), ", "))
		}

		own, err := result.ReadSweep(filepath.Join(dir, RunsDir, sweep.Name))
		if has, wants := keysOf(sweep), keysOf(own); err == nil && has > 0 && wants > 0 &&
			(has > 2*wants || wants > 2*has) {
			return nil, fmt.Errorf("%s: its database has %s keys, the run %s of %s has %s: its "+
				"figures cannot be put beside figures of that size", folder, doc.ShortCount(has),
				sweep.Name, dir, doc.ShortCount(wants))
		}

		if err := s.add(sweep.Name, folder); err != nil {
			return nil, err
		}
	}

	if s.Layouts != "" {
		if s.layouts, err = result.ReadLayouts(layouts); err != nil {
			return nil, err
		}
	}

	if err = s.judge(); err == nil {
		_, err = s.answers()
	}

	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}

	return s, nil
}

// resembling is the run that a folder without a name can stand for: of a replay the one
// of the same trees, of a disk or of layouts the one of that kind.
func (s *Study) resembling(folder string) (name string, is bool) {
	kindOf := func(decoded any) string {
		summary, _ := decoded.(map[string]any)
		kind := fmt.Sprint(summary["schema"])
		if all, _ := summary["trees"].([]any); kind == schema.Replay {
			for _, t := range all {
				tree, _ := t.(map[string]any)
				kind += fmt.Sprint(" ", tree["tree"])
			}
		}

		return kind
	}

	var given any
	if kind, ok := kinds.Detect(folder); ok && !kind.Named {
		text, err := readBounded(filepath.Join(folder, kind.File))
		if err == nil {
			given, err = decode(text)
		}
		is = err == nil
	}

	for run, has := range s.results {
		if is && has != nil && kindOf(has) == kindOf(given) {
			name = run
		}
	}

	return name, is
}

// keysOf are the keys of a sweep's database by its levels; 0: they are not known.
func keysOf(s *result.Sweep) (keys int64) {
	if s == nil {
		return 0
	}
	for _, l := range s.Database.Levels {
		keys += int64(l.Keys)
	}
	return keys
}

func parse(text []byte) (*Study, error) {
	s := &Study{
		results: map[string]any{},
		each:    map[string][]any{},
		known:   map[string]Claim{},
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(s); err != nil {
		return nil, err
	}

	if s.Title == "" {
		return nil, errors.New("no title")
	}

	for name := range s.Runs {
		if name == "" || name != filepath.Base(name) || name == ".." || name == "." {
			return nil, fmt.Errorf("run %q: must be the name of a folder or file in %s", name,
				RunsDir)
		}
	}

	return s, s.Charts.check(s.Runs)
}

// add reads the result that has a name: a file, or the summary in a folder.
func (s *Study) add(name, path string) error {
	text, err := summary(path)
	if errors.Is(err, os.ErrNotExist) {
		s.results[name] = nil // not measured yet
		return nil
	}

	var decoded any
	if err == nil {
		decoded, err = decode(text)
	}

	if err != nil {
		return fmt.Errorf("run %s of the study: %w", name, err)
	}

	s.results[name] = decoded
	delete(s.each, name) // of other results
	return nil
}

// addLoads reads the results of the further loads of a run, if it has one for each load. They stand
// beside the first load's.
func (s *Study) addLoads(name, path string) error {
	of := func(load int) (any, error) {
		text, err := summary(fmt.Sprintf("%s-load-%d", path, load))
		if err != nil {
			return nil, err
		}
		return decode(text)
	}

	each := []any{s.results[name]}
	for load := 2; load <= s.Runs[name].Loads; load++ {
		decoded, err := of(load)
		if load == 2 && errors.Is(err, os.ErrNotExist) {
			return nil // one result sums up all loads
		}

		if err != nil {
			return fmt.Errorf("load %d of run %s of the study: %w", load, name, err)
		}

		each = append(each, decoded)
	}

	if len(each) > 1 {
		s.each[name] = each
	}

	return nil
}

// summary is what a file says, or the summary in a folder with the figures of its runs.
func summary(path string) ([]byte, error) {
	kind, ok := kinds.Detect(path)
	switch {
	case !ok:
		return readBounded(path + ".json")
	case kind.File == result.SweepFile:
		return marshalled(result.ReadSweep(path))
	case kind.File == result.ReplayFile:
		return marshalled(result.ReadReplay(path))
	case kind.File == result.LayoutsFile:
		return marshalled(result.ReadLayouts(path))
	}

	return readBounded(filepath.Join(path, kind.File))
}

func marshalled[T any](summary *T, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(summary)
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("%s: larger than %d MiB", path, maxFileBytes>>20)
	}

	return text, err
}

// judge makes a claim of every row and finds its verdict.
func (s *Study) judge() error {
	for _, g := range s.Groups {
		rows := g.Rows
		if rows == nil {
			rows = []map[string]string{{"published": g.Published}}
		}

		for _, row := range rows {
			c, err := s.claim(g, row)
			if err != nil {
				return fmt.Errorf("claim %q: %w", c.Says, err)
			}

			if c.ID != "" {
				s.known[c.ID] = c
			}

			s.claims = append(s.claims, c)
		}
	}

	return nil
}

// claim is a group with the values of a row.
func (s *Study) claim(g Group, row map[string]string) (c Claim, err error) {
	var pairs []string
	for name, value := range row {
		pairs = append(pairs, "{"+name+"}", value)
	}

	fill := strings.NewReplacer(pairs...)
	for _, text := range []*string{&g.ID, &g.Says, &g.Given, &g.Source, &g.Unit, &g.Bound,
		&g.Measured, &g.Predicted, &g.Model, &g.Band, &g.Low, &g.High, &g.Without,
		&g.Explained, &g.Cannot,
		&g.If} {
		*text = fill.Replace(*text)
	}

	c.Group = g
	if c.Theirs, c.Parts, err = parsePublished(row["published"], g.Unit, g.Source); err != nil {
		return c, err
	}

	for _, of := range []struct {
		place string
		to    **float64
	}{
		{g.Measured, &c.MeasuredFigure},
		{g.Predicted, &c.PredictedFigure},
		{g.Model, &c.ModelFigure},
		{below(g.Band, "low"), &c.low},
		{below(g.Band, "high"), &c.high},
		{g.Without, &c.withoutFigure},
		{g.Low, &c.least},
		{g.High, &c.most},
	} {
		if *of.to, err = s.figure(of.place, g.Unit); err != nil {
			return c, err
		}
	}

	if err := s.overLoads(&c); err != nil {
		return c, err
	}

	if c.Timed && c.MeasuredFigure != nil && s.busy(g.Measured) {
		c.MeasuredFigure, c.Cannot = nil, "other work used the machine during the run"
	}

	c.Word, c.Clause = c.verdict()
	return c, nil
}

// certainty is that of intervals between loads.
const certainty = .95

// overLoads makes the measured figure the mean over the loads of its runs, with its interval, where
// they have a result for each load: figures of two runs are taken on loads of one seed.
func (s *Study) overLoads(c *Claim) error {
	loads := 0
	for _, run := range s.runsOf(c.Measured) {
		if n := len(s.each[run]); n > 0 && (loads == 0 || n < loads) {
			loads = n
		}
	}

	var figures []float64
	for load := range loads {
		of := *s
		of.results = maps.Clone(s.results)
		for run, each := range s.each {
			if load < len(each) {
				of.results[run] = each[load]
			}
		}

		figure, err := of.figure(c.Measured, c.Unit)
		if err != nil {
			return err
		}

		if figure == nil {
			return fmt.Errorf("%q: load %d has no such figure", c.Measured, load+1)
		}

		figures = append(figures, *figure)
	}

	if loads > 1 {
		mean, half := difference.MeanOf(figures, 1-certainty)
		c.MeasuredFigure, c.least, c.most = &mean, doc.Some(mean-half), doc.Some(mean+half)
	}

	return nil
}

// busy tells whether a result at a place warns that others used the machine: of a replay, while
// that tree ran.
func (s *Study) busy(place string) bool {
	run, rest, _ := strings.Cut(place, " ")
	paths := terms(rest)
	for i := 0; i < len(paths); i += 2 { // an operator is between two
		summary, path := s.results[run], paths[i]
		if other, rest, named := strings.Cut(path, ":"); named && s.results[other] != nil {
			summary, path = s.results[other], rest
		}

		choice, isTree := strings.CutPrefix(path, "trees[")
		if !isTree {
			if warnsOfOthers(summary) {
				return true
			}
			continue
		}

		choice, _, _ = strings.Cut(choice, "]")
		of, _ := summary.(map[string]any)
		trees, _ := of["trees"].([]any)
		if slices.ContainsFunc(trees, func(tree any) bool {
			is, err := matches(tree, choice)
			return is && err == nil && warnsOfOthers(tree)
		}) {
			return true
		}
	}

	return false
}

func warnsOfOthers(node any) bool {
	summary, _ := node.(map[string]any)
	warnings, _ := summary["warnings"].([]any)
	return slices.ContainsFunc(warnings, func(w any) bool {
		warning, _ := w.(map[string]any)
		return warning["code"] == result.BusyMachine || warning["code"] == result.BusyDisk
	})
}

func below(place, name string) string {
	if place == "" {
		return ""
	}
	return place + "." + name
}

// Ours is the figure that decides: measured, else predicted, else by formula.
func (c Claim) Ours() *float64 { return cmp.Or(c.MeasuredFigure, c.PredictedFigure, c.ModelFigure) }

const ordinaryTolerance = 0.01

// within tells whether a figure is what the claim says.
func (c Claim) within(figure float64) bool {
	slack := cmp.Or(c.Tolerance, ordinaryTolerance)
	low, high := c.Theirs.Low-slack*math.Abs(c.Theirs.Low)-c.Slack,
		c.Theirs.High+slack*math.Abs(c.Theirs.High)+c.Slack
	return (c.Bound == "most" || figure >= low) && (c.Bound == "least" || figure <= high)
}

func (c Claim) verdict() (word, clause string) {
	ours := c.Ours()
	switch {
	case ours == nil && c.Cannot == "":
		return "", ""
	case ours == nil:
		return claims.CannotTell, c.Cannot
	case c.least != nil && c.most != nil && c.Cannot == "":
		return c.byLoads()
	case c.within(*ours) && c.withoutFigure != nil && !c.within(*c.withoutFigure):
		return claims.HoldsIf, c.If
	case c.within(*ours):
		return claims.Holds, ""
	case c.low != nil && c.high != nil && *c.low <= min(*ours, c.Theirs.Low) &&
		max(*ours, c.Theirs.High) <= *c.high:
		return claims.HoldsIf, c.If
	case c.Cannot != "":
		return claims.CannotTell, c.Cannot
	}

	return claims.Fails, ""
}

// byLoads is the verdict by the interval between loads: it lies where the claim holds, or on one
// side of that.
func (c Claim) byLoads() (word, clause string) {
	below := *c.most < c.Theirs.Low && !c.within(*c.most)
	above := *c.least > c.Theirs.High && !c.within(*c.least)
	switch {
	case c.within(*c.least) && c.within(*c.most):
		return claims.Holds, ""
	case below || above:
		return claims.Fails, ""
	}
	return claims.CannotTell, "loads differ by more"
}

// Verdict is the word with what limits it.
func (c Claim) Verdict() string {
	switch {
	case c.Word == claims.HoldsIf:
		return c.Word + " " + c.Clause
	case c.Clause != "":
		return c.Word + ": " + c.Clause
	}
	return c.Word
}

// Difference is ours / theirs - 1, of a claim of one figure; nil of a range, a bound, zero,
// and where a comparison tells nothing.
func (c Claim) Difference(ours *float64) *float64 {
	if ours == nil || c.Word == claims.CannotTell && (c.least == nil || c.Cannot != "") ||
		c.Theirs.Low != c.Theirs.High || c.Theirs.Low == 0 || c.Bound != "" {
		return nil
	}
	return doc.Some(*ours/c.Theirs.Low - 1)
}

// errors of a group: mean and worst size of the differences.
func spread(all []Claim, of func(Claim) *float64) (mean, worst float64, n int) {
	for _, c := range all {
		if d := c.Difference(of(c)); d != nil && c.Slack == 0 {
			mean, worst, n = mean+math.Abs(*d), max(worst, math.Abs(*d)), n+1
		}
	}
	return mean / float64(max(n, 1)), worst, n
}

// sections are the claims by section, in order.
func (s *Study) sections() (names []string, by map[string][]Claim) {
	by = map[string][]Claim{}
	for _, c := range s.claims {
		by[c.Section] = append(by[c.Section], c)
	}
	return doc.Distinct(s.claims, func(c Claim) string { return c.Section }), by
}
