package engines

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Prediction is what predict --json prints, and a folder's prediction.json.
type Prediction struct {
	Schema  string    `json:"schema"`
	Started time.Time `json:"started,omitzero"`  // of a folder
	Command []string  `json:"command,omitempty"` // of a folder
	// of the program that predicted, in a folder
	Statelab   string  `json:"statelab,omitempty"`
	Commit     string  `json:"commit,omitempty"`
	Source     string  `json:"source"` // of the level table
	Keys       int64   `json:"keys"`
	Database   int64   `json:"database_bytes"`
	Engine     string  `json:"engine"`
	Profile    string  `json:"profile"`
	Cores      int     `json:"cores"`
	Gets       uint64  `json:"gets"`
	WarmupGets uint64  `json:"warmup_gets"`
	Missing    float64 `json:"missing_share"`
	// trace (of a database that is here) or level table
	Method     string                  `json:"method"`
	Inflection result.Inflection       `json:"inflection"`
	Levels     []engine.Level          `json:"levels"`
	Points     []result.PredictedPoint `json:"points"`
	// whose reads take the time of DeviceNanos; nil: not given
	Hardware *result.Hardware `json:"hardware,omitempty"`
}

// DeviceNanos is what the block reads of a Get take in steady state if each goes to the
// device: one after another, as a Get makes them. nil: no disk is known.
func (p Prediction) DeviceNanos(q result.PredictedPoint) *float64 {
	if p.Hardware == nil {
		return nil
	}
	nanos := q.SteadyState * p.Hardware.Points[0].MeanNanos // with one read in flight
	return &nanos
}

// timeSentence says what the reads mean in time, or how to learn it.
func (p Prediction) timeSentence() string {
	if p.Hardware == nil {
		return "How long these reads take depends on the disk. Measure it with statelab disk DIR " +
			"--out DISK, and add --hardware DISK."
	}

	return fmt.Sprintf("On the disk %s, where a random 4-KiB read takes %s on average with one "+
		"in flight, the reads of a Get take %s in steady state. "+
		"This is without CPU time, and without reads that the page cache serves.", p.Hardware.Name,
		unit.Nanos(p.Hardware.Points[0].MeanNanos),
		doc.List(p.Points, func(q result.PredictedPoint) string {
			return unit.Nanos(*p.DeviceNanos(q)) + " at " + doc.ShortBytes(q.CacheBytes)
		}))
}

// ReadPrediction reads a folder that holds prediction.json.
func ReadPrediction(dir string) (*Prediction, error) {
	return output.ReadJSON(filepath.Join(dir, result.PredictionFile), schema.Prediction,
		func(p *Prediction) string { return p.Schema })
}

// transient is how far a run is from the steady state if it ended while its cache was still
// filling.
const transient = 0.02

// lead is the answer: what a warm cache costs, and which of the sizes a run of so many Gets
// would show another figure of.
func (p Prediction) lead() []string {
	say := func(of func(result.PredictedPoint) float64, points []result.PredictedPoint) string {
		return doc.List(points, func(q result.PredictedPoint) string {
			return fmt.Sprintf("%s at %s", unit.Significant(of(q), 3), doc.ShortBytes(q.CacheBytes))
		})
	}

	steady := func(q result.PredictedPoint) float64 { return q.SteadyState }
	run := func(q result.PredictedPoint) float64 { return q.BlockReadsPerGet }
	list := []string{
		"Block reads per Get in steady state, by cache: " + say(steady, p.Points) + ".",
	}
	filling := doc.Where(p.Points, func(q result.PredictedPoint) bool {
		return q.BlockReadsPerGet > (1+transient)*q.SteadyState
	})
	if len(filling) > 0 {
		list = append(list,
			fmt.Sprintf("A run of %s Gets after %s warm-up Gets ends while its cache still "+
				"fills: it would measure %s.",
				unit.Count(p.Gets), unit.Count(p.WarmupGets), say(run, filling)))
	}

	return append(list, p.timeSentence())
}

