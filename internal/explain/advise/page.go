package advise

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/nodemetrics"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// Read reads a folder that holds advice.json.
func Read(dir string) (*Advice, error) {
	path := filepath.Join(dir, result.AdviceFile)
	a, err := output.ReadJSON(path, Schema, func(a *Advice) string { return a.Schema })
	if err == nil && len(a.Settings) == 0 {
		err = engine.Fail(engine.CodeDamaged, "%s is damaged: it has no settings", path)
	}
	return a, err
}

// Chart is the curve with where the node is, where it should go and what was measured;
// nil if there is no curve to draw.
func (a Advice) Chart() *view.Chart {
	chart, panel := view.OnePanel("predicted block reads per Get by cache size", view.Sizes(float64(a.Database.Bytes)), view.Axis{Label: "block reads per Get"})
	curve := spots(rowsOf(a.Curve))
	panel.Line("predicted", curve, view.Style{Color: view.Muted, Dash: view.Dashed()})
	places := spots(a.named())
	panel.Dots("", places, view.Style{Color: view.Ink, Shape: view.Circle})
	measured := view.Each(a.Verified, func(v Verified) view.XY { return view.XY{X: float64(v.CacheBytes), Y: v.Measured} })
	panel.Dots("measured, at rest", measured, view.Style{Color: view.Vermilion, Shape: view.Box})
	if low, high := chart.SpanX(); len(curve) < 2 || !(high > low) {
		return nil
	}
	for _, p := range a.named() {
		chart.Marks = append(chart.Marks, view.Mark{X: float64(p.CacheBytes), Name: p.name + ": " + view.ShortBytes(p.CacheBytes), Color: view.Ink})
	}
	panel.Labels(places)
	return chart
}

// spots are places on the chart.
func spots(places []place) view.XYs {
	return view.Each(places, func(p place) view.XY {
		return view.XY{X: float64(p.CacheBytes), Y: p.BlockReadsPerGet, Text: view.PerGet(p.BlockReadsPerGet)}
	})
}

// Picture draws the chart as SVG.
func (a Advice) Picture(w io.Writer) error {
	chart := a.Chart()
	if chart == nil {
		return fmt.Errorf("the curve has fewer than two points: there is nothing to draw")
	}
	return chart.SVG(w)
}

// Page is what a browser shows.
func (a Advice) Page() *view.Page {
	page := &view.Page{Title: "Statelab: the cache of a node"}
	page.Answer("", a.Answer)
	page.Advice = append(page.Advice, view.Said{Of: "Set", Text: strings.Join(a.Recommendation.Flags, " ")})
	if a.Recommendation.Keep {
		page.Advice[0] = view.Said{Text: "No flag needs to change."}
	}
	page.Cards = []view.Card{
		{Name: "node", Facts: view.Known([][2]string{{"database", a.Database.Dir}, {"size", unit.Bytes(a.Database.Bytes)},
			{"engine", strings.TrimSpace(a.Engine.Name + " " + a.Engine.Profile)}, {"cache", view.Unless0(a.Now.CacheBytes, unit.Bytes)},
			{"known from", a.Now.Source}})},
		{Name: "needs", Facts: view.Known([][2]string{{"filters and top indexes (IP1)", unit.Bytes(a.Inflection.IP1.CacheBytes) + " in cache"},
			{"with all indexes (IP2)", unit.Bytes(a.Inflection.IP2.CacheBytes) + " in cache"}, {"memory", view.Unless0(a.Limits.MemoryBytes, unit.Bytes)},
			{"Gets per second", view.Unless0(a.Limits.GetsPerSecond, view.ShortCount)},
			{"latency goal", view.Unless0(float64(a.Limits.LatencyGoal), unit.Nanos)}})}}
	page.Add("Cache and block reads",
		view.Block{Title: "Predicted block reads per Get", Method: "choosing-a-cache.md", Chart: a.Chart(), Table: placesTable(a.questions()),
			Note: strings.TrimSpace(a.rules() +
				" While the node writes, its memtables take part of the cache: those reads are the curve. At rest means that nothing is written.")},
		view.Block{Title: "Measured beside the prediction", Method: "choosing-a-cache.md", Table: a.verifiedTable(),
			Note: "Nothing is written during such a run, after the warm-up of that run."})
	page.Add("Settings",
		view.Block{Title: "Flags", Method: "choosing-a-cache.md", Table: settingsTable(a.Settings[:1]),
			Note: fmt.Sprintf("Open-file handles for the database: %s.", unit.Count(a.Recommendation.Handles))},
		view.Block{Title: "Other programs", Method: "choosing-a-cache.md", Table: settingsTable(a.Settings[1:]), Note: a.othersSentence(), Folded: true},
		view.Block{Title: "Memory", Table: view.ListOf([]string{"use", "memory"}, a.Memory, func(s Share) []string {
			return []string{s.Name, unit.Bytes(s.Bytes)}
		})})
	page.Add("Why", view.Block{List: view.Each(a.Reasons, func(r Reason) string { return view.Upper(r.Text) + "." })},
		view.Block{Title: "Gets of the node, by its own metrics", Table: a.nodeTable()},
		view.Block{Title: "The disk: random 4-KiB reads past the page cache", Method: "choosing-a-cache.md", Table: a.diskTable()})
	page.Add("How it was computed", view.Block{Title: "Command", Method: "choosing-a-cache.md", Pre: view.Shell(a.Command)},
		view.Block{Title: "The whole curve", Folded: true, Table: placesTable(rowsOf(a.Curve))})
	return page
}

