package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/host"
	"github.com/statelab/statelab/internal/keyspace"
	"github.com/statelab/statelab/internal/measure"
	"github.com/statelab/statelab/internal/pace"
	"github.com/statelab/statelab/internal/unit"
	"github.com/statelab/statelab/internal/workload"
	"github.com/statelab/statelab/result"
)

type atomicCount = atomic.Uint64

// keyset is where the workers' keys come from.
type keyset struct {
	choice  workload.Choice
	space   keyspace.Keys
	values  *keyspace.Values
	version uint32  // newest a value may have
	sample  *sample // of a foreign database, instead of space and values
}

func (k *keyset) source(phase, worker int) keySource {
	stream := k.choice.Stream(phase, worker)
	if k.sample != nil {
		return &sampled{sample: k.sample, stream: stream}
	}
	return &generated{stream: stream, maker: k.space.Maker(), checker: k.values.Checker(k.version), key: make([]byte, k.space.Bytes)}
}

// read is the verb read: prepare, warm, measure, verify, and the accesses by
// type. Overwrite and readwhilewriting share it.
func (r *run) read(ctx context.Context) error {
	keys, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	r.raiseProcs()
	if r.spec.Workload == workload.Overwrite {
		return r.overwrite(ctx, keys)
	}
	if err := r.warm(ctx, keys); err != nil {
		return err
	}
	measured, err := r.measure(ctx, keys)
	if err != nil && !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	r.figures(measured)
	if err != nil {
		return err
	}
	if err := r.verify(ctx, keys); err != nil {
		return err
	}
	if err := r.noteEnd(); err != nil {
		return err
	}
	return r.accesses(ctx, keys, measured)
}

// prepare puts the page cache into its mode, opens the database and finds its keys.
func (r *run) prepare(ctx context.Context) (*keyset, error) {
	var keys *keyset
	_, err := r.phase("prepare", func(*atomicCount) error {
		r.floor()
		if r.spec.PageCache == Cold {
			if err := r.evict(ctx); err != nil {
				return err
			}
		}
		if err := r.open(ctx, r.spec.openOptions()); err != nil {
			return err
		}
		if err := r.noteDatabase(); err != nil {
			return err
		}
		var err error
		if keys, err = r.keyset(ctx); err != nil {
			return err
		}
		return r.setPageCache(ctx)
	})
	return keys, err
}

func (r *run) keyset(ctx context.Context) (*keyset, error) {
	choice := workload.Choice{MissingShare: r.spec.MissingShare, ZipfTheta: r.spec.ZipfTheta, Seed: r.spec.Seed}
	w := &r.result.Workload
	if r.spec.Foreign {
		found, err := sampleKeys(ctx, r.db, r.spec.SampleKeys, r.spec.Seed)
		if err != nil {
			return nil, err
		}
		choice.Keys = found.len()
		w.Keys, w.KeyBytes, w.KeyOrder, w.ValueModel = found.len(), found.meanKeyBytes(), "foreign", "foreign"
		return &keyset{choice: choice, sample: found}, nil
	}
	m, values, err := r.manifest()
	if err != nil {
		return nil, err
	}
	if m.Loaded < m.Keys {
		return nil, fmt.Errorf("the load of %s is incomplete: %d of %d keys; go on with statelab load --resume --db %s", r.spec.Dir, m.Loaded, m.Keys, r.spec.Dir)
	}
	if held, counted := keysIn(r.result.Database); counted && m.Settled && held < m.Keys {
		return nil, fmt.Errorf("%s holds %s of the %s keys that were loaded into it: its files are damaged or incomplete: load it again",
			r.spec.Dir, unit.Count(held), unit.Count(m.Keys))
	}
	if !m.Settled {
		r.warn(engine.Warning{Code: "unsettled", Text: "the load ended before the engine's background work did: the shape may change during the run", Remedy: "statelab load --resume --db " + r.spec.Dir})
	}
	choice.Keys = m.Keys
	w.Keys, w.KeyBytes, w.KeyOrder, w.KeyHash, w.ValueModel, w.ValueBytes = m.Keys, m.KeyBytes, m.KeyOrder, m.KeyHash, m.ValueModel, values.MeanBytes()
	return &keyset{choice: choice, space: m.KeySpace(), values: values, version: m.MaxVersion}, nil
}

