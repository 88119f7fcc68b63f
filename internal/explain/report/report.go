// Package report recognises what a folder holds and hands it to the package that
// explains it: runs, sweeps, predictions and simulations to engines, replays to trees,
// comparisons of layouts to layouts, published studies to studies, advice to advise.
//
// It reads folders only, never a live object, so that a report made years later
// from the same folder says the same. A figure that a folder does not hold is
// shown as absent with its reason; a point that failed is shown with its error.
// Non-goals: statistics between two runs (compare), recommendations that need
// more than the measured points (advise).
package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/explain/layouts"
	"github.com/statelab/statelab/internal/explain/prices"
	"github.com/statelab/statelab/internal/explain/studies"
	"github.com/statelab/statelab/internal/explain/trees"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// Report is what a folder says: as a page for a browser and as text for a terminal.
type Report interface {
	Page() *view.Page
	Text(io.Writer) error
	JSON() any
}

// ErrOneAtATime is of folders that are explained on their own only.
var ErrOneAtATime = errors.New("report it on its own")

// Open reads folders: several runs and sweeps, several replays, a study with sweeps that
// stand for its own, or one folder of another kind.
func Open(folders ...string) (Report, error) {
	if len(folders) > 0 && holds(folders[0], studies.File) {
		return studies.Open(folders[0], folders[1:]...)
	}
	if len(folders) > 0 && holds(folders[0], result.ReplayFile) {
		return trees.Read(folders...)
	}
	for _, folder := range folders {
		for _, kind := range []struct {
			file, what string
			read       func(string) (Report, error)
		}{
			{result.ReplayFile, "a replay", func(dir string) (Report, error) { return trees.Read(dir) }},
			{result.AdviceFile, "advice", func(dir string) (Report, error) { return advise.Read(dir) }},
			{result.PredictionFile, "a prediction", func(dir string) (Report, error) { return engines.ReadPrediction(dir) }},
			{result.SimulationFile, "a simulation", func(dir string) (Report, error) { return engines.ReadSimulation(dir) }},
			{result.PriceFile, "a price table", func(dir string) (Report, error) { return prices.Read(dir) }},
			{result.LayoutsFile, "a comparison of layouts", func(dir string) (Report, error) { return layouts.Read(dir) }},
		} {
			if !holds(folder, kind.file) {
				continue
			}
			if len(folders) > 1 {
				return nil, fmt.Errorf("%s holds %s: %w", folder, kind.what, ErrOneAtATime)
			}
			return kind.read(folder)
		}
	}
	if len(folders) == 1 && !holds(folders[0], result.SweepFile) && !holds(folders[0], result.RunFile) && holds(folders[0], result.DiskFile) {
		return engines.ReadDisk(folders[0])
	}
	return engines.Read(folders...)
}

func holds(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}
