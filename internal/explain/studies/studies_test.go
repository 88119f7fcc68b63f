package studies

import (
	"bytes"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/explain/claims"
)

var update = flag.Bool("update", false, "rewrite docs/studies from the studies")

const root = "../../../studies"

// Every claim of every study has a verdict, a source, and a command or the reason why
// there is none; the documents are what the results say.
func TestEveryClaimIsJudged(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(root, "*", File))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no studies: %v", err)
	}

	for _, file := range folders {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			s, err := Open(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}

			for _, c := range s.claims {
				if c.Word == "" {
					t.Errorf("%s: %s: no figure of ours and no reason", c.Section, c.Says)
				}

				if c.Theirs.Source == "" {
					t.Errorf("%s: %s: no source", c.Section, c.Says)
				}

				if ours := c.Ours(); ours != nil && len(s.commands([]Claim{c})) == 0 {
					t.Errorf("%s: %s: no command", c.Section, c.Says)
				}
			}

			for _, j := range s.judged() {
				if j.Word == "" || j.Source == "" || s.Runs[s.Layouts].Command == "" {
					t.Errorf("%s: %s: verdict %q, source %q, command %q", j.By, j.Says, j.Word,
						j.Source, s.Runs[s.Layouts].Command)
				}
			}

			documented(t, name, s.Markdown)
			for _, p := range s.Parts {
				documented(t, p.File, func(w io.Writer) error { return s.MarkdownPart(w, p) })
				for _, section := range p.Sections {
					if !slices.ContainsFunc(s.claims, func(c Claim) bool {
						return c.Section == section
					}) {
						t.Errorf("part %s: no claim is of the section %q", p.File, section)
					}
				}
			}
		})
	}
}

// documented compares a page in docs/studies with what write gives, or writes it.
func documented(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var page bytes.Buffer
	if err := write(&page); err != nil {
		t.Fatal(err)
	}

	document := filepath.Join("../../../docs/studies", name+".md")
	if *update {
		if err := os.WriteFile(document, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	have, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}

	if !bytes.Equal(have, page.Bytes()) {
		t.Errorf("%s is not what the results say: go test ./internal/explain/studies -update",
			document)
	}
}

// Every figure of the published tables has a claim with a verdict and a command: its own, or one of
// a ratio of such figures.
func TestEveryPublishedRowHasAClaim(t *testing.T) {
	text, err := os.ReadFile("testdata/tables.txt")
	if err != nil {
		t.Fatal(err)
	}

	open := map[string]*Study{}
	figures := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}

		part := strings.SplitN(strings.TrimSpace(line), " | ", 3)
		if open[part[0]] == nil {
			if open[part[0]], err = Open(filepath.Join(root, part[0])); err != nil {
				t.Fatal(err)
			}
		}

		for _, figure := range strings.Split(part[2], ", ") {
			figures++
			want, _, err := parsePublished(figure, "", "")
			if err != nil {
				t.Fatal(err)
			}

			s := open[part[0]]
			if !slices.ContainsFunc(s.claims, func(c Claim) bool {
				return strings.Contains(c.Says, part[1]) && slices.Contains(c.Parts, want) &&
					c.Word != "" && len(s.commands([]Claim{c})) > 0
			}) {
				t.Errorf("%s: no claim %q of %s has a verdict and a command", part[0], part[1],
					figure)
			}
		}
	}

	if figures < 180 {
		t.Errorf("only %d figures", figures)
	}
}

func TestRatiosOfPublishedFigures(t *testing.T) {
	for text, want := range map[string][3]float64{
		"2.5":                  {2.5, 2.5, 1},
		"1-2":                  {1, 2, 1},
		"12 / 3":               {4, 4, 2},
		"60-70 / 10 * 2 / 4-5": {2.4, 3.5, 4},
	} {
		p, parts, err := parsePublished(text, "x", "")
		if err != nil || p.Low != want[0] || p.High != want[1] || len(parts) != int(want[2]) {
			t.Errorf("%q: %+v of %d figures, %v", text, p, len(parts), err)
		}
	}

	for _, text := range []string{"", "a", "2-1", "1 /", "/ 2", "1 / 0", "1 + 2", "1 2", "1 / b"} {
		if p, _, err := parsePublished(text, "", ""); err == nil {
			t.Errorf("%q is accepted as %+v", text, p)
		}
	}
}

