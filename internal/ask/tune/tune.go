// Package tune searches the options of tables with which Gets read least in a budget of memory.
//
// Each configuration is predicted from the database as it is (model/tablemodel): its Gets are
// traced once, rewritten for the tables that other options would make, and replayed through the
// engine's cache. A database that is too large for that, or does not exist, is predicted from the
// sizes of its levels (model/predict). Non-goals: building what was found (the verb does), and its
// text (explain/tuned).
package tune

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/explain/tuned"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/model/tablemodel"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Goals of a search.
const (
	Reads = "reads" // block reads per Get
	Bytes = "bytes" // bytes read per Get
	Time  = "time"  // of a processor and of reads of a device, per Get
)

// Request is a database, how it is used, and what the search must respect.
type Request struct {
	// Spec has the engine, the Gets of a sample and, unless OnlyLevels, the database
	Gets        curve.TraceRequest
	Levels      []engine.Level
	Trace       string // file with the Gets; "": those of Gets
	OnlyLevels  bool   // there is no database, or it cannot be traced
	Source      string
	Tables      int // how many files
	Kind        tablemodel.TableModel
	Present     tablemodel.TableOptions
	Loading     lsm.Loading       // Flushes 0: not known
	Options     map[string]string // in force, by name, of an engine of block-based tables
	Client      clients.Client    // whose database it is; "": not known
	MemoryBytes int64
	Goal        string
	Cores       int
	Seeds       []uint64
	Within      time.Duration
	ReadTime    time.Duration // of a block from the device, for Time
	Run         Runner        // measures what a Get costs a processor, for Time
	// of a database that does not exist, or was loaded by statelab; nil: it may have one
	Manifest *keyspace.Manifest
	// MaxOpenFiles is the owner's limit of open files as its OPTIONS file has it; 0: it is not
	// known, or it is that of statelab; below 0: there is none.
	MaxOpenFiles int
	Warnings     []engine.Warning // about options of the owner
	// file that keeps what was predicted, from which an interrupted search goes on; "": none does
	Keep string
	Tell result.EventFunc
}

// Of 60 predictions of other configurations 58 were off by less than 2 %, one by 4.95 %
// (TestPredictedIsBuilt, docs/tuning.md). Those of the levels alone were off by 1.7 % where options
// stay (docs/prediction.md).
const (
	tracedError = 0.05
	levelsError = 0.05
)

// testedErrors are the shares by which other figures were off when they were tested
// (docs/tuning.md), by their names.
func testedErrors() map[string]float64 {
	return map[string]float64{figure.BytesReadPerGet.Key: 0.06, "memory_bytes": 0.03,
		figure.DiskBytes.Key:       0.05,
		figure.CPUMicrosPerGet.Key: 0.25, figure.WriteAmplification.Key: 0.3}
}

// search is one under way.
type search struct {
	*Request
	kind    tablemodel.TableModel
	cache   int64 // and what is kept beside it
	reserve int64
	gets    uint64 // of a sample
	listed  uint64 // Gets of an access list, half of them before a sample; 0: there is none
	absent  float64
	setup   cachesim.Setup
	levels  *tablemodel.Gets
	samples []*tablemodel.Gets // one for each seed; of the first alone during the search
	rates   map[rateOf]float64
	ratios  map[ratioOf]float64
	entries []entry
	costs   *tuned.Costs // nil: they are not asked for
	user    float64      // bytes of all keys and values; 0: not known
	known   map[tablemodel.TableOptions]tuned.Config
	ends    time.Time     // zero: it is not limited
	took    time.Duration // that the last predictions took
	kept    kept
	limit   trace.OpenFiles // with which the present configuration reads
	owner   clients.Client  // whose caches the memory is for: geth's, or the database's alone
}

type rateOf struct{ bits, keys float64 }

