package layouts

import (
	"cmp"
	"slices"

	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// point is a layout at a size that was built or not: what a chart draws over the size.
type point struct {
	layout   string
	accounts float64
	built    *row // nil: predicted only
}

// line is a figure that a chart draws over the size, with what predicts it.
type line struct {
	y              doc.Axis
	head, unit     string // of the column
	print          func(float64) string
	value, formula func(point) *float64
	by             string // what predicts: a formula, a model
}

// points are all places of a layout: the sizes built, smallest first, then one ahead.
func (in Input) points() (all []point) {
	for _, name := range in.Names() {
		rows := doc.Where(in.measured(), func(of row) bool { return of.Layout == name })
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Compare(a.Accounts, b.Accounts)
		})
		for i := range rows {
			all = append(all, point{name, float64(rows[i].Accounts), &rows[i]})
		}

		for _, n := range in.SizesAhead(name) {
			all = append(all, point{name, float64(n), nil})
		}
	}

	return all
}

// built is a figure of a row.
func built(value func(row) *float64) func(point) *float64 {
	return func(p point) *float64 {
		return doc.From(p.built, func(of *row) *float64 { return value(*of) })
	}
}

func absent(point) *float64 { return nil }

// charts are over the size: reads first, in both conditions.
func (in Input) charts() (blocks []doc.Block) {
	reads := func(condition string) func(point) *float64 {
		return built(func(of row) *float64 {
			return in.ReadsValue(of.at, result.AccountLookup, condition)
		})
	}

	// orAhead is a prediction of rows, carried on to a size that was not built.
	orAhead := func(
		value func(row) *float64, figure string, alike bool, only uint64,
	) func(point) *float64 {
		return func(p point) *float64 {
			n := uint64(p.accounts)
			switch {
			case p.built != nil:
				return value(*p.built)
			case only > 0 && n != only:
				return nil
			case alike:
				return claims.Value(in.AheadAlike(p.layout, figure, n))
			}

			return claims.Value(in.Ahead(p.layout, figure, n, 0))
		}
	}

	single := func(title, note string, y doc.Axis, value, formula func(point) *float64) doc.Block {
		return in.chart(title, note, line{y: y, head: "measured", value: value, formula: formula})
	}
	return []doc.Block{
		in.chart(
			"Reads per lookup",
			"Above: each the first lookup of a state that was just opened; dashed: without any "+
				"cache, by a formula. Below: caches warm, memory held; dashed: by a model, with "+
				"as much memory for each account at 1B. A state that fits into memory is read "+
				"little.",
			line{
				y:     doc.Axis{Label: "reads, nothing cached", Kind: doc.Logs},
				head:  "nothing cached",
				unit:  "reads",
				value: reads(result.FirstLookups),
				print: doc.PerGet,
				by:    "formula",
				formula: orAhead(func(of row) *float64 { return of.PredictedReads.Pointer() },
					figure.ReadsPerLookup.Key, false, subject.Billion),
			},
			line{
				y:     counted("reads, memory held"),
				head:  "memory held",
				unit:  "reads",
				value: reads(result.HeldLookups),
				print: doc.PerGet,
				by:    "model",
				formula: orAhead(func(of row) *float64 {
					return doc.From(of.DeviceReads.Pointer(),
						func(*float64) *float64 { return of.PredictedDeviceReads.Pointer() })
				}, figure.DeviceReadsPerLookup.Key, true, subject.Billion),
			},
		),
		single(
			"Nodes per lookup",
			"Trie nodes met on the way to an account, the leaf included; dashed: the formula.",
			counted("nodes per lookup"),
			built(func(of row) *float64 { return of.Nodes.Pointer() }),
			orAhead(func(of row) *float64 { return of.PredictedNodes.Pointer() },
				figure.NodesPerLookup.Key, false, 0),
		),
		single("Device bytes per lookup", "Fetched from the device, memory held: what an account "+
			"costs below all caches.", counted("bytes per lookup"),
			built(func(of row) *float64 { return of.DeviceBytes.Pointer() }), absent),
		single("Median time of a lookup", "Caches warm, memory held, one lookup in flight.",
			doc.Axis{Label: "p50", Kind: doc.Logs, Format: doc.AsNanos}, built(p50.Value), absent),
		single("Disk per account", "Blocks allocated below the state's folder, over its "+
			"accounts: slots and updates included.", counted("bytes per account"),
			built(disk.Value), absent),
	}
}

func counted(label string) doc.Axis { return doc.Axis{Label: label, Format: doc.AsCount} }

// styleOf is the look of the i-th layout of a run: beyond the colours there are, a
// thinner line and another shape.
func styleOf(i int) doc.Style {
	look := doc.CurveStyle(i)
	if i >= doc.MaxLines {
		look.Shape, look.Width = doc.CurveStyle(i+4).Shape, 0.9
	}
	return look
}

// chart draws a panel for every line over the number of accounts: a curve per layout,
// and dashed what a formula says of it, up to sizes that nobody built.
func (in Input) chart(title, note string, lines ...line) doc.Block {
	var ys []doc.Axis
	accounts := doc.Column[point]{
		Name:   "accounts",
		Format: doc.ShortCount[float64],
		Value:  func(p point) *float64 { return &p.accounts },
	}

	columns := []doc.Column[point]{doc.Words("layout", func(p point) string { return p.layout }),
		accounts}
	for _, l := range lines {
		ys = append(ys, l.y)
		columns = append(columns, doc.Column[point]{
			Name:   l.head,
			Unit:   l.unit,
			Format: l.print,
			Value:  l.value,
		})
	}

	if len(lines) > 1 {
		share := in.share()
		columns = append(columns, doc.Column[point]{
			Name:   share.Name,
			Unit:   share.Unit,
			Format: share.Format,
			Value:  built(share.Value),
		})
	}

	for _, l := range lines {
		c := doc.Column[point]{Name: "formula", Format: l.print, Value: l.formula}
		if l.by != "" {
			c = c.Named(l.head, l.by)
		}
		columns = append(columns, c)
	}

	chart := doc.NewChart(title+" against accounts", doc.Decades("accounts", doc.AsCount), ys...)
	var drawn []point
	points := in.points()
	for n, name := range in.Names() {
		of := doc.Where(points, func(p point) bool { return p.layout == name })
		look := styleOf(n)
		for i, l := range lines {
			panel := chart.Panels[i]
			value, formula := columns[2+i], columns[len(columns)-len(lines)+i]
			if !panel.Line(name, value.Against(accounts, of), look) {
				continue
			}

			var known []point // of a formula without a size that was built a chart says nothing
			if slices.ContainsFunc(of, func(p point) bool {
				return p.built != nil && l.formula(p) != nil
			}) {
				known = of
			}

			panel.Line(name, formula.Against(accounts, known), doc.Style{
				Color: look.Color,
				Dash:  doc.Dashed(),
				Width: look.Width,
			})
		}

		drawn = append(drawn, of...)
	}

	if !chart.Drawn() {
		return doc.Block{}
	}

	drawn = doc.Where(drawn, func(p point) bool {
		return slices.ContainsFunc(columns[2:], func(c doc.Column[point]) bool {
			return c.Value(p) != nil
		})
	})

	return doc.Block{
		Title:  title,
		Note:   note,
		Method: method,
		Aside:  true,
		Chart:  chart,
		Table:  doc.TableOf(drawn, nil, columns...),
	}
}
