package studies

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/report/doc"
)

// Sentence counts the verdicts.
func (s *Study) Sentence() string {
	count := map[string]int{}
	all := append(doc.Each(s.claims, word),
		doc.Each(s.judged(), func(j claims.Judged) string { return j.Word })...)
	for _, word := range all {
		count[word]++
	}

	conditional := ""
	if n := count[claims.HoldsIf]; n > 0 {
		conditional = fmt.Sprintf(" (%d of them under a condition)", n)
	}

	return fmt.Sprintf("Of %d published claims and figures, %d hold here%s, %d do not, %d cannot "+
		"be decided here.", len(all), count[claims.Holds]+count[claims.HoldsIf], conditional,
		count[claims.Fails], count[claims.CannotTell]+count[claims.Untested])
}

// judged are the claims about layouts, by package claims.
func (s *Study) judged() []claims.Judged {
	if s.layouts == nil {
		return nil
	}
	return claims.Check(s.layouts)
}

var placeholder = regexp.MustCompile(`\{[a-z0-9.-]+\}`)

// answers are the sentences of the study and its parts, with figures of claims put in.
func (s *Study) answers() ([]string, error) {
	parts := doc.Flat(s.Parts, func(p Part) []string { return p.Answers })
	return s.filled(doc.Without(slices.Concat(s.Answers, parts,
		[]string{s.Sentence(), s.oneLoad()})))
}

// filled are texts with the figures that their placeholders name.
func (s *Study) filled(texts []string) (all []string, err error) {
	for _, text := range texts {
		filled := placeholder.ReplaceAllStringFunc(text, func(place string) string {
			id, which, _ := strings.Cut(strings.Trim(place, "{}"), ".")
			c, known := s.known[id]
			switch {
			case known && which == "published":
				return published(c)
			case known && which == "verdict":
				return c.Verdict()
			case known:
				return number(c.Ours())
			}

			ours, wrong := s.figure(s.Figures[id], "")
			if err = errors.Join(err, wrong); s.Figures[id] == "" {
				err = fmt.Errorf("the answer names no claim and no figure: %s", place)
			}

			if ours != nil && *ours == math.Trunc(*ours) {
				return fmt.Sprintf("%.0f", *ours) // a count
			}

			return number(ours)
		})

		all = append(all, filled)
	}

	return all, err
}

func number(v *float64) string {
	if v == nil {
		return doc.None
	}
	return doc.Number(*v)
}

func published(c Claim) string {
	text := number(&c.Theirs.Low)
	if c.Theirs.High > c.Theirs.Low {
		text += "-" + number(&c.Theirs.High)
	}

	switch c.Bound {
	case "most":
		return "at most " + text
	case "least":
		return "at least " + text
	}

	return text
}

// measured is the measured figure, with its interval between loads.
func measured(c Claim) string {
	if c.least == nil || c.most == nil {
		return number(c.MeasuredFigure)
	}
	return fmt.Sprintf("%s (%s-%s)", number(c.MeasuredFigure), number(c.least), number(c.most))
}

func percent(d *float64) string {
	if d == nil {
		return doc.None
	}
	return fmt.Sprintf("%+.1f%%", 100**d)
}

// table lays claims out; a verdict is its word, or with what limits it.
func table(all []Claim, verdict func(Claim) string) doc.Table {
	figure := func(name string, of func(Claim) string) doc.Column[Claim] {
		return doc.Column[Claim]{Name: name, Words: of}
	}
	return doc.TableOf(all, nil,
		doc.Words("claim", func(c Claim) string { return c.Says }),
		figure("unit", func(c Claim) string { return c.Unit }).Spared(1),
		figure("published", published),
		figure("predicted", func(c Claim) string { return number(c.PredictedFigure) }),
		figure("difference", func(c Claim) string {
			return percent(c.Difference(c.PredictedFigure))
		}),
		figure("measured", measured),
		figure("difference ", func(c Claim) string {
			return percent(c.Difference(c.MeasuredFigure))
		}),
		figure("by formula", func(c Claim) string { return number(c.ModelFigure) }),
		doc.Words("verdict", verdict))
}

func word(c Claim) string { return c.Word }

// limits say under what claims hold, or why they cannot be told.
func limits(all []Claim) []string {
	return doc.Without(doc.Distinct(all, func(c Claim) string {
		if c.Clause == "" {
			return ""
		}
		return doc.Upper(c.Verdict()) + "."
	}))
}

