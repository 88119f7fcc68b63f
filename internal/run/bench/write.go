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
	"github.com/statelab/statelab/internal/base/pace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/result"
)

// writer updates random existing keys in batches, until it has done its share or
// is stopped.
type writer struct {
	stream  *workload.Stream
	maker   *keyspace.Maker
	values  *keyspace.Values
	version uint32 // of what it writes
	out     engine.Writer
	pace    pace.Pacer // of batches
	clock   *measure.Clock
	commits *measure.Recorder // time of one Commit

	batchKeys int
	share     uint64
	batch     []uint64 // keys of the batch
	// acknowledged learns of keys once their commit has returned.
	acknowledged *keyspace.Acknowledged
	key          []byte
	value        []byte
	done         atomic.Uint64 // puts committed
	userBytes    int64
}

func (w *writer) Times() *measure.Recorder { return w.commits }

func (w *writer) Finish() { w.commits.Finish() }

func (w *writer) Done() uint64 { return w.done.Load() }

func (w *writer) Run(began int64, stop *atomic.Bool) error {
	for left := w.share; left > 0; {
		if due, open := w.pace.Next(); open {
			timed.SleepUntil(w.clock, began, due, stop)
		}

		if stop.Load() {
			return timed.ErrStopped
		}

		batch := min(left, uint64(w.batchKeys))
		w.batch = w.batch[:0]
		for range batch {
			index, _ := w.stream.Next()
			w.maker.Key(w.key, index)
			w.value = w.values.Value(w.value, index, w.version)
			if err := w.out.Put(w.key, w.value); err != nil {
				return fmt.Errorf("put key %x at put %d: %w", w.key, w.done.Load(), err)
			}

			w.userBytes += int64(len(w.key) + len(w.value))
			w.batch = append(w.batch, index)
		}

		start := w.clock.Ticks()
		err := w.out.Commit()
		w.commits.Add(w.clock.Nanos(w.clock.Ticks() - start))
		if err != nil {
			return fmt.Errorf("commit %d puts at put %d: %w", batch, w.done.Load(), err)
		}

		w.done.Add(batch)
		if w.acknowledged != nil {
			for _, index := range w.batch {
				w.acknowledged.Add(index)
			}
		}

		left -= batch
	}

	return nil
}

// addWriters gives the team its writers. The manifest learns of the new version
// first: a run that dies leaves a database that can still be checked.
func (r *run) addWriters(t *team, keys *keyset, puts uint64) error {
	if keys.sample != nil {
		return errors.New("a database that statelab did not load is never written")
	}

	if keys.any {
		return fmt.Errorf("%s keeps nothing that could be overwritten: use --workload readrandom",
			r.engine.Info().Name)
	}

	m, values, err := r.manifest()
	if err != nil {
		return err
	}

	m.MaxVersion++
	if err := keyspace.WriteManifest(r.spec.Dir, m); err != nil {
		return err
	}

	keys.version = m.MaxVersion
	var acknowledged *keyspace.Acknowledged
	if len(t.gets) > 0 {
		acknowledged = keyspace.NewAcknowledged(keys.choice.Keys)
	}

	for _, g := range t.gets {
		source := g.generated()
		source.checker, source.acknowledged = values.Checker(m.MaxVersion), acknowledged
	}

	choice := workload.Choice{
		Keys:      keys.choice.Keys,
		ZipfTheta: keys.choice.ZipfTheta,
		Seed:      keys.choice.Seed,
	}

	for i := range r.spec.Writers {
		out, err := r.db.Writer()
		if err != nil {
			return fmt.Errorf("open writer %d: %w", i, err)
		}

		w := &writer{
			stream:       choice.Stream(workload.WritePhase, i),
			maker:        keys.space.Maker(),
			values:       values,
			version:      m.MaxVersion,
			out:          out,
			clock:        r.Clock,
			commits:      measure.NewRecorder(),
			batchKeys:    r.spec.BatchKeys,
			share:        math.MaxUint64,
			key:          make([]byte, keys.space.Bytes),
			batch:        make([]uint64, 0, r.spec.BatchKeys),
			acknowledged: acknowledged,
		}

		if puts != math.MaxUint64 {
			w.share = session.Share(puts, i, r.spec.Writers)
		}

		if r.spec.WriteRate > 0 {
			w.pace = pace.ConstantRate(r.spec.WriteRate/float64(r.spec.BatchKeys), i,
				r.spec.Writers)
		}

		t.writers, t.Background, t.close = append(t.writers, w), append(t.Background, w),
			append(t.close, out.Close)
	}

	return nil
}

// write is a phase of writers only.
func (r *run) write(
	ctx context.Context, phase string, keys *keyset, puts uint64,
) (*measured, error) {
	m := new(measured)
	var err error
	m.cost, err = r.Phase(phase, func(ops *atomicCount) error {
		t := new(team)
		err := r.addWriters(t, keys, puts)
		if err == nil {
			err = r.drive(ctx, t, stretch{phase: phase, gets: puts, ops: ops})
		}

		m.addPuts(t)
		ops.Store(m.puts)
		return errors.Join(err, t.close.all())
	})

	return m, err
}

// overwrite is bench_kvdb's random update: writers only, then the engine is left
// to finish, so that the write amplification counts the whole of its work.
func (r *run) overwrite(ctx context.Context, keys *keyset) error {
	m, err := r.write(ctx, "measure", keys, r.spec.Puts)
	end := time.Now()
	r.Latency(measure.LogEntry{
		Tag:       "commit",
		Start:     end.Add(-time.Duration(m.Seconds * float64(time.Second))),
		End:       end,
		Durations: r.putLatency,
	})
	if err != nil {
		return err
	}

	settled, err := r.Phase("settle", func(*atomicCount) error {
		if err := r.settle(ctx); err != nil {
			return err
		}
		return r.noteEnd()
	})
	if err != nil {
		return err
	}

	r.writeFigures(m, &settled)
	return nil
}

// settle waits for background work, then has the kernel write what it still buffers to a
// private device, which counts what was written.
func (r *run) settle(ctx context.Context) error {
	err := r.db.Settle(ctx, func(s engine.Settling) {
		r.Tell(result.Event{
			Phase: "settle",
			Unit:  "bytes",
			Note: fmt.Sprintf("%d background jobs, about %d MiB to go", s.Running,
				s.PendingBytes>>20),
		})
	})

	if err == nil && r.Device.Private {
		err = host.SyncFilesystem(r.spec.Dir)
	}

	return err
}
