package engines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// maxDetailed is how many curves get charts of their own: a page stays below
// 1 MB. Further ones are in the compared charts and in the tables.
const maxDetailed = 4

// Chart is the main chart: the stacked reads of one curve, or the block reads of several in one
// picture; nil if no point has block reads per Get.
func (in Input) Chart() *doc.Chart {
	curves := in.curves()
	var chart *doc.Chart
	if s := in.Sweeps[0]; s.compares() {
		a := s.comparisons()[0]
		if chart = a.loadFigure().Chart; chart == nil && a.comparesEngines() {
			chart = a.enginesChart()
		}
	}

	if chart == nil && len(curves) > 1 {
		chart = overlay(curves, len(in.Sweeps) > 1, "block reads per Get by cache size",
			blockReads, readsPerGet, true)
	}

	for i := 0; chart == nil && i < len(curves); i++ {
		if chart = curves[i].simulatedChart(); chart != nil {
			break
		}
		if chart = readsChart(curves[i]); chart == nil {
			chart = typeBars(curves[i])
		}
	}

	return chart
}

// Document says what Gets cost: what answers most first; of several curves, all of them together.
// The short form has the points of every curve in one table each.
func (in Input) Document() *doc.Document {
	curves := in.curves()
	d := &doc.Document{Title: "Statelab: what a lookup costs", Warnings: in.warnings()}
	several := len(in.Sweeps) > 1
	for i, s := range in.Sweeps {
		if i < maxSampled {
			d.Cards = append(d.Cards, doc.Card{
				Name:  cmp.Or(s.Name, "settings"),
				Facts: s.settings(),
				Brief: s.oneLine(),
			})
		}

		switch {
		case len(s.Points) == 0:
			d.Answer(s.Name, curve{sweep: s, x: "cache"}.sentence())
		case s.compares():
			for _, a := range s.comparisons() {
				d.Answer(a.heading(several), a.sentences()...)
			}

		}
	}

	byCache := doc.Where(curves, func(c curve) bool { return !c.sweep.compares() })
	for _, c := range byCache {
		about := ""
		if len(curves) > 1 {
			about = c.name(!several)
		}

		d.Answer(about, doc.Without([]string{c.sentence(), c.simulatedSentence()})...)
		if line := c.beyond(); line != "" {
			d.Advice = append(d.Advice, doc.Statement{About: about, Text: doc.Upper(line) + "."})
		}
	}

	of := func(title string, s *Sweep) string { return title + in.suffix(s) }
	for _, s := range in.Sweeps {
		if s.compares() {
			d.Add(of("Compared", s), s.comparedEngines()...)
		}
	}

	if len(curves) > 1 {
		d.Add("Compared", doc.AsDetail(comparedCurves(byCache, several))...)
	} else {
		addCurves(d, curves)
	}

	for _, s := range in.Sweeps {
		d.Add(of("Speed", s), s.speedBlocks()...)
	}

	if len(curves) > 1 {
		addCurves(d, curves)
	}

	in.addFacts(d)

	if more := len(in.Sweeps) - maxSampled; more > 0 {
		d.Cards = append(d.Cards, doc.Card{Name: unit.Count(more) + " more folders",
			Facts: [][2]string{{"settings", "not shown: report fewer folders"}},
			Brief: unit.Count(more) + " more folders are not shown here; the page has a table of " +
				"them, which --csv FILE writes for a program."})
	}

	d.Answers, d.Advice = append(first(d.Answers), first(in.asked())...), first(d.Advice)
	return d
}

// speedBlocks are what bounds the speed: processors, writes, the disk.
func (s *Sweep) speedBlocks() []doc.Block {
	blocks := append(append(s.scalingBlocks(), doc.AsDetail(axisFigures(s))...), doc.Block{
		Title:  "Write bytes by cause",
		Method: "figures.md",
		Table:  s.ledger(),
		Note:   "Bytes written for each key that was put, by what wrote them, and reads meanwhile.",
	})

	if s.Disk != nil {
		note := "Random 4-KiB reads with O_DIRECT, without an engine: " + s.Disk.Dir + "."
		if s.Disk.Contradicted != "" {
			note += " Not used as a limit: " + s.Disk.Contradicted + "."
		}

		blocks = append(blocks, doc.Block{Title: "The disk's own limit", Note: note,
			Method: "disks.md", Table: ceilingTable(s.Disk), Folded: true})
	}

	return blocks
}

