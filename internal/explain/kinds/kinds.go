// Package kinds has one value for each kind of result that a folder can hold: its file and
// schema, how it is read and shown, which runs it is made of, and how it is computed again.
//
// Reports, the list of statelab report --serve, comparisons and packs loop over All; a new kind is
// a value there. It reads folders only, never a live object, so that a report made years later from
// the same folder says the same. A figure that a folder does not hold is shown as absent with its
// reason; a point that failed is shown with its error. Non-goals: drawing (engines, trees, layouts
// and the like), the format of the files (result), statistics between two runs (compare),
// recommendations that need more than the measured points (advise).
package kinds

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/explain/layouts"
	"github.com/statelab/statelab/internal/explain/prices"
	"github.com/statelab/statelab/internal/explain/trees"
	"github.com/statelab/statelab/internal/explain/tuned"
	"github.com/statelab/statelab/internal/explain/watched"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// Report is what a folder says.
type Report interface{ Document() *doc.Document }

// Kind is a kind of result.
type Kind struct {
	Name   string // in lists
	Words  string // with its article
	File   string // by which a folder of it is recognised
	Schema string

	// Read reads folders; several of one Subject make one report, those without a Subject are
	// reported on their own.
	Read    func(dirs ...string) (Report, error)
	Subject string
	Named   bool // it has the name that its experiment gave it
	Around  bool // it lies around runs: without one, nothing is measured

	// Listed is the member of the file from which on it is too long to be read for a list, and
	// Subjects are the engines, trees or layouts that the member names.
	Listed   string
	Subjects func(member json.RawMessage) ([]string, error)

	// Settings are the runs that a summary stands for, by their axes; nil: it is not compared.
	Settings func(dir string) ([]Setting, error)
	// Builds are the runs that built what those of Settings read, where they have figures too; nil:
	// there are none.
	Builds func(dir string) ([]Setting, error)
	// Check computes a summary again from its runs; nil: there is nothing to compute.
	Check func(*Check) error
	// Packed are the files of a pack; nil: it is not packed.
	Packed []string
}

// All are the kinds, in the order in which a folder is recognised: a price table lies beside
// the disk that it priced, and a sweep beside the disk that it read.
func All() []Kind {
	return []Kind{
		{Name: "replay", Words: "a replay", File: result.ReplayFile, Schema: schema.Replay,
			Read: many(trees.Read), Subject: "trees",
			Listed: "trees", Subjects: named(func(t result.ReplayedTree) string { return t.Tree }),
			Settings: settingsOf(
				result.ReadReplay,
				func(r *result.ReplayOf) []result.ReplayedTree { return r.Trees },
				func(t result.ReplayedTree) Setting {
					return Setting{map[string]string{"tree": t.Tree}, t.Runs, t.Run}
				},
			),
			Check: (*Check).replay, Around: true, Packed: []string{result.ReplayFile}},
		{Name: "advice", Words: "advice", File: result.AdviceFile, Schema: schema.Advice,
			Read: one(advise.Read), Packed: []string{result.AdviceFile}},
		{Name: "prediction", Words: "a prediction", File: result.PredictionFile,
			Schema: schema.Prediction, Read: one(engines.ReadPrediction),
			Packed: []string{result.PredictionFile}},
		{Name: "tuning", Words: "the best options for a budget", File: tuned.File,
			Schema: schema.Tuning, Read: one(tuned.Read), Packed: []string{tuned.File}},
		{Name: "simulation", Words: "a simulation", File: result.SimulationFile,
			Schema: schema.Simulation, Read: one(engines.ReadSimulation)},
		{
			Name:     "prices",
			Words:    "a price table",
			File:     result.PriceFile,
			Schema:   schema.Price,
			Read:     one(prices.Read),
			Listed:   "rows",
			Subjects: named(func(r result.PriceRow) string { return r.Layout }),
			Packed:   []string{result.PriceFile},
		},
		{Name: "layouts", Words: "a comparison of layouts", File: result.LayoutsFile,
			Schema: schema.Layouts, Read: one(layouts.Read),
			Listed: "rows", Subjects: named(func(r result.LayoutRow) string { return r.Layout }),
			Settings: settingsOf(result.ReadLayouts,
				func(l *result.Layouts) []result.LayoutRow { return l.Rows }, lookupsOf),
			Builds: settingsOf(result.ReadLayouts,
				func(l *result.Layouts) []result.LayoutRow { return l.Rows }, buildOf),
			Check: (*Check).layouts, Around: true, Packed: []string{result.LayoutsFile}},
		{
			Name:     "sweep",
			Words:    "a sweep",
			File:     result.SweepFile,
			Schema:   schema.Sweep,
			Read:     many(engines.Read),
			Subject:  "engines",
			Named:    true,
			Around:   true,
			Listed:   "axes",
			Subjects: enginesOf,
			Settings: settingsOf(
				result.ReadSweep,
				func(s *result.Sweep) []result.Point { return s.Points },
				func(p result.Point) Setting { return Setting{p.Axes, p.Runs, p.Run} },
			),
			Check:  (*Check).sweep,
			Packed: []string{result.SweepFile},
		},
		{
			Name:     "watch",
			Words:    "a watch of a running process",
			File:     result.WatchFile,
			Schema:   schema.Watch,
			Read:     one(watched.Read),
			Settings: alone,
			Packed: []string{result.WatchFile, result.RunFile, result.SeriesFile,
				result.LatencyFile},
		},
		{
			Name:     "run",
			Words:    "a run",
			File:     result.RunFile,
			Schema:   schema.Run,
			Read:     many(engines.Read),
			Subject:  "engines",
			Named:    true,
			Listed:   "host",
			Settings: alone,
			Packed: []string{result.RunFile, result.SeriesFile, result.LatencyFile,
				result.RootsFile, result.VersionsFile,
				result.EventsFile, result.StacksFile},
		},
		{Name: "disk", Words: "a measurement of a disk", File: result.DiskFile, Schema: schema.Disk,
			Read:   one(engines.ReadDisk),
			Around: true, Packed: []string{result.DiskFile}},
	}
}

