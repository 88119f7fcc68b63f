package studies

import (
	"fmt"

	"github.com/statelab/statelab/internal/explain/view"
)

// Charts are a study's published curves with those that were predicted and measured.
type Charts struct {
	Sets  []Set
	Drawn []Chart
}

// Set is a run as one line of every chart.
type Set struct {
	Name   string
	Run    string
	As     string // published, predicted or measured
	Colour int    // sets of one database have one
	Of     string // PATH of the database's size in bytes, which cache sizes are shares of
}

// Chart is one figure over the cache size.
type Chart struct {
	Title, Label, Unit string
	Figure             map[string]string // by Set.As: PATH of the figure in a point
}

// Looks of a set's points. A prediction is a line.
const (
	asPublished = "published"
	asPredicted = "predicted"
	asMeasured  = "measured"
)

func (c Charts) check(runs map[string]Run) error {
	for _, set := range c.Sets {
		if _, known := runs[set.Run]; !known || set.Colour < 0 || set.As != asPublished && set.As != asPredicted && set.As != asMeasured {
			return fmt.Errorf("chart line %q: write run (a run of the study), as (published, predicted, measured) and colour (0 or more)", set.Name)
		}
	}
	return nil
}

// at is a point of a line.
type at struct {
	set        string
	cacheBytes float64
	share      float64 // of the database, %
	value      float64
}

// points are those of a set that have a figure.
func (s *Study) points(set Set, figure, unitName string) (all []at) {
	root, _ := s.results[set.Run].(map[string]any)
	list, _ := root["points"].([]any)
	whole, known, err := walk(root, set.Of)
	if !known || err != nil || whole <= 0 || figure == "" {
		return nil
	}
	for _, point := range list {
		cache, sized, wrong := walk(point, "cache_bytes")
		value, found, err := walk(point, figure)
		if sized && found && wrong == nil && err == nil && cache > 0 {
			all = append(all, at{set.Name, cache, 100 * cache / whole, value / scale(unitName)})
		}
	}
	return all
}

// blocks are the charts, each with its points as a table.
func (s *Study) blocks() (blocks []view.Block) {
	for _, chart := range s.Charts.Drawn {
		y := view.Axis{Label: chart.Label}
		if chart.Unit == "%" {
			y.Kind = view.Shares
		}
		drawn := view.NewChart(chart.Title, view.Decades("cache size, share of the database", view.AsPercent), y)
		panel := drawn.Panels[0]
		var all []at
		for _, set := range s.Charts.Sets {
			points := s.points(set, chart.Figure[set.As], chart.Unit)
			var xys view.XYs
			for _, p := range points {
				xys = append(xys, view.XY{X: p.share, Y: p.value})
			}
			look := view.CurveStyle(set.Colour)
			switch set.As {
			case asPublished:
				look.Shape = view.Ring
				panel.Dots(set.Name, xys, look)
			case asMeasured:
				look.Shape = view.Cross
				panel.Dots(set.Name, xys, look)
			default:
				look.Shape, look.Dash = "", view.Dashed()
				panel.Line(set.Name, xys, look)
			}
			all = append(all, points...)
		}
		if !drawn.Drawn() {
			continue
		}
		blocks = append(blocks, view.Block{Title: chart.Title, Chart: drawn, Aside: true,
			Note: "Rings are published, dashed lines predicted, crosses measured.",
			Table: view.TableOf(all, nil,
				view.Words("line", func(p at) string { return p.set }),
				view.Column[at]{Name: "cache", Words: func(p at) string { return view.ShortBytes(int64(p.cacheBytes)) }},
				view.Column[at]{Name: "share of the database", Unit: "%", Value: func(p at) *float64 { return &p.share }},
				view.Column[at]{Name: chart.Label, Unit: chart.Unit, Value: func(p at) *float64 { return &p.value }})})
	}
	return blocks
}
