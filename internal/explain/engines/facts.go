package engines

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// addFacts adds what the figures rest on: checks, database, phases, options,
// host and commands.
func (in Input) addFacts(p *doc.Document) {
	p.Add("Can it be trusted?",
		doc.Block{
			Title: "Self-checks",
			Note: "What Statelab counts must agree with a counter that is independent of it. " +
				"Shown: the point with the largest difference.",
			Detail: true,
			Method: "runs.md",
			Table:  in.checks(),
		},
		doc.Block{Title: "Points without figures", Detail: true, Table: in.failed()},
		doc.Block{Title: "Unavailable figures, and why", Table: in.absent(), Folded: true})

	var database, again []doc.Block
	for _, s := range in.Sweeps[:min(maxSampled, len(in.Sweeps))] {
		name := in.suffix(s)
		database = append(
			database,
			doc.Block{
				Title:  "Inflection points" + name,
				Detail: s.compares() && slices.Contains(s.varied, "engine"),
				Method: "reads.md",
				Table:  s.inflectionTable(),
			},
			doc.Block{
				Title:  "Levels" + name,
				Detail: true,
				Note: "On disk unless it says in cache. A filter that no Get consults costs no " +
					"cache.",
				Method: "reads.md",
				Table:  levels(s.Database.Levels),
			},
		)

		b := doc.Block{Title: "Host" + name, Table: hostTable(s.Host), Folded: true}
		if run := s.firstRun(); run != nil {
			b.Table = hostTable(cmp.Or(s.Host, run.Host))
			if run.Absent["host"] != "" {
				b.Note = "Not known: " + run.Absent["host"] + "."
			}
		}

		again = append(again, s.commandBlock(name), b,
			doc.Block{Title: "Effective engine options" + name, Table: s.options(), Folded: true},
			doc.Block{
				Title:  "Phases" + name,
				Method: "reads.md",
				Table:  s.phases(),
				Folded: true,
				Note:   s.accessesNote(),
			})
	}

	p.Add("The database", database...)
	p.Add("Run it again", again...)
}

// suffix names a sweep in a title, if there are others.
func (in Input) suffix(s *Sweep) string {
	if len(in.Sweeps) == 1 {
		return ""
	}
	return ": " + s.Name
}

// worst is a check with what it found where it was furthest off.
type worst struct {
	result.Check
	points, passed int
	difference     float64
}

// checks has a row per check: the worst over all points.
func (in Input) checks() doc.Table {
	var rows []*worst
	byName := map[string]*worst{}
	for _, run := range runsOf(in.points()) {
		for _, check := range run.Checks {
			w := byName[check.Name]
			if w == nil {
				w = &worst{Check: check, difference: -1}
				byName[check.Name] = w
				rows = append(rows, w)
			}

			w.points++
			if check.OK {
				w.passed++
			}

			difference := 0.0
			if check.Ours != check.Theirs {
				difference = math.Abs(check.Ours-check.Theirs) / math.Max(math.Abs(check.Theirs),
					math.SmallestNonzeroFloat32)
			}

			if difference > w.difference {
				w.Check, w.difference = check, difference
			}
		}
	}

	difference := doc.Figure("largest difference", "%", nil, func(w *worst) float64 {
		return math.Min(100*w.difference, 1e7)
	})
	difference.Format = func(v float64) string {
		switch {
		case v > 0 && v < 0.0001:
			return "<0.0001"
		case v > 1e6:
			return ">1,000,000"
		}

		return doc.Number(v)
	}

	return doc.TableOf(
		rows,
		nil,
		doc.Words("passed", func(w *worst) string {
			return fmt.Sprintf("%d of %d", w.passed, w.points)
		}),
		doc.Words("check", func(w *worst) string {
			return strings.TrimSuffix(w.Name+" ("+w.Note+")", " ()")
		}),
		doc.Figure("Statelab's counter", "", nil, func(w *worst) float64 { return w.Ours }),
		doc.Figure("independent counter", "", nil, func(w *worst) float64 { return w.Theirs }),
		difference,
		doc.Figure("allowed", "%", nil, func(w *worst) float64 { return 100 * w.Limit }),
	)
}

// failed lists every point without figures.
func (in Input) failed() doc.Table {
	var rows [][]string
	for _, s := range in.Sweeps {
		for _, p := range s.Points {
			if p.Status != result.OK {
				rows = append(rows, []string{s.Name, pointLabel(p), p.Status, failure(p)})
			}
		}

		if s.Status != result.OK && s.Error != "" {
			rows = append(rows, []string{s.Name, "all", s.Status, s.Error})
		}
	}

	return doc.Listing([]string{"sweep", "point", "status", "reason"}, rows)
}

// absent has each absent figure once per sweep.
func (in Input) absent() doc.Table {
	all := doc.Flat(in.Sweeps, func(s *Sweep) [][3]string {
		return doc.Distinct(doc.Flat(s.runs(), func(run *result.Run) [][3]string {
			reasons := run.Reasons()

			return doc.Each(slices.Sorted(maps.Keys(reasons)),
				func(name string) [3]string { return [3]string{s.Name, name, reasons[name]} })
		}), func(row [3]string) [3]string { return row })
	})

	return doc.ListOf(
		[]string{"sweep", "figure", "reason"},
		all,
		func(row [3]string) []string { return row[:] },
	)
}

// inflected is an inflection point with what it holds.
type inflected struct {
	name, holds string
	result.Size
}

