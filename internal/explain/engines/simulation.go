package engines

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Simulation is what simulate --json prints, and a folder's simulation.json.
type Simulation struct {
	Schema  string           `json:"schema"`
	Started time.Time        `json:"started,omitzero"`  // of a folder
	Command []string         `json:"command,omitempty"` // of a folder
	Trace   trace.Header     `json:"trace"`
	Gets    int64            `json:"gets"`
	Points  []SimulatedPoint `json:"points"` // by policy, then in the order of --cache
}

// SimulatedPoint is a policy with a cache size.
type SimulatedPoint struct {
	Policy     string `json:"policy"`
	CacheBytes int64  `json:"cache_bytes"`

	ReadsPerGet float64            `json:"-"`
	ByType      map[string]float64 `json:"-"`
	HitRate     map[string]float64 `json:"-"`
	// Error is half the 95 % interval of ReadsPerGet; absent where all blocks were simulated.
	Error figure.Value `json:"-"`
}

func (p *SimulatedPoint) members() figure.Members {
	reads := figure.BlockReadsPerGet

	return figure.Members{reads: &p.ReadsPerGet, reads.ByType(): &p.ByType, reads.Error(): &p.Error,
		figure.HitRate: &p.HitRate}
}

// MarshalJSON writes the figures by their keys.
func (p SimulatedPoint) MarshalJSON() ([]byte, error) {
	type plain SimulatedPoint

	return p.members().Marshal(plain(p))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *SimulatedPoint) UnmarshalJSON(text []byte) error {
	type plain SimulatedPoint

	return p.members().Unmarshal(text, (*plain)(p))
}

// ReadSimulation reads a folder that holds simulation.json.
func ReadSimulation(dir string) (*Simulation, error) {
	return output.ReadJSON(filepath.Join(dir, result.SimulationFile), schema.Simulation,
		func(s *Simulation) string { return s.Schema })
}

func (s Simulation) policies() []string {
	return doc.Distinct(s.Points, func(p SimulatedPoint) string { return p.Policy })
}

// of are the points of a policy in ascending order of their caches.
func (s Simulation) of(policy string) []SimulatedPoint {
	points := doc.Where(s.Points, func(p SimulatedPoint) bool { return p.Policy == policy })
	slices.SortStableFunc(points, func(a, b SimulatedPoint) int {
		return cmp.Compare(a.CacheBytes, b.CacheBytes)
	})
	return points
}

// answer is the curve of one policy in words, or which of several reads least.
func (s Simulation) answer() string {
	names := s.policies()
	if len(names) == 0 {
		return "Nothing was simulated."
	}

	if len(names) == 1 {
		return fmt.Sprintf("Block reads per Get with %s, by cache: %s.", names[0],
			doc.List(s.of(names[0]), func(p SimulatedPoint) string {
				return fmt.Sprintf("%s at %s", doc.PerGet(p.ReadsPerGet),
					doc.ShortBytes(p.CacheBytes))
			}))
	}

	var minimum []SimulatedPoint
	for i, p := range s.of(names[0]) {
		for _, name := range names[1:] {
			if q := s.of(name)[i]; q.ReadsPerGet < p.ReadsPerGet {
				p = q
			}
		}

		minimum = append(minimum, p)
	}

	return "Fewest block reads per Get, by cache: " +
		doc.List(minimum, func(p SimulatedPoint) string {
			return fmt.Sprintf("%s with %s at %s", doc.PerGet(p.ReadsPerGet), p.Policy,
				doc.ShortBytes(p.CacheBytes))
		}) + "."
}

