package kinds

import (
	"fmt"
	"path/filepath"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// Setting is one of the axes' settings, with the folders of its runs and of the one that stands for
// them, "" where none does.
type Setting struct {
	Axes map[string]string
	Runs []string
	Run  string
}

// ReadRun reads the run in a folder that a summary in dir names, which must not lie outside dir.
func ReadRun(dir, folder string) (*result.Run, error) {
	local := filepath.FromSlash(folder)
	if !filepath.IsLocal(local) {
		return nil, fmt.Errorf("%s: the run folder %q lies outside", dir, folder)
	}

	return result.ReadRun(filepath.Join(dir, local))
}

// settingsOf has a setting for each row of a summary.
func settingsOf[Summary, Row any](
	read func(dir string) (*Summary, error), rows func(*Summary) []Row, of func(Row) Setting,
) func(string) ([]Setting, error) {
	return func(dir string) ([]Setting, error) {
		summary, err := read(dir)
		if err != nil {
			return nil, err
		}
		return doc.Each(rows(summary), of), nil
	}
}

// lookupsOf are the runs that looked up a layout at one size.
func lookupsOf(row result.LayoutRow) Setting { return layoutSetting(row, row.Read) }

// buildOf are those that built it.
func buildOf(row result.LayoutRow) Setting { return layoutSetting(row, row.Build) }

// layoutSetting has the runs of which run stands for the repeats.
func layoutSetting(row result.LayoutRow, run string) Setting {
	runs := []string{run}
	if len(row.Runs) > 0 {
		runs = doc.Each(row.Runs, func(folder string) string {
			return folder + "/" + filepath.Base(run)
		})
	}

	axes := map[string]string{"layout": row.Layout, "accounts": fmt.Sprint(row.Accounts)}

	return Setting{axes, runs, run}
}
