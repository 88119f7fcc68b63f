package advise

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/result/figure"
)

// Model is what a curve is drawn from.
type Model struct {
	Levels    []engine.Level
	Values    *engine.Values // outside the tables; then Cost must be there
	Input     predict.Input  // its levels, caches, reserve and Gets are Draw's
	MemTables advice.MemTables
	// what memtables take of the cache of an open database at rest
	RestReserve func(cacheBytes int64) int64
	NowBytes    int64 // the cache the node runs; 0: none is known
	MinBytes    int64 // the smallest cache the client takes
	MaxBytes    int64 // the largest cache that is to be had; 0: any
	// Cost is what a Get costs with a cache of which memtables take reserved bytes,
	// worked out from the database itself; nil: predict's level model.
	Cost func(cacheBytes, reservedBytes int64) (Cost, error)
	// List is whose Gets cost that; nil: uniformly random ones.
	List *List
}

// Cost of a Get once the cache has settled.
type Cost struct {
	BlockReadsPerGet float64
	DataBlocksPerGet float64 // needed, cached or not
}

// Place is a cache size with what a Get costs there, in a node that has run for
// long.
type Place struct {
	CacheBytes      int64 `json:"cache_bytes"`
	BlockCacheBytes int64 `json:"block_cache_bytes"` // of CacheBytes, while the node writes

	BlockReadsPerGet float64 `json:"-"`
	// AtRest is the figure while nothing is written; absent on most of the curve.
	AtRest figure.Value `json:"-"`
}

func (p *Place) members() figure.Members {
	return figure.Members{figure.BlockReadsPerGet: &p.BlockReadsPerGet,
		figure.BlockReadsPerGet.AtRest(): &p.AtRest}
}

// MarshalJSON writes the figures by their keys.
func (p Place) MarshalJSON() ([]byte, error) {
	type plain Place

	return p.members().Marshal(plain(p))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Place) UnmarshalJSON(text []byte) error {
	type plain Place

	return p.members().Unmarshal(text, (*plain)(p))
}

// Curve is a database's cost by cache size with the sizes that answer
// questions, none of which depends on Now. A question that no size of the curve answers is nil.
type Curve struct {
	Points []Place // by cache size; Now and Near are among them
	// Floor is the block reads that no cache much smaller than the database saves: the data blocks
	// of a Get; of an access list, the blocks that none of its Gets has asked for before.
	Floor      float64
	WholeBytes int64 // a cache that holds every block of the database

	Now        Place  // zero: no present cache is known
	Below2     *Place // the smallest with fewer reads
	Below1_1   *Place
	Near       *Place // the smallest within nearFloor of the floor: what is recommended
	Flat       *Place // the smallest within flatFloor
	Doubled    *Place // twice Flat
	AtMaxBytes *Place // Model.MaxBytes, where that is less than Near
	Whole      *Place // WholeBytes, where Model.MaxBytes is as much
	// WithFilters is Flat of the same tables with filters, where levels lack them.
	WithFilters *Place

	// TracedGets are the Gets the curve was worked out from; 0: from the level model.
	TracedGets int
	List       *List // whose Gets they are; nil: uniformly random
}

// List is an access list, or a trace, that the curve is drawn for.
type List struct {
	Name       string `json:"name"`
	KeyScheme  string `json:"key_scheme"`  // "": it is a trace
	Gets       uint64 `json:"gets"`        // that count
	WarmupGets uint64 `json:"warmup_gets"` // before those
	Bytes      int64  `json:"cache_bytes"` // of the blocks that they ask for

	// FirstReads are of blocks that no Get before has asked for, by a Get that counts: no cache
	// saves them.
	FirstReads float64 `json:"-"`
}

func (l *List) members() figure.Members {
	return figure.Members{figure.BlockReadsPerGet.First(): &l.FirstReads}
}

// MarshalJSON writes the figures by their keys.
func (l List) MarshalJSON() ([]byte, error) {
	type plain List

	return l.members().Marshal(plain(l))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *List) UnmarshalJSON(text []byte) error {
	type plain List

	return l.members().Unmarshal(text, (*plain)(l))
}

// whose names the Gets.
func (l *List) whose() string {
	if l.KeyScheme == "" {
		return "of the trace"
	}
	return "of the listed blocks"
}

// Above the floor, as shares of the data blocks of a Get. Of uniformly random Gets these are the
// floor.
const (
	nearFloor = 0.05
	flatFloor = 0.02
)

// steadyGets are played before the search for the steady state begins, which
// goes on by twice as many each time.
func steadyGets(levels []engine.Level) uint64 {
	var keys int64
	for _, l := range levels {
		keys += l.Keys
	}
	return uint64(min(max(keys/50, 50_000), 200_000))
}

// gridPoints cover the curve from IP1/4 to four times IP2.
const gridPoints = 10