// Document says what caches of each policy and size would read.
func (s Simulation) Document() *doc.Document {
	page := &doc.Document{Title: "Statelab: block reads of simulated caches"}
	page.Answer("", s.answer())
	sampled := ""
	if slices.ContainsFunc(s.Points, func(p SimulatedPoint) bool { return p.Error.IsKnown() }) {
		sampled = "from a sample of the blocks: each figure has a 95 % interval"
	}

	if n := s.Trace.SampledBlocks; n > 1 {
		sampled = fmt.Sprintf("one block in %d was traced: caches are simulated %d times smaller, "+
			"and each figure has a 95 %% interval", n, n)
	}

	for _, sentence := range s.Trace.NotChecked {
		page.Warnings = append(page.Warnings, doc.Warning{Text: "not checked: " + sentence})
	}

	page.Cards = []doc.Card{{
		Name: "trace",
		Facts: doc.Known([][2]string{
			{"engine", s.Trace.Engine + " " + s.Trace.EngineVersion},
			{"profile", s.Trace.Profile},
			{"Gets", unit.Count(s.Gets)},
			{"keys", s.Trace.Keys},
			{"seed", fmt.Sprint(s.Trace.Seed)},
			{"sample", sampled},
		}),
		Brief: unit.Count(s.Gets) + " Gets of " + s.Trace.Engine,
	}}

	page.Add("Block reads by cache size",
		doc.Block{
			Title:  "Block reads per Get",
			Method: "simulation.md",
			Chart:  s.curve(),
			Table:  s.table(),
			Note: "clockpro1 and clockpro2 behave as the caches of Pebble v1 and v2; the other " +
				"policies show what a different cache would read.",
		})

	var why []doc.Block
	for _, name := range s.policies() {
		title := "Block reads by type"
		if len(s.policies()) > 1 {
			title += ", " + name
		}
		why = append(why, doc.Block{Title: title, Method: "simulation.md", Chart: s.byType(name)})
	}

	page.Add("Why", append(why,
		doc.Block{Title: "Block reads by type of block", Table: s.readsByType()},
		doc.Block{Title: "Hit rate by type of block", Table: s.hitRates()})...)
	page.Add("How it was computed", doc.Block{
		Title:  "Command",
		Detail: true,
		Method: "simulation.md",
		Pre:    doc.Shell(s.Command),
		Note: "A trace lists the blocks that each Get asks for. It does not depend on the cache, " +
			"so one trace is replayed through every policy and size.",
	})

	return page
}

func (s Simulation) curve() *doc.Chart {
	chart, panel := doc.OnePanel("block reads per Get by cache size and policy", doc.Sizes(0),
		readsPerGet)
	names := s.policies()
	for i, name := range names[:min(len(names), doc.MaxLines)] { // the table has the rest
		xys := doc.Each(s.of(name), func(p SimulatedPoint) doc.XY {
			return doc.XY{X: float64(p.CacheBytes), Y: p.ReadsPerGet}
		})
		panel.Line(name, xys, doc.CurveStyle(i))
	}

	if low, high := chart.SpanX(); !(high > low) {
		return nil
	}

	return chart
}

// byType stacks the reads of a policy.
func (s Simulation) byType(policy string) *doc.Chart {
	points := s.of(policy)
	if len(points) < 2 {
		return nil
	}

	return stackedTypes(
		"block reads per Get by cache size and block type, "+policy,
		"cache size",
		points,
		func(p SimulatedPoint) string { return doc.ShortBytes(p.CacheBytes) },
		func(p SimulatedPoint) map[string]float64 { return p.ByType },
	)
}

type simulated = doc.Column[SimulatedPoint]

func (s Simulation) columns() []simulated {
	return append(
		[]simulated{doc.Words("policy", func(p SimulatedPoint) string { return p.Policy })},
		sizeColumns(func(p SimulatedPoint) int64 { return p.CacheBytes }, 0)...,
	)
}

func (s Simulation) table() doc.Table {
	return doc.TableOf(s.Points, nil, append(s.columns(),
		doc.Figure("block reads", "/Get", tenThousandths, func(p SimulatedPoint) float64 {
			return p.ReadsPerGet
		}),
		doc.Optional("+-", "95 %", tenThousandths,
			func(p SimulatedPoint) *float64 { return p.Error.Pointer() }),
		doc.Figure("hit rate", "%", hundredths, func(p SimulatedPoint) float64 {
			return 100 * p.HitRate["all"]
		}))...)
}

// tenThousandths prints reads per Get as they are simulated: policies can differ in the fourth
// decimal.
func tenThousandths(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

func hundredths(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// readsByType are the block reads of each type.
func (s Simulation) readsByType() doc.Table {
	columns := s.columns()
	for _, kind := range stackOrder() {
		columns = append(columns,
			doc.Optional(typeLabel(kind), "/Get", tenThousandths, func(p SimulatedPoint) *float64 {
				return doc.At(p.ByType, kind.String())
			}))
	}
	return doc.TableOf(s.Points, nil, columns...)
}

// hitRates are the shares of accesses of each type that the cache serves.
func (s Simulation) hitRates() doc.Table {
	columns := s.columns()
	for _, kind := range stackOrder() {
		columns = append(columns,
			doc.Optional(typeLabel(kind), "%", hundredths, func(p SimulatedPoint) *float64 {
				return doc.Times(doc.At(p.HitRate, kind.String()), 100)
			}))
	}
	return doc.TableOf(s.Points, nil, columns...)
}
