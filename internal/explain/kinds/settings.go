package kinds

import (
	"fmt"
	"path/filepath"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// Setting is one of the axes' settings, and the folders of its runs.
type Setting struct {
	Axes map[string]string
	Runs []string
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

func layoutSetting(row result.LayoutRow) Setting {
	reads := []string{row.Read}
	if len(row.Runs) > 0 {
		reads = doc.Each(row.Runs, func(folder string) string {
			return folder + "/" + filepath.Base(row.Read)
		})
	}
	return Setting{map[string]string{"layout": row.Layout, "accounts": fmt.Sprint(row.Accounts)},
		reads}
}