// Tune searches.
func (a *Request) Tune(ctx context.Context) (*tuned.Tuning, error) {
	spec := &a.Gets.Spec
	// What is there is traced as Gets ask for it, also where it was loaded to be asked by
	// iterators.
	spec.Overrides = maps.Clone(spec.Overrides)
	delete(spec.Overrides, LastFiltersOption)
	s := search{
		Request: a,
		kind:    a.Kind,
		gets:    spec.Gets,
		rates:   map[rateOf]float64{},
		ratios:  map[ratioOf]float64{},
		setup: curve.Setup(trace.Header{Engine: spec.Engine, EngineVersion: a.Gets.Version},
			a.Cores),
		known: map[tablemodel.TableOptions]tuned.Config{},
		ends:  time.Now().Add(a.Within),
	}

	s.owner = clients.AnyPebble
	if a.Client == clients.Geth && a.MemoryBytes >= advice.MinMemory(clients.Geth, a.Tables) {
		s.owner = clients.Geth // which has caches of its own
	}

	if minimum := advice.MinMemory(s.owner, a.Tables); a.MemoryBytes < minimum {
		return nil, engine.Fail(engine.CodeUsage, "--memory %s: too little for the smallest "+
			"cache and the handles of %d tables: give at least --memory %dMiB",
			unit.Bytes(a.MemoryBytes), a.Tables, (minimum+1<<20-1)>>20)
	}

	s.cache = advice.MaxCache(s.owner, a.MemoryBytes, a.Tables)
	s.reserve = curve.MemTables(spec.Engine, spec.Profile, s.cache, false)
	err := s.look(ctx)
	if err != nil {
		return nil, err
	}

	if a.Goal != Reads { // of which compression changes none, as a cache has blocks decoded
		s.kind.Options = append(slices.Clone(s.kind.Options), s.compressed())
	}

	s.absent = spec.MissingShare
	t := &tuned.Tuning{
		Schema:  schema.Tuning,
		Source:  a.Source,
		Engine:  spec.Engine,
		Version: a.Gets.Version,
		Missing: spec.MissingShare,
		Goal:    a.Goal,
		Memory:  a.MemoryBytes,
		Tables:  a.Tables,
		Error:   s.kind.Error,
		Errors:  testedErrors(),
		Traffic: "random keys",
		Method:  "from the accesses of its Gets",
	}

	if spec.AccessList != "" {
		t.Traffic = "the Gets of " + spec.AccessList
	}

	if a.OnlyLevels {
		t.Error, t.Method = levelsError, "from the sizes of its levels"
	}

	if err := s.limitOpenFiles(ctx); err != nil {
		return nil, err
	}

	if err := s.sample(ctx, 1); err != nil {
		return nil, err
	}

	t.Warnings = s.Warnings
	if t.WarmupGets, t.Gets = s.warmup(), s.gets; s.listed > 0 {
		t.WarmupGets, t.Gets = s.listed/2, s.listed-s.listed/2
	}

	if s.Trace != "" {
		t.Traffic = "the Gets of " + s.Trace
		t.WarmupGets, t.Gets = 0, 0 // those of the trace, which are not made again
	}

	if len(s.samples) > 0 && s.absent == 0 { // what the keys are decides
		s.absent = s.samples[0].Absent()
		t.Missing = s.absent
	}

	if err := s.resume(); err != nil {
		return nil, err
	}

	if t.Costs, err = s.measureCosts(ctx); err != nil {
		return nil, err
	}

	if t.Costs != nil {
		t.ReadTime = float64(a.ReadTime) / float64(time.Microsecond)
	}

	best, err := s.coordinateDescent(ctx)
	if err != nil {
		return nil, err
	}

	t.Stopped = s.over()
	return t, s.fill(ctx, t, best)
}

