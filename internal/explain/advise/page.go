package advise

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Read reads a folder that holds advice.json.
func Read(dir string) (*Advice, error) {
	path := filepath.Join(dir, result.AdviceFile)
	a, err := output.ReadJSON(path, schema.Advice, func(a *Advice) string { return a.Schema })
	if err == nil && len(a.Settings) == 0 {
		err = engine.Fail(engine.CodeDamaged, "%s is damaged: it has no settings", path)
	}
	return a, err
}

// Chart is the curve with where the node is, where it should go and what was measured;
// nil if there is no curve to draw.
func (a Advice) Chart() *doc.Chart {
	chart, panel := doc.OnePanel("predicted block reads per Get by cache size",
		doc.Sizes(float64(a.Database.Bytes)), doc.Axis{Label: "block reads per Get"})
	curve := spots(rowsOf(a.Curve))
	panel.Line("predicted", curve, doc.Style{Color: doc.Muted, Dash: doc.Dashed()})
	places := spots(a.named())
	panel.Dots("", places, doc.Style{Color: doc.Ink, Shape: doc.Circle})
	measured := doc.Each(a.Verified, func(v Verified) doc.XY {
		return doc.XY{X: float64(v.CacheBytes), Y: v.Measured}
	})
	panel.Dots("measured, at rest", measured, doc.Style{Color: doc.Vermilion, Shape: doc.Box})
	if low, high := chart.SpanX(); len(curve) < 2 || !(high > low) {
		return nil
	}

	for _, p := range a.named() {
		chart.Marks = append(chart.Marks, doc.Mark{
			X:     float64(p.CacheBytes),
			Name:  p.name + ": " + doc.ShortBytes(p.CacheBytes),
			Color: doc.Ink,
		})
	}

	panel.Labels(places)
	return chart
}

// spots are places on the chart.
func spots(places []place) doc.XYs {
	return doc.Each(places, func(p place) doc.XY {
		return doc.XY{
			X:    float64(p.CacheBytes),
			Y:    p.BlockReadsPerGet,
			Text: doc.PerGet(p.BlockReadsPerGet),
		}
	})
}

// Document says what to set, and why.
func (a Advice) Document() *doc.Document {
	const method = "choosing-a-cache.md"
	d := &doc.Document{Title: "Statelab: the cache of a node"}
	d.Answer("", a.Answer)
	set := doc.Statement{
		About:  "Set",
		Text:   strings.TrimSpace(strings.Join(a.Recommendation.Flags, " ") + " " + a.where()),
		Detail: true,
	}

	if a.Recommendation.Keep {
		set = doc.Statement{Text: "No flag needs to change.", Detail: true}
	}

	d.Advice = []doc.Statement{set}
	d.Cards = []doc.Card{
		{
			Name: "node",
			Facts: doc.Known([][2]string{
				{"database", a.Database.Dir},
				{"size", unit.Bytes(a.Database.Bytes)},
				{"engine", strings.TrimSpace(a.Engine.Name + " " + a.Engine.Profile)},
				{"cache", doc.Unless0(a.Now.CacheBytes,
					unit.Bytes)},
				{"known from", a.Now.Source},
			}),
		},
		{Name: "needs", Facts: doc.Known([][2]string{
			{"filters and top indexes (IP1)", unit.Bytes(a.Inflection.IP1.CacheBytes) +
				" in cache"},
			{"with all indexes (IP2)", unit.Bytes(a.Inflection.IP2.CacheBytes) + " in cache"},
			{"memory", doc.Unless0(a.Limits.MemoryBytes, unit.Bytes)},
			{"Gets per second", doc.Unless0(a.Limits.GetsPerSecond, doc.ShortCount)},
			{"latency goal", doc.Unless0(float64(a.Limits.LatencyGoal), unit.Nanos)}})}}

	d.Add("Cache and block reads",
		doc.Block{Title: "Predicted block reads per Get", Method: method, Chart: a.Chart(),
			Table: a.placesTable(append(a.questions(), a.floor())), Texts: a.placesTexts(),
			Note: "While the node writes, its memtables take part of the cache: those reads are " +
				"the curve. At rest means that nothing is written."})

	d.Add("Growth", a.Growth.block())
	d.Add("Settings", a.settingsBlocks()...)
	d.Add("Memory", doc.Block{Title: a.memoryTitle(), Table: doc.TableOf(a.Memory, nil,
		doc.Words("use", func(s advice.Share) string { return s.Name }),
		doc.Column[advice.Share]{
			Name:  "memory",
			Words: func(s advice.Share) string { return size(s.Bytes) },
		})})

	d.Add("The node", a.Node.Block())
	d.Add("The disk", doc.Block{
		Title:  "Disk: random 4-KiB reads past the page cache",
		Method: method,
		Table:  a.diskTable(),
	})

	d.Add("Verified", doc.Block{
		Title:  "Verified: block reads per Get at rest, after the warm-up of the run",
		Method: method,
		Table:  a.verifiedTable(),
	})

	d.Add("Why", doc.Block{List: doc.Each(a.Reasons, func(r Reason) string {
		return doc.Upper(r.Text) + "."
	})})
	d.Add("How it was computed",
		doc.Block{Title: "Command", Detail: true, Method: method, Pre: doc.Shell(a.Command)},
		doc.Block{Title: "The whole curve", Folded: true, Table: a.placesTable(rowsOf(a.Curve))})
	return d
}