// first are as many sentences as can be read, and how many more there are.
func first(said []doc.Statement) []doc.Statement {
	if more := len(said) - maxSampled; more > 0 {
		return append(said[:maxSampled:maxSampled], doc.Statement{Text: unit.Count(more) +
			" more are left out: their figures are in the tables."})
	}
	return said
}

// before is a name that precedes a sentence, with the mark between them; "" of no name.
func before(name, mark string) string {
	if name == "" {
		return ""
	}
	return name + mark
}

// addCurves adds a section for each curve; those that have no charts of their own share one.
func addCurves(d *doc.Document, curves []curve) {
	detailed := min(len(curves), maxDetailed)
	for _, c := range curves[:detailed] {
		d.Add(cmp.Or(c.name(false), "Measured"), append(c.points(), doc.AsDetail(c.blocks())...)...)
	}

	further := curves[detailed:]
	if len(further) == 0 {
		return
	}

	blocks := []doc.Block{{Title: unit.Count(len(further)) + " curves without charts of their own",
		Note: "A report of fewer folders draws them.", Method: "reads.md", Detail: true,
		Table: curvesTable(further, blockReads, deviceReads, latency("p50", service, p50Of),
			latency("p99", service, p99Of), gets)}}

	for _, c := range further[:min(len(further), maxSampled)] {
		blocks = append(blocks, c.points()...)
	}

	d.Add("Further curves", blocks...)
}

// points are the points of a curve by cache in one table, and which caches answer questions; none
// of a sweep that compares something else, or that made no Gets.
func (c curve) points() []doc.Block {
	if c.sweep.compares() || !c.looksUp() {
		return nil
	}

	blocks := []doc.Block{{
		Title:  c.label,
		Method: "reads.md",
		Table:  c.readsTable(),
		Texts:  doc.Without([]string{c.tooLarge(), c.derivedNote()}),
	}}

	if b, is := c.simulatedBlock(); is {
		blocks = append(blocks, b)
	}

	if c.label == "" { // of several curves the answer tells the sizes of each
		blocks = append(blocks, doc.Block{Title: "Cache sizes", List: c.limits()})
	}

	return blocks
}

// comparedCurves lay all curves over each other.
func comparedCurves(curves []curve, shares bool) (out []doc.Block) {
	for n, f := range []struct {
		title  string
		axis   doc.Axis
		method string
		column
	}{
		{"Block reads per Get", readsPerGet, "reads.md", blockReads},
		{"Index hit rate", doc.Percents("hit rate of index blocks"), "reads.md",
			hitRate("index hit rate", "index")},
		{"Overall hit rate", doc.Percents("hit rate of all blocks"), "reads.md",
			hitRate("hit rate", "all")},
		{"Device reads per Get", doc.Axis{Label: "device reads per Get"}, "disks.md", deviceReads},
	} {
		with := doc.Where(curves, func(c curve) bool { return len(f.Values(c.measured())) > 0 })
		if len(with) < 2 {
			continue // nothing to compare
		}

		chart := overlay(curves, shares, f.title+" by cache size", f.column, f.axis, n == 0)
		if chart == nil {
			continue
		}

		note := "One line per curve, through its measured points."
		if shares {
			note += " The cache is a share of each database, so that their sizes do not matter."
		}

		if len(curves) > doc.MaxLines {
			note += fmt.Sprintf(" %d curves are drawn; the table has all %d.", doc.MaxLines,
				len(curves))
		}

		out = append(out, doc.Block{
			Title:  f.title,
			Note:   note,
			Method: f.method,
			Chart:  chart,
			Table:  curvesTable(curves, f.column),
		})
	}

	return out
}

// besideMemtables says that a cache is larger than what its blocks take.
func besideMemtables(reserved int64) string {
	if reserved == 0 {
		return ""
	}
	return " beside memtables, which take " + doc.ShortBytes(reserved) + " of the cache"
}