// look finds out what the entries and the levels are like.
func (s *search) look(ctx context.Context) (err error) {
	if s.kind.Rate == nil {
		s.kind.Rate = s.filterRate
	}

	if err = s.readEntries(ctx); err != nil {
		return err
	}

	s.kind.Stored = s.stored
	entry := 0.0 // bytes
	for _, e := range s.entries {
		entry += float64(len(e.key)+len(e.value)) / float64(len(s.entries))
	}

	for _, l := range s.Levels {
		if s.user += entry * float64(l.Keys); entry == 0 {
			s.user += float64(l.RawKeyBytes + l.RawValueBytes - sequenceBytes*l.Keys)
		}
	}

	s.levels, err = tablemodel.New(s.Levels, s.kind, s.Present)
	return err
}

// over reports whether the time for the search has passed, or would, were some more predicted.
func (s *search) over() bool { return !s.ends.IsZero() && time.Now().Add(s.took).After(s.ends) }

// sample traces the Gets of the first n seeds.
func (s *search) sample(ctx context.Context, n int) error {
	if s.Trace != "" {
		return s.read(n)
	}

	for i := len(s.samples); i < n && !s.OnlyLevels; i++ {
		o := s.Gets
		o.Spec.Seed, o.Spec.Threads, o.Spec.WarmupAuto = s.Seeds[i], 1, false
		if o.Spec.AccessList == "" {
			o.Spec.WarmupGets, o.Spec.Gets = s.warmup(), s.gets
		} else {
			gets, err := bench.ListGets(ctx, s.Gets.Engine, &o.Spec)
			if err != nil {
				return err
			}

			if gets < 2 || gets > curve.MaxGets {
				return fmt.Errorf("--accesses %s: its blocks ask for %s keys, tune needs from 2 "+
					"to %s: use a list of other blocks", o.Spec.AccessList,
					unit.Count(gets), unit.Count(uint64(curve.MaxGets)))
			}

			s.listed, o.Spec.WarmupGets, o.Spec.Gets = gets, gets/2, gets-gets/2
		}

		if s.limit.Enough > 0 { // what others would read; the present one is traced apart
			o.Spec.Handles = s.limit.Enough
		}

		var keys []byte
		var ends []int
		o.All = !subject.Descriptor(o.Spec.Engine).SimulatesLevels()
		o.Saw = func(key []byte) {
			keys = append(keys, key...)
			ends = append(ends, len(keys))
		}

		var file bytes.Buffer
		made, err := curve.Record(ctx, &file, o, trace.Sample{}, engine.Part{}, s.Tell)
		if err != nil {
			return err
		}

		s.setup = curve.Setup(made.Header, s.Cores)
		s.warn(made.Warnings...)
		r, err := trace.NewReader(&file)
		if err != nil {
			return err
		}

		g := *s.levels
		if err := g.Read(r, ranks(keys, ends)); err != nil {
			return err
		}

		if o.All {
			o.All, o.Saw = false, nil
			asIs, header, err := curve.Traced(ctx, o, s.Tell)
			if err != nil {
				return err
			}

			s.setup = curve.Setup(header, s.Cores)
			g.AsIs(asIs)
		}

		s.samples = append(s.samples, &g)
	}

	return nil
}

// read takes the Gets of a trace as the first n samples. It tells no keys, so each Get is taken for
// one of a key of its own.
func (s *search) read(n int) error {
	if len(s.samples) > 0 {
		s.samples = slices.Repeat(s.samples[:1], n)
		return nil
	}

	file, err := os.Open(s.Trace)
	if err != nil {
		return fmt.Errorf("--trace: %w", err)
	}

	defer file.Close() // it is only read
	r, err := trace.NewReader(bufio.NewReader(file))
	if err == nil {
		if err := s.Gets.Fits(s.Trace, r.Header()); err != nil {
			return err
		}
		err = s.levels.Read(r, nil)
	}

	if err != nil {
		return fmt.Errorf("--trace %s: %w", s.Trace, err)
	}

	s.setup, s.samples = curve.Setup(r.Header(), s.Cores), []*tablemodel.Gets{s.levels}
	return nil
}

