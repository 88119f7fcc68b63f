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
func Read(dir string) (Advice, error) {
	path := filepath.Join(dir, result.AdviceFile)
	a, err := output.ReadJSON(path, Schema, func(a *Advice) string { return a.Schema })
	switch {
	case err != nil:
		return Advice{}, err
	case len(a.Settings) == 0:
		return Advice{}, engine.Fail(engine.CodeDamaged, "%s is damaged: it has no settings", path)
	}
	return *a, nil
}

// JSON is what the folder says, for a program.
func (a Advice) JSON() any { return a }

// Chart is the curve with where the node is, where it should go and what was measured;
// nil if there is no curve to draw.
func (a Advice) Chart() *view.Chart {
	chart := view.NewChart("predicted block reads per Get by cache size", view.Sizes(float64(a.Database.Bytes)), view.Axis{Label: "block reads per Get"})
	panel := chart.Panels[0]
	curve := spots(rowsOf(a.Curve))
	panel.Line("predicted", curve, view.Style{Color: view.Muted, Dash: view.Dashed()})
	places := spots(a.named())
	panel.Dots("", places, view.Style{Color: view.Ink, Shape: view.Circle})
	var measured view.XYs
	for _, v := range a.Verified {
		measured = append(measured, view.XY{X: float64(v.CacheBytes), Y: v.Measured})
	}
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
func spots(places []place) (xys view.XYs) {
	for _, p := range places {
		xys = append(xys, view.XY{X: float64(p.CacheBytes), Y: p.BlockReadsPerGet, Text: view.PerGet(p.BlockReadsPerGet)})
	}
	return xys
}

// PNG draws the chart.
func (a Advice) PNG(w io.Writer) error {
	chart := a.Chart()
	if chart == nil {
		return fmt.Errorf("the curve has fewer than two points: there is nothing to draw")
	}
	return chart.PNG(w)
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
		view.Block{Title: "Memory", Table: a.memoryTable()})
	var reasons []string
	for _, r := range a.Reasons {
		reasons = append(reasons, view.Upper(r.Text)+".")
	}
	page.Add("Why", view.Block{List: reasons},
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

func rowsOf(places []Place) (rows []place) {
	for _, p := range places {
		rows = append(rows, place{"", p})
	}
	return rows
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

func (a *Advice) memoryTable() view.Table {
	return view.ListOf([]string{"use", "memory"}, a.Memory, func(s Share) []string { return []string{s.Name, unit.Bytes(s.Bytes)} })
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