// keysIn sums the keys of the levels; false for an engine without levels.
func keysIn(d result.Database) (keys uint64, counted bool) {
	for _, level := range d.Levels {
		keys += uint64(level.Keys)
	}
	return keys, len(d.Levels) > 0
}

// team makes the workers of a phase.
func (r *run) team(keys *keyset, phase int, rate float64) (*team, error) {
	t := new(team)
	for i := range r.spec.Threads {
		reader, err := r.db.Reader()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open reader %d: %w", i, err), t.close())
		}
		w := &worker{keys: keys.source(phase, i), reader: reader, clock: r.clock, service: measure.NewRecorder()}
		if rate > 0 {
			w.pace, w.response = pace.Constant(rate, i, r.spec.Threads), measure.NewRecorder()
		}
		t.workers = append(t.workers, w)
	}
	return t, nil
}

func (t *team) close() error {
	var errs []error
	for _, w := range t.workers {
		errs = append(errs, w.reader.Close())
	}
	for _, w := range t.writers {
		errs = append(errs, w.out.Close())
	}
	return errors.Join(errs...)
}

// warm runs Gets that are not measured: a given number, or until a window's
// reads per Get have stopped changing.
func (r *run) warm(ctx context.Context, keys *keyset) error {
	if !r.spec.WarmupAuto && r.spec.WarmupGets == 0 {
		return nil
	}
	_, err := r.phase("warm", func(ops *atomicCount) error {
		t, err := r.team(keys, workload.WarmPhase, 0)
		if err != nil {
			return err
		}
		service := measure.NewHistogram()
		if r.spec.WarmupAuto {
			err = r.warmUntilSteady(ctx, t, keys.choice.Keys, ops, service)
		} else {
			err = r.drive(ctx, "warm", t, r.spec.WarmupGets, ops, service, nil)
		}
		r.result.Workload.WarmupGets = ops.Load()
		if err == nil && r.spec.PageCache == Cold {
			err = r.evict(ctx) // the warm-up was for the engine's cache
		}
		return errors.Join(err, t.close())
	})
	return err
}

// The rule of warmUntilSteady, told in warmup_rule and docs/methods/reads.md.
const (
	steadyWindows  = 3
	maxWarmWindows = 40
	steadySpread   = 0.01
)

// windowGets is a fiftieth of the keys, within reason: long enough to average
// over, short enough to notice when it is over.
func windowGets(keys uint64) uint64 { return min(max(keys/50, 20_000), 1_000_000) }

// warmUntilSteady warms in windows. The cache is steady when the reads per Get of
// the last three windows lie within 1 % (plus what chance does to windows of this
// size) and the cache has stopped filling.
func (r *run) warmUntilSteady(ctx context.Context, t *team, keys uint64, ops *atomicCount, service *measure.Histogram) error {
	window := windowGets(keys)
	allowed := steadySpread + 2/math.Sqrt(float64(window))
	var readsPerGet []float64
	used := int64(0)
	for n := 1; ; n++ {
		before := r.db.Counters()
		if err := r.drive(ctx, "warm", t, window, ops, service, nil); err != nil {
			return err
		}
		after := r.db.Counters()
		d := after.Sub(before)
		if d.Reads == nil {
			if n == steadyWindows {
				r.result.Workload.WarmupRule = fmt.Sprintf("%d windows of %d Gets (no block reads to watch)", n, window)
				return nil
			}
			continue
		}
		readsPerGet = append(readsPerGet, float64(d.Reads.Total().Count)/float64(window))
		filling := false
		if after.CacheUsedBytes != nil {
			filling = *after.CacheUsedBytes > used+used/100 && float64(*after.CacheUsedBytes) < 0.95*float64(r.result.Cache.Effective)
			used = *after.CacheUsedBytes
		}
		if n >= steadyWindows && !filling && spread(readsPerGet[n-steadyWindows:]) <= allowed {
			r.result.Workload.WarmupRule = fmt.Sprintf("until steady: %d windows of %d Gets, the last %d within %.1f%%", n, window, steadyWindows, 100*allowed)
			return nil
		}
		if n == maxWarmWindows {
			r.result.Workload.WarmupRule = fmt.Sprintf("until steady, given up after %d windows of %d Gets", n, window)
			r.warn(engine.Warning{Code: "not_steady", Text: fmt.Sprintf("the reads per Get still changed after %d warm-up Gets", ops.Load()), Remedy: "--warmup with a larger count, or a larger --gets"})
			return nil
		}
	}
}