// Draw predicts the curve. tell is called with how many predictions are done.
func Draw(ctx context.Context, m Model, tell func(done int)) (Curve, error) {
	d := drawer{ctx: ctx, Model: m, tell: tell}
	d.Input.Levels, d.Input.Gets, d.Input.WarmupGets = m.Levels, steadyGets(m.Levels), 0
	curve := d.draw()
	if d.err != nil {
		return Curve{}, fmt.Errorf("draw the curve: %w", d.err)
	}
	return curve, nil
}

type drawer struct {
	Model
	ctx  context.Context
	tell func(done int)
	done int
	err  error // the first; after it nothing is predicted, and all costs are 0
}

func (d *drawer) draw() (c Curve) {
	data := 0.0
	for _, blockBytes := range grid(d.Levels, d.Values, d.List) {
		var p Place
		p, data = d.at(d.MemTables.Total(blockBytes))
		c.Points = append(c.Points, p)
	}

	c.Floor = data
	if c.List = d.List; c.List != nil {
		c.Floor = c.List.FirstReads
	}

	c.WholeBytes = d.MemTables.Total(wholeBytes(d.Levels, d.Values))
	tried := slices.Clone(c.Points)
	for _, question := range []struct {
		answer **Place
		limit  float64
	}{
		{&c.Below2, 2},
		{&c.Below1_1, 1.1},
		{&c.Near, c.Floor + nearFloor*data},
		{&c.Flat, c.Floor + flatFloor*data},
	} {
		if *question.answer = d.smallest(&tried, question.limit); *question.answer != nil {
			**question.answer = d.rest(**question.answer)
		}
	}

	if c.Near != nil {
		c.Points = insert(c.Points, *c.Near)
	}

	if d.NowBytes > 0 {
		c.Now = d.full(d.NowBytes)
		c.Points = insert(c.Points, c.Now)
	}

	if c.Flat != nil {
		p, _ := d.at(2 * c.Flat.CacheBytes)
		c.Doubled = &p
	}

	if d.MaxBytes > 0 && (c.Near == nil || d.MaxBytes < c.Near.CacheBytes) {
		p := d.full(d.MaxBytes)
		c.AtMaxBytes = &p
	}

	if d.MaxBytes >= c.WholeBytes && d.MaxBytes > 0 {
		p := d.full(c.WholeBytes)
		c.Whole = &p
	}

	c.WithFilters = d.withFilters(c.Flat)
	return c
}

// withFilters is flat with filters in the levels that lack them: what the level
// model says of the change, applied to what is known of the database as it is.
func (d *drawer) withFilters(flat *Place) *Place {
	filtered, changed := withFilters(d.Levels, d.Input.Version.BlockCharge())
	if !changed || flat == nil || d.List != nil || d.Values != nil {
		return nil
	}

	model := *d
	model.Cost = nil
	without, _ := model.at(flat.CacheBytes)
	model.Input.Levels = filtered
	with, _ := model.at(flat.CacheBytes + d.MemTables.Total(filterBytes(filtered)) -
		d.MemTables.Total(0))
	with.BlockReadsPerGet *= flat.BlockReadsPerGet / without.BlockReadsPerGet
	d.err = model.err
	return &with
}

// insert keeps points in the order of their caches.
func insert(points []Place, p Place) []Place {
	points = append(points, p)
	slices.SortStableFunc(points, func(a, b Place) int {
		return cmp.Compare(a.CacheBytes, b.CacheBytes)
	})
	return points
}

// OnlyLevels refuses a database, or a table of one, that the model of its levels would leave a part
// of out; dir is where it is.
func OnlyLevels(dir string, values *engine.Values) error {
	if values == nil || values.Bytes == 0 {
		return nil
	}
	return engine.Fail(engine.CodeUnsupported, "%s keeps %s of values outside its tables; the "+
		"sizes of its levels do not tell what Gets read of them",
		dir, unit.Bytes(values.Bytes)).WithRemedy(failure.Measure, dir)
}

// MaxDrawn is the largest block cache of the grid.
func MaxDrawn(levels []engine.Level, values *engine.Values) int64 {
	sizes := grid(levels, values, nil)
	return sizes[len(sizes)-1]
}

// grid are the block caches the curve is drawn through: of an access list, up to what surely holds
// all its blocks.
func grid(levels []engine.Level, values *engine.Values, list *List) []int64 {
	const minimum = 256 << 10 // below, not one block of a kind fits a shard
	inflection := lsm.Inflect(levels, values, 0)
	low := max(inflection.IP1.CacheBytes/4, minimum)
	high := max(4*inflection.IP2.CacheBytes, 4*low)
	if list != nil {
		high = max(4*low, 4*list.Bytes) // shards fill unevenly
	}

	step := math.Pow(float64(high)/float64(low), 1/float64(gridPoints-1))
	sizes := make([]int64, gridPoints)
	for i := range sizes {
		sizes[i] = int64(float64(low) * math.Pow(step, float64(i)))
	}

	return sizes
}