// blocks are the charts of one curve.
func (c curve) blocks() []doc.Block {
	var out []doc.Block
	add := func(b doc.Block) {
		if b.Chart != nil {
			out = append(out, b)
		}
	}

	reads := doc.Block{
		Title:  "Block reads per Get, by type",
		Method: "reads.md",
		Table:  c.table(c.readsColumns()...),
	}

	if c.x == "cache" && len(c.withReads()) > 1 {
		reads.Chart, reads.Note = readsChart(c),
			"Each colour is a block type; the line joins what was measured."
		if c.sweep.Inflection != nil {
			reads.Note += " IP1: filters that Gets consult, top indexes, and single indexes (of " +
				"tables that have one index block) fit in the cache; " +
				"IP2: all indexes too. " +
				"Solid: the cache that holds them" + besideMemtables(reservedOf(c.pts)) +
				"; dashed: their size on disk."
		}
	} else {
		reads.Chart, reads.Note = typeBars(c), "Each part of a bar is a block type."
	}

	add(reads)
	if c.x == "cache" {
		rates := doc.Each(typesIn(c.withReads(), hitsByType), func(kind engine.BlockType) column {
			return hitRate(typeLabel(kind), kind.String())
		})
		all := hitRate("all", "all")
		add(doc.Block{
			Title:  "Hit rate, by type",
			Note:   "Share of block accesses that the cache served.",
			Method: "reads.md",
			Chart:  hitRateChart(c),
			Table:  c.table(append(rates, all)...),
		})

		add(doc.Block{
			Title:  "Overall hit rate",
			Method: "reads.md",
			Note: "All block types together. It hides what the types show: most accesses are of " +
				"blocks that are always cached.",
			Chart: overlay([]curve{c}, false, "overall hit rate by cache size", all,
				doc.Percents("hit rate of all blocks"), false),
			Table: c.table(all),
		})

		add(doc.Block{
			Title: "Block reads and device reads",
			Note: "The number at a point is the agreement: device reads / block reads. " +
				"A device gives whole sectors or pages, so its bytes exceed those of blocks." +
				countedBy(c),
			Method: "disks.md",
			Chart:  deviceChart(c),
			Table: c.table(blockReads, deviceReads, agreement,
				columnOf(figure.BlockReadBytesPerGet),
				deviceBytes.Named("device bytes", "/Get")),
		})
	}

	var levels []column
	for level := range engine.MaxLevels {
		levels = append(levels, readsAtLevel(fmt.Sprintf("L%d", level)))
	}

	levels = doc.Where(append(levels, readsAtLevel("unknown")), func(at column) bool {
		return slices.ContainsFunc(at.Values(c.measured()), func(v float64) bool { return v > 0 })
	})
	if len(levels) > 0 {
		out = append(out, doc.Block{
			Title:  "Block reads per Get, by level",
			Method: "reads.md",
			Table:  c.table(levels...),
			Folded: true,
		})
	}

	add(doc.Block{
		Title:  "Service time",
		Method: "figures.md",
		Table:  c.table(latencyColumns(c, service)...),
		Note: "From the call to its return. The axis stretches towards 100%: each step to the " +
			"right is a tenth of the Gets left.",
		Chart: latencyChart(c, "service",
			func(p Point) *hdrhistogram.Histogram { return p.Service }),
	})

	add(doc.Block{
		Title:  "Response time",
		Note:   "From when the schedule wanted the call to its return: waiting included.",
		Method: "figures.md",
		Chart: latencyChart(c, "response", func(p Point) *hdrhistogram.Histogram {
			return p.Response
		}),
		Table: c.table(latencyColumns(c, response)...),
	})

	chart, all, some := seriesChart(c)
	add(doc.Block{
		Title: "Second by second",
		Note: "Warm-up before 0, measured after it. Flat lines mean that the figures are of a " +
			"steady state." + some +
			" In the table, a sample is of one second; the last one of a phase can be of less.",
		Method: "reads.md",
		Chart:  chart,
		Table:  seriesTable(c, all),
	})

	return out
}

// countedBy tells where device reads come from.
func countedBy(c curve) string {
	sources := doc.Without(doc.Distinct(c.measured(), func(p Point) string {
		return p.Figures.DeviceSource
	}))
	if len(sources) == 0 {
		return ""
	}
	return " Device reads: " + strings.Join(sources, "; ") + "."
}