// Document says what Gets are predicted to read, and why.
func (p Prediction) Document() *doc.Document {
	lead := p.lead()
	page := &doc.Document{Title: "Statelab: what a Get is predicted to cost"}
	page.Answer("", lead[0])
	page.Advice = doc.Each(lead[1:], func(text string) doc.Statement {
		return doc.Statement{Text: text}
	})
	page.Cards = []doc.Card{
		{
			Name: "database",
			Facts: doc.Known([][2]string{
				{"source", p.Source},
				{"keys", unit.Count(p.Keys)},
				{"size", unit.Bytes(p.Database)},
				{"filters and top indexes (IP1)", unit.Bytes(p.Inflection.IP1.CacheBytes) +
					" in cache"},
				{"with all indexes (IP2)", unit.Bytes(p.Inflection.IP2.CacheBytes) + " in cache"},
			}),
			Brief: p.brief(),
		},
		{
			Name: "predicted run",
			Facts: doc.Known([][2]string{
				{"engine", p.Engine},
				{"profile", p.Profile},
				{"processors", unit.Count(p.Cores)},
				{"warm-up Gets", unit.Count(p.WarmupGets)},
				{"measured Gets", unit.Count(p.Gets)},
				{"negative lookups", doc.ShortPercent(100 * p.Missing)},
			}),
		}}

	page.Add("Block reads by cache size",
		doc.Block{
			Title:  "Block reads per Get",
			Method: "prediction.md",
			Chart:  p.curve(),
			Table:  p.table(),
			Note: "Steady state: a cache that has been in use for long. " +
				"Marked: the caches that hold IP1 and IP2" + besideMemtables(p.reserved()) + ".",
			Texts: p.explained(),
		})

	page.Add("Why",
		doc.Block{
			Title:  "Hit rate by block type",
			Method: "prediction.md",
			Chart:  p.hits(),
			Aside:  true,
			Table:  p.hitTable(),
			Note: "The share of accesses that the cache serves. Filters and top indexes are " +
				"asked for most often, so a cache holds them first. " +
				"The rates are those of this run, not of a steady state.",
		},
		doc.Block{
			Title:  "Levels",
			Detail: true,
			Note: "On disk unless it says in cache. A filter that no Get consults costs no " +
				"cache.",
			Method: "reads.md",
			Table:  levels(p.Levels),
		})

	how := "Random block accesses were drawn from the level table and replayed through a model " +
		"of the engine's cache."
	if p.Method == "trace" {
		how = "The accesses of the run's Gets were traced in the database itself and replayed " +
			"through a model of the engine's cache."
	}

	page.Add("How it was computed", doc.Block{
		Title:  "Command",
		Detail: true,
		Note:   how,
		Method: "prediction.md",
		Pre:    doc.Shell(p.Command),
	})

	return page
}

