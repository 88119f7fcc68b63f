package advise

import (
	"context"
	"math"
	"sync"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
)

func TestEnough(t *testing.T) {
	for _, c := range []struct {
		reads []float64
		limit float64
		want  int
	}{
		{[]float64{5, 3, 1}, 4, 1},
		{[]float64{5, 3, 1}, 3, 1},
		{[]float64{5, 3, 1}, 2, 2},
		{[]float64{5, 3, 1}, 6, 0},   // all of them
		{[]float64{5, 3, 1}, 0.9, 3}, // none
		{[]float64{1, 3, 1}, 2, 2},   // a dip is not enough: it must stay below
	} {
		var points []Place
		for _, reads := range c.reads {
			points = append(points, Place{BlockReadsPerGet: reads})
		}

		if got := enough(points, c.limit); got != c.want {
			t.Errorf("%v below %v: %d, want %d", c.reads, c.limit, got, c.want)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for bytes, want := range map[int64]int64{
		1: 1 << 10, 99 << 10: 99 << 10, 101 << 10: 110 << 10, 1331 << 10: 1400 << 10,
		10<<20 + 1: 11 << 20, 101 << 20: 110 << 20, 1331 << 20: 1400 << 20, 1400 << 20: 1400 << 20,
	} {
		if got := roundUp(bytes); got != want {
			t.Errorf("%d: %d, want %d", bytes, got, want)
		}
	}
}

func drawn(t *testing.T, change func(*Model)) (Curve, Model) {
	t.Helper()
	m := Model{
		Levels:      lsm.SteadyStateLevels(lsm.BenchKVDB(2_000_000)),
		Input:       predict.Input{Version: cachesim.PebbleV1, Cores: 2, Seeds: []uint64{1}},
		MemTables:   advice.MemTables{CacheShare: 8, Live: 4},
		RestReserve: func(int64) int64 { return predict.OpenReserve },
		NowBytes:    2 << 20,
	}

	change(&m)
	predictions := 0
	c, err := Draw(context.Background(), m, func(done int) { predictions = done })
	if err != nil {
		t.Fatal(err)
	}

	if predictions < gridPoints {
		t.Errorf("told of %d predictions", predictions)
	}

	return c, m
}

// random is drawn once: it takes seconds.
var random struct {
	sync.Once
	Curve
	Model
}

func ofRandomKeys(t *testing.T) (Curve, Model) {
	random.Do(func() {
		random.Curve, random.Model = drawn(t, func(m *Model) { m.MaxBytes = 3 << 20 })
	})
	return random.Curve, random.Model
}

func TestDraw(t *testing.T) {
	testring.Outer(t, "it simulates a curve of every cache size")
	c, m := ofRandomKeys(t)
	inflection := lsm.Inflect(m.Levels, nil, 0)
	if len(c.Points) != gridPoints+2 || c.Points[0].BlockCacheBytes > inflection.IP1.CacheBytes/2 ||
		c.Points[gridPoints+1].BlockCacheBytes < 39*inflection.IP2.CacheBytes/10 {
		t.Errorf("from %d to %d for blocks, IP1 %d, IP2 %d",
			c.Points[0].BlockCacheBytes, c.Points[gridPoints+1].BlockCacheBytes,
			inflection.IP1.CacheBytes, inflection.IP2.CacheBytes)
	}

	if c.Floor < 0.99 || c.Floor > 1.1 {
		t.Errorf("floor %.3f", c.Floor)
	}

	for name, q := range map[string]struct {
		p     *Place
		limit float64
	}{
		"below 2":   {c.Below2, 2},
		"below 1.1": {c.Below1_1, 1.1},
		"near":      {c.Near, (1 + nearFloor) * c.Floor},
		"flat":      {c.Flat, (1 + flatFloor) * c.Floor},
	} {
		if q.p == nil || q.p.BlockReadsPerGet > 1.01*q.limit {
			t.Errorf("%s: %+v", name, q.p)
			continue
		}
	}

	// The study's claim: beyond IP2 a Get costs its data block alone.
	if near := c.Near.BlockCacheBytes; near < inflection.IP1.CacheBytes ||
		near > 3*inflection.IP2.CacheBytes/2 {
		t.Errorf("recommended %d for blocks, IP1 %d, IP2 %d", near, inflection.IP1.CacheBytes,
			inflection.IP2.CacheBytes)
	}

	if rest := c.Near.AtRest.OrZero(); rest == 0 || rest > c.Near.BlockReadsPerGet ||
		c.Now.AtRest.OrZero() > c.Now.BlockReadsPerGet-0.1 {
		t.Errorf("at rest: recommended %+v, now %+v", c.Near, c.Now)
	}

	if c.AtMaxBytes == nil || c.AtMaxBytes.CacheBytes != 3<<20 ||
		c.AtMaxBytes.BlockReadsPerGet <= c.Near.BlockReadsPerGet {
		t.Errorf("inside 3 MiB: %+v", c.AtMaxBytes)
	}

	if c.WithFilters != nil {
		t.Error("these levels have filters")
	}

	if saved := c.Now.BlockReadsPerGet - c.Near.BlockReadsPerGet; saved < 0.2 {
		t.Errorf("2 MiB: %.2f, recommended: %.2f", c.Now.BlockReadsPerGet, c.Near.BlockReadsPerGet)
	}
}

// TestKnees: each knee is nearly the smallest cache that does, whatever the present cache is.
func TestKnees(t *testing.T) {
	cost := func(cacheBytes, reservedBytes int64) (Cost, error) {
		return Cost{
			BlockReadsPerGet: 1 + 4/(1+math.Pow(float64(cacheBytes-reservedBytes)/(2<<20), 6)),
			DataBlocksPerGet: 1,
		}, nil
	}

	c, _ := drawn(t, func(m *Model) { m.Cost = cost })
	d := drawer{
		ctx: context.Background(),
		Model: Model{Cost: cost, MemTables: advice.MemTables{CacheShare: 8, Live: 4},
			RestReserve: func(int64) int64 { return 0 }},
		tell: func(int) {},
	}

	last := int64(0)
	for _, q := range []struct {
		p     *Place
		limit float64
	}{{c.Below2, 2}, {c.Below1_1, 1.1}, {c.Near, 1.05}, {c.Flat, 1.02}} {
		smaller, _ := d.at(87 * q.p.CacheBytes / 100) // two digits are up to a tenth apart
		if d.err != nil || q.p.BlockReadsPerGet > q.limit || smaller.BlockReadsPerGet <= q.limit ||
			q.p.CacheBytes <= last {
			t.Errorf("at most %v: %+v, but %+v; the one before has %d: %v", q.limit, *q.p, smaller,
				last, d.err)
		}

		last = q.p.CacheBytes
	}

	other, _ := drawn(t, func(m *Model) { m.Cost, m.NowBytes = cost, 7<<20 })
	none, _ := drawn(t, func(m *Model) { m.Cost, m.NowBytes = cost, 0 })
	for _, b := range []Curve{other, none} {
		if *b.Near != *c.Near || *b.Flat != *c.Flat || *b.Below2 != *c.Below2 ||
			*b.Below1_1 != *c.Below1_1 || *b.Doubled != *c.Doubled {
			t.Errorf("beside a cache of %d: %+v, of %d: %+v", b.Now.CacheBytes, b.Near,
				c.Now.CacheBytes, c.Near)
		}
	}

	if none.Now != (Place{}) || len(none.Points) != gridPoints+1 {
		t.Errorf("without a present cache: %+v, %d points", none.Now, len(none.Points))
	}
}

// TestDrawOfAList: blocks that ask for few of a database's blocks, and again and again, need a
// cache for those alone.
func TestDrawOfAList(t *testing.T) {
	list := &List{Bytes: 1 << 20, FirstReads: 0.1}
	c, m := drawn(t, func(m *Model) {
		m.List, m.MemTables = list, advice.MemTables{}
		m.RestReserve = func(int64) int64 { return 0 }
		m.Cost = func(cacheBytes, reservedBytes int64) (Cost, error) {
			missed := max(0, 1-float64(cacheBytes-reservedBytes)/float64(list.Bytes))
			return Cost{BlockReadsPerGet: list.FirstReads + 2*missed, DataBlocksPerGet: 1}, nil
		}
	})

	if c.Floor != list.FirstReads || c.List != list {
		t.Errorf("floor %v of %+v", c.Floor, c.List)
	}

	// 0.05 reads above the floor, and room for the interpolation.
	if near, flat := c.Near.CacheBytes, c.Flat.CacheBytes; near < 97*list.Bytes/100 ||
		near > 5*list.Bytes/4 || flat < near || flat > 5*list.Bytes/4 {
		t.Errorf("near %d, flat %d: all that the list asks for takes %d", near, flat, list.Bytes)
	}

	if testring.All() { // it takes seconds to draw a second curve
		if random, _ := ofRandomKeys(t); random.Near.CacheBytes < 2*c.Near.CacheBytes {
			t.Errorf("random keys of the same database: %+v", random.Near)
		}
	}

	if last := c.Points[len(c.Points)-1].CacheBytes; last > 4*list.Bytes ||
		last < 39*list.Bytes/10 || c.Now.CacheBytes != m.NowBytes {
		t.Errorf("the curve ends at %d", last)
	}
}

func TestDrawOfLevelsWithoutFilters(t *testing.T) {
	if testing.Short() {
		t.Skip("it draws a second curve")
	}

	c, _ := drawn(t, func(m *Model) {
		m.MemTables = advice.MemTables{}
		m.Levels = append([]engine.Level(nil), m.Levels...)
		for i := range m.Levels {
			l := &m.Levels[i]
			l.FilterConsulted, l.FilterBytes, l.FilterCacheBytes = false, 0, 0
		}
	})

	if c.Floor < 1.5 {
		t.Errorf("floor %.2f: every level's data block is read", c.Floor)
	}

	if c.WithFilters == nil || c.WithFilters.BlockReadsPerGet > 0.95*c.Near.BlockReadsPerGet {
		t.Errorf("without %+v, with filters %+v", c.Near, c.WithFilters)
	}
}
