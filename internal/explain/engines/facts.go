package engines

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// addFacts adds what the figures rest on: checks, database, phases, options,
// host and commands.
func addFacts(p *view.Page, in Input) {
	trust := view.Section{Title: "Can it be trusted?"}
	if t := checksTable(in); len(t.Rows) > 0 {
		trust.Blocks = append(trust.Blocks, view.Block{Title: "Self-checks", Note: "Our counters against counters we did not write, over all points.", Method: "reads.md", Table: view.ViewOf(t)})
	}
	if t := failedTable(in); len(t.Rows) > 0 {
		trust.Blocks = append(trust.Blocks, view.Block{Title: "Points without figures", Table: view.ViewOf(t)})
	}
	if t := absentTable(in); len(t.Rows) > 0 {
		trust.Blocks = append(trust.Blocks, view.Block{Title: "Figures that are absent, and why", Table: view.ViewOf(t), Folded: true})
	}
	p.AddSection(trust)

	database := view.Section{Title: "The database"}
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		name := ""
		if len(in.Sweeps) > 1 {
			name = ": " + s.Name
		}
		if t := inflectionTable(s); len(t.Rows) > 0 {
			database.Blocks = append(database.Blocks, view.Block{Title: "Inflection points" + name, Method: "reads.md", Table: view.ViewOf(t)})
		}
		if t := levelsTable(s.Database.Levels); len(t.Rows) > 0 {
			database.Blocks = append(database.Blocks, view.Block{Title: "Levels" + name, Note: "On disk unless it says in cache. A filter that no Get consults costs no cache.", Method: "reads.md", Table: view.ViewOf(t)})
		}
	}
	p.AddSection(database)

	again := view.Section{Title: "Run it again"}
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		name := ""
		if len(in.Sweeps) > 1 {
			name = ": " + s.Name
		}
		again.Blocks = append(again.Blocks, view.Block{Title: "Command" + name, Note: s.commandNote(), Pre: view.Shell(s.command())},
			view.Block{Title: "Host" + name, Table: view.ViewOf(hostTable(s)), Note: s.hostNote(), Folded: true})
		if t := optionsTable(s); len(t.Rows) > 0 {
			again.Blocks = append(again.Blocks, view.Block{Title: "Effective engine options" + name, Table: view.ViewOf(t), Folded: true})
		}
		if t := phasesTable(s); len(t.Rows) > 0 {
			again.Blocks = append(again.Blocks, view.Block{Title: "Phases" + name, Method: "reads.md", Table: view.ViewOf(t), Folded: true})
		}
	}
	p.AddSection(again)
}

// checksTable has a row per check: the worst over all points.
func checksTable(in Input) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "check", Text: true}, {Name: "points"}, {Name: "ours", Unit: "at the worst"}, {Name: "theirs", Unit: "at the worst"},
		{Name: "difference", Unit: "%, worst"}, {Name: "allowed", Unit: "%"}, {Name: "passed"}}}
	type worst struct {
		result.Check
		points, passed int
		difference     float64
	}
	var order []string
	byName := map[string]*worst{}
	for _, s := range in.Sweeps {
		for _, p := range s.Points {
			if p.Run == nil {
				continue
			}
			for _, check := range p.Run.Checks {
				w := byName[check.Name]
				if w == nil {
					w = &worst{Check: check, difference: -1}
					byName[check.Name] = w
					order = append(order, check.Name)
				}
				w.points++
				if check.OK {
					w.passed++
				}
				difference := relative(check.Ours, check.Theirs)
				if difference > w.difference {
					w.Check, w.difference = check, difference
				}
			}
		}
	}
	for _, name := range order {
		w := byName[name]
		if w.Note != "" {
			name += " (" + w.Note + ")"
		}
		passed := "all"
		if w.passed < w.points {
			passed = fmt.Sprintf("%d of %d", w.passed, w.points)
		}
		t.Add(name, unit.Count(w.points), view.Number(w.Ours), view.Number(w.Theirs), small(100*w.difference), view.Number(100*w.Limit), passed)
	}
	return t
}

// relative difference of two figures; 0 of two zeros.
func relative(ours, theirs float64) float64 {
	if ours == theirs {
		return 0
	}
	return math.Abs(ours-theirs) / math.Max(math.Abs(theirs), math.SmallestNonzeroFloat32)
}

// small prints a difference in percent, which may be tiny or huge.
func small(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.0001:
		return "<0.0001"
	case v > 1e6:
		return ">1,000,000"
	}
	return view.Number(v)
}