// ranks are those of keys, which lie one after the other, among all of them; equal keys have the
// same one.
func ranks(keys []byte, ends []int) []uint32 {
	key := func(i int) []byte {
		start := 0
		if i > 0 {
			start = ends[i-1]
		}
		return keys[start:ends[i]]
	}

	order := make([]int, len(ends))
	for i := range order {
		order[i] = i
	}

	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(key(a), key(b)) })
	ranks, rank := make([]uint32, len(ends)), uint32(0)
	for n, i := range order {
		if n > 0 && !bytes.Equal(key(i), key(order[n-1])) {
			rank++
		}
		ranks[i] = rank
	}

	return ranks
}

const maxWarmup = curve.MaxGets / 2

// warmup are Gets that fill the cache, were all blocks small.
func (s *search) warmup() uint64 {
	return min(max(uint64(4*s.cache/smallBlock), s.gets), maxWarmup)
}

const smallBlock = 2 << 10

// coordinateDescent starts with the best change of one option, and changes one after the other as
// long as that helps.
func (s *search) coordinateDescent(ctx context.Context) (best tablemodel.TableOptions, err error) {
	var alone []tablemodel.TableOptions
	for option := range s.kind.Options {
		alone = append(alone, s.others(s.Present, option)...)
	}

	best, err = s.best(ctx, s.Present, alone)
	for from := (tablemodel.TableOptions{}); err == nil && best != from && !s.over(); {
		from = best
		for option := 0; err == nil && option < len(s.kind.Options); option++ {
			best, err = s.best(ctx, best, s.others(best, option))
		}
	}

	return best, err
}

// fits reports whether a shard of the cache has room for some blocks: else luck decides what is
// read.
func (s *search) fits(t tablemodel.TableOptions) bool {
	const blocks = 16
	filters := int64(4)
	if s.kind.NoEarlyExit { // few of them are spread unevenly over shards
		filters = blocks
	}

	levels := s.predicted().Levels(t)
	cache := max(minCache, s.cacheBeside(levels, t))
	shard := (cache - s.reserve) / int64(s.setup.Shards(cache))
	all := int64(0)
	for _, l := range levels {
		whole := int64(0)
		if t.LastFilters && l.FilterConsulted && !t.PartitionFilters && !t.MetadataOutsideCache {
			whole = l.FilterCacheBytes
		}

		all += whole
		if t.LastFilters && l.FilterConsulted && t.PartitionFilters {
			all += l.FilterCacheBytes
		}

		if s.kind.Cached != nil {
			all += l.SingleIndexCacheBytes
		}

		// an index may be one block, however large
		if s.kind.FilterBeforeIndex && !t.MetadataOutsideCache {
			whole = max(whole, l.SingleIndexCacheBytes)
		}

		if whole > int64(l.Files)*shard/filters {
			return false
		}
	}

	// Where they all but fill it, whole or in parts, some shards have too many of them. Buffers
	// that are used again (goleveldb's) can be larger than what they hold.
	const from, to = 0.6, 1.2
	if share := float64(all) / float64(cache); share > from &&
		(share < to || s.kind.Cached != nil) {
		return false
	}

	return max(t.BlockBytes, t.IndexBytes) <= shard/blocks
}

// minCache is the smallest cache beside which filters and indexes are kept.
const minCache = 64 << 10

// cacheBeside is what filters and indexes that are not in the cache leave for it.
func (s *search) cacheBeside(levels []engine.Level, t tablemodel.TableOptions) int64 {
	cache := s.cache - 2*t.BufferBytes // one that is filled and one that is flushed
	for _, l := range levels {
		if t.MetadataOutsideCache {
			cache -= l.SingleIndexCacheBytes + l.TopIndexCacheBytes
		}

		if t.MetadataOutsideCache && l.FilterConsulted && !t.PartitionFilters {
			cache -= l.FilterCacheBytes
		}
	}

	return cache
}