// place is a row of a table of cache sizes.
type place struct {
	name string
	Place
}

func rowsOf(places []Place) []place {
	return view.Each(places, func(p Place) place { return place{"", p} })
}

// named are where the node is and where it should go.
func (a *Advice) named() (rows []place) {
	if a.Now.CacheBytes > 0 {
		rows = append(rows, place{cmp.Or(a.Now.Whose, "cache now"), a.Now.Place})
	}
	if !a.Recommendation.Keep {
		rows = append(rows, place{"recommended", a.Then.Place})
	}
	return rows
}

// questions are the places that answer one, by cache size.
func (a *Advice) questions() []place {
	rows := a.named()
	knees := []struct {
		name  string
		place *Place
	}{{"fewer than 2", a.Below2}, {"fewer than 1.1", a.Below1_1}, {fmt.Sprintf("%s + %.0f%%", a.floorName(), 100*flatFloor), a.Flat}}
	for i, k := range knees {
		// Of knees at one cache the last says the most.
		if k.place != nil && (i == len(knees)-1 || knees[i+1].place == nil || knees[i+1].place.CacheBytes != k.place.CacheBytes) {
			rows = append(rows, place{k.name, *k.place})
		}
	}
	slices.SortStableFunc(rows, func(x, y place) int { return cmp.Compare(x.CacheBytes, y.CacheBytes) })
	return rows
}

func placesTable(rows []place) view.Table {
	type column = view.Column[place]
	size := func(name string, of func(Place) int64) column {
		return column{Name: name, Words: func(p place) string { return unit.Bytes(of(p.Place)) }}
	}
	reads := func(name string, of func(Place) float64) column {
		return view.Optional(name, "/Get", view.PerGet, func(p place) *float64 { return view.Of(of(p.Place)) })
	}
	return view.TableOf(rows, nil, view.Words("which cache", func(p place) string { return p.name }),
		size("cache", func(p Place) int64 { return p.CacheBytes }), size("for blocks", func(p Place) int64 { return p.BlockCacheBytes }),
		reads("block reads", func(p Place) float64 { return p.BlockReadsPerGet }), reads("at rest", func(p Place) float64 { return p.AtRest }))
}

func (a *Advice) verifiedTable() view.Table {
	return view.TableOf(a.Verified, nil, view.Column[Verified]{Name: "cache", Key: true, Words: func(v Verified) string { return unit.Bytes(v.CacheBytes) }},
		view.Figure("predicted", "/Get", view.PerGet, func(v Verified) float64 { return v.Predicted }),
		view.Figure("measured", "/Get", view.PerGet, func(v Verified) float64 { return v.Measured }),
		view.Figure("error", "%", nil, func(v Verified) float64 { return v.ErrorPercent }),
		view.Optional("device reads", "/Get", view.PerGet, func(v Verified) *float64 { return v.DeviceReadsPerGet }))
}

func settingsTable(settings []Setting) view.Table {
	return view.ListOf([]string{"program", "flags", "cache", "for blocks", "memtables while it writes"}, settings, func(s Setting) []string {
		memtables := ""
		if s.MemTables > 0 {
			memtables = fmt.Sprintf("%d of %s", s.MemTables, unit.Bytes(s.MemTableBytes))
		}
		return []string{clientName(s.Client), strings.Join(s.Flags, s.between()), unit.Bytes(s.CacheBytes), unit.Bytes(s.BlockCacheBytes), memtables}
	})
}