// failedTable lists every point without figures.
func failedTable(in Input) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "sweep", Text: true}, {Name: "point", Text: true}, {Name: "status", Text: true}, {Name: "reason", Text: true}}}
	for _, s := range in.Sweeps {
		for _, p := range s.Points {
			if p.Status != result.OK {
				t.Add(s.Name, pointLabel(p), p.Status, reason(p))
			}
		}
		if s.Status != result.OK && s.Error != "" {
			t.Add(s.Name, "all", s.Status, s.Error)
		}
	}
	return t
}

// absentTable has each absent figure once per sweep.
func absentTable(in Input) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "sweep", Text: true}, {Name: "figure", Text: true}, {Name: "reason", Text: true}}}
	for _, s := range in.Sweeps {
		seen := map[string]bool{}
		for _, p := range s.Points {
			if p.Run == nil {
				continue
			}
			for _, figure := range slices.Sorted(maps.Keys(p.Run.Absent)) {
				if line := figure + p.Run.Absent[figure]; !seen[line] {
					seen[line] = true
					t.Add(s.Name, figure, p.Run.Absent[figure])
				}
			}
		}
	}
	return t
}

func inflectionTable(s *Sweep) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "point", Text: true}, {Name: "in cache"}, {Name: "in cache", Unit: "% of DB"}, {Name: "on disk"}, {Name: "on disk", Unit: "% of DB"}, {Name: "holds", Text: true}}}
	i := s.Inflection
	if i == nil || i.IP2.DiskBytes == 0 {
		return view.Table{}
	}
	of := view.ByteScale([]int64{i.IP1.DiskBytes, i.IP1.CacheBytes, i.IP2.DiskBytes, i.IP2.CacheBytes, i.LastLevelFilterBytes})
	t.Columns[1].Unit, t.Columns[3].Unit = of.Name, of.Name
	add := func(name string, size result.Size, holds string) {
		t.Add(name, view.Positive(float64(size.CacheBytes), of.In), view.Positive(size.CachePercent, view.Number), view.Positive(float64(size.DiskBytes), of.In), view.Positive(size.PercentOfDB, view.Number), holds)
	}
	add("IP1", i.IP1, "filters that Gets consult, top indexes")
	add("IP2", i.IP2, "those and all index blocks")
	t.Add("unused", view.None, view.None, view.Positive(float64(i.LastLevelFilterBytes), of.In), view.Positive(view.PercentOf(i.LastLevelFilterBytes, s.Database.Bytes), view.Number), "filters no Get consults")
	return t
}

// levelsTable has a row per level with files, and their sum.
func levelsTable(levels []engine.Level) view.Table {
	type size struct {
		name string
		of   func(engine.Level) int64
	}
	sizes := []size{
		{"size", func(l engine.Level) int64 { return l.Bytes }},
		{"data", func(l engine.Level) int64 { return l.DataBytes }},
		{"values apart", func(l engine.Level) int64 { return l.ValueBytes }},
		{"index", func(l engine.Level) int64 { return l.IndexBytes }},
		{"index in cache", func(l engine.Level) int64 { return l.IndexCacheBytes }},
		{"top index", func(l engine.Level) int64 { return l.TopIndexBytes }},
		{"filter", func(l engine.Level) int64 { return l.FilterBytes }},
		{"filter in cache", func(l engine.Level) int64 { return l.FilterCacheBytes }},
	}
	t := view.Table{Columns: []view.Column{{Name: "level", Text: true}, {Name: "files"}, {Name: "keys"}, {Name: "data blocks"}, {Name: "index blocks"}, {Name: "single indexes"}}}
	scales := make([]view.Scale, len(sizes))
	var sum engine.Level
	totals := make([]int64, len(sizes))
	for i, s := range sizes {
		var all []int64
		for _, l := range levels {
			all = append(all, s.of(l))
			totals[i] += s.of(l)
		}
		scales[i] = view.ByteScale(all)
		t.Columns = append(t.Columns, view.Column{Name: s.name, Unit: scales[i].Name})
	}
	t.Columns = append(t.Columns, view.Column{Name: "filter", Unit: "consulted", Text: true})
	cells := func(name string, l engine.Level, bytes func(int) int64, consulted string) []string {
		out := []string{name, unit.Count(l.Files), unit.Count(l.Keys), unit.Count(l.DataBlocks), unit.Count(l.IndexBlocks), unit.Count(l.SingleIndexes)}
		for i := range sizes {
			out = append(out, view.Positive(float64(bytes(i)), scales[i].In))
		}
		return append(out, consulted)
	}
	for _, l := range levels {
		if l.Files == 0 {
			continue
		}
		consulted := "no"
		if l.FilterConsulted {
			consulted = "yes"
		}
		t.Add(cells(fmt.Sprintf("L%d", l.Level), l, func(i int) int64 { return sizes[i].of(l) }, consulted)...)
		sum.Files, sum.Keys, sum.DataBlocks = sum.Files+l.Files, sum.Keys+l.Keys, sum.DataBlocks+l.DataBlocks
		sum.IndexBlocks, sum.SingleIndexes = sum.IndexBlocks+l.IndexBlocks, sum.SingleIndexes+l.SingleIndexes
	}
	if len(t.Rows) > 0 {
		t.Add(cells("all", sum, func(i int) int64 { return totals[i] }, "")...)
		t.Drop()
	}
	return t
}