// fewDifferences can be seen at a glance: their mean says nothing more.
const fewDifferences = 6

// note says what a section's claims have in common: conditions, sources, mean errors,
// why figures differ.
func note(all []Claim) string {
	var parts []string
	for _, of := range []struct {
		name   string
		figure func(Claim) *float64
	}{
		{"Predicted", func(c Claim) *float64 { return c.PredictedFigure }},
		{"Measured", func(c Claim) *float64 { return c.MeasuredFigure }},
	} {
		if mean, worst, n := spread(all, of.figure); n >= fewDifferences {
			parts = append(parts,
				fmt.Sprintf("%s against published, %d figures: mean difference %.2f%%, worst "+
					"%.2f%%.", of.name, n, 100*mean, 100*worst))
		}
	}

	given, explained := doc.Each(all, func(c Claim) string { return c.Given }),
		doc.Each(all, func(c Claim) string { return c.Explained })
	sources := doc.Each(all, func(c Claim) string { return "Source: " + c.Source + "." })
	return strings.Join(doc.Without(doc.Distinct(slices.Concat(parts, given, explained, sources),
		strings.Clone)), " ")
}

// loads are the fewest databases that the measured figures of claims rest on; 0: none of them is of
// an engine or a layout that was loaded here.
func (s *Study) loads(all []Claim) (fewest int) {
	for _, c := range all {
		for _, run := range s.runsOf(c.Measured) {
			summary, _ := s.results[run].(map[string]any)
			loaded := summary != nil && (summary["schema"] == schema.Sweep ||
				summary["schema"] == schema.Layouts || s.Runs[run].Loads > 0)
			if !loaded {
				continue
			}

			if n := max(1, s.Runs[run].Loads); fewest == 0 || n < fewest {
				fewest = n
			}
		}
	}

	return fewest
}

// oneLoad warns of a study whose measured figures are of one database of each engine.
func (s *Study) oneLoad() string {
	if s.loads(s.claims) != 1 {
		return ""
	}
	return strings.TrimSpace("Where no loads are named, figures are of one load of each " +
		"database. " + s.Differ)
}

// byLoads says on how many loads the claims of a section rest that have an interval between them.
func (s *Study) byLoads(all []Claim) string {
	all = slices.DeleteFunc(slices.Clone(all), func(c Claim) bool { return c.least == nil })
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("In brackets: the 95 %% confidence interval between %d loads, which "+
		"decides.", s.loads(all))
}

// runsOf are those that a RUN PATH names.
func (s *Study) runsOf(place string) (runs []string) {
	run, rest, _ := strings.Cut(place, " ")
	runs = append(runs, run)
	for _, path := range terms(rest) {
		if other, _, named := strings.Cut(path, ":"); named && s.results[other] != nil {
			runs = append(runs, other)
		}
	}
	return runs
}

// commands are those that made the results of some claims, each once.
func (s *Study) commands(all []Claim) []string {
	places := doc.Flat(all, func(c Claim) []string {
		return []string{c.Measured, c.Predicted, c.Model, c.Band, c.Without}
	})
	return doc.Without(doc.Distinct(places, func(place string) string {
		run, _, _ := strings.Cut(place, " ")
		return s.Runs[run].Command
	}))
}

// Document says what a study claims, and what came out here.
func (s *Study) Document() *doc.Document {
	p := &doc.Document{Title: "Statelab: " + s.Title}
	answers, _ := s.answers() // Open checks them
	for _, text := range answers {
		p.Answer("", strings.ReplaceAll(text, "**", "")) // emphasis is Markdown's
	}

	p.Warnings = doc.Each(s.Misleads, func(text string) doc.Warning {
		return doc.Warning{Text: text}
	})
	p.Add("Charts", doc.AsDetail(s.blocks())...)
	names, by := s.sections()
	for _, name := range names {
		p.Add(
			name,
			doc.Block{
				Table: table(by[name], word),
				Texts: doc.Without(append(limits(by[name]), note(by[name]), s.byLoads(by[name]))),
			},
			doc.Block{
				Title:  "Commands",
				Pre:    strings.Join(s.commands(by[name]), "\n"),
				Folded: true,
			},
		)
	}

	p.Add(
		"Claims about layouts of state",
		doc.Block{Method: "layouts.md", Note: s.states(), Verdicts: claims.Verdicts(s.judged())},
		doc.Block{Title: "Commands", Pre: s.Runs[s.Layouts].Command, Folded: true},
	)

	return p
}