// where is where the recommended flags stand; "" of a node whose configuration is not known.
func (a *Advice) where() string {
	if a.Recommendation.Keep || len(a.Settings) == 0 {
		return ""
	}
	return a.Settings[0].Where
}

// place is a row of a table of cache sizes.
type place struct {
	name string
	Place
}

func rowsOf(places []Place) []place {
	return doc.Each(places, func(p Place) place { return place{"", p} })
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
	}{
		{"fewer than 2", a.Below2},
		{"fewer than 1.1", a.Below1_1},
		{fmt.Sprintf("%s + %.0f%%", a.floorName(), 100*flatFloor), a.Flat},
	}

	for i, k := range knees {
		// Of knees at one cache the last says the most.
		if k.place != nil &&
			(i == len(knees)-1 || knees[i+1].place == nil ||
				knees[i+1].place.CacheBytes != k.place.CacheBytes) {
			rows = append(rows, place{k.name, *k.place})
		}
	}

	slices.SortStableFunc(rows, func(x, y place) int {
		return cmp.Compare(x.CacheBytes, y.CacheBytes)
	})
	return rows
}

// placesTable are caches with what Gets read and, where the node's Gets a second are known, what it
// reads in a second.
func (a *Advice) placesTable(rows []place) doc.Table {
	type column = doc.Column[place]
	bytes := func(name string, of func(Place) int64) column {
		return column{
			Name:  name,
			Words: func(p place) string { return doc.Unless0(of(p.Place), unit.Bytes) },
		}
	}

	reads := func(name string, of func(Place) figure.Value) column {
		return doc.Optional(name, "reads/Get", perGet,
			func(p place) *float64 { return of(p.Place).Pointer() })
	}

	rate := a.Limits.GetsPerSecond
	readsPerSecond := func(p place) *float64 {
		return doc.When(rate > 0 && p.CacheBytes > 0, math.Floor(p.BlockReadsPerGet*rate+0.5))
	}

	return doc.TableOf(rows, nil, doc.Words("which cache", func(p place) string { return p.name }),
		bytes("cache", func(p Place) int64 { return p.CacheBytes }),
		bytes("for blocks", func(p Place) int64 { return p.BlockCacheBytes }),
		reads("writing", func(p Place) figure.Value { return figure.Known(p.BlockReadsPerGet) }),
		reads("at rest", func(p Place) figure.Value { return p.AtRest }),
		doc.Optional("reads/s", "at "+unit.ShortCount(rate)+" Gets/s", doc.Digits,
			readsPerSecond))
}

// floor is what a Get reads once all else is cached, as a row.
func (a *Advice) floor() place {
	return place{a.floorName() + " alone", Place{BlockReadsPerGet: a.Floor}}
}

// placesTexts explain the rows, and what is assumed.
func (a *Advice) placesTexts() []string {
	texts := []string{a.rules()}
	if a.Settings[0].MemTables > 0 {
		texts = append(texts, "Writing: memtables take their part of the cache, as in a running "+
			"node. At rest: they take as little as in a sweep.")
	}
	return doc.Without(append(texts, a.sourceSentence()))
}

func (a *Advice) verifiedTable() doc.Table {
	return doc.TableOf(
		a.Verified,
		nil,
		doc.Column[Verified]{
			Name:  "cache",
			Key:   true,
			Words: func(v Verified) string { return unit.Bytes(v.CacheBytes) },
		},
		doc.Figure("predicted", "/Get", doc.PerGet,
			func(v Verified) float64 { return v.Predicted }),
		doc.Figure("measured", "/Get", doc.PerGet, func(v Verified) float64 { return v.Measured }),
		doc.Figure(
			"error",
			"%",
			func(v float64) string { return fmt.Sprintf("%+.1f", v) },
			func(v Verified) float64 { return v.ErrorPercent },
		),
		doc.Optional("device reads", "/Get", doc.PerGet,
			func(v Verified) *float64 { return v.DeviceReadsPerGet.Pointer() }),
	)
}