func (a *Advice) nodeTable() view.Table {
	if a.Node == nil {
		return view.Table{}
	}
	all := append(slices.Clone(a.Node.Sources), nodemetrics.Source{Name: "all", PerSecond: a.Node.GetsPerSecond})
	return view.ListOf([]string{"what for", "Gets per second"}, all, func(s nodemetrics.Source) []string {
		return []string{s.Name, unit.Count(int64(s.PerSecond + 0.5))}
	})
}

func (a *Advice) diskTable() view.Table {
	type column = view.Column[ProbePoint]
	return view.TableOf(a.Disk.Points, nil,
		column{Name: "in flight", Key: true, Format: view.Digits, Value: func(p ProbePoint) *float64 { return view.Of(p.InFlight) }},
		column{Name: "reads", Unit: "per s", Value: func(p ProbePoint) *float64 { return &p.ReadsPerSecond }},
		column{Name: "mean", Value: func(p ProbePoint) *float64 { return &p.MeanNanos }}.In(view.Micros),
		column{Name: "p99", Value: func(p ProbePoint) *float64 { return view.Of(p.P99Nanos) }}.In(view.Micros))
}

const textWidth = 80

// Text prints the advice for a terminal of 80 columns: the answer, what to set,
// what it rests on.
func (a Advice) Text(w io.Writer) error {
	out := view.NewText(w, textWidth)
	out.Wrap(a.Answer, "")
	a.places(out)
	a.flags(out)
	a.memory(out)
	a.Node.Text(out)
	a.disk(out)
	a.measured(out)
	out.Line("\nWhy")
	for _, r := range a.Reasons {
		out.Wrap("- "+r.Text, "  ")
	}
	return out.Flush()
}

// places are the cache sizes that answer questions.
func (a *Advice) places(out *view.Text) {
	writes, rate := a.Settings[0].MemTables > 0, a.Limits.GetsPerSecond
	line := func(name, cache, blocks, writing, rest, perSecond string) {
		if !writes {
			blocks, rest = "", ""
		}
		if rate == 0 {
			perSecond = ""
		}
		out.Line(strings.TrimRight(fmt.Sprintf("%-24s %10s %11s %9s %9s %12s", name, cache, blocks, writing, rest, perSecond), " "))
	}
	if writes || rate > 0 {
		out.Line("")
	}
	if writes {
		line("", "", "", "reads/Get", "reads/Get", "reads/s at")
		line("", "cache", "for blocks", "writing", "at rest", unit.ShortCount(rate)+" Gets/s")
	} else {
		line("", "", "", "", "", "reads/s at")
		line("", "cache", "", "reads/Get", "", unit.ShortCount(rate)+" Gets/s")
	}
	row := func(name string, p Place) {
		rest := ""
		if p.AtRest > 0 {
			rest = perGet(p.AtRest)
		}
		line(name, size(p.CacheBytes), size(p.BlockCacheBytes), perGet(p.BlockReadsPerGet), rest, unit.Count(int64(p.BlockReadsPerGet*rate+0.5)))
	}
	for _, q := range a.questions() {
		row(q.name, q.Place)
	}
	line(a.floorName()+" alone", "", "", perGet(a.Floor), "", "")
	if rules := a.rules(); rules != "" {
		out.Wrap(rules, "")
	}
	if writes {
		out.Wrap("Writing: memtables take their part of the cache, as in a running node. At rest: they take as little as in a sweep.", "")
	}
	if source := a.sourceSentence(); source != "" {
		out.Wrap(source, "")
	}
}

// floorName is what a Get reads once all else is cached. A cache that holds data blocks as
// well saves some of them, but not those that no Get has read before.
func (a *Advice) floorName() string {
	if a.List != nil {
		return "first reads"
	}
	if a.Database.Values != nil {
		return "data + value blocks"
	}
	return "data blocks"
}

// rules say what makes a cache the answer to the questions that do not say it themselves.
func (a *Advice) rules() string {
	text := ""
	rule := a.Recommendation.Rule
	if rule != "" {
		text = "Recommended: " + rule + ". "
	}
	if a.Flat == nil {
		return text
	}
	flat := smallestWithin(flatFloor, a.List)
	if strings.HasPrefix(rule, "the smallest") {
		flat = fmt.Sprintf("the same with %.0f%%", 100*flatFloor)
	}
	return text + fmt.Sprintf("%s + %.0f%%: %s.", view.Upper(a.floorName()), 100*flatFloor, flat)
}