// states says which states the layouts kept.
func (s *Study) states() string {
	if s.layouts == nil {
		return ""
	}
	w := s.layouts.Workload
	return fmt.Sprintf("States of %s accounts, a memory of %s, %s lookups of each kind.",
		doc.List(w.Accounts, func(n uint64) string { return doc.ShortCount(n) }),
		doc.ShortBytes(w.MemoryBytes), unit.Count(w.Reads))
}

// Charts are a study's published curves with those that were predicted and measured.
type Charts struct {
	Sets  []Set
	Drawn []Chart
}

// Set is a run as one line of every chart.
type Set struct {
	Name   string
	Run    string
	As     string // published, predicted or measured
	Colour int    // sets of one database have one
	Of     string // PATH of the database's size in bytes, which cache sizes are shares of
}

// Chart is one figure over the cache size.
type Chart struct {
	Title, Label, Unit string
	Figure             map[string]string // by Set.As: PATH of the figure in a point
}

// Looks of a set's points. A prediction is a line.
const (
	asPublished = "published"
	asPredicted = "predicted"
	asMeasured  = "measured"
)

func (c Charts) check(runs map[string]Run) error {
	for _, set := range c.Sets {
		if _, known := runs[set.Run]; !known || set.Colour < 0 ||
			set.As != asPublished && set.As != asPredicted && set.As != asMeasured {
			return fmt.Errorf("chart line %q: write run (a run of the study), as (published, "+
				"predicted, measured) and colour (0 or more)", set.Name)
		}
	}
	return nil
}

// at is a point of a line.
type at struct {
	set        string
	cacheBytes float64
	share      float64 // of the database, %
	value      float64
}

// points are those of a set that have a figure.
func (s *Study) points(set Set, figure, unitName string) (all []at) {
	root, _ := s.results[set.Run].(map[string]any)
	list, _ := root["points"].([]any)
	whole, known, err := walk(root, set.Of)
	if !known || err != nil || whole <= 0 || figure == "" {
		return nil
	}

	for _, point := range list {
		cache, sized, wrong := walk(point, "cache_bytes")
		value, found, err := walk(point, figure)
		if sized && found && wrong == nil && err == nil && cache > 0 {
			all = append(all, at{set.Name, cache, 100 * cache / whole, value / scale(unitName)})
		}
	}

	return all
}

// blocks are the charts, each with its points as a table.
func (s *Study) blocks() (blocks []doc.Block) {
	for _, chart := range s.Charts.Drawn {
		y := doc.Axis{Label: chart.Label}
		if chart.Unit == "%" {
			y.Kind = doc.Shares
		}

		drawn, panel := doc.OnePanel(chart.Title,
			doc.Decades("cache size, share of the database", doc.AsPercent), y)
		var all []at
		for _, set := range s.Charts.Sets {
			points := s.points(set, chart.Figure[set.As], chart.Unit)
			xys := doc.Each(points, func(p at) doc.XY { return doc.XY{X: p.share, Y: p.value} })
			look := doc.CurveStyle(set.Colour)
			switch set.As {
			case asPublished:
				look.Shape = doc.Ring
				panel.Dots(set.Name, xys, look)
			case asMeasured:
				look.Shape = doc.Cross
				panel.Dots(set.Name, xys, look)
			default:
				look.Shape, look.Dash = "", doc.Dashed()
				panel.Line(set.Name, xys, look)
			}

			all = append(all, points...)
		}

		if !drawn.Drawn() {
			continue
		}

		blocks = append(blocks, doc.Block{Title: chart.Title, Chart: drawn, Aside: true,
			Note: "Rings are published, dashed lines predicted, crosses measured.",
			Table: doc.TableOf(all, nil,
				doc.Words("line", func(p at) string { return p.set }),
				doc.Column[at]{
					Name:  "cache",
					Words: func(p at) string { return doc.ShortBytes(int64(p.cacheBytes)) },
				},
				doc.Column[at]{
					Name:  "share of the database",
					Unit:  "%",
					Value: func(p at) *float64 { return &p.share },
				},
				doc.Column[at]{
					Name:  chart.Label,
					Unit:  chart.Unit,
					Value: func(p at) *float64 { return &p.value },
				})})
	}

	return blocks
}