// predicted are the samples, or the levels alone.
func (s *search) predicted() *tablemodel.Gets {
	if len(s.samples) > 0 {
		return s.samples[0]
	}
	return s.levels
}

// others are from with every other value of an option.
func (s *search) others(from tablemodel.TableOptions, option int) (all []tablemodel.TableOptions) {
	for _, to := range s.kind.Options[option](from) {
		smaller := to.BlockBytes <= from.BlockBytes && to.IndexBytes <= from.IndexBytes &&
			to.MetadataOutsideCache == from.MetadataOutsideCache && (from.LastFilters ||
			!to.LastFilters)
		if s.kind.NoEarlyExit && to.LastFilters != from.LastFilters && s.absent == 0 {
			continue // they cannot save anything
		}

		if to != from && (s.fits(to) || smaller) &&
			s.cacheBeside(s.predicted().Levels(to), to) >= minCache {
			all = append(all, to)
		}
	}

	return all
}

// worthwhile is the least gain for which an option is changed.
const worthwhile = 0.003

// best is the best of some configurations that is worth a change of options, or the one that is
// there.
func (s *search) best(
	ctx context.Context, there tablemodel.TableOptions, of []tablemodel.TableOptions,
) (best tablemodel.TableOptions, err error) {
	if err := s.predict(ctx, append([]tablemodel.TableOptions{there}, of...)); err != nil {
		return there, err
	}

	best = there
	for _, to := range of {
		if c, known := s.known[to]; known && s.score(c) < (1-worthwhile)*s.score(s.known[best]) {
			best = to
		}
	}

	return best, nil
}

func (s *search) score(c tuned.Config) float64 {
	switch s.Goal {
	case Bytes:
		return c.Bytes
	case Time:
		return c.Time.OrZero()
	}
	return c.Reads
}

// predict works out what configurations would cost that are not known yet: the first few of them,
// and the others as long as there is time.
func (s *search) predict(ctx context.Context, all []tablemodel.TableOptions) error {
	var unknown []tablemodel.TableOptions
	for _, to := range all {
		if _, known := s.known[to]; !known && !slices.Contains(unknown, to) {
			unknown = append(unknown, to)
		}
	}

	atOnce, predict := 4*runtime.GOMAXPROCS(0), s.replay
	if s.OnlyLevels { // each on all processors
		atOnce, predict = 1, s.predictLevels
	}

	for some := range slices.Chunk(unknown, atOnce) {
		began := time.Now()
		s.Tell(
			result.Event{Phase: "predicting", Done: uint64(len(s.known)), Unit: "configurations"},
		)
		configs := make([]tuned.Config, len(some))
		for i, to := range some {
			configs[i] = s.described(to)
		}

		if err := predict(ctx, some, configs); err != nil {
			return err
		}

		for i, to := range some {
			if err := s.time(&configs[i], to); err != nil {
				return err
			}
		}

		s.took = time.Since(began)
		if err := s.keep(some, configs); err != nil || s.over() {
			return err
		}
	}

	return nil
}

// replay predicts from the traced Gets, on all processors. The range of a configuration spans the
// samples.
func (s *search) replay(
	ctx context.Context, some []tablemodel.TableOptions, configs []tuned.Config,
) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	setup := s.setup
	setup.ReservedBytes = s.reserve
	points := make([]cachesim.Point, len(some)*len(s.samples))
	for i, to := range some {
		for n, g := range s.samples {
			to.BufferBytes = 0 // which changes no accesses
			accesses := g.Rewrite(to, s.Seeds[n])
			work.Go(func() error {
				replayed, err := cachesim.Curve(ctx, accesses, setup, []int64{configs[i].Cache})
				if err == nil {
					points[i*len(s.samples)+n] = replayed[0]
				}
				return err
			})
		}
	}

	if err := work.Wait(); err != nil {
		return err
	}

	for i := range configs {
		summarize(&configs[i], points[i*len(s.samples):][:len(s.samples)])
	}

	return nil
}