// spread is (max - min) / max of positive numbers.
func spread(values []float64) float64 {
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	if high == 0 {
		return 0
	}
	return (high - low) / high
}

// measured is the outcome of the phase that counts.
type measured struct {
	phaseDelta
	gets, found, missing uint64
	puts                 uint64
	userBytes            int64
	service, response    *measure.Histogram
}

func (r *run) measure(ctx context.Context, keys *keyset) (*measured, error) {
	m := &measured{service: measure.NewHistogram(), response: measure.NewHistogram()}
	var err error
	m.phaseDelta, err = r.phase("measure", func(ops *atomicCount) error {
		t, err := r.team(keys, workload.MeasurePhase, r.spec.Rate)
		if err != nil {
			return err
		}
		if r.spec.Workload == workload.ReadWhileWriting {
			if err := r.addWriters(t, keys, math.MaxUint64); err != nil {
				return errors.Join(err, t.close())
			}
		}
		err = r.drive(ctx, "measure", t, r.spec.Gets, ops, m.service, m.response)
		m.gets = ops.Load()
		for _, w := range t.workers {
			m.found += w.found
			m.missing += w.missing
		}
		for _, w := range t.writers {
			m.puts += w.done.Load()
			m.userBytes += w.userBytes
		}
		return errors.Join(err, t.close())
	})
	end := time.Now()
	start := end.Add(-time.Duration(m.seconds * float64(time.Second)))
	r.latencies = append(r.latencies, measure.LogEntry{Start: start, End: end, Durations: m.service})
	if r.spec.Rate > 0 {
		r.latencies = append(r.latencies, measure.LogEntry{Tag: "response", Start: start, End: end, Durations: m.response})
	}
	if m.puts > 0 {
		r.latencies = append(r.latencies, measure.LogEntry{Tag: "commit", Start: start, End: end, Durations: r.putLatency})
	}
	return m, err
}

// rereadKeys bounds the verify phase of a foreign database.
const rereadKeys = 10_000

// verify checks a foreign database's answers against a second read; answers of
// our own databases were checked against the generator as they came.
func (r *run) verify(ctx context.Context, keys *keyset) error {
	if keys.sample == nil {
		return nil
	}
	_, err := r.phase("verify", func(ops *atomicCount) error {
		reader, err := r.db.Reader()
		if err != nil {
			return err
		}
		checked, err := keys.sample.reread(reader, rereadKeys)
		ops.Add(uint64(checked))
		return errors.Join(err, reader.Close())
	})
	return err
}

// noteEnd stores the shape after the run where it is another than before.
func (r *run) noteEnd() error {
	end, err := r.describe()
	if err != nil {
		return err
	}
	r.result.After = &end
	start := r.result.Database
	if r.spec.Workload == workload.Overwrite || r.spec.Workload == workload.ReadWhileWriting {
		return nil // writing is what changes a database
	}
	if end.Bytes != start.Bytes || end.Files != start.Files {
		r.warn(engine.Warning{Code: "shape_changed", Text: fmt.Sprintf("the database changed during the run: %d files before, %d after", start.Files, end.Files),
			Remedy: "settle it first: statelab load --resume --db " + r.spec.Dir})
	}
	return nil
}

// accesses learns how many blocks of each type a Get needs. That does not depend
// on the cache: a cache that admits nothing shows every access as a block read.
func (r *run) accesses(ctx context.Context, keys *keyset, m *measured) error {
	if len(r.spec.Accesses) > 0 {
		r.hitRates(r.spec.Accesses, m)
		return nil
	}
	if !r.engine.Info().Has(engine.CanTraceAccesses) {
		r.absent("this engine cannot show accesses that its cache served", "block_accesses_per_get_by_type", "hit_rate")
		return nil
	}
	gets := min(r.spec.AccessGets, m.gets)
	if gets == 0 || r.spec.Workload == workload.ReadWhileWriting {
		r.absent("not asked for: --access-gets says how many Gets are replayed without a cache", "block_accesses_per_get_by_type", "hit_rate")
		return nil
	}
	if err := r.close(); err != nil {
		return err
	}
	found := map[string]float64{}
	_, err := r.phase("accesses", func(ops *atomicCount) error {
		o := r.spec.openOptions()
		o.TraceAccesses, o.CacheBytes, o.Direct = true, 0, false
		o.ReadOnly = true
		effective := r.result.Engine
		cache := r.result.Cache
		if err := r.open(ctx, o); err != nil {
			return err
		}
		r.result.Engine, r.result.Cache = effective, cache
		reader, err := r.db.Reader()
		if err != nil {
			return err
		}
		// Worker 0's measured Gets, alone: two threads could share one read.
		one := &worker{keys: keys.source(workload.MeasurePhase, 0), reader: reader, clock: r.clock, service: measure.NewRecorder()}
		before := r.db.Counters()
		err = r.drive(ctx, "accesses", &team{workers: []*worker{one}}, gets, ops, measure.NewHistogram(), nil)
		d := r.db.Counters().Sub(before)
		for name, tally := range byType(d.Reads) {
			if name != engine.Meta.String() { // tables are opened once, whatever the cache
				found[name] = float64(tally.Count) / float64(max(1, ops.Load()))
			}
		}
		return errors.Join(err, reader.Close())
	})
	if err != nil {
		return err
	}
	r.hitRates(found, m)
	return nil
}