// phasesTable has a row per phase of every point.
func phasesTable(s *Sweep) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "point", Text: true}, {Name: "phase", Text: true}, {Name: "seconds"}, {Name: "operations"}, {Name: "CPU", Unit: "s"}, {Name: "block reads"},
		{Name: "read calls"}, {Name: "read from device", Unit: "MiB"}, {Name: "device reads"}, {Name: "major faults"}}}
	mib := view.Scale{Name: "MiB", Size: 1 << 20}
	for _, p := range s.Points {
		if p.Run == nil {
			continue
		}
		for _, phase := range p.Run.Phases {
			var reads int64
			for _, tally := range phase.Reads {
				reads += tally.Count
			}
			calls, fromDevice, faults, requests := view.None, view.None, view.None, view.None
			if io := phase.Process; io != nil {
				calls, fromDevice, faults = unit.Count(io.ReadCalls), mib.In(float64(io.ReadBytes)), unit.Count(io.MajorFaults)
			}
			if device := phase.Device; device != nil {
				requests = unit.Count(device.Reads)
			}
			t.Add(pointLabel(p), phase.Name, view.Positive(phase.Seconds, view.Number), unit.Count(phase.Ops), view.Positive(float64(phase.CPUNanos)/1e9, view.Number),
				unit.Count(reads), calls, fromDevice, requests, faults)
		}
	}
	t.Drop()
	return t
}

// optionsTable has the options of all runs; one that differs shows its values.
func optionsTable(s *Sweep) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "option", Text: true}, {Name: "value", Text: true}}}
	values := map[string][]string{}
	for _, p := range s.Points {
		if p.Run == nil {
			continue
		}
		for name, value := range p.Run.Engine.Options {
			if !slices.Contains(values[name], value) {
				values[name] = append(values[name], value)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		t.Add(name, view.Clip(strings.Join(values[name], ", "), 300))
	}
	return t
}

// hostTable leaves out what is not known.
func hostTable(s *Sweep) view.Table {
	h := s.Host
	if run := s.firstRun(); run != nil && h == (result.Host{}) {
		h = run.Host
	}
	t := view.Table{Columns: []view.Column{{Name: "fact", Text: true}, {Name: "value", Text: true}}}
	if h == (result.Host{}) {
		return t
	}
	for _, kv := range [][2]string{
		{"system", strings.TrimSpace(h.OS + " " + h.Kernel)}, {"CPU", h.CPU}, {"cores", view.Whole(int64(h.Cores))}, {"GOMAXPROCS", view.Whole(int64(h.Gomaxprocs))},
		{"memory", view.SizeOf(h.MemoryBytes)}, {"memory limit", view.SizeOf(h.MemoryLimit)}, {"filesystem", h.Filesystem}, {"mount options", h.Mount}, {"device", h.Device},
		{"rotational", strconv.FormatBool(h.Rotational)}, {"read-ahead", fmt.Sprintf("%d KiB", h.ReadAheadKB)}, {"I/O scheduler", h.Scheduler},
		{"transparent huge pages", h.THP}, {"CPU governor", h.Governor}, {"open files allowed", view.Whole(int64(min(h.FDLimit, math.MaxInt64)))},
		{"root", strconv.FormatBool(h.Root)}, {"load average before", view.Number(h.LoadAverage)}, {"virtualised", h.Virtualised},
		{"clock", fmt.Sprintf("%s, %s to read", h.Clock, unit.Nanos(h.ClockNanos))}, {"Go", h.Go}, {"statelab", h.Statelab}, {"cgo", strconv.FormatBool(h.Cgo)},
	} {
		if kv[1] != "" {
			t.Add(kv[0], kv[1])
		}
	}
	return t
}

func (s *Sweep) hostNote() string {
	if run := s.firstRun(); run != nil && run.Absent["host"] != "" {
		return "Not known: " + run.Absent["host"] + "."
	}
	return ""
}

// command is what made the sweep, else what made its first point.
func (s *Sweep) command() []string {
	if len(s.Command) > 0 {
		return s.Command
	}
	if run := s.firstRun(); run != nil {
		return run.Command
	}
	return nil
}

func (s *Sweep) commandNote() string {
	switch {
	case len(s.command()) == 0:
		return "The folder does not hold the command that made it."
	case len(s.Command) == 0:
		return "Of the first point; the others differ in their axes."
	}
	return ""
}