// warnings are those of sweeps and runs, each once, with the points where it holds; of
// one that holds everywhere, no points.
func (in Input) warnings() []doc.Warning {
	var all, missing doc.Warnings // of what is missing, the short form tells, too
	if kinds := mixedKinds(in.points()); len(kinds) > 1 {
		all.Add("mixed_hardware", "the points were measured on machines of different kinds ("+
			strings.Join(kinds, "; ")+"): their counts can be compared, "+
			"their times cannot", "on a cluster, --constraint with a feature that only nodes of "+
			"one kind have, or a list of classes as an axis", "")
	}

	for _, s := range in.Sweeps {
		name := strings.TrimPrefix(in.suffix(s), ": ")
		if s.Status == result.Interrupted {
			missing.Add("interrupted", "the sweep was interrupted: points are missing",
				"run it again with --resume", name)
		}

		s.warnEach(&all, name)
		for _, w := range s.damages() {
			missing.Add("damaged", w.Text, "", name)
		}

		for _, p := range s.Points {
			at := strings.TrimPrefix(name+", "+pointLabel(p), ", ")
			if p.Status != result.OK {
				all.Add("failed", "points failed or were not run: see the tables", "", at)
			}

			if p.Run == nil {
				continue
			}

			for _, check := range p.Run.Checks {
				if !check.OK {
					all.Add("check", "self-check failed: "+check.Name, "", at)
				}
			}
		}
	}

	return append(missing.List(), doc.Detailed(all.List())...)
}

// warnEach adds what the sweep and its runs warn of. A sweep keeps one text of a kind,
// since those of its points differ in figures only: where it holds is known of the runs.
func (s *Sweep) warnEach(all *doc.Warnings, name string) {
	list := slices.Clone(s.Warnings)
	kept := map[string][]engine.Warning{} // of the sweep, by code
	for _, w := range list {
		kept[w.Code] = append(kept[w.Code], w)
	}

	where := map[engine.Warning][]Point{}
	points := map[string]int{} // of each entrant
	for _, p := range s.Points {
		points[s.entrant(p)]++
		if p.Run == nil {
			continue
		}

		here := map[engine.Warning]bool{}
		for _, found := range p.Run.Warnings {
			as := kept[found.Code]
			if len(as) == 0 {
				if as = []engine.Warning{found}; where[found] == nil {
					list = append(list, found)
				}
			}

			for _, w := range as {
				if !here[w] {
					here[w], where[w] = true, append(where[w], p)
				}
			}
		}
	}

	for _, w := range list {
		at := where[w]
		if len(at) == 0 || len(at) == len(s.Points) {
			all.Add(w.Code, w.Text, w.Remedy, name)
			continue
		}

		with := map[string]int{}
		for _, p := range at {
			with[s.entrant(p)]++
		}

		for _, p := range at {
			place := pointLabel(p)
			if entrant := s.entrant(p); entrant != "" && with[entrant] == points[entrant] {
				place = entrant // of all its points
			}
			all.Add(w.Code, w.Text, w.Remedy, strings.TrimPrefix(name+", "+place, ", "))
		}
	}
}

// damages tell which folders of points could not be read.
func (s *Sweep) damages() []doc.Warning {
	return doc.Each(
		doc.Where(s.Points, func(p Point) bool { return p.Problem != "" }),
		func(p Point) doc.Warning {
			return doc.Warning{Text: "part of the folder of " + pointLabel(p) +
				" could not be read: " + p.Problem}
		},
	)
}

// pointLabel tells a point by all its axes.
func pointLabel(p Point) string {
	var parts []string
	for axis, value := range p.Axes {
		parts = append(parts, axisValue(axis, value))
	}

	slices.Sort(parts)
	if len(parts) == 0 {
		return cacheText(p)
	}

	return strings.Join(parts, ", ")
}

