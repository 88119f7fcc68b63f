package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// design is a side that is simulated: how its figures vary from load to load and, times and rates
// alone, from repeat to repeat, as shares.
type design struct {
	loads, repeats int
	factor         float64 // of all figures
	between, noise float64
}

// side measures the design. What reads more blocks is as much slower.
func (d design) side(rng *rand.Rand, name string) Side {
	var runs []*result.Run
	of := make([]float64, d.loads)
	for i := range of {
		of[i] = d.factor * (1 + d.between*rng.NormFloat64())
	}

	for i := range d.loads * d.repeats {
		cost := func() float64 { return of[i%d.loads] * (1 + d.noise*rng.NormFloat64()) }
		runs = append(runs, made(1000, onLoad(name, i%d.loads), func(r *result.Run) {
			r.Figures.Record(figure.BlockReadsPerGet, 2.5*of[i%d.loads])
			r.Figures.Record(figure.DeviceReadsPerGet, 2.4*cost())
			r.Figures.Record(figure.GetsPerSecond, 1000/cost())
			r.Figures.Record(figure.CPUTimePerGet, 1e6*cost())
			r.Figures.ServiceNanos = &result.Latency{P50: int64(1e6 * cost()),
				P99: int64(3e6 * cost())}
		}))
	}

	return Side{Name: name, Groups: []Group{{Axes: map[string]string{}, Runs: runs,
		All: len(runs)}}}
}

// onLoad is a run on a database that statelab loaded for an engine.
func onLoad(engine string, number int) func(*result.Run) {
	return func(r *result.Run) {
		r.Engine.Name, r.Database.Written = engine, "statelab"
		r.Database.Dir = fmt.Sprintf("databases/%s-load-%d", engine, number+1)
		r.Database.Bytes = int64(1e6 + 1000*number + len(engine))
		r.Workload.LoadSeed = uint64(number)
	}
}

// TestLoads: where loads are all that varies, at most 5 % of comparisons of equal sides call any
// figure different, and a difference of 3 % is found in at least 80 % of comparisons with as many
// loads as compare asks for. Fewer do not find it so often.
func TestLoads(t *testing.T) {
	const comparisons = 200
	rng := rand.New(rand.NewPCG(1, 2))
	certain := func(loads int, factor, noise float64) (n int) {
		a := design{loads: loads, repeats: 2, factor: 1, between: 0.01, noise: noise}
		b := a
		b.factor = factor
		for range comparisons {
			c := compared(t, a.side(rng, "a"), b.side(rng, "b"))
			if slices.ContainsFunc(c.Pairs[0].Figures, Figure.Certain) {
				n++
			}
		}
		return n
	}

	for _, noise := range []float64{0, 0.01} {
		alarms := certain(difference.DefaultLoads, 1, noise)
		t.Logf("equal sides, noise %v: %d of %d called different", noise, alarms, comparisons)
		if alarms > comparisons*5/100 {
			t.Errorf("noise %v: %d of %d comparisons called equal sides different", noise, alarms,
				comparisons)
		}
	}

	enough := func(loads int) bool {
		found := certain(loads, 1.03, 0)
		t.Logf("3 %% more with %d loads: %d of %d found", loads, found, comparisons)
		return found >= comparisons*80/100
	}

	if !enough(difference.DefaultLoads) || enough(difference.DefaultLoads-1) {
		t.Errorf("%d is not the least number of loads that finds 3 %%", difference.DefaultLoads)
	}
}

// reading is a side whose runs read the databases of others.
func reading(side Side, name string, change func(*result.Run)) Side {
	for _, run := range side.Groups[0].Runs {
		change(run)
	}
	side.Name = name
	return side
}