// evict drops the database's pages and says how.
func (r *run) evict(ctx context.Context) error {
	method, err := host.Evict(ctx, r.spec.Dir)
	if err != nil {
		return fmt.Errorf("drop the pages of %s from the page cache: %w", r.spec.Dir, err)
	}
	resident, total, err := host.Resident(r.spec.Dir)
	if err != nil {
		return fmt.Errorf("look at the page cache: %w", err)
	}
	if total > 0 && float64(resident) > 0.01*float64(total) {
		r.warn(engine.Warning{Code: "not_cold", Text: fmt.Sprintf("%.1f%% of the database is still in the page cache after %s", 100*float64(resident)/float64(total), method),
			Remedy: "end other programs that hold it, or use --page-cache direct"})
	}
	return nil
}

func (r *run) setPageCache(ctx context.Context) error {
	switch r.spec.PageCache {
	case Direct:
		return host.DirectSupported(r.spec.Dir)
	case Cold:
		return r.evict(ctx) // opening read some of it in
	case Warm:
		err := host.Warm(ctx, r.spec.Dir, func(done, total int64) {
			r.tell(Event{Phase: "prepare", Done: uint64(done), Total: uint64(total), Unit: "bytes", Note: "reading the database into the page cache"})
		})
		if err != nil {
			return fmt.Errorf("read %s into the page cache: %w", r.spec.Dir, err)
		}
		resident, total, err := host.Resident(r.spec.Dir)
		if err != nil {
			return fmt.Errorf("look at the page cache: %w", err)
		}
		if float64(resident) < 0.99*float64(total) {
			r.warn(engine.Warning{Code: "not_warm", Text: fmt.Sprintf("only %.1f%% of the database fits into the page cache", 100*float64(resident)/float64(total)),
				Remedy: "a machine with more memory, or a smaller database"})
		}
	}
	return nil
}

// floor measures the harness by itself: the same loop on an engine that answers
// "absent" at once.
func (r *run) floor() {
	ns := HarnessFloor(r.clock)
	r.result.Figures.HarnessNanosPerGet = &ns
}

// result of a floor run
const floorGets = 200_000

// HarnessFloor is the cost of the loop around a Get, in nanoseconds: choosing and
// making a 32-byte key, two clock reads, recording.
func HarnessFloor(clock *measure.Clock) float64 {
	keys := &keyset{choice: workload.Choice{Keys: 1 << 20, MissingShare: 1, Seed: 1},
		space: keyspace.Keys{Count: 1 << 20, Bytes: 32, Order: keyspace.Hashed, Hash: keyspace.Mix}, values: new(keyspace.Values)}
	w := &worker{keys: keys.source(workload.MeasurePhase, 0), reader: nothing{}, clock: clock, service: measure.NewRecorder(), stop: new(atomic.Bool)}
	best := math.Inf(1)
	for range 5 {
		start := clock.Ticks()
		if err := w.run(floorGets / 5); err != nil {
			return math.NaN() // nothing{} never fails
		}
		best = min(best, float64(clock.Nanos(clock.Ticks()-start))/(floorGets/5))
	}
	return best
}

// nothing is an engine's reader without an engine.
type nothing struct{}

func (nothing) Get(_, dst []byte) ([]byte, bool, error) { return dst, false, nil }
func (nothing) Close() error                            { return nil }
