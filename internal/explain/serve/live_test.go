package serve

import (
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/base/livedir/churn"
)

// TestListBesideAWriter lists results while other folders of results come, change and go.
func TestListBesideAWriter(t *testing.T) {
	root := t.TempDir()
	writeRun(t, filepath.Join(root, "stays"), "pebble1")
	text, err := os.ReadFile(filepath.Join(root, "stays", "run.json"))
	must(t, err)

	x := &index{root: root, row: template.Must(template.New("row").Parse("{{.Path}}"))}
	write := func(number int) error {
		dir := filepath.Join(root, fmt.Sprint("measured-", number))
		if err := os.MkdirAll(filepath.Join(dir, "points", "000"), 0o755); err != nil {
			return err
		}

		for _, name := range []string{"run.json", "points/000/run.json"} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				return err
			}
		}

		return os.RemoveAll(filepath.Join(root, fmt.Sprint("measured-", number-1)))
	}

	churn.RunBeside(t, write, churn.Times, func() error {
		all, err := x.list()
		if err != nil {
			return err
		}

		stays := 0
		for _, e := range all {
			if e.Path == "stays" && e.Status == "ok" && e.Readable {
				stays++
			}
		}

		if stays != 1 || len(all) > 3 {
			return fmt.Errorf("%d entries, %d of the run that stays: %+v", len(all), stays, all)
		}

		return nil
	})
}
