// Package paper makes what a paper takes from results: the main chart with a caption that says
// where its figures come from, all figures as one table in long form, and BibTeX entries.
//
// Everything follows from folders alone, and not from their names, so that it can be made again
// from a pack.
//
// Non-goals: what a chart shows (the kinds of results), how it is drawn (report/doc).
package paper

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// Provenance is where the figures of a folder come from. What the folder does not store is empty.
type Provenance struct {
	Kind     kinds.Kind
	Started  time.Time
	Program  string // version of statelab, and its commit
	Seeds    []string
	Workload string
	Machine  string
	Command  string // for a POSIX shell
}

// ReadProvenance reads it from a folder of results of any kind.
func ReadProvenance(dir string) (Provenance, error) {
	report, err := kinds.Open(dir)
	if err != nil {
		return Provenance{}, err
	}

	kind, _ := kinds.Detect(dir) // which Open has recognised
	text, err := os.ReadFile(filepath.Join(dir, kind.File))
	if err != nil {
		return Provenance{}, fmt.Errorf("read provenance: %w", err)
	}

	var file struct {
		Started time.Time   `json:"started"`
		Command []string    `json:"command"`
		Host    result.Host `json:"host"`
		Seeds   []uint64    `json:"seeds"` // of folders that name them themselves
		// of an answer that was computed, where no machine matters
		Statelab string `json:"statelab"`
		Commit   string `json:"commit"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return Provenance{}, fmt.Errorf("read provenance of %s: %w", dir, err)
	}

	runs, err := readableRuns(kind, dir)
	if err != nil {
		return Provenance{}, fmt.Errorf("read provenance of %s: %w", dir, err)
	}

	if len(runs) > 0 && file.Host.Statelab == "" {
		file.Host = runs[0].Host
	}

	if file.Host.Statelab == "" {
		file.Host.Statelab, file.Host.Commit = file.Statelab, file.Commit
	}

	if len(runs) > 0 && len(file.Command) == 0 {
		file.Command = runs[0].Command
	}

	seeds := doc.Each(file.Seeds, func(seed uint64) string { return fmt.Sprint(seed) })
	return Provenance{
		Kind:     kind,
		Started:  file.Started.UTC(),
		Program:  file.Host.Program(),
		Seeds:    append(seeds, doc.Without(doc.Distinct(runs, seedOf))...),
		Workload: workload(report),
		Machine:  machine(file.Host),
		Command:  doc.Shell(file.Command),
	}, nil
}

// readableRuns are the runs that stand for the points of a folder, without those that cannot be
// read, which its report names.
func readableRuns(kind kinds.Kind, dir string) (runs []*result.Run, err error) {
	points, err := pointsOf(kind, dir)
	if err != nil {
		return nil, err
	}

	for _, p := range points {
		if run, err := kinds.ReadRun(dir, p.Run); p.Run != "" && err == nil {
			runs = append(runs, run)
		}
	}

	return runs, nil
}

// pointsOf are all settings of a folder whose runs have figures; none of a kind without runs.
func pointsOf(kind kinds.Kind, dir string) (all []kinds.Setting, err error) {
	for _, read := range []func(string) ([]kinds.Setting, error){kind.Settings, kind.Builds} {
		if read == nil {
			continue
		}

		points, err := read(dir)
		if err != nil {
			return nil, err
		}

		all = append(all, points...)
	}

	return all, nil
}

// seedOf is the seed of a run; "" of one that drew nothing, as a replay of given changes.
func seedOf(run *result.Run) string {
	if run.Absent["seed"] != "" || run.Changes != nil {
		return ""
	}

	return fmt.Sprint(run.Workload.Seed)
}

// workload is what was measured, in the words of the report.
func workload(report kinds.Report) string {
	if own, is := report.(interface{ Setting() string }); is {
		return own.Setting()
	}

	return strings.Join(doc.Without(doc.Each(report.Document().Cards, func(c doc.Card) string {
		return cmp.Or(c.Brief, strings.Join(doc.Each(c.Facts, func(fact [2]string) string {
			return fact[0] + " " + fact[1]
		}), ", "))
	})), "; ")
}

func machine(h result.Host) string {
	if h.Cores == 0 { // an import does not tell
		return ""
	}

	return strings.Join(doc.Without([]string{h.Kind(), h.OS,
		strings.TrimSpace(h.Device + " " + h.Filesystem)}), ", ")
}

// String is all of it in sentences.
func (p Provenance) String() string {
	facts := doc.Known([][2]string{
		{"Statelab ", p.Program},
		{"Seed: ", strings.Join(p.Seeds, ", ")},
		{"Workload: ", p.Workload},
		{"Machine: ", p.Machine},
		{"Command: ", p.Command},
	})

	return strings.Join(doc.Each(facts, func(fact [2]string) string {
		return fact[0] + strings.TrimSuffix(fact[1], ".") + "."
	}), " ")
}

// Chart is the chart that a report chooses, or the first of its page; nil if there is none.
func Chart(report kinds.Report) *doc.Chart {
	if own, is := report.(interface{ Chart() *doc.Chart }); is {
		return own.Chart()
	}

	return report.Document().MainChart()
}

// Caption says what the chart of a report on folders shows, and where its figures come from.
func Caption(report kinds.Report, dirs ...string) (string, error) {
	var sentences []string
	if chart := Chart(report); chart != nil {
		sentences = append(sentences, doc.Upper(chart.About)+".")
	}

	for _, dir := range dirs {
		p, err := ReadProvenance(dir)
		if err != nil {
			return "", err
		}

		text := p.String()
		if len(dirs) > 1 {
			text = filepath.Base(dir) + ": " + text
		}

		sentences = append(sentences, text)
	}

	return strings.Join(doc.Without(sentences), " "), nil
}

// Picture draws the chart of a report as SVG, one column of a paper wide, with the caption in its
// description. It is an error if the report has no chart.
func Picture(w io.Writer, report kinds.Report, caption string) error {
	chart := Chart(report)
	if chart == nil {
		return errors.New("nothing to draw: these results have no chart")
	}

	return chart.SVG(w, caption)
}
