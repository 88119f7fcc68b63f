package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// addFacts adds what the figures rest on: checks, database, phases, options,
// host and commands.
func addFacts(p *page, in Input) {
	trust := section{Title: "Can it be trusted?"}
	if t := checksTable(in); len(t.Rows) > 0 {
		trust.Blocks = append(trust.Blocks, block{Title: "Self-checks", Note: "Our counters against counters we did not write, over all points.", Method: "reads.md", Table: view(t)})
	}
	if t := failedTable(in); len(t.Rows) > 0 {
		trust.Blocks = append(trust.Blocks, block{Title: "Points without figures", Table: view(t)})
	}
	if t := absentTable(in); len(t.Rows) > 0 {
		trust.Blocks = append(trust.Blocks, block{Title: "Figures that are absent, and why", Table: view(t), Folded: true})
	}
	p.addSection(trust)

	database := section{Title: "The database"}
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		name := ""
		if len(in.Sweeps) > 1 {
			name = ": " + s.Name
		}
		if t := inflectionTable(s); len(t.Rows) > 0 {
			database.Blocks = append(database.Blocks, block{Title: "Inflection points" + name, Method: "reads.md", Table: view(t)})
		}
		if t := levelsTable(s.Database.Levels); len(t.Rows) > 0 {
			database.Blocks = append(database.Blocks, block{Title: "Levels" + name, Note: "On disk unless it says in cache. A filter that no Get consults costs no cache.", Method: "reads.md", Table: view(t)})
		}
	}
	p.addSection(database)

	again := section{Title: "Run it again"}
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		name := ""
		if len(in.Sweeps) > 1 {
			name = ": " + s.Name
		}
		again.Blocks = append(again.Blocks, block{Title: "Command" + name, Note: s.commandNote(), Pre: shell(s.command())},
			block{Title: "Host" + name, Table: view(hostTable(s)), Note: s.hostNote(), Folded: true})
		if t := optionsTable(s); len(t.Rows) > 0 {
			again.Blocks = append(again.Blocks, block{Title: "Effective engine options" + name, Table: view(t), Folded: true})
		}
		if t := phasesTable(s); len(t.Rows) > 0 {
			again.Blocks = append(again.Blocks, block{Title: "Phases" + name, Method: "reads.md", Table: view(t), Folded: true})
		}
	}
	p.addSection(again)
}

func (p *page) addSection(s section) {
	if len(s.Blocks) > 0 {
		p.Sections = append(p.Sections, s)
	}
}

