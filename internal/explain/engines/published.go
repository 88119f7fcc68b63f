package engines

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// published is somebody else's study of two engines by threads: its figures on
// its machine, to hold the shape of ours against.
type published struct {
	of      [2]string // families of engines
	what    string    // their set-up
	unit    string
	rows    []publishedRow
	byCache bool // rows differ in the page cache too
	cell    func(result.Figures) string
}

type publishedRow struct {
	threads   int
	pageCache string
	cells     [2]string
}

// publishedStudies are the figures of the thread study (db_bench of the study's
// authors) and of ioarena, to three digits.
func publishedStudies() []published {
	return []published{
		{
			of: [2]string{"pebble", "rocksdb"}, unit: "Kops/s (CPU)", byCache: true,
			what: "2 B keys, 10 M random reads, 100,000 handles; Pebble 236 GB in Go, RocksDB 235 GB in Zig",
			rows: []publishedRow{
				{32, "cold", [2]string{"286 (40%)", "264 (40%)"}},
				{64, "cold", [2]string{"297 (40%)", "293-384 (97%)"}},
				{32, "warm", [2]string{"350 (50%)", "323 (60-70%)"}},
				{64, "warm", [2]string{"364 (50%)", "353-421 (98%)"}},
			},
			cell: func(f result.Figures) string {
				return fmt.Sprintf("%s (%.0f%%)", view.Number(f.GetsPerSecond/1e3), f.CPUPercent)
			},
		},
		{
			of: [2]string{"rocksdb", "mdbx"}, unit: "Kops/s, us, CPU %",
			what: "ioarena, 1.6 B entries, 16-byte keys, 32-byte values; RocksDB ~84 GB, MDBX ~128 GB",
			rows: []publishedRow{
				{2, "", [2]string{"12, 160, 1.1", "21, 85, 0.8"}},
				{4, "", [2]string{"30, 130, 2.2", "48, 84, 1.3"}},
				{8, "", [2]string{"85, 92, 4.5", "97, 83, 2.5"}},
				{16, "", [2]string{"180, 90, 8", "180, 86, 6"}},
				{32, "", [2]string{"300, 110, 24", "360, 90, 13"}},
				{64, "", [2]string{"350, 100, 45 (imprecise)", "800, 80, 33"}},
			},
			cell: func(f result.Figures) string {
				mean := view.None
				if f.ServiceNanos != nil {
					mean = view.Number(f.ServiceNanos.Mean / 1e3)
				}
				return fmt.Sprintf("%s, %s, %s", view.Number(f.GetsPerSecond/1e3), mean, view.Number(f.CPUPercent))
			},
		},
	}
}

// besidePublished holds a sweep by threads against the studies of its engines.
func (s *Sweep) besidePublished() (out []view.Figure) {
	if !slices.Contains(s.varying(), "threads") || !slices.Contains(s.varying(), "engine") || s.along() != "threads" {
		return nil
	}
	for _, study := range publishedStudies() {
		if t, ok := study.beside(s); ok {
			out = append(out, view.Figure{
				Title: fmt.Sprintf("Beside the published %s and %s figures", study.of[0], study.of[1]),
				Note:  "Theirs were measured by others on another machine (" + study.what + "): compare the shape, not the size. In " + study.unit + ".", Method: "engines.md", Table: t, Open: true,
			})
		}
	}
	return out
}

// family is what a study calls an engine: pebble for pebble1 and pebble2.
func family(engine string) string {
	name, _, _ := strings.Cut(engine, ":")
	return strings.TrimRight(name, "12")
}

// beside is the study's table with our columns first; ok is false unless both of
// its engines are in the sweep.
func (study published) beside(s *Sweep) (t view.Table, ok bool) {
	var engines []string
	for _, of := range study.of {
		found := false
		for _, p := range s.Points {
			name := s.entrant(p)
			if family(name) != of {
				continue
			}
			found = true
			if !slices.Contains(engines, name) {
				engines = append(engines, name)
			}
		}
		if !found {
			return view.Table{}, false
		}
	}
	type stop struct {
		threads   int
		pageCache string
	}
	var stops []stop
	ours := map[stop]map[string]string{}
	for _, p := range s.Points {
		name := s.entrant(p)
		if !slices.Contains(engines, name) {
			continue
		}
		at := stop{threads: p.threads()}
		if study.byCache {
			at.pageCache = p.pageCache()
		}
		if ours[at] == nil {
			ours[at] = map[string]string{}
			stops = append(stops, at)
		}
		ours[at][name] = "failed"
		if p.Status == result.OK {
			ours[at][name] = study.cell(p.Figures)
		}
	}
	theirs := map[stop][2]string{}
	for _, r := range study.rows {
		at := stop{r.threads, r.pageCache}
		if theirs[at] = r.cells; ours[at] == nil {
			stops = append(stops, at)
		}
	}
	slices.SortStableFunc(stops, func(a, b stop) int {
		if a.pageCache != b.pageCache {
			return strings.Compare(a.pageCache, b.pageCache)
		}
		return a.threads - b.threads
	})
	t.Columns = []view.Column{{Name: "threads"}}
	if study.byCache {
		t.Columns = append(t.Columns, view.Column{Name: "cache", Text: true})
	}
	for _, name := range engines {
		t.Columns = append(t.Columns, view.Column{Name: name, Unit: "here"})
	}
	for _, name := range study.of {
		t.Columns = append(t.Columns, view.Column{Name: name, Unit: "theirs"})
	}
	for _, at := range stops {
		cells := []string{strconv.Itoa(at.threads)}
		if study.byCache {
			cells = append(cells, at.pageCache)
		}
		for _, name := range engines {
			cell := ours[at][name]
			if cell == "" {
				cell = view.None
			}
			cells = append(cells, cell)
		}
		for i := range study.of {
			cell := theirs[at][i]
			if cell == "" {
				cell = view.None
			}
			cells = append(cells, cell)
		}
		t.Add(cells...)
	}
	return t, true
}

func (p Point) pageCache() string {
	if mode := p.Axes["page-cache"]; mode != "" {
		return mode
	}
	if p.Run != nil {
		return p.Run.PageCache
	}
	return ""
}