// summarize fills in what the replayed samples of a configuration read.
func summarize(c *tuned.Config, samples []cachesim.Point) {
	var reads, stored []float64
	byType := [engine.NumBlockTypes]float64{}
	for _, p := range samples {
		reads = append(reads, p.BlockReadsPerGet())
		stored = append(stored, float64(p.DiskBytesRead)/float64(p.Gets))
		for kind, n := range p.Reads {
			byType[kind] += float64(n) / float64(p.Gets) / float64(len(samples))
		}
	}

	c.ByType = named(byType)
	c.Reads, c.Bytes, c.Low, c.High = mean(reads), mean(stored), slices.Min(reads),
		slices.Max(reads)
}

// predictLevels predicts one configuration from the sizes of levels.
func (s *search) predictLevels(
	ctx context.Context, some []tablemodel.TableOptions, configs []tuned.Config,
) error {
	c, to := &configs[0], some[0]
	how, err := s.reading(to)
	if err != nil {
		return err
	}

	in := predict.Input{
		Levels:        s.levels.Levels(to),
		Blocks:        how,
		Version:       subject.PebbleVersion(s.Gets.Spec.Engine),
		Cores:         s.Cores,
		ReservedBytes: s.reserve,
		AbsentShare:   s.Gets.Spec.MissingShare,
		CacheBytes:    []int64{c.Cache},
		Seeds:         s.Seeds,
		NoEarlyExit:   s.kind.NoEarlyExit && to.LastFilters,
	}

	if how == nil {
		in.FilterRate = func(l engine.Level) float64 {
			return s.kind.Rate(to.ForLevel(l.Level), float64(l.Keys)/float64(l.Files))
		}
	}

	in.Gets, in.WarmupGets = s.gets, uint64(4*s.cache/smallBlock)
	points, err := predict.Run(ctx, in)
	if err != nil {
		return err
	}

	p := points[0]
	c.Reads, c.Low, c.High = p.SteadyState, min(p.Low, p.SteadyState), max(p.High, p.SteadyState)
	stored, _, err := s.means(to)
	for kind, reads := range p.ReadsPerGet {
		c.Bytes += reads * stored[kind]
	}

	c.ByType = named(p.ReadsPerGet)
	return err
}

// means are the mean bytes of a block of each type, as it is stored and as it is in the cache.
func (s *search) means(
	to tablemodel.TableOptions,
) (stored, raw [engine.NumBlockTypes]float64, err error) {
	how, err := s.reading(to)
	if err != nil {
		return stored, raw, err
	}

	blocks := stored
	for _, l := range s.predicted().Levels(to) {
		filters := int64(l.Files)
		if to.PartitionFilters && how != nil {
			filters = int64(how.FilterParts(l))
		}

		for kind, of := range map[engine.BlockType][3]int64{
			engine.Data:        {l.DataBytes, l.DataBlocks, l.DataCacheBytes},
			engine.SingleIndex: {l.SingleIndexBytes, l.SingleIndexes, l.SingleIndexCacheBytes},
			engine.Index: {l.IndexBytes - l.SingleIndexBytes, l.IndexBlocks,
				l.IndexCacheBytes - l.SingleIndexCacheBytes},
			engine.TopIndex: {l.TopIndexBytes, int64(l.Files), l.TopIndexCacheBytes},
			engine.Filter:   {l.FilterBytes, filters, l.FilterBytes},
		} {
			stored[kind], blocks[kind], raw[kind] = stored[kind]+float64(of[0]),
				blocks[kind]+float64(of[1]), raw[kind]+float64(of[2])
		}
	}

	for i, n := range blocks {
		stored[i], raw[i] = stored[i]/max(1, n), raw[i]/max(1, n)
	}

	return stored, raw, nil
}