// sourceSentence says how the present cache is known, or whose memtables are assumed where there is none.
func (a *Advice) sourceSentence() string {
	if a.Now.CacheBytes == 0 {
		return "Memtables: those of the profile " + a.Engine.Profile + " with each cache, whichever statelab last used. Add --cache to compare with a cache of yours."
	}
	if a.Now.Source == "--cache" {
		return ""
	}
	return view.Upper(cmp.Or(a.Now.Whose, "the present cache")) + " is known from: " + a.Now.Source + "."
}

func (a *Advice) flags(out *view.Text) {
	switch {
	case a.Recommendation.Keep && a.Settings[0].CacheBytes == a.Now.CacheBytes:
		out.Line("\nFlags: none needs to change. These set the present cache:")
		printSettings(out, a.Settings[:1])
	case a.Recommendation.Keep:
		out.Linef("\nFlags: none needs to change. Which ones set the present cache of %s is not known.", size(a.Now.CacheBytes))
	default:
		out.Line("\nFlags")
		printSettings(out, a.Settings[:1])
	}
	out.Linef("  %-17s %s", "file handles", unit.Count(a.Recommendation.Handles))
	if others := a.Settings[1:]; len(others) > 0 {
		out.Line("\nOther programs")
		out.Line("  " + view.Wrap(a.othersSentence(), 2, textWidth, "  "))
		printSettings(out, others)
	}
}

// othersSentence says whose the further settings are, and why they are listed.
func (a *Advice) othersSentence() string {
	owner := map[Client]string{Geth: "geth or op-geth", Statelab: "statelab"}[a.Settings[0].Client]
	if owner == "" {
		owner = "a program that is not known here"
	}
	text := "This database belongs to " + owner + ", and the flags above are for it. If another program is to use a database of this size and shape, " +
		"these settings leave it at least as much cache for blocks. Its cache has another size because its memtables take another part of it."
	if slices.ContainsFunc(a.Settings[1:], func(s Setting) bool { return s.Client == Geth }) {
		text += " geth's --cache.database is a whole percentage of --cache, and its database gets at least " + size(GethLeastCache) + "."
	}
	return text
}

func printSettings(out *view.Text, settings []Setting) {
	for _, s := range settings {
		out.Linef("  %-17s %s", clientName(s.Client), strings.ReplaceAll(strings.Join(s.Flags, s.between()), "; ", "\n"+strings.Repeat(" ", 20)))
		text := size(s.CacheBytes) + " for the database"
		if s.MemTables > 0 {
			text += fmt.Sprintf(": %s for blocks while it writes (%d memtables of %s)", size(s.BlockCacheBytes), s.MemTables, size(s.MemTableBytes))
		}
		out.Line(strings.Repeat(" ", 20) + view.Wrap(text, 20, textWidth, strings.Repeat(" ", 20)))
	}
}

func clientName(c Client) string {
	return map[Client]string{Geth: "geth, op-geth", Statelab: "statelab", Cosmos: "Cosmos SDK, code", Pebble: "Pebble's options"}[c]
}

func (a *Advice) memory(out *view.Text) {
	if a.Limits.MemoryBytes > 0 {
		out.Linef("\nMemory, of %s", size(a.Limits.MemoryBytes))
	} else {
		out.Line("\nMemory")
	}
	for _, s := range a.Memory {
		out.Linef("  %-26s %10s", s.Name, size(s.Bytes))
	}
}

func (a *Advice) disk(out *view.Text) {
	if len(a.Disk.Points) == 0 {
		return
	}
	out.Linef("\nDisk: random 4-KiB reads past the page cache\n  %9s %10s %10s %10s", "in flight", "reads/s", "mean", "p99")
	for _, p := range a.Disk.Points {
		out.Linef("  %9d %10s %10s %10s", p.InFlight, unit.Count(int64(p.ReadsPerSecond)), unit.Nanos(p.MeanNanos), unit.Nanos(float64(p.P99Nanos)))
	}
}

func (a *Advice) measured(out *view.Text) {
	if len(a.Verified) == 0 {
		return
	}
	out.Linef("\nVerified: block reads per Get at rest, after the warm-up of the run\n  %10s %10s %10s %8s %10s",
		"cache", "predicted", "measured", "error", "at device")
	for _, v := range a.Verified {
		device := "–"
		if v.DeviceReadsPerGet != nil {
			device = perGet(*v.DeviceReadsPerGet)
		}
		out.Linef("  %10s %10s %10s %+7.1f%% %10s", size(v.CacheBytes), perGet(v.Predicted), perGet(v.Measured), v.ErrorPercent, device)
	}
}
