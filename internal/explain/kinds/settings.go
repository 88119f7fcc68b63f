package kinds

import (
	"fmt"
	"path/filepath"

	"github.com/statelab/statelab/result"
)

// Setting is one of the axes' settings, and the folders of its runs.
type Setting struct {
	Axes map[string]string
	Runs []string
}

func sweepSettings(dir string) (all []Setting, err error) {
	sweep, err := result.ReadSweep(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range sweep.Points {
		all = append(all, Setting{p.Axes, p.Runs})
	}
	return all, nil
}

func replaySettings(dir string) (all []Setting, err error) {
	replay, err := result.ReadReplay(dir)
	if err != nil {
		return nil, err
	}
	for _, t := range replay.Trees {
		all = append(all, Setting{map[string]string{"tree": t.Tree}, t.Runs})
	}
	return all, nil
}

func layoutSettings(dir string) (all []Setting, err error) {
	layouts, err := result.ReadLayouts(dir)
	if err != nil {
		return nil, err
	}
	for _, row := range layouts.Rows {
		reads := []string{row.Read}
		if len(row.Runs) > 0 {
			reads = nil
			for _, folder := range row.Runs {
				reads = append(reads, folder+"/"+filepath.Base(row.Read))
			}
		}
		all = append(all, Setting{map[string]string{"layout": row.Layout, "accounts": fmt.Sprint(row.Accounts)}, reads})
	}
	return all, nil
}
