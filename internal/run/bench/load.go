package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
)

// load is the verb load: create (or resume), load, settle, verify.
func (r *run) load(ctx context.Context) error {
	m, err := r.loadManifest()
	if err != nil {
		return err
	}
	values, err := m.Values()
	if err != nil {
		return err
	}
	w := &r.result.Workload
	w.KeyOrder, w.ValueBytes = m.KeyOrder, values.MeanBytes()
	if _, err := r.phase("prepare", func(*atomicCount) error {
		o := openOptions(r.spec)
		o.Create = m.Loaded == 0
		if err := r.open(ctx, o); err != nil {
			return err
		}
		return keyspace.WriteManifest(r.spec.Dir, m)
	}); err != nil {
		return err
	}
	loaded := new(measured)
	if loaded.phaseDelta, err = r.phase("load", func(ops *atomicCount) error {
		defer func() { loaded.puts = ops.Load() }()
		if m.Loaded == m.Keys {
			return nil
		}
		if m.Workload == workload.FillSorted {
			return r.fillSorted(ctx, m, values, ops)
		}
		return r.fillRandom(ctx, m, values, ops)
	}); err != nil {
		return err
	}
	loaded.userBytes = int64(float64(loaded.puts) * (float64(m.KeyBytes) + values.MeanBytes()))
	settled, err := r.phase("settle", func(*atomicCount) error { return r.settle(ctx) })
	if err != nil {
		return err
	}
	m.Loaded, m.Settled = m.Keys, true
	if err := keyspace.WriteManifest(r.spec.Dir, m); err != nil {
		return err
	}
	if err := r.verifyLoad(m, values); err != nil {
		return err
	}
	r.writeFigures(loaded, &settled)
	return r.noteDatabase()
}

// loadManifest is the plan of a fresh load, or the manifest of the one to resume.
func (r *run) loadManifest() (*keyspace.Manifest, error) {
	s := r.spec
	order := keyspace.Hashed
	if s.Workload == workload.FillSorted {
		order = keyspace.Sorted
	}
	if !s.Resume {
		return &keyspace.Manifest{Engine: s.Engine, Version: r.engine.Info().Version, Profile: s.Profile, Overrides: s.Overrides, Workload: s.Workload,
			Keys: s.Keys, KeyBytes: s.KeyBytes, KeyOrder: order, KeyHash: s.KeyHash, ValueModel: s.ValueModel, ValueBytes: s.ValueBytes,
			Seed: s.Seed, BatchKeys: s.BatchKeys}, nil
	}
	m, err := keyspace.ReadManifest(s.Dir)
	if err != nil {
		return nil, err
	}
	w := &r.result.Workload
	w.Name, w.Keys, w.KeyBytes, w.KeyHash, w.ValueModel, w.BatchKeys, w.Seed = m.Workload, m.Keys, m.KeyBytes, m.KeyHash, m.ValueModel, m.BatchKeys, m.Seed
	// Half-built tables cannot be told from whole ones, and before the first
	// checkpoint nothing is durable.
	if m.Loaded == 0 || m.Workload == workload.FillSorted && m.Loaded < m.Keys {
		r.tell(Event{Phase: "prepare", Note: "nothing that the load could go on from: starting it again"})
		if err := dbformat.Check(s.Engine, engine.Options{Dir: s.Dir, Create: true}); err != nil {
			return nil, err
		}
		if err := removeDatabase(s.Dir); err != nil {
			return nil, fmt.Errorf("remove the unfinished load: %w", err)
		}
		m.Loaded = 0
	}
	return m, nil
}