// comparedEngines are the figures of a sweep that is about engines, threads or
// handles: the charts, then what a Get takes of the machine.
func (s *Sweep) comparedEngines() (out []doc.Block) {
	comparisons := s.comparisons()
	for _, a := range comparisons {
		of := strings.TrimSuffix(": "+a.label, ": ")
		b := doc.Block{
			Title:  "Speed by " + a.x,
			Method: "comparing-engines.md",
			Table:  a.speedTable(),
			Texts:  doc.Without([]string{a.pagesNote(), a.derivedNote()}),
		}

		if load := a.loadFigure(); load.Chart != nil {
			load.Detail = true
			load.Title += of
			out = append(out, load)
		} else if a.comparesEngines() {
			b.Title, b.Note = "Speed by engine",
				"A group of bars for each value of "+a.x+
					", a bar an engine; a cross where a point failed."
			if a.x == "" {
				b.Note = "A bar an engine; a cross where a point failed."
			}

			if a.repeats() > 1 {
				b.Note += " A thin line spans the repeats."
			}

			if s.Disk != nil {
				b.Note += " Dashed red: the most Gets/s that the disk allows (its reads/s with " +
					inFlight(s.Points) + " / device reads per Get), " +
					"where it is near."
			}

			b.Chart = a.enginesChart()
		}

		b.Title += of
		out = append(out, b,
			doc.Block{
				Title:  "What a Get takes" + of,
				Detail: true,
				Method: "comparing-engines.md",
				Table:  a.efficiencyTable(),
			},
			a.handlesBlock(of))
	}

	out = append(
		out,
		doc.Block{Title: "The engines, their memory, what survives", List: comparisons[0].told()},
		doc.Block{
			Title:  "What the engines are",
			Detail: true,
			Method: "comparing-engines.md",
			Table:  comparisons[0].entrantTable(),
			Note: "Survives: what a kill of the process and a power cut leave of acknowledged " +
				"writes. Memory: how the budget was spent.",
		},
	)

	return append(out, s.published()...)
}

// handlesBlock is what it costs to open tables again.
func (c curve) handlesBlock(of string) doc.Block {
	b := doc.Block{
		Title:  "What a closed table costs" + of,
		Method: "comparing-engines.md",
		Table:  c.handlesTable(),
	}

	if len(b.Table.Rows) > 0 {
		b.Texts = doc.Without([]string{c.missSentence()})
	}

	return b
}

// told says of each engine how it spent its memory and, where something was written, what a kill
// leaves of that.
func (c curve) told() (lines []string) {
	for _, p := range c.ofEachEntrant() {
		told := memorySpent(p.Run.Memory)
		if p.Figures.Puts > 0 {
			told = p.Run.Engine.Durability + ". " + told
		}

		if told = strings.Trim(told, ". "); told != "" {
			lines = append(lines, p.Run.Engine.Name+" "+p.Run.Engine.Version+": "+told)
		}
	}

	return lines
}

// speedTable is what every point costs, in the columns a terminal has room for.
// Device reads where every point has them, else bytes: one unit down a column.
func (c curve) speedTable() doc.Table {
	device := deviceBytes
	if ok := c.measured(); len(deviceReads.Values(ok)) == len(ok) {
		device = deviceReads
	}

	first, second := latency("mean", service, meanOf), latency("p99", service, p99Of)
	if c.x == "rate" {
		first, second = latency("", response, p50Of).Named("resp.", "p50 us"),
			latency("", response, p99Of).Named("resp.", "p99 us")
	}

	columns := []column{kiloGets, repeats("repeats", "from to", figure.GetsPerSecond.Key, " ", 1e3,
		doc.Number), first, second, cpuPercent, blockReads, device}
	if slices.ContainsFunc(c.pts, func(p Point) bool { return p.budget() > 0 }) {
		columns = append(columns,
			column{Name: "budget", Unit: "MiB", Left: true, Words: Point.held})
	}

	return c.table(append(columns,
		columnOf(figure.SwitchesPerGet).Spared(2),
		columnOf(figure.SwitchShare).Spared(2),
		peakMemory.Named("process", "peak MiB").Spared(1))...)
}