// alone is a folder of one run.
func alone(string) ([]Setting, error) {
	return []Setting{{map[string]string{}, []string{"."}, "."}}, nil
}

// Files are those of the kinds of which something holds.
func Files(is func(Kind) bool) []string {
	return doc.Each(doc.Where(All(), is), func(k Kind) string { return k.File })
}

// Detect returns the kind of a folder's result; ok is false of a folder without one.
func Detect(dir string) (k Kind, ok bool) {
	for _, k := range All() {
		if info, err := os.Stat(filepath.Join(dir, k.File)); err == nil && !info.IsDir() {
			return k, true
		}
	}
	return k, false
}

// ErrOneAtATime is of folders that are explained on their own only.
var ErrOneAtATime = errors.New("report it on its own")

// Open reads folders: several runs and sweeps, several replays, or one folder of another kind.
func Open(folders ...string) (Report, error) {
	var first Kind
	for i, folder := range folders {
		kind, ok := Detect(folder)
		if i == 0 {
			first = kind
		}

		if ok && len(folders) > 1 && (kind.Subject == "" || kind.Subject != first.Subject) {
			return nil, fmt.Errorf("%s holds %s: %w", folder, kind.Words, ErrOneAtATime)
		}
	}

	if first.Read == nil {
		return engines.Read(folders...) // which says what is wrong with the first
	}

	return first.Read(folders...)
}

func many[R Report](read func(...string) (R, error)) func(...string) (Report, error) {
	return func(dirs ...string) (Report, error) { return read(dirs...) }
}

func one[R Report](read func(string) (R, error)) func(...string) (Report, error) {
	return func(dirs ...string) (Report, error) { return read(dirs[0]) }
}

// named are the subjects of a member that is a list of rows.
func named[Row any](of func(Row) string) func(json.RawMessage) ([]string, error) {
	return func(member json.RawMessage) (names []string, err error) {
		var rows []Row
		err = json.Unmarshal(member, &rows)
		return doc.Each(rows, of), err
	}
}

// enginesOf are those that are an axis.
func enginesOf(member json.RawMessage) (names []string, err error) {
	var axes []result.Axis
	err = json.Unmarshal(member, &axes)
	engines := doc.Where(axes, func(a result.Axis) bool { return a.Name == "engine" })
	return doc.Flat(engines, func(a result.Axis) []string { return a.Values }), err
}
