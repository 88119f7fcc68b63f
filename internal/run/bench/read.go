package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

type atomicCount = atomic.Uint64

// keyset is where the workers' keys come from.
type keyset struct {
	choice  workload.Choice
	space   keyspace.Keys
	values  *keyspace.Values
	version uint32  // newest a value may have
	sample  *sample // of a foreign database, instead of space and values
	played  *played // of an access list, instead of drawing from sample
	threads int     // that play
	any     bool    // whatever a Get returns is right: engine.KeepsNothing
}

func (k *keyset) source(phase, worker int) keySource {
	stream := k.choice.Stream(phase, worker)
	if k.played != nil {
		return k.played.source(phase, worker, k.threads)
	}

	if k.sample != nil {
		return &sampled{sample: k.sample, stream: stream}
	}

	made := &generated{
		stream:  stream,
		maker:   k.space.Maker(),
		checker: k.values.Checker(k.version),
		key:     make([]byte, k.space.Bytes),
	}

	if k.any {
		return unchecked{made}
	}

	return made
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

	r.LimitPageCache(r.spec.Threads)
	measured, err := r.measure(ctx, keys)
	if err != nil && !errors.Is(err, context.Cause(ctx)) {
		return err
	}

	r.figures(measured)
	if err != nil {
		return err
	}

	if err := r.verify(keys); err != nil {
		return err
	}

	return r.accesses(ctx, keys, measured)
}

// prepare puts the page cache into its mode, opens the database and finds its keys.
func (r *run) prepare(ctx context.Context) (*keyset, error) {
	var keys *keyset
	_, err := r.Phase("prepare", func(*atomicCount) error {
		r.Result.Figures.Record(figure.HarnessTimePerGet, HarnessFloor(r.Clock))
		if err := r.beginBudget(ctx); err != nil {
			return err
		}

		if r.spec.Foreign { // by an opening of its own: no cache of the engine is to know the keys
			r.Tell(result.Event{Phase: "prepare: sample keys"})
			var err error
			if r.resolved, err = streamKeys(ctx, r.engine, r.spec); err != nil {
				return err
			}
		}

		if r.spec.PageCache == Cold ||
			r.spec.Foreign && r.spec.MemoryBytes > 0 && r.spec.PageCache != Direct {
			if err := r.Evict(ctx); err != nil {
				return err
			}
		}

		if err := r.open(ctx, openOptions(r.spec)); err != nil {
			return err
		}

		if err := r.noteDatabase(); err != nil {
			return err
		}

		var err error
		if keys, err = r.keyset(); err != nil {
			return err
		}

		if r.usesPageCache() { // it is to warm no more than it may keep
			r.LimitPageCache(r.spec.Threads)
		}

		return r.setPageCache(ctx)
	})

	return keys, err
}

func (r *run) keyset() (*keyset, error) {
	choice := workload.Choice{
		MissingShare: r.spec.MissingShare,
		ZipfTheta:    r.spec.ZipfTheta,
		Seed:         r.spec.Seed,
	}

	w := &r.Result.Workload
	if r.spec.AccessList != "" {
		keys := r.resolved
		w.Keys, w.KeyBytes, w.KeyOrder, w.ValueModel = keys.sample.len(),
			keys.sample.meanKeyBytes(), "access list, "+r.spec.KeyScheme+" keys", "foreign"
		if asked := uint64(len(keys.played.order)); r.spec.WarmupGets+r.spec.Gets > asked {
			r.Warn(engine.Warning{
				Code: "list_played_again",
				Text: fmt.Sprintf("the access list asks for %s keys, fewer than the Gets: "+
					"it is played more than once, and finds what it has read", unit.Count(asked)),
				Remedy: fmt.Sprintf("--warmup %d --gets %d, or a list of more blocks", asked/2,
					asked-asked/2),
			})
		}

		return keys, nil
	}

	if r.spec.Foreign {
		w.Keys, w.KeyBytes, w.KeyOrder, w.ValueModel = r.resolved.sample.len(),
			r.resolved.sample.meanKeyBytes(), "foreign", "foreign"
		return r.resolved, nil
	}

	unchecked := r.engine.Info().Has(engine.KeepsNothing)
	m, values, err := r.manifest()
	if errors.Is(err, keyspace.ErrNoManifest) && unchecked {
		m = floorManifest()
		values, err = m.Values()
	}

	if err != nil {
		return nil, err
	}

	w.LoadSeed = m.Seed
	if m.Loaded < m.Keys {
		return nil, r.incomplete(m)
	}

	if found, counted := keysIn(r.Result.Database); counted && m.Settled && found < m.Keys {
		return nil, fmt.Errorf("%s holds %s of the %s keys that were loaded into it: its files "+
			"are damaged or incomplete: load it again", r.spec.Dir, unit.Count(found),
			unit.Count(m.Keys))
	}

	if !m.Settled {
		r.Warn(engine.Warning{
			Code: "unsettled",
			Text: "the load ended before the engine's background work did: the shape may " +
				"change during the run",
			Remedy: r.words("statelab load --resume --db "+r.spec.Dir,
				"load it into a new Workload.Dir"),
		})
	}

	if i := r.engine.Info(); r.spec.Profile != m.Profile && i.Name == m.Engine &&
		len(i.StoredOptions) > 0 {
		r.Warn(engine.Warning{
			Code: "profile_of_the_load",
			Text: fmt.Sprintf("%s was loaded with profile %s: what applies when data is "+
				"written, such as block sizes and filters, is that profile's in its tables, and "+
				"all else is profile %s's", r.spec.Dir, m.Profile, r.spec.Profile),
			Remedy: r.words(fmt.Sprintf("--profile %s, or load another database: statelab load "+
				"--db NEW --profile %s", m.Profile, r.spec.Profile),
				fmt.Sprintf("Workload.Profile %s, or a new Workload.Dir", m.Profile)),
		})
	}

	choice.Keys, w.Aged = m.Keys, int(m.Aged)
	w.Keys, w.KeyBytes, w.KeyOrder, w.KeyHash, w.ValueModel, w.ValueBytes = m.Keys, m.KeyBytes,
		m.KeyOrder, m.KeyHash, m.ValueModel, values.MeanBytes()
	return &keyset{
		choice:  choice,
		space:   m.KeySpace(),
		values:  values,
		version: m.MaxVersion,
		any:     unchecked,
	}, nil
}