// efficiencyTable is what a Get takes of the machine.
func (c curve) efficiencyTable() doc.Table {
	return c.table(blockReads, deviceReads, deviceBytes,
		columnOf(figure.ReadCallsPerGet),
		columnOf(figure.MajorFaultsPerGet),
		cpuTime, peakMemory.Named("peak RSS", "MiB"),
		column{Name: "budget", Value: func(p Point) *float64 {
			return doc.When(p.budget() > 0, float64(p.budget())) // 0: none was given
		}}.In(doc.MiB),
		column{
			Name:   "disk's limit",
			Unit:   "% reached",
			Format: sharePercent,
			Value: func(p Point) *float64 {
				l, ok := c.sweep.limitOf(p)
				return doc.When(ok, l.share)
			},
		})
}

// ofEachEntrant is a measured point of every engine, with its run.
func (c curve) ofEachEntrant() []Point {
	return doc.Flat(c.entrants(), func(name string) []Point {
		of := c.of(name).having(func(p Point) bool { return p.Run != nil && p.Status == result.OK })
		return of[:min(1, len(of))]
	})
}

// entrantTable says what each engine is: version, what survives, and how its
// budget was spent.
func (c curve) entrantTable() doc.Table {
	words := func(name string, of func(Point) string) column {
		return column{Name: name, Left: true, Words: of}
	}
	return doc.TableOf(
		c.ofEachEntrant(),
		nil,
		words("engine", func(p Point) string { return p.Run.Engine.Name }),
		words("version", func(p Point) string { return p.Run.Engine.Version }),
		words("survives", func(p Point) string { return p.Run.Engine.Durability }),
		words("memory", func(p Point) string { return memorySpent(p.Run.Memory) }),
		words("block reads are", func(p Point) string {
			if p.Figures.BlockReadSource == "" && p.Figures.Has(figure.BlockReadsPerGet) {
				return "counted at the file layer, or by the engine"
			}
			return p.Figures.BlockReadSource
		}),
	)
}

// memorySpent is how one budget came to be used.
func memorySpent(m *result.Memory) string {
	if m == nil {
		return ""
	}

	var parts []string
	for _, share := range m.Shares {
		text := share.Use + " " + doc.ShortBytes(share.Bytes)
		basis := map[string]string{"measured": "as measured", "estimate": "estimated"}[share.Basis]
		if basis != "" {
			text += " (" + basis + ")"
		}
		parts = append(parts, text)
	}

	if m.PageCacheBytes != nil {
		more := *m.PageCacheBytes
		for _, share := range m.Shares {
			if share.Use == pageCache {
				more -= share.Bytes
			}
		}

		text := "the kernel may keep " + doc.ShortBytes(more) + " of files beside that"
		if m.HeldBy != "" {
			text += ", held by " + m.HeldBy
		}

		if *m.PageCacheBytes == 0 && m.HeldBy != "" {
			text = m.HeldBy
		}

		parts = append(parts, text)
	}

	if m.BudgetBytes > 0 {
		return "budget " + doc.ShortBytes(m.BudgetBytes) + held(m) + ": " +
			strings.Join(parts, "; ")
	}

	return strings.Join(parts, "; ")
}

// pageCache is the share of a budget that the operating system keeps of the files of an engine
// without a cache of its own.
const pageCache = "page cache"

// held tells whether something kept the run to its budget.
func held(m *result.Memory) string {
	if m.HeldBy != "" {
		return ", held"
	}
	return ", not held"
}

// held is the budget of a point in MiB, and whether it was held; "" without one. The memory of the
// process also has its code, the harness and what awaits garbage collection.
func (p Point) held() string {
	if p.budget() == 0 {
		return ""
	}
	return doc.Number(float64(p.budget())/(1<<20)) + held(p.Run.Memory)
}

// budget is the memory that a run was given; 0: none is known.
func (p Point) budget() int64 {
	if p.Run == nil || p.Run.Memory == nil {
		return 0
	}
	return p.Run.Memory.BudgetBytes
}

// pagesNote tells whose block reads are something else.
func (c curve) pagesNote() string {
	pts := doc.Where(c.measured(), func(p Point) bool { return p.Figures.BlockReadSource != "" })
	names := doc.Without(doc.Distinct(pts, c.sweep.entrant))
	switch {
	case len(pts) == 0:
		return ""
	case len(names) == 0:
		return "Block reads are " + pts[0].Figures.BlockReadSource + "."
	}

	return "Block reads of " + strings.Join(names, ", ") + " are " +
		pts[len(pts)-1].Figures.BlockReadSource + "."
}