// removeDatabase empties dir, but for what is not the engine's.
func removeDatabase(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if engine.MayBeIn(e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// checkpointEvery is how often the manifest learns what is durably loaded.
const checkpointEvery = time.Second

// fillRandom writes batches through the write path from several threads. Thread
// t of T writes batches t, t+T, t+2T, ...: the keys below the slowest thread's
// next batch are all in, and a resume starts there.
func (r *run) fillRandom(ctx context.Context, m *keyspace.Manifest, values *keyspace.Values, ops *atomicCount) error {
	threads := r.spec.Threads
	first := m.Loaded / uint64(m.BatchKeys)
	batches := (m.Keys + uint64(m.BatchKeys) - 1) / uint64(m.BatchKeys)
	next := make([]atomic.Uint64, threads) // a thread's next batch
	failed := make(chan error, threads)
	var stop atomic.Bool
	var group sync.WaitGroup
	for t := range threads {
		next[t].Store(first + uint64(t))
		group.Go(func() {
			if err := r.fillThread(m, values, &next[t], uint64(threads), batches, ops, &stop); err != nil {
				failed <- err
				stop.Store(true)
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()

	checkpoint := func() error {
		low := next[0].Load()
		for t := range next {
			low = min(low, next[t].Load())
		}
		if err := r.db.Sync(ctx); err != nil {
			return fmt.Errorf("make %d loaded keys durable: %w", low*uint64(m.BatchKeys), err)
		}
		m.Loaded = min(low*uint64(m.BatchKeys), m.Keys)
		return keyspace.WriteManifest(r.spec.Dir, m)
	}
	start, last, lastOps := time.Now(), time.Now(), uint64(0)
	tick := time.NewTicker(tickEvery / 2)
	defer tick.Stop()
	for checkpointed := time.Now(); ; {
		select {
		case <-done:
			var errs []error
			for range len(failed) {
				errs = append(errs, <-failed)
			}
			if len(errs) > 0 {
				return errors.Join(errs...)
			}
			if err := checkpoint(); err != nil {
				return err
			}
			if m.Loaded < m.Keys {
				return context.Cause(ctx)
			}
			return nil
		case <-ctx.Done():
			stop.Store(true)
			<-done
			return errors.Join(checkpoint(), context.Cause(ctx))
		case <-tick.C:
		}
		if err := r.backgroundError(); err != nil {
			stop.Store(true)
			return err
		}
		r.tell(Event{Phase: "load", Done: first*uint64(m.BatchKeys) + ops.Load(), Total: m.Keys, Unit: "keys"})
		if now := time.Now(); now.Sub(last) >= tickEvery {
			n := ops.Load()
			if err := r.series.write(result.Tick{Phase: "load", Seconds: now.Sub(start).Seconds(), Ops: n - lastOps, OpsPerSecond: float64(n-lastOps) / now.Sub(last).Seconds()}); err != nil {
				return err
			}
			last, lastOps = now, n
		}
		if time.Since(checkpointed) >= checkpointEvery {
			if err := checkpoint(); err != nil {
				stop.Store(true)
				return err
			}
			checkpointed = time.Now()
		}
	}
}

func (r *run) fillThread(m *keyspace.Manifest, values *keyspace.Values, next *atomic.Uint64, step, batches uint64, ops *atomicCount, stop *atomic.Bool) (err error) {
	out, err := r.db.Writer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	maker, key := m.KeySpace().Maker(), make([]byte, m.KeyBytes)
	var value []byte
	for batch := next.Load(); batch < batches && !stop.Load(); batch += step {
		from := batch * uint64(m.BatchKeys)
		to := min(from+uint64(m.BatchKeys), m.Keys)
		for index := from; index < to; index++ {
			maker.Key(key, index)
			value = values.Value(value, index, 0)
			if err := out.Put(key, value); err != nil {
				return fmt.Errorf("put key %x at op %d: %w", key, index, err)
			}
		}
		if err := out.Commit(); err != nil {
			return fmt.Errorf("commit keys %d to %d: %w", from, to, err)
		}
		ops.Add(to - from)
		next.Store(batch + step)
	}
	return nil
}

// fillSorted builds tables from the ascending keys and ingests them.
func (r *run) fillSorted(ctx context.Context, m *keyspace.Manifest, values *keyspace.Values, ops *atomicCount) error {
	builder, ok := r.db.(engine.SortedBuilder)
	if !ok {
		return fmt.Errorf("%s cannot be built from sorted keys: use --workload fillrandom", r.engine.Info().Name)
	}
	spec := engine.SortedSpec{Keys: m.Keys, KeyBytes: m.KeyBytes, ValueBytes: int(values.MeanBytes()), Seed: m.Seed, Workers: r.spec.Threads}
	start := time.Now()
	var told atomic.Int64
	return builder.BuildSorted(ctx, spec, func(from, to uint64) engine.Entries {
		maker, key := m.KeySpace().Maker(), make([]byte, m.KeyBytes)
		var value []byte
		index := from
		return func() ([]byte, []byte, bool) {
			if index >= to {
				return nil, nil, false
			}
			maker.Key(key, index)
			value = values.Value(value, index, 0)
			index++
			return key, value, true
		}
	}, func(pairs uint64) {
		ops.Add(pairs)
		if tenth := int64(time.Since(start) / (100 * time.Millisecond)); told.Swap(tenth) != tenth {
			r.tell(Event{Phase: "load", Done: ops.Load(), Total: m.Keys, Unit: "keys"})
		}
	})
}

// verifyKeys are read back after a load.
const verifyKeys = 2000

func (r *run) verifyLoad(m *keyspace.Manifest, values *keyspace.Values) error {
	_, err := r.phase("verify", func(ops *atomicCount) error {
		reader, err := r.db.Reader()
		if err != nil {
			return err
		}
		keys := &keyset{choice: workload.Choice{Keys: m.Keys, MissingShare: 0.1, Seed: m.Seed}, space: m.KeySpace(), values: values, version: m.MaxVersion,
			any: r.engine.Info().Has(engine.KeepsNothing)}
		w := &worker{keys: keys.source(workload.MeasurePhase, 0), reader: reader, clock: r.clock, service: measure.NewRecorder(), stop: new(atomic.Bool)}
		err = w.run(verifyKeys)
		ops.Add(w.found + w.missing)
		return errors.Join(err, reader.Close())
	})
	return err
}

// backgroundError is what the engine could not do behind our back, such as write
// to a full disk: its writers may then wait for ever.
func (r *run) backgroundError() error {
	if db, ok := r.db.(engine.BackgroundWorker); ok {
		if err := db.BackgroundError(); err != nil {
			return &backgroundFailure{err}
		}
	}
	return nil
}

// backgroundFailure also says that the database cannot be closed in order.
type backgroundFailure struct{ err error }

func (e *backgroundFailure) Error() string {
	return "the engine's background work failed: " + e.err.Error()
}
func (e *backgroundFailure) Unwrap() error { return e.err }