const small = `
title: A study
runs:
  one: {of: a run, command: statelab predict --keys 1M}
claims:
  - says: "{cache} MiB"
    section: Reads
    unit: "{unit}"
    source: a table
    measured: "one {path}"
    given: ""
    if: at night
    bound: "{bound}"
    without: "{without}"
    band: "{band}"
    rows:
      - {cache: "32", published: "2", unit: reads/Get,
         path: "points[cache_bytes=32MiB].reads", bound: "", without: "", band: ""}
      - {cache: "32", published: "1-1.5", unit: reads/Get,
         path: "points[cache_bytes=32MiB].reads", bound: "", without: "", band: ""}
      - {cache: "32", published: "1.9", unit: reads/Get,
         path: "points[cache_bytes=32MiB].reads", bound: "", without: "",
         band: "one points[cache_bytes=32MiB]"}
      - {cache: "32", published: "3", unit: reads/Get,
         path: "points[cache_bytes=32MiB].reads", bound: most,
         without: "one points[name=b].reads", band: ""}
      - {cache: "48", published: "48", unit: MiB,
         path: "points.cache_bytes - points[name=a].cache_bytes",
         bound: "", without: "", band: ""}
`

func TestVerdicts(t *testing.T) {
	s, err := parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}

	s.results["one"], err = decode([]byte(`{"points": [
		{"name": "a", "cache_bytes": 33554432, "reads": 2.01, "low": 1.8, "high": 2.1},
		{"name": "b", "cache_bytes": 50331648, "reads": 4}]}`))
	if err != nil {
		t.Fatal(err)
	}

	if err := s.judge(); err != nil {
		t.Fatal(err)
	}

	for i, want := range []string{"holds", "does not hold", "holds if at night",
		"holds if at night", "holds"} {
		if got := s.claims[i].Verdict(); got != want {
			t.Errorf("claim %d: %q, want %q", i, got, want)
		}
	}
}

// Speeds of a replay are judged by what others did while that tree ran.
func TestBusyTrees(t *testing.T) {
	s := &Study{results: map[string]any{}}
	for name, text := range map[string]string{
		"replay": `{"trees": [{"tree": "a", "warnings": [{"code": "busy_machine"}]},
			{"tree": "b:set up", "warnings": [{"code": "other"}]}],
			"warnings": [{"code": "busy_machine"}]}`,
		"quiet": `{"trees": [{"tree": "a"}], "warnings": []}`,
		"sweep": `{"points": [], "warnings": [{"code": "busy_disk"}]}`,
	} {
		decoded, err := decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s.results[name] = decoded
	}

	for place, want := range map[string]bool{
		"replay trees[tree=a].n":                                true,
		"replay trees[tree=b:set up].n":                         false,
		"quiet trees[tree=a].n":                                 false,
		"sweep points.n":                                        true,
		"replay trees[tree=b:set up].n / trees[tree=a].n":       true,
		"replay trees[tree=b:set up].n / quiet:trees[tree=a].n": false,
		"quiet trees[tree=a].n / replay:trees[tree=a].n":        true,
		"quiet trees[tree=a].n / sweep:points.n":                true,
	} {
		if got := s.busy(place); got != want {
			t.Errorf("%s: %v, want %v", place, got, want)
		}
	}
}

