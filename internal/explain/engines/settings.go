package engines

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// settings are what a reader must know to judge the figures, in few words.
func (s *Sweep) settings() [][2]string {
	run := s.firstRun()
	if run == nil {
		return [][2]string{{"source", s.Source}}
	}

	w := run.Workload
	varies := func(axis string) bool { return slices.Contains(s.varied, axis) }
	say := func(axis, value string) string {
		if varies(axis) {
			return strings.Join(s.values(axis), ", ")
		}
		return value
	}

	engine := say("engine", run.Engine.Name)
	if !varies("engine") {
		engine += " " + run.Engine.Version
	}

	if builds := s.builds(); len(builds) > 0 {
		engine += " (" + strings.Join(builds, " and ") + ")"
	}

	profile, database := say("profile", run.Engine.Profile), size(s.Database.Bytes)
	if varies("engine") { // each has its own
		database = ""
		for _, p := range s.Points {
			if p.Run != nil && p.Run.Engine.Profile != profile && !varies("profile") {
				profile = ""
			}
		}
	}

	seed, harness, repeats, date := fmt.Sprint(w.Seed), "", "", ""
	if run.Absent["seed"] != "" {
		seed = "not recorded"
	}

	if h := run.Figures.Pointer(figure.HarnessTimePerGet); h != nil {
		harness = doc.Nanos(*h) + " per Get"
	}

	if n := s.repeats(); n > 1 {
		repeats = fmt.Sprint(n)
	}

	if !s.Started.IsZero() {
		date = s.Started.UTC().Format("2006-01-02 15:04 UTC")
	}

	list := [][2]string{
		{"engine", engine},
		{"profile", profile},
		{"workload", w.Name},
		{"keys", say("keys", keysText(run))},
		{"key, value",
			strings.TrimSpace(fmt.Sprintf("%d B, %s B %s", w.KeyBytes,
				unit.Significant(w.ValueBytes, 3), w.ValueModel))},
		{"database", database},
		{"Gets", s.getsText(w)},
		{"threads", say("threads", fmt.Sprint(w.Threads))},
		{"page cache", say("page-cache", run.PageCache)},
		{"seed", seed},
		{"harness overhead", harness},
		{"options that differ", strings.Join(s.differs, ", ")},
		{"repeats", repeats},
		{"source", s.Source},
		{"date", date},
	}

	return doc.Known(list)
}

// keysText is how many keys the database has, or how many were sampled of another program's.
func keysText(run *result.Run) string {
	text := doc.ShortCount(run.Workload.Keys)
	if run.Workload.KeyOrder != "foreign" {
		return text
	}

	text += " sampled"
	entries, counted := int64(0), len(run.Database.Levels) > 0
	for _, level := range run.Database.Levels {
		entries += level.Keys
		counted = counted && !level.KeysEstimated
	}

	if counted {
		text += " of " + doc.ShortCount(entries)
	}

	return text
}

// getsText tells of the warm-up what the runs did: it goes on until a run is steady.
func (s *Sweep) getsText(w result.Workload) string {
	if w.Gets == 0 {
		return ""
	}

	minimum, maximum := w.WarmupGets, w.WarmupGets
	for _, p := range measured(s.Points) {
		if p.Run == nil {
			continue
		}

		for _, phase := range p.Run.Phases {
			if phase.Name == "warm" {
				minimum, maximum = min(minimum, phase.Ops), max(maximum, phase.Ops)
			}
		}
	}

	warm := doc.ShortCount(minimum)
	if maximum > minimum {
		warm += " to " + doc.ShortCount(maximum)
	}

	return doc.ShortCount(w.Gets) + " after a warm-up of " + warm
}

// runs are those of all points that can be read.
func (s *Sweep) runs() []*result.Run { return runsOf(s.Points) }

func runsOf(pts []Point) []*result.Run {
	runs := doc.Each(pts, func(p Point) *result.Run { return p.Run })
	return doc.Where(runs, func(run *result.Run) bool { return run != nil })
}

// firstRun is the first run that can be read, measured ones before failed ones.
func (s *Sweep) firstRun() *result.Run {
	return append(runsOf(append(measured(s.Points), s.Points...)), nil)[0]
}

// builds are those of all runs of engines that can be built in pure Go or with cgo.
func (s *Sweep) builds() []string {
	return doc.Without(doc.Distinct(s.runs(), (*result.Run).Build))
}

// optionValues are the values of every engine option over the points.
func (s *Sweep) optionValues() map[string][]string {
	values := map[string][]string{}
	for _, run := range s.runs() {
		_, numbered := run.Engine.Options[engine.FilterBitsOption]
		for name, value := range run.Engine.Options {
			if numbered && (strings.HasSuffix(name, ".filter_policy") ||
				strings.HasSuffix(name, ".filter_type")) {
				continue // the name of a policy does not say how many bits it takes
			}

			if !slices.Contains(values[name], value) {
				values[name] = append(values[name], value)
			}
		}
	}

	return values
}