// keysIn sums the keys of the levels; false for an engine without levels, or one
// whose tables do not tell.
func keysIn(d result.Database) (keys uint64, counted bool) {
	for _, level := range d.Levels {
		if level.KeysEstimated {
			return 0, false
		}
		keys += uint64(level.Keys)
	}
	return keys, len(d.Levels) > 0
}

// measured is the outcome of the phase that counts.
type measured struct {
	cost
	gets, found, missing uint64
	puts                 uint64
	userBytes            int64
	service, response    *measure.Histogram
	room                 int64    // what the engine's cache may still take, at the start
	chance               *float64 // in the block reads per Get
}

func (m *measured) addPuts(t *team) {
	for _, w := range t.writers {
		m.puts += w.done.Load()
		m.userBytes += w.userBytes
	}
}

func (r *run) measure(ctx context.Context, keys *keyset) (*measured, error) {
	m := &measured{
		service:  measure.NewHistogram(),
		response: measure.NewHistogram(),
		room:     r.cacheRoom(),
	}

	var err error
	m.cost, err = r.Phase("measure", func(ops *atomicCount) error {
		t, err := r.team(keys, workload.MeasurePhase, r.spec.Rate)
		if err != nil {
			return err
		}

		if r.spec.Workload == workload.ReadWhileWriting {
			if err := r.addWriters(t, keys, math.MaxUint64); err != nil {
				return errors.Join(err, t.close.all())
			}
		}

		stop := func() {}
		if r.Uncounted() == "" {
			stop = r.growth.follow(r.OwnRead)
		}

		err = r.drive(ctx, t, stretch{"measure", r.spec.Gets, ops, m.service, m.response})
		stop()
		m.gets = ops.Load()
		for _, g := range t.gets {
			m.found += g.found
			m.missing += g.missing
		}

		if p := t.parted; err == nil && p != nil {
			p.note()
			m.chance = p.chance(float64(p.every) * float64(r.spec.Threads))
		}

		m.addPuts(t)
		return errors.Join(err, t.close.all())
	})

	end := time.Now()
	start := end.Add(-time.Duration(m.Seconds * float64(time.Second)))
	r.Latency(measure.LogEntry{Start: start, End: end, Durations: m.service})
	if r.spec.Rate > 0 {
		r.Latency(measure.LogEntry{Tag: "response", Start: start, End: end, Durations: m.response})
	}

	if m.puts > 0 {
		r.Latency(measure.LogEntry{Tag: "commit", Start: start, End: end, Durations: r.putLatency})
	}

	return m, err
}

// rereadKeys bounds the verify phase of a foreign database.
const rereadKeys = 10_000

// verify checks a foreign database's answers against a second read, and any database's
// shape against that before the run; answers of our own databases were checked against
// the generator as they came.
func (r *run) verify(keys *keyset) error {
	_, err := r.Phase("verify", func(ops *atomicCount) error {
		if keys.sample == nil {
			return r.noteEnd()
		}

		reader, err := r.db.Reader()
		if err != nil {
			return err
		}

		checked, err := keys.sample.reread(reader, rereadKeys)
		ops.Add(uint64(checked))
		if err := errors.Join(err, reader.Close()); err != nil {
			return err
		}

		return r.noteEnd()
	})

	return err
}

// noteEnd stores the shape after the run where it is another than before.
func (r *run) noteEnd() error {
	end, err := r.describe()
	if err != nil {
		return err
	}

	r.Result.After = &end
	start := r.Result.Database
	if r.spec.Workload == workload.Overwrite || r.spec.Workload == workload.ReadWhileWriting {
		return nil // writing is what changes a database
	}

	if end.Bytes != start.Bytes || end.Files != start.Files {
		remedy := "let its background work end first: statelab load --resume --db " + r.spec.Dir
		if r.spec.Foreign {
			remedy = "stop the program that writes to it, or measure a copy"
		}

		r.Warn(engine.Warning{Code: "shape_changed", Remedy: remedy,
			Text: fmt.Sprintf("the database changed during the run: %d files before, %d after",
				start.Files, end.Files)})
	}

	return nil
}

func (r *run) incomplete(m *keyspace.Manifest) error {
	return fmt.Errorf("the load of %s is incomplete: %d of %d keys; continue with statelab load "+
		"--resume --db %s", r.spec.Dir, m.Loaded, m.Keys, r.spec.Dir)
}