// Answers name claims, and figures of which nothing is published; counts are whole numbers.
func TestAnswers(t *testing.T) {
	s := &Study{
		Figures: map[string]string{
			"n":     "one reads",
			"half":  "one reads / 4",
			"twice": "one reads * 2",
		},
		results: map[string]any{},
	}

	var err error
	if s.results["one"], err = decode([]byte(`{"reads": 10}`)); err != nil {
		t.Fatal(err)
	}

	s.Answers = []string{"{n} reads, {half}, {twice}"}
	if all, err := s.answers(); err != nil || all[0] != "10 reads, 2.50, 20" {
		t.Errorf("%q, %v", all, err)
	}

	s.Answers = []string{"{unknown} and {n}"}
	if all, err := s.answers(); err == nil {
		t.Errorf("an unknown figure is accepted: %q", all)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, place := range []string{"two points", "one points +", "one points[name",
		"one points[name].reads", "one points.name", "one points.reads ^ 2"} {
		s := &Study{results: map[string]any{}}
		var err error
		s.results["one"], err = decode([]byte(`{"points": [{"name": "a", "reads": 2}]}`))
		if err != nil {
			t.Fatal(err)
		}

		if v, err := s.figure(place, ""); err == nil {
			t.Errorf("%q is accepted as %v", place, v)
		}
	}
}

func FuzzStudy(f *testing.F) {
	f.Add([]byte(small), []byte(`{"points": [{"cache_bytes": 33554432, "reads": 2}]}`))
	f.Fuzz(func(t *testing.T, text, run []byte) {
		s, err := parse(text)
		if err != nil {
			return
		}

		decoded, err := decode(run)
		if err != nil {
			return
		}

		for name := range s.Runs {
			s.results[name] = decoded
		}

		if s.judge() == nil {
			_ = s.Markdown(new(bytes.Buffer)) // an answer may name no claim
		}
	})
}

// Labels of layouts have spaces, and signs of equality.
func TestFiguresOfLabelsWithSpaces(t *testing.T) {
	decoded, err := decode([]byte(
		`{"rows": [{"layout": "a x=1 y=2KiB", "n": 6}, {"layout": "a x=1", "n": 3}]}`,
	))
	if err != nil {
		t.Fatal(err)
	}

	s := &Study{results: map[string]any{"run": decoded}}
	if got, err := s.figure("run rows[layout=a x=1 y=2KiB].n / rows[layout=a x=1].n",
		""); err != nil || got == nil || *got != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestVerdictsByLoads: an interval between loads decides where it lies on one side of what the
// claim allows, 3 % here, and not where it reaches over that.
func TestVerdictsByLoads(t *testing.T) {
	for name, c := range map[string]struct {
		ours, low, high float64
		want            string
	}{
		"within":         {1.01, 1.00, 1.02, claims.Holds},
		"above":          {1.08, 1.06, 1.10, claims.Fails},
		"below":          {.9, .88, .92, claims.Fails},
		"over the limit": {1.04, 1.01, 1.07, claims.CannotTell},
		"on both sides":  {1, .9, 1.1, claims.CannotTell},
	} {
		claim := Claim{Group: Group{Tolerance: .03}, MeasuredFigure: &c.ours, least: &c.low,
			most: &c.high}
		claim.Theirs.Low, claim.Theirs.High = 1, 1
		if word, _ := claim.verdict(); word != c.want {
			t.Errorf("%s: %s, want %s", name, word, c.want)
		}
	}
}

// TestFiguresOverLoads: a ratio is taken on each load, its mean judged by Student's interval.
func TestFiguresOverLoads(t *testing.T) {
	s := &Study{results: map[string]any{}, each: map[string][]any{}, known: map[string]Claim{}}
	for run, figures := range map[string][]string{"a": {"1", "4", "3"}, "b": {"2", "5", "3"}} {
		for _, figure := range figures {
			decoded, err := decode([]byte(`{"n": ` + figure + `}`))
			if err != nil {
				t.Fatal(err)
			}
			s.each[run] = append(s.each[run], decoded)
		}
		s.results[run] = s.each[run][0]
	}

	c, err := s.claim(Group{Measured: "a n / b:n", Tolerance: .3},
		map[string]string{"published": "1"})
	if err != nil {
		t.Fatal(err)
	}

	// .5, .8 and 1; t of two degrees of freedom is 4.3027.
	const mean, half = .76667, 4.30265 * .14530
	if math.Abs(*c.MeasuredFigure-mean) > 1e-4 || math.Abs(*c.least-(mean-half)) > 1e-4 ||
		math.Abs(*c.most-(mean+half)) > 1e-4 {
		t.Errorf("%.5f, %.5f to %.5f", *c.MeasuredFigure, *c.least, *c.most)
	}

	if c.Word != claims.CannotTell {
		t.Errorf("%s: the interval reaches beyond what the claim allows", c.Word)
	}
}