// settingsBlocks are the flags of the database's own program, then those of others.
func (a *Advice) settingsBlocks() (blocks []doc.Block) {
	handles := fmt.Sprintf("file handles: %s", unit.Count(a.Recommendation.Handles))
	switch {
	case a.Recommendation.Keep && a.Settings[0].CacheBytes == a.Now.CacheBytes:
		blocks = []doc.Block{settingBlock(
			"Flags: none needs to change. These set the present cache",
			a.Settings[0],
		)}
	case a.Recommendation.Keep:
		blocks = []doc.Block{{Title: "Flags", Texts: []string{fmt.Sprintf("None needs to change. "+
			"Which ones set the present cache of %s is not known.", size(a.Now.CacheBytes))}}}
	default:
		blocks = []doc.Block{settingBlock("Flags", a.Settings[0])}
	}

	blocks[0].Texts = append(blocks[0].Texts, handles)

	others := a.Settings[1:]
	if len(others) == 0 {
		return blocks
	}

	blocks = append(blocks, doc.Block{Title: "Other programs", Texts: []string{a.othersSentence()}})
	for _, s := range others {
		blocks = append(blocks, settingBlock("Other programs", s))
	}

	return blocks
}

// settingBlock are the flags of a program, as they are typed, and the cache that they make.
func settingBlock(title string, s advice.Setting) doc.Block {
	flags := strings.ReplaceAll(strings.Join(s.Flags, s.Separator()), "; ", "\n")
	text := size(s.CacheBytes) + " for the database"
	if s.Where != "" {
		text = doc.Upper(s.Where) + ": " + text
	}

	if s.MemTables > 0 {
		text += fmt.Sprintf(": %s for blocks while it writes (%d memtables of %s)",
			size(s.BlockCacheBytes),
			s.MemTables, size(s.MemTableBytes))
	}

	return doc.Block{
		Title:  title + ": " + clientName(s.Client),
		Method: "choosing-a-cache.md",
		Pre:    flags,
		Texts:  []string{text},
	}
}

func (a *Advice) memoryTitle() string {
	if a.Limits.MemoryBytes > 0 {
		return "Memory, of " + size(a.Limits.MemoryBytes)
	}
	return "Memory"
}

func (a *Advice) diskTable() doc.Table {
	type column = doc.Column[advice.ProbePoint]
	return doc.TableOf(a.Disk.Points, nil,
		column{Name: "in flight", Key: true, Format: doc.Digits,
			Value: func(p advice.ProbePoint) *float64 { return doc.Some(float64(p.InFlight)) }},
		column{
			Name:  "reads",
			Unit:  "per s",
			Value: func(p advice.ProbePoint) *float64 { return &p.ReadsPerSecond },
		},
		column{Name: "mean", Value: func(p advice.ProbePoint) *float64 { return &p.MeanNanos }}.In(
			doc.Micros,
		),
		column{Name: "p99", Value: func(p advice.ProbePoint) *float64 {
			return doc.When(p.P99Nanos > 0,
				float64(p.P99Nanos))
		}}.In(doc.Micros))
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

	return text + fmt.Sprintf("%s + %.0f%%: %s.", doc.Upper(a.floorName()), 100*flatFloor, flat)
}

// sourceSentence says how the present cache is known, or whose memtables are assumed where there is
// none.
func (a *Advice) sourceSentence() string {
	if a.Now.CacheBytes == 0 {
		return "Memtables: those of the profile " + a.Engine.Profile +
			" with each cache, whichever statelab last used. Add --cache to compare with a cache " +
			"of yours."
	}

	if a.Now.Source == "--cache" {
		return ""
	}

	return doc.Upper(cmp.Or(a.Now.Whose, "the present cache")) + " is known from: " +
		a.Now.Source + "."
}

// othersSentence says whose the further settings are, and why they are listed.
func (a *Advice) othersSentence() string {
	owner := map[clients.Client]string{
		clients.Geth:     "geth or op-geth",
		clients.Statelab: "statelab",
	}[a.Settings[0].Client]

	if owner == "" {
		owner = "a program that is not known here"
	}

	text := "This database belongs to " + owner + ", and the flags above are for it. If another " +
		"program is to use a database of this size and shape, " +
		"these settings leave it at least as much cache for blocks. Its cache has another size " +
		"because its memtables take another part of it."

	if slices.ContainsFunc(a.Settings[1:], func(s advice.Setting) bool {
		return s.Client == clients.Geth
	}) {
		text += " geth's --cache.database is a whole percentage of --cache, and its database " +
			"gets at least " + size(advice.GethLeastCache) + "."
	}

	return text
}

func clientName(c clients.Client) string {
	return map[clients.Client]string{clients.Geth: "geth, op-geth", clients.Statelab: "statelab",
		clients.CosmosSDK: "Cosmos SDK, code", clients.AnyPebble: "Pebble's options"}[c]
}