// wholeBytes is what a cache needs to hold all blocks that Gets ask for, with a
// tenth on top: shards fill unevenly.
func wholeBytes(levels []engine.Level, values *engine.Values) (bytes int64) {
	if values != nil {
		bytes = values.CacheBytes + values.IndexCacheBytes
	}

	for _, l := range levels {
		bytes += l.DataCacheBytes + l.IndexCacheBytes + l.TopIndexCacheBytes
		if l.FilterConsulted {
			bytes += l.FilterCacheBytes
		}
	}

	return bytes + bytes/10
}

// at predicts a place while the node writes.
func (d *drawer) at(cacheBytes int64) (p Place, floor float64) {
	reserved := max(d.MemTables.Reserved(cacheBytes), min(d.RestReserve(cacheBytes), cacheBytes))
	cost := d.cost(cacheBytes, reserved)
	return Place{
		CacheBytes:       cacheBytes,
		BlockCacheBytes:  cacheBytes - reserved,
		BlockReadsPerGet: cost.BlockReadsPerGet,
	}, cost.DataBlocksPerGet
}

// rest adds what a Get costs at p while nothing is written.
func (d *drawer) rest(p Place) Place {
	p.AtRest = figure.Known(p.BlockReadsPerGet)
	if rest := min(d.RestReserve(p.CacheBytes),
		p.CacheBytes); rest < p.CacheBytes-p.BlockCacheBytes {
		p.AtRest = figure.Known(d.cost(p.CacheBytes, rest).BlockReadsPerGet)
	}
	return p
}

// full predicts a place while the node writes and at rest.
func (d *drawer) full(cacheBytes int64) Place {
	p, _ := d.at(cacheBytes)
	return d.rest(p)
}

func (d *drawer) cost(cacheBytes, reserved int64) (c Cost) {
	if d.err != nil {
		return c
	}

	if d.Cost != nil {
		c, d.err = d.Cost(cacheBytes, reserved)
	} else {
		c, d.err = d.modelled(cacheBytes, reserved)
	}

	d.done++
	d.tell(d.done)
	return c
}

func (d *drawer) modelled(cacheBytes, reserved int64) (Cost, error) {
	in := d.Input
	in.CacheBytes, in.ReservedBytes = []int64{cacheBytes}, reserved
	points, err := predict.Run(d.ctx, in)
	if err != nil {
		return Cost{}, err
	}
	p := points[0]
	return Cost{p.SteadyState, p.AccessesPerGet[engine.Data] + p.AccessesPerGet[engine.Value]}, nil
}

// smallest finds the smallest round cache with at most limit reads, to a few percent of its
// size. What it predicts on the way is kept in tried.
func (d *drawer) smallest(tried *[]Place, limit float64) *Place {
	const tries, apart = 8, 1.06
	round := func(bytes int64) int64 { return max(roundUp(bytes), d.MinBytes) }
	for try := 1; ; try++ {
		i := enough(*tried, limit)
		if i == len(*tried) {
			return nil
		}

		below, size := (*tried)[i].CacheBytes, int64(0)
		if i > 0 {
			above := (*tried)[i-1].CacheBytes
			if size = round(int64(math.Sqrt(float64(above) * float64(below)))); size >= below {
				size = round(above + 1)
			}

			if float64(below) <= apart*float64(above) {
				size = below
			}
		}

		if i == 0 || size >= below || try > tries {
			p, _ := d.at(round(below))
			return &p
		}

		p, _ := d.at(size)
		*tried = insert(*tried, p)
	}
}

// enough is the first of points, by cache size, from which on all read at most limit; their number
// if the last reads more.
func enough(points []Place, limit float64) int {
	i := len(points)
	for i > 0 && points[i-1].BlockReadsPerGet <= limit {
		i--
	}
	return i
}

// roundUp goes to the next size of two digits, in MiB as nodes take them, or in
// KiB below 10 MiB.
func roundUp(bytes int64) int64 {
	unit := int64(1 << 10)
	if bytes >= 10<<20 {
		unit = 1 << 20
	}
	for bytes > 100*unit {
		unit *= 10
	}
	return (bytes + unit - 1) / unit * unit
}

// withFilters gives filters to the levels above the last that lack them.
func withFilters(levels []engine.Level, blockCharge int64) (filtered []engine.Level, changed bool) {
	last := -1
	for i, l := range levels {
		if l.Files > 0 {
			last = i
		}
	}

	const bytesPerKey = 1.25 // 10 bits
	for i, l := range levels {
		if i < last && l.Files > 0 && !l.FilterConsulted {
			l.FilterConsulted, changed = true, true
			l.FilterBytes = int64(bytesPerKey * float64(l.Keys))
			l.FilterCacheBytes = l.FilterBytes + blockCharge*int64(l.Files)
		}

		filtered = append(filtered, l)
	}

	return filtered, changed
}

func filterBytes(levels []engine.Level) (bytes int64) {
	for _, l := range levels {
		if l.FilterConsulted {
			bytes += l.FilterCacheBytes
		}
	}
	return bytes
}