// reading is how an engine whose options have names reads tables of settings to; nil of another.
func (s *search) reading(to tablemodel.TableOptions) (*predict.BlockTables, error) {
	if s.Options == nil {
		return nil, nil
	}
	options := maps.Clone(s.Options)
	maps.Copy(options, s.kind.OptionMap(to))
	return rocksoptions.Reads(options)
}

// described is a configuration with what follows from the sizes of its levels.
func (s *search) described(to tablemodel.TableOptions) tuned.Config {
	levels := s.predicted().Levels(to)
	c := tuned.Config{
		Options: s.kind.OptionMap(to),
		Cache:   max(minCache, s.cacheBeside(levels, to)),
	}

	for _, l := range levels {
		c.Disk += l.Bytes
		c.Memory += l.IndexCacheBytes + l.TopIndexCacheBytes
		if l.FilterConsulted {
			c.Memory += l.FilterCacheBytes
		}
	}

	if disk := float64(c.Disk); s.writes() {
		const inBuffer = 1.35 // bytes of a memtable for one of keys and values
		stored, log := disk/s.user, 1.0
		c.Writes = figure.Known(log + stored*s.Loading.WriteAmp(disk, float64(cmp.Or(to.BufferBytes,
			s.Loading.BufferBytes))/inBuffer*stored))
	}

	if bytes := to.BufferBytes; bytes > 0 && s.Options != nil { // in bytes
		c.Options[s.kind.BufferOption] = strconv.FormatInt(bytes, 10)
	} else if bytes > 0 {
		c.Options[s.kind.BufferOption] = unit.ExactBytes(bytes)
	}

	return c
}

// writes reports whether it is known how the program writes.
func (s *search) writes() bool { return s.user > 0 && s.Loading.Flushes > 0 }

// named are reads by the names of block types, without those that are not read.
func named(reads [engine.NumBlockTypes]float64) map[string]float64 {
	by := map[string]float64{}
	for kind, n := range reads {
		if n > 0 {
			by[engine.BlockType(kind).String()] = n
		}
	}
	return by
}