// checksTable has a row per check: the worst over all points.
func checksTable(in Input) table {
	t := table{Columns: []column{{Name: "check", Text: true}, {Name: "points"}, {Name: "ours", Unit: "at the worst"}, {Name: "theirs", Unit: "at the worst"},
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
		t.add(name, unit.Count(w.points), number(w.Ours), number(w.Theirs), small(100*w.difference), number(100*w.Limit), passed)
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
	return number(v)
}

// failedTable lists every point without figures.
func failedTable(in Input) table {
	t := table{Columns: []column{{Name: "sweep", Text: true}, {Name: "point", Text: true}, {Name: "status", Text: true}, {Name: "reason", Text: true}}}
	for _, s := range in.Sweeps {
		for _, p := range s.Points {
			if p.Status != result.OK {
				t.add(s.Name, pointLabel(p), p.Status, reason(p))
			}
		}
		if s.Status != result.OK && s.Error != "" {
			t.add(s.Name, "all", s.Status, s.Error)
		}
	}
	return t
}

// absentTable has each absent figure once per sweep.
func absentTable(in Input) table {
	t := table{Columns: []column{{Name: "sweep", Text: true}, {Name: "figure", Text: true}, {Name: "reason", Text: true}}}
	for _, s := range in.Sweeps {
		seen := map[string]bool{}
		for _, p := range s.Points {
			if p.Run == nil {
				continue
			}
			for _, figure := range slices.Sorted(maps.Keys(p.Run.Absent)) {
				if line := figure + p.Run.Absent[figure]; !seen[line] {
					seen[line] = true
					t.add(s.Name, figure, p.Run.Absent[figure])
				}
			}
		}
	}
	return t
}

func inflectionTable(s *Sweep) table {
	t := table{Columns: []column{{Name: "point", Text: true}, {Name: "in cache"}, {Name: "in cache", Unit: "% of DB"}, {Name: "on disk"}, {Name: "on disk", Unit: "% of DB"}, {Name: "holds", Text: true}}}
	i := s.Inflection
	if i == nil || i.IP2.DiskBytes == 0 {
		return table{}
	}
	of := byteScale([]int64{i.IP1.DiskBytes, i.IP1.CacheBytes, i.IP2.DiskBytes, i.IP2.CacheBytes, i.LastLevelFilterBytes})
	t.Columns[1].Unit, t.Columns[3].Unit = of.name, of.name
	add := func(name string, size result.Size, holds string) {
		t.add(name, positive(float64(size.CacheBytes), of.in), positive(size.CachePercent, number), positive(float64(size.DiskBytes), of.in), positive(size.PercentOfDB, number), holds)
	}
	add("IP1", i.IP1, "filters that Gets consult, top indexes")
	add("IP2", i.IP2, "those and all index blocks")
	t.add("unused", none, none, positive(float64(i.LastLevelFilterBytes), of.in), positive(percentOf(i.LastLevelFilterBytes, s.Database.Bytes), number), "filters no Get consults")
	return t
}

// levelsTable has a row per level with files, and their sum.
func levelsTable(levels []engine.Level) table {
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
	t := table{Columns: []column{{Name: "level", Text: true}, {Name: "files"}, {Name: "keys"}, {Name: "data blocks"}, {Name: "index blocks"}, {Name: "single indexes"}}}
	scales := make([]scale, len(sizes))
	var sum engine.Level
	totals := make([]int64, len(sizes))
	for i, s := range sizes {
		var all []int64
		for _, l := range levels {
			all = append(all, s.of(l))
			totals[i] += s.of(l)
		}
		scales[i] = byteScale(all)
		t.Columns = append(t.Columns, column{Name: s.name, Unit: scales[i].name})
	}
	t.Columns = append(t.Columns, column{Name: "filter", Unit: "consulted", Text: true})
	cells := func(name string, l engine.Level, bytes func(int) int64, consulted string) []string {
		out := []string{name, unit.Count(l.Files), unit.Count(l.Keys), unit.Count(l.DataBlocks), unit.Count(l.IndexBlocks), unit.Count(l.SingleIndexes)}
		for i := range sizes {
			out = append(out, positive(float64(bytes(i)), scales[i].in))
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
		t.add(cells(fmt.Sprintf("L%d", l.Level), l, func(i int) int64 { return sizes[i].of(l) }, consulted)...)
		sum.Files, sum.Keys, sum.DataBlocks = sum.Files+l.Files, sum.Keys+l.Keys, sum.DataBlocks+l.DataBlocks
		sum.IndexBlocks, sum.SingleIndexes = sum.IndexBlocks+l.IndexBlocks, sum.SingleIndexes+l.SingleIndexes
	}
	if len(t.Rows) > 0 {
		t.add(cells("all", sum, func(i int) int64 { return totals[i] }, "")...)
		t.drop()
	}
	return t
}

// phasesTable has a row per phase of every point.
func phasesTable(s *Sweep) table {
	t := table{Columns: []column{{Name: "point", Text: true}, {Name: "phase", Text: true}, {Name: "seconds"}, {Name: "operations"}, {Name: "CPU", Unit: "s"}, {Name: "block reads"},
		{Name: "read calls"}, {Name: "read from device", Unit: "MiB"}, {Name: "device reads"}, {Name: "major faults"}}}
	mib := scale{"MiB", 1 << 20}
	for _, p := range s.Points {
		if p.Run == nil {
			continue
		}
		for _, phase := range p.Run.Phases {
			var reads int64
			for _, tally := range phase.Reads {
				reads += tally.Count
			}
			calls, fromDevice, faults, requests := none, none, none, none
			if io := phase.Process; io != nil {
				calls, fromDevice, faults = unit.Count(io.ReadCalls), mib.in(float64(io.ReadBytes)), unit.Count(io.MajorFaults)
			}
			if device := phase.Device; device != nil {
				requests = unit.Count(device.Reads)
			}
			t.add(pointLabel(p), phase.Name, positive(phase.Seconds, number), unit.Count(phase.Ops), positive(float64(phase.CPUNanos)/1e9, number),
				unit.Count(reads), calls, fromDevice, requests, faults)
		}
	}
	t.drop()
	return t
}

// optionsTable has the options of all runs; one that differs shows its values.
func optionsTable(s *Sweep) table {
	t := table{Columns: []column{{Name: "option", Text: true}, {Name: "value", Text: true}}}
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
		t.add(name, clip(strings.Join(values[name], ", "), 300))
	}
	return t
}

// hostTable leaves out what is not known.
func hostTable(s *Sweep) table {
	h := s.Host
	if run := s.firstRun(); run != nil && h == (result.Host{}) {
		h = run.Host
	}
	t := table{Columns: []column{{Name: "fact", Text: true}, {Name: "value", Text: true}}}
	if h == (result.Host{}) {
		return t
	}
	for _, kv := range [][2]string{
		{"system", strings.TrimSpace(h.OS + " " + h.Kernel)}, {"CPU", h.CPU}, {"cores", whole(int64(h.Cores))}, {"GOMAXPROCS", whole(int64(h.Gomaxprocs))},
		{"memory", size(h.MemoryBytes)}, {"memory limit", size(h.MemoryLimit)}, {"filesystem", h.Filesystem}, {"mount options", h.Mount}, {"device", h.Device},
		{"rotational", strconv.FormatBool(h.Rotational)}, {"read-ahead", fmt.Sprintf("%d KiB", h.ReadAheadKB)}, {"I/O scheduler", h.Scheduler},
		{"transparent huge pages", h.THP}, {"CPU governor", h.Governor}, {"open files allowed", whole(int64(min(h.FDLimit, math.MaxInt64)))},
		{"root", strconv.FormatBool(h.Root)}, {"load average before", number(h.LoadAverage)}, {"virtualised", h.Virtualised},
		{"clock", fmt.Sprintf("%s, %s to read", h.Clock, unit.Nanos(h.ClockNanos))}, {"Go", h.Go}, {"statelab", h.Statelab}, {"cgo", strconv.FormatBool(h.Cgo)},
	} {
		if kv[1] != "" {
			t.add(kv[0], kv[1])
		}
	}
	return t
}

func whole(n int64) string {
	if n == 0 {
		return ""
	}
	return unit.Count(n)
}

func size(n int64) string {
	if n == 0 {
		return ""
	}
	return unit.Bytes(n)
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

// shell quotes a command for a POSIX shell.
func shell(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		plain := strings.IndexFunc(word, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=+./:,@%", r))
		}) < 0
		if !plain || word == "" {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