// thousandths prints reads per Get as they are predicted: neighbouring cache sizes can differ in
// the third decimal.
func thousandths(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// brief is what is predicted of, in one line.
func (p Prediction) brief() string {
	cores := fmt.Sprintf("%d cores", p.Cores)
	if p.Cores == 1 {
		cores = "1 core"
	}
	return fmt.Sprintf("%s: %s keys, %s, %s on %s", p.Source, unit.ShortCount(float64(p.Keys)),
		unit.Bytes(p.Database),
		p.Engine, cores)
}

// explained says what the columns are, and how much cache the metadata takes.
func (p Prediction) explained() []string {
	texts := []string{fmt.Sprintf("This run: after %s warm-up and %s measured Gets from an empty "+
		"cache, hit rates too. Lowest and highest: of the run with several random seeds (--seeds).",
		unit.Count(p.WarmupGets), unit.Count(p.Gets))}

	if p.Inflection.IP1.CacheBytes > 0 { // known
		texts = append(texts,
			fmt.Sprintf("In cache, filters and top-level indexes take %s (first inflection "+
				"point, IP1), "+
				"with all indexes %s (second, IP2)%s.", unit.Bytes(p.Inflection.IP1.CacheBytes),
				unit.Bytes(p.Inflection.IP2.CacheBytes), besideMemtables(p.reserved())))
	}

	return texts
}

// sizeColumns tell the rows of the tables of a curve apart: the cache and, of a known
// database, its share of that.
func sizeColumns[R any](size func(R) int64, database int64) []doc.Column[R] {
	columns := []doc.Column[R]{{
		Name:  "cache",
		Key:   true,
		Words: func(r R) string { return unit.Bytes(size(r)) },
	}}

	if database > 0 {
		columns = append(columns, doc.Column[R]{Name: "cache", Unit: "% of DB", Key: true,
			Value: func(r R) *float64 { return doc.Some(doc.PercentOf(size(r), database)) }})
	}

	return columns
}

func (p Prediction) sizes() []doc.Column[result.PredictedPoint] {
	return sizeColumns(func(q result.PredictedPoint) int64 { return q.CacheBytes }, p.Database)
}

func (p Prediction) table() doc.Table {
	of := func(
		name string, value func(result.PredictedPoint) float64,
	) doc.Column[result.PredictedPoint] {
		return doc.Figure(name, "/Get", thousandths, value)
	}

	end := func(
		name string, value func(result.PredictedPoint) float64,
	) doc.Column[result.PredictedPoint] {
		return doc.Optional(name, "/Get", thousandths, func(q result.PredictedPoint) *float64 {
			return doc.When(q.High > q.Low, value(q)) // of several seeds
		})
	}

	deviceTime := doc.Optional("device time", "", nil, p.DeviceNanos).In(doc.Micros).
		Named("device time", doc.Micros.Name+"/Get")
	return doc.TableOf(p.Points, nil,
		append(
			p.sizes(),
			of("steady state", func(q result.PredictedPoint) float64 { return q.SteadyState }),
			deviceTime,
			of("this run", func(q result.PredictedPoint) float64 { return q.BlockReadsPerGet }),
			end("lowest", func(q result.PredictedPoint) float64 { return q.Low }),
			end("highest", func(q result.PredictedPoint) float64 { return q.High }),
		)...)
}

// bySize are the points in ascending order of their caches.
func (p Prediction) bySize() []result.PredictedPoint {
	return slices.SortedFunc(slices.Values(p.Points), func(a, b result.PredictedPoint) int {
		return int(a.CacheBytes - b.CacheBytes)
	})
}

func (p Prediction) curve() *doc.Chart {
	if len(p.Points) < 2 {
		return nil
	}

	chart, panel := doc.OnePanel("predicted block reads per Get by cache size",
		doc.Sizes(float64(p.Database)), readsPerGet)
	points := p.bySize()
	steady := doc.Each(points, func(q result.PredictedPoint) doc.XY {
		return doc.XY{X: float64(q.CacheBytes), Y: q.SteadyState, Text: doc.PerGet(q.SteadyState)}
	})
	other := doc.CurveStyle(1)
	other.Dash, other.Band = doc.Dashed(), true
	panel.Line("this run", predictedIn(points, steady[0].X, steady[len(steady)-1].X), other)
	if !panel.Line("steady state", steady, doc.Style{Color: doc.Ink, Shape: doc.Circle}) {
		return nil
	}

	markInflection(chart, &p.Inflection, p.reserved())
	panel.Labels(steady)
	return chart
}

// reserved is what memtables take of the caches, in bytes, at the most.
func (p Prediction) reserved() (maximum int64) {
	for _, q := range p.Points {
		maximum = max(maximum, reserved(q.CacheBytes, q.BlockBytes))
	}
	return maximum
}

// types are those of which any point tells a hit rate.
func (p Prediction) types() []engine.BlockType {
	return doc.Where(stackOrder(), func(kind engine.BlockType) bool {
		return slices.ContainsFunc(p.Points, func(q result.PredictedPoint) bool {
			_, is := q.HitRate[kind.String()]
			return is
		})
	})
}

func (p Prediction) hits() *doc.Chart {
	if len(p.Points) < 2 {
		return nil
	}

	size := doc.Column[result.PredictedPoint]{Value: func(q result.PredictedPoint) *float64 {
		return doc.Some(float64(q.CacheBytes))
	}}
	return hitChart("predicted hit rate by cache size and block type",
		doc.Sizes(float64(p.Database)), p.types(),
		func(kind engine.BlockType) doc.XYs { return rateOf(kind).Against(size, p.bySize()) },
		&p.Inflection, p.reserved())
}

func rateOf(kind engine.BlockType) doc.Column[result.PredictedPoint] {
	return doc.Optional(typeLabel(kind), "%", nil, func(q result.PredictedPoint) *float64 {
		return doc.Times(doc.At(q.HitRate, kind.String()), 100)
	})
}

func (p Prediction) hitTable() doc.Table {
	return doc.TableOf(p.Points, nil, append(p.sizes(), doc.Each(p.types(), rateOf)...)...)
}

// compared is a point of a study or of ours, in one table.
type compared struct {
	engine, by, pageCache string
	threads               int
	kops, cpu, mean       subject.Published
	failed                string
}

// published puts a sweep by threads next to the studies of its engines.
func (s *Sweep) published() (out []doc.Block) {
	if varying := s.varied; !slices.Contains(varying, "threads") ||
		!slices.Contains(varying, "engine") || s.along() != "threads" {
		return nil
	}

	for _, study := range subject.Studies() {
		rows := s.comparedWith(study)
		if len(rows) == 0 {
			continue
		}

		published := func(name, unit string,
			of func(compared) subject.Published) doc.Column[compared] {
			return doc.Column[compared]{Name: name, Unit: unit, Words: func(c compared) string {
				p := of(c)
				if p.Unit == "" {
					return doc.None
				}

				text := doc.Number(p.Low)
				if p.High > p.Low {
					text += "-" + doc.Number(p.High)
				}

				return text
			}}
		}

		out = append(out, doc.Block{
			Title:  fmt.Sprintf("Published %s and %s figures", study.Of[0], study.Of[1]),
			Method: "comparing-engines.md",
			Texts: []string{"Theirs were measured by others on another machine (" + study.What +
				"): compare the shape, not the size."},
			Table: doc.TableOf(
				rows,
				func(c compared) string { return c.failed },
				doc.Words("cache", func(c compared) string { return c.pageCache }),
				doc.Column[compared]{
					Name:   "threads",
					Key:    true,
					Format: doc.Digits,
					Value:  func(c compared) *float64 { return doc.Some(float64(c.threads)) },
				},
				doc.Words("engine", func(c compared) string { return c.engine }),
				doc.Words("by", func(c compared) string { return c.by }),
				published("Kops", "/s", func(c compared) subject.Published { return c.kops }),
				published("mean", "us", func(c compared) subject.Published { return c.mean }),
				published("CPU", "%", func(c compared) subject.Published { return c.cpu }),
			),
		})
	}

	return out
}

// family is what a study calls an engine with its profile.
func family(engine string) string {
	name, _, _ := strings.Cut(engine, ":")
	return subject.Family(name)
}

// comparedWith are our points and the study's by cache, threads and engine; none unless
// both of its engines are in the sweep.
func (s *Sweep) comparedWith(study subject.Study) (rows []compared) {
	found := map[string]bool{}
	ours := func(figure float64, unit string) subject.Published {
		return subject.Published{Low: figure, Unit: unit}
	}
	for _, p := range s.Points {
		name := s.entrant(p)
		if !slices.Contains(study.Of[:], family(name)) {
			continue
		}

		found[family(name)] = true
		row := compared{engine: name, by: "here", threads: p.threads(), failed: failure(p)}
		if study.ByCache {
			row.pageCache = p.pageCache()
		}

		if f := p.Figures; p.Status == result.OK {
			row.kops, row.cpu = ours(f.OrZero(figure.GetsPerSecond)/1e3, "Kops/s"),
				ours(f.OrZero(figure.CPUPercent), "%")
			if f.ServiceNanos != nil {
				row.mean = ours(f.ServiceNanos.Mean/1e3, "us")
			}
		}

		rows = append(rows, row)
	}

	if len(found) < len(study.Of) {
		return nil
	}

	for _, p := range study.Points {
		rows = append(rows, compared{
			engine:    p.Engine,
			by:        "theirs",
			pageCache: p.PageCache,
			threads:   p.Threads,
			kops:      p.Kops,
			cpu:       p.CPU,
			mean:      p.Mean,
		})
	}

	slices.SortStableFunc(rows, func(a, b compared) int {
		return cmp.Or(cmp.Compare(a.pageCache, b.pageCache), cmp.Compare(a.threads, b.threads),
			cmp.Compare(family(a.engine), family(b.engine)))
	})

	return rows
}

func (p Point) pageCache() string {
	if mode := p.Axes["page-cache"]; mode != "" || p.Run == nil {
		return mode
	}
	return p.Run.PageCache
}