// filterRate remembers what filters of some bits let pass in tables of about as many keys.
func (s *search) filterRate(to tablemodel.TableOptions, keys float64) float64 {
	bits := to.FilterBits
	if bits <= 0 {
		return 1
	}

	at := rateOf{bits, math.Round(4 * math.Log2(max(keys, 1)))}
	rate, known := s.rates[at]
	if !known {
		rate = resolve.FilterRate(bits, keys)
		s.rates[at] = rate
	}

	return rate
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// fill says what was found, each configuration that is told predicted from all samples.
func (s *search) fill(ctx context.Context, t *tuned.Tuning, best tablemodel.TableOptions) error {
	all := slices.SortedFunc(maps.Keys(s.known), func(a, b tablemodel.TableOptions) int {
		return cmp.Or(cmp.Compare(s.score(s.known[a]), s.score(s.known[b])),
			cmp.Compare(tuned.OptionList(s.known[a].Options), tuned.OptionList(s.known[b].Options)))
	})

	t.Predicted = len(all)
	tell := []tablemodel.TableOptions{s.Present, best}
	for option := range s.kind.Options { // alone
		others := s.others(s.Present, option)
		others = slices.DeleteFunc(others, func(to tablemodel.TableOptions) bool {
			_, known := s.known[to]
			return !known
		})

		for _, to := range others {
			c := s.known[to]
			c.OpenFiles = s.limit.Enough
			c.Low, c.High = c.Low*(1-t.Error), c.High*(1+t.Error)
			t.Grid = append(t.Grid, c)
		}

		if len(others) > 0 {
			tell = append(tell,
				slices.MinFunc(others, func(a, b tablemodel.TableOptions) int {
					return cmp.Compare(s.score(s.known[a]), s.score(s.known[b]))
				}))
		}
	}

	alone := tell[2:]
	if s.limit.Enough > 0 { // the present tables, all of them open, are another configuration
		alone = append([]tablemodel.TableOptions{s.Present}, alone...)
	}

	front := s.paretoFront(all)
	tell = append(slices.Clone(tell), front...)
	tell = append(tell, all[:min(3, len(all))]...)
	if err := s.sample(ctx, len(s.Seeds)); err != nil {
		return err
	}

	s.recall()
	s.ends = time.Time{}
	if err := s.predict(ctx, append(tell, s.buffers(best)...)); err != nil {
		return err
	}

	known := func(to tablemodel.TableOptions) tuned.Config {
		c := s.known[to]
		c.OpenFiles = s.limit.Enough
		if to != s.Present || s.OnlyLevels {
			c.Low, c.High = c.Low*(1-t.Error), c.High*(1+t.Error)
		}
		return c
	}

	t.Present, t.Best = known(s.Present), known(best)
	if s.limit.Enough > 0 {
		if err := s.closeTables(ctx, t); err != nil {
			return err
		}
	}

	t.CacheBytes = t.Best.Cache
	t.Over = max(0, minCache-s.cacheBeside(s.predicted().Levels(s.Present), s.Present))
	now, then := s.score(t.Present), s.score(t.Best)
	off := t.Error
	if s.Goal == Time {
		ofCPU := t.Errors[figure.CPUMicrosPerGet.Key]
		off += (ofCPU - off) * t.Best.CPU.OrZero() / t.Best.Time.OrZero()
	}

	t.Tied = best == s.Present && t.OpenFiles == nil || then > now*(1-off)
	for _, to := range alone {
		if c := known(to); s.score(c) < now {
			t.Alone = append(t.Alone, c)
		}
	}

	slices.SortFunc(t.Alone, func(a, b tuned.Config) int {
		return cmp.Compare(s.score(a), s.score(b))
	})
	for _, to := range front {
		t.Front = append(t.Front, known(to))
	}

	for _, to := range s.buffers(best) {
		t.Buffers = append(t.Buffers, known(to))
	}

	t.MemTables, t.Beside = max(s.reserve, s.kind.MemTables), s.kind.MemTables > 0
	t.Snippet, t.Lookup = s.withOpenFiles(s.kind.Snippet(best, t.Best.Cache)), ""
	if s.owner == clients.Geth {
		t.Snippet = "// " + advice.GethFlags(t.Best.Cache, s.MemoryBytes) + "\n" + t.Snippet
	}

	if best.LastFilters {
		t.Lookup = s.kind.Lookup
	}

	t.SetAnswer()
	return nil
}

// buffers are a configuration with memtables of other sizes, if what is written is known.
func (s *search) buffers(to tablemodel.TableOptions) (all []tablemodel.TableOptions) {
	for _, quarters := range []int64{1, 2, 4, 8, 16} {
		to.BufferBytes = quarters * s.Loading.BufferBytes / 4
		if s.writes() && s.cacheBeside(s.predicted().Levels(to), to) >= minCache+s.reserve {
			all = append(all, to)
		}
	}
	return all
}

// paretoFront are the configurations that no other one beats in reads, bytes read, size and time,
// the best of the goal first.
func (s *search) paretoFront(all []tablemodel.TableOptions) (front []tablemodel.TableOptions) {
	const maximum = 8
	for _, to := range all {
		c := s.known[to]
		beaten := slices.ContainsFunc(all, func(other tablemodel.TableOptions) bool {
			o := s.known[other]
			return o.Reads <= c.Reads && o.Bytes <= c.Bytes && o.Disk <= c.Disk &&
				o.Time.OrZero() <= c.Time.OrZero() &&
				(o.Reads < c.Reads || o.Bytes < c.Bytes || o.Disk < c.Disk ||
					o.Time.OrZero() < c.Time.OrZero())
		})

		if !beaten && len(front) < maximum {
			front = append(front, to)
		}
	}

	return front
}