// tellApart finds the engine options in which sweeps differ, and those in which points
// differ that share all axes: such an option is an axis of the sweep. Sweeps of one name
// are called by what differs.
func (in *Input) tellApart() {
	all := doc.Each(in.Sweeps, func(s *Sweep) map[string][]string {
		s.optionsAsAxes()
		return s.optionValues()
	})

	alone := map[string][]string{} // values of an option that some sweep has as its only one
	for _, of := range all {
		for name, values := range of {
			if len(values) == 1 && !slices.Contains(alone[name], values[0]) {
				alone[name] = append(alone[name], values[0])
			}
		}
	}

	for i, s := range in.Sweeps {
		for _, name := range slices.Sorted(maps.Keys(all[i])) {
			mine := all[i][name]
			// an option with several values follows an axis
			if len(mine) == 1 && len(alone[name]) > 1 {
				s.differs = append(s.differs, name+"="+mine[0])
			}
		}
	}

	const maximum = 2 // in a name
	names := map[string]int{}
	for _, s := range in.Sweeps {
		names[s.Name]++
	}

	for _, s := range in.Sweeps {
		if names[s.Name] > 1 && len(s.differs) > 0 {
			s.Name = strings.TrimSpace(s.Name + " " +
				strings.Join(s.differs[:min(maximum, len(s.differs))], " "))
		}
	}
}

// optionsAsAxes makes an axis of every engine option in which points differ that are the
// same on all axes.
func (s *Sweep) optionsAsAxes() {
	byAxes := map[string][]int{}
	for i, p := range s.Points {
		byAxes[pointLabel(p)] = append(byAxes[pointLabel(p)], i)
	}

	options := map[string]bool{}
	for _, same := range byAxes {
		alike := Sweep{}
		for _, i := range same {
			alike.Points = append(alike.Points, s.Points[i])
		}

		for name, values := range alike.optionValues() {
			if len(values) > 1 {
				options[name] = true
			}
		}
	}

	for _, name := range slices.Sorted(maps.Keys(options)) {
		axis := result.Axis{Name: name}
		for i, p := range s.Points {
			if p.Run == nil {
				continue
			}

			value := p.Run.Engine.Options[name]
			s.Points[i].Axes = maps.Clone(p.Axes)
			s.Points[i].Axes[name] = value
			if !slices.Contains(axis.Values, value) {
				axis.Values = append(axis.Values, value)
			}
		}

		s.Axes = append(s.Axes, axis)
	}
}

// repeats is how often every point was measured at least.
func (s *Sweep) repeats() int {
	ok := measured(s.Points)
	if len(ok) == 0 {
		return 0
	}
	return len(slices.MinFunc(ok, func(a, b Point) int { return len(a.Runs) - len(b.Runs) }).Runs)
}

// handlesTable is what open-file handles decide: how often a Get finds its table
// closed, and what it then reads to open it.
func (c curve) handlesTable() doc.Table {
	opens := columnOf(figure.TableOpensPerGet)
	if c.x != "handles" || len(opens.Values(c.measured())) == 0 {
		return doc.Table{}
	}
	return c.table(opens, readsOf("their reads", engine.Meta), blockReads,
		latency("mean", service, meanOf), cpuTime)
}

// fewestOpens is the least difference in table opens per Get from which the cost
// of one is told.
const fewestOpens = 0.01

// miss is what one closed table costs a Get, between the points with the fewest
// and the most.
type miss struct {
	nanos, reads       float64
	fewOpens, manyOpen float64
}

func missOf(pts []Point) (m miss, ok bool) {
	pts = doc.Where(pts, func(p Point) bool {
		return p.Figures.Has(figure.TableOpensPerGet) &&
			p.Figures.ServiceNanos != nil
	})

	if len(pts) == 0 {
		return m, false
	}

	byOpens := func(a, b Point) int {
		return cmp.Compare(a.Figures.OrZero(figure.TableOpensPerGet),
			b.Figures.OrZero(figure.TableOpensPerGet))
	}

	few, many := slices.MinFunc(pts, byOpens), slices.MaxFunc(pts, byOpens)
	m.fewOpens, m.manyOpen = few.Figures.OrZero(figure.TableOpensPerGet),
		many.Figures.OrZero(figure.TableOpensPerGet)
	opens := m.manyOpen - m.fewOpens
	if opens < fewestOpens {
		return m, false
	}

	meta := engine.Meta.String()
	m.nanos = (many.Figures.ServiceNanos.Mean - few.Figures.ServiceNanos.Mean) / opens
	more := many.Figures.BlockReadsPerGetByType[meta] - few.Figures.BlockReadsPerGetByType[meta]
	m.reads = more / opens
	return m, true
}

// missSentence is the estimate for every entrant.
func (c curve) missSentence() string {
	var parts []string
	for _, name := range c.entrants() {
		m, ok := missOf(c.of(name).measured())
		name = before(name, ": ")
		switch {
		case !ok:
			parts = append(parts, name+"no two points differ enough in table opens to tell what "+
				"one costs")
		case m.nanos <= 0:
			parts = append(parts,
				fmt.Sprintf("%sa closed table costs %s reads; its time is lost in the noise", name,
					doc.Number(m.reads)))
		default:
			parts = append(parts,
				fmt.Sprintf("%sa closed table costs about %s and %s reads (%s against %s opens "+
					"per Get)", name, doc.Nanos(m.nanos),
					doc.Number(m.reads), doc.PerGet(m.manyOpen), doc.PerGet(m.fewOpens)))
		}
	}

	return "An estimate, from the difference of two points: " + strings.Join(parts, "; ") + "."
}
