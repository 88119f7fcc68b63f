package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/compare"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
)

// Packs are the packs in a folder, by name.
func Packs(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*.zip"))
	slices.Sort(found)
	return found, err
}

// Shown is a pack on the site.
type Shown struct {
	Name    string
	Sum     string // of the pack, SHA-256
	Side    compare.Side
	Verdict *Verdict
	Problem string // it is left out of the site
}

// Site writes a static site of packs into dir, a new folder: index.html, which ranks by
// question, and for each pack its page and the pack itself. Packs that do not pass the
// check are named and left out.
func Site(dir string, packs []string, title, by string) (shown []Shown, err error) {
	for _, pack := range packs {
		s, err := add(dir, pack, by)
		if err != nil {
			return nil, err
		}
		shown = append(shown, s)
	}

	index, err := os.Create(filepath.Join(dir, "index.html"))
	if err != nil {
		return nil, err
	}

	return shown, errors.Join(render.Page(index, siteOf(shown, title)), index.Close())
}

// add checks a pack and, if it passes, puts its page and a copy of it into dir.
func add(dir, pack, by string) (s Shown, err error) {
	s.Name = strings.TrimSuffix(filepath.Base(pack), ".zip")
	text, err := os.ReadFile(pack)
	if err != nil {
		return s, err
	}

	sum := sha256.Sum256(text)
	s.Sum = hex.EncodeToString(sum[:])
	from, remove, err := Open(pack)
	if err != nil {
		s.Problem = err.Error()
		return s, nil
	}

	defer func() { err = errors.Join(err, remove()) }()
	s.Verdict, err = Verify(from, by)
	switch {
	case err != nil:
		s.Problem = err.Error()
	case len(s.Verdict.Problems) > 0:
		s.Problem = s.Verdict.Problems[0]
	}

	if s.Problem != "" {
		return s, nil
	}

	// Results that are not compared (a disk, prices) have a page alone.
	if s.Side, err = compare.Open(from); err != nil {
		s.Side = compare.Side{}
	}

	s.Side.Name = s.Name
	page, err := pageOf(from)
	if err != nil {
		return s, err
	}

	return s, errors.Join(os.WriteFile(filepath.Join(dir, s.Name+".html"), page, 0o644),
		os.WriteFile(filepath.Join(dir, s.Name+".zip"), text, 0o644))
}

func link(file string) string { return "./" + url.PathEscape(file) }

func siteOf(shown []Shown, title string) *doc.Document {
	page := &doc.Document{Title: title}
	var sides []compare.Side
	results := doc.Listing([]string{"result", "pack", "runs", "figures checked",
		"SHA-256 of the pack"}, nil)
	for _, s := range shown {
		if s.Problem != "" {
			page.Warnings = append(page.Warnings, doc.Warning{
				Text:   s.Name + " is left out: " + s.Problem,
				Remedy: "ask who made it for the results as they were measured",
			})
			continue
		}

		sides = append(sides, s.Side)
		results.Add([]string{s.Name, s.Name + ".zip", unit.Count(s.Verdict.Runs),
			unit.Count(s.Verdict.Figures), s.Sum},
			link(s.Name+".html"), link(s.Name+".zip"))
	}

	boards := compare.Boards(sides)
	page.Answer("", fmt.Sprintf("%s, ranked by question", title))
	count := "1 result"
	if len(sides) != 1 {
		count = unit.Count(len(sides)) + " results"
	}

	text := count + ". Only runs under the same conditions are ranked with each other. " +
		"A figure is that of the middle run (of an even number, the worse of the two)."
	if slices.ContainsFunc(boards, func(b *compare.Board) bool { return len(b.Rows) > 1 }) {
		text += " The column \"difference\" says whether a result differs from the first by more " +
			"than chance."
	}

	if slices.ContainsFunc(boards, func(b *compare.Board) bool {
		return slices.ContainsFunc(b.Rows, func(r compare.Ranked) bool { return r.Loads() == 1 })
	}) {
		text += " A figure from one load describes that database alone: another load with the " +
			"same settings differs from it by more than repeats do."
	}

	page.Advice = append(page.Advice, doc.Statement{Text: text})
	var blocks []doc.Block
	for i, b := range boards {
		table := doc.Listing(
			[]string{"subject", b.Figure, "range", "runs", "loads", "difference", "result"},
			nil,
		)

		for _, r := range b.Rows {
			low, high := slices.Min(r.Values), slices.Max(r.Values)
			spread := doc.None
			if low < high {
				spread = b.Print(low) + " to " + b.Print(high)
			}

			name := sides[r.Side].Name
			loads := doc.None
			if n := r.Loads(); n > 0 {
				loads = fmt.Sprint(n)
			}

			table.Add([]string{r.Subject, b.Print(r.Middle), spread, fmt.Sprint(len(r.Values)),
				loads, r.Verdict, name}, "", "", "", "", "", "", link(name+".html"))
		}

		blocks = append(blocks, doc.Block{
			Title:  b.At,
			Table:  table,
			Chart:  b.Chart(),
			Method: "compare.md",
			Folded: len(b.Rows) == 1,
		})

		if i+1 == len(boards) || boards[i+1].Question != b.Question {
			page.Add(b.Question, blocks...)
			blocks = nil
		}
	}

	page.Add("All results", doc.Block{Title: "Each with its page and its raw files", Table: results,
		Note: "Every pack was checked when this site was made: statelab pack verify PACK.zip " +
			"computes its figures and its page again from the raw files."})
	return page
}