// TestSharedLoads: a setting that is not stored is compared load by load, so what loads differ by
// does not hide a small change.
func TestSharedLoads(t *testing.T) {
	of := func(factor float64, name string) Side {
		rng := rand.New(rand.NewPCG(3, 4)) // the same databases
		return reading(design{loads: 4, repeats: 1, factor: 1, between: 0.1}.side(rng, "e"), name,
			func(r *result.Run) {
				r.Cache.Effective = int64(1e6 * factor)
				r.Figures.Record(figure.BlockReadsPerGet,
					factor*r.Figures.OrZero(figure.BlockReadsPerGet))
			})
	}

	c := compared(t, of(1, "a"), of(1.03, "b"))
	f := find(t, c, figure.BlockReadsPerGet.Key)
	if f.Method != ByLoads || f.Verdict != difference.Differs || f.High-f.Low > 1e-6 {
		t.Errorf("%+v", f)
	}

	if text := c.Pairs[0].Sentence(f); !strings.Contains(text, "4 loads that both sides read") {
		t.Error(text)
	}
}

// TestOneLoadEach: exact counts of two databases stay exact counts of two databases, and the answer
// begins with that. Of several loads it says what the interval comes from.
func TestOneLoadEach(t *testing.T) {
	c := compared(t, group("a", 1, 1000, onLoad("pebble1", 0)),
		group("b", 1, 1000, onLoad("pebble2", 0), extraRead))
	if f := find(t, c, figure.BlockReadsPerGet.Key); f.Method != Exact || f.Parts != nil ||
		f.Verdict != difference.Changed {
		t.Errorf("%+v", f)
	}

	const first = "This rests on one load of each side"
	if text := c.Pairs[0].lead(); !strings.HasPrefix(text, first) {
		t.Error(text)
	}

	same := compared(t, group("a", 1, 1000, onLoad("pebble1", 0)),
		group("b", 1, 1200, onLoad("pebble1", 0)))
	if text := same.Pairs[0].lead(); strings.Contains(text, "load") {
		t.Errorf("one database: %s", text)
	}

	// Whether a change that certainly is there exceeds the margin is not decided by the seed.
	for _, factor := range []float64{1.019, 1.021} {
		near := design{loads: 6, repeats: 1, factor: 1, between: 0.001}
		a, b := near.side(rand.New(rand.NewPCG(7, 8)), "a"), near
		b.factor = factor
		c := compared(t, a, b.side(rand.New(rand.NewPCG(9, 10)), "b"))
		const about = "Worse, perhaps by less than 2 %: block reads per Get"
		if text := c.Pairs[0].lead(); !strings.Contains(text, about) {
			t.Errorf("%v: %s", factor, text)
		}
	}

	rng := rand.New(rand.NewPCG(5, 6))
	wide := design{loads: 3, repeats: 2, factor: 1, between: 0.02, noise: 0.0001}
	c = compared(t, wide.side(rng, "a"), wide.side(rng, "b"))
	f := find(t, c, figure.GetsPerSecond.Key)
	text := c.Pairs[0].Sentence(f)
	if f.Verdict != difference.CannotTell || f.NeedsLoads <= 3 || c.RepeatsHelp() ||
		!strings.Contains(text, "mostly between loads: ") ||
		!strings.Contains(text, "more repeats will not help") {
		t.Errorf("%s: %+v", text, f)
	}

	wide.repeats, wide.between, wide.noise = 4, 0.0001, 0.03
	c = compared(t, wide.side(rng, "a"), wide.side(rng, "b"))
	f = find(t, c, figure.GetsPerSecond.Key)
	if text := c.Pairs[0].Sentence(f); f.Needs <= 12 || !c.RepeatsHelp() ||
		!strings.Contains(text, "mostly between repeats: ") {
		t.Errorf("%s: %+v", text, f)
	}

	c = compared(t, wide.side(rng, "a"), group("b", 6, 1000, onLoad("b", 0)))
	f = find(t, c, figure.BlockReadsPerGet.Key)
	if text := c.Pairs[0].Sentence(f); f.Verdict != difference.CannotTell || !f.few ||
		!strings.Contains(text, "--loads 6") {
		t.Errorf("%s: %+v", text, f)
	}
}