func (s *Sweep) inflectionTable() doc.Table {
	i := s.Inflection
	if i == nil || i.IP2.DiskBytes == 0 {
		return doc.Table{}
	}

	rows := []inflected{{"IP1", holdsIP1, i.IP1}, {"IP2", holdsIP2, i.IP2},
		{"unused", "filters no Get consults",
			result.Size{
				DiskBytes:   i.LastLevelFilterBytes,
				PercentOfDB: doc.PercentOf(i.LastLevelFilterBytes, s.Database.Bytes),
			}}}

	type column = doc.Column[inflected]
	bytes := func(name string, of func(inflected) int64) column {
		return column{Name: name, Value: func(r inflected) *float64 {
			// 0: not known, as of a cache in imported logs
			return doc.When(of(r) > 0, float64(of(r)))
		}}.Suited(rows)
	}

	percent := func(name string, of func(inflected) float64) column {
		return doc.Optional(name, "% of DB", nil,
			func(r inflected) *float64 { return doc.When(of(r) > 0, of(r)) })
	}

	columns := []column{doc.Words("point", func(r inflected) string { return r.name })}
	if reserved := reservedOf(s.Points); reserved > 0 {
		columns = append(columns, bytes("cache needed", func(r inflected) int64 {
			if r.CacheBytes == 0 {
				return 0
			}
			return r.CacheBytes + reserved
		}), percent("cache needed", func(r inflected) float64 {
			if r.CacheBytes == 0 {
				return 0
			}
			return doc.PercentOf(r.CacheBytes+reserved, s.Database.Bytes)
		}))
	}

	return doc.TableOf(rows, nil, append(
		columns,
		bytes("in cache", func(r inflected) int64 { return r.CacheBytes }),
		percent("in cache", func(r inflected) float64 { return r.CachePercent }),
		bytes("on disk", func(r inflected) int64 { return r.DiskBytes }),
		percent("on disk", func(r inflected) float64 { return r.PercentOfDB }),
		column{Name: "holds", Left: true, Words: func(r inflected) string { return r.holds }},
	)...)
}

// options are those of all runs; one that differs shows its values.
func (s *Sweep) options() doc.Table {
	values := s.optionValues()
	for its, ours := range pebblesNames() {
		if ours == "" || slices.Equal(values[its], values[ours]) {
			delete(values, its)
		}
	}

	return doc.ListOf(
		[]string{"option", "value"},
		slices.Sorted(maps.Keys(values)),
		func(name string) []string {
			return []string{name, doc.Clip(strings.Join(values[name], ", "), 300)}
		},
	)
}

// pebblesNames are what Pebble calls options that Statelab stores by names of its own as well.
// pebble_version is the format of an options file, 0.1 in every version of Pebble, and says
// nothing.
func pebblesNames() map[string]string {
	return map[string]string{
		"cache_size":     "cache_bytes",
		"mem_table_size": "memtable_size",
		"max_open_files": "handles",
		"pebble_version": "",
	}
}

// hostTable leaves out what is not known.
func hostTable(h result.Host) doc.Table {
	if h == (result.Host{}) {
		return doc.Table{}
	}

	whole := func(n int64) string { return strings.TrimPrefix(unit.Count(n), "0") }
	return doc.ListOf([]string{"fact", "value"}, doc.Known([][2]string{
		{"system", strings.TrimSpace(h.OS + " " + h.Kernel)},
		{"CPU", h.CPU},
		{"cores", whole(int64(h.Cores))},
		{"GOMAXPROCS", gomaxprocs(h)},
		{"memory", size(h.MemoryBytes)},
		{"memory limit", size(h.MemoryLimit)},
		{"filesystem", h.Filesystem},
		{"mount options", h.Mount},
		{"device", h.Device},
		{"rotational", strconv.FormatBool(h.Rotational)},
		{"read-ahead", fmt.Sprintf("%d KiB", h.ReadAheadKB)},
		{"I/O scheduler", h.Scheduler},
		{"transparent huge pages", h.THP},
		{"CPU governor", h.Governor},
		{"open files allowed", whole(int64(min(h.FDLimit, math.MaxInt64)))},
		{"root", strconv.FormatBool(h.Root)},
		{"load average before", doc.Number(h.LoadAverage)},
		{"virtualised", strings.TrimPrefix(h.Virtualised, "virtual machine: ")},
		{"clock", fmt.Sprintf("%s, %s to read", h.Clock, doc.Nanos(h.ClockNanos))},
		{"node", h.Node},
		{"hardware class", h.Class},
		{"Slurm job", h.Job},
		{"Go", h.Go},
		{"statelab", h.Program()},
		{"cgo", strconv.FormatBool(h.Cgo)},
	}), func(kv [2]string) []string { return kv[:] })
}

// gomaxprocs explains a number above that of the cores.
func gomaxprocs(h result.Host) string {
	text := strings.TrimPrefix(unit.Count(h.Gomaxprocs), "0")
	if h.Gomaxprocs > h.Cores && h.Cores > 0 {
		text += " (set after the engine was opened, so that each thread can wait for the disk)"
	}
	return text
}

func size(n int64) string { return doc.Unless0(n, unit.Bytes) }

// commandBlock is what made the sweep, else what made its first point.
func (s *Sweep) commandBlock(name string) doc.Block {
	b := doc.Block{Title: "Command" + name, Detail: true, Pre: doc.Shell(s.Command)}
	if run := s.firstRun(); len(s.Command) == 0 && run != nil && len(run.Command) > 0 {
		b.Pre, b.Note = doc.Shell(run.Command),
			"Of the first point; the others differ in their axes."
	}
	return b
}
