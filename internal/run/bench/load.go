package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// load is the verb load: create (or resume), load, settle, verify.
func (r *run) load(ctx context.Context) error {
	m, create, err := r.loadManifest()
	if err != nil {
		return err
	}

	values, err := m.Values()
	if err != nil {
		return err
	}

	w := &r.Result.Workload
	w.KeyOrder, w.ValueBytes = m.KeyOrder, values.MeanBytes()
	if _, err := r.Phase("prepare", func(*atomicCount) error {
		o := openOptions(r.spec)
		o.Create = create
		// The manifest comes before the engine's first file: a load killed between the two
		// would leave files of unknown origin, which nobody may continue or remove.
		if create && isEmpty(r.spec.Dir) {
			if err := keyspace.WriteManifest(r.spec.Dir, m); err != nil {
				return err
			}
		}

		if err := r.open(ctx, o); err != nil {
			return err
		}

		return keyspace.WriteManifest(r.spec.Dir, m)
	}); err != nil {
		return err
	}

	loaded := new(measured)
	if loaded.cost, err = r.Phase("load", func(ops *atomicCount) error {
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
	settled, err := r.Phase("settle", func(*atomicCount) error { return r.settle(ctx) })
	if err != nil {
		return err
	}

	m.Loaded = m.Keys
	if err := r.age(ctx, m, values); err != nil {
		return err
	}

	m.Settled = true
	if err := keyspace.WriteManifest(r.spec.Dir, m); err != nil {
		return err
	}

	if err := r.verifyLoad(m, values); err != nil {
		return err
	}

	r.writeFigures(loaded, &settled)
	return nil
}

// loadManifest is the plan of a fresh load, or the manifest of the one to resume.
// The database is to be created if nothing of it is left.
func (r *run) loadManifest() (m *keyspace.Manifest, create bool, err error) {
	s := r.spec
	if !s.Resume {
		return &keyspace.Manifest{
			Engine:     s.Engine,
			Version:    r.engine.Info().Version,
			Profile:    s.Profile,
			Overrides:  s.Overrides,
			Workload:   s.Workload,
			Keys:       s.Keys,
			KeyBytes:   s.KeyBytes,
			KeyOrder:   keyspace.Hashed,
			KeyHash:    s.KeyHash,
			ValueModel: s.ValueModel,
			ValueBytes: s.ValueBytes,
			Seed:       s.Seed,
			BatchKeys:  s.BatchKeys,
			Age:        s.Age,
		}, true, nil
	}

	if m, err = keyspace.ReadManifest(s.Dir); err != nil {
		return nil, false, err
	}

	w := &r.Result.Workload
	w.Name, w.Keys, w.KeyBytes, w.KeyHash, w.ValueModel, w.BatchKeys, w.Seed = m.Workload, m.Keys,
		m.KeyBytes, m.KeyHash, m.ValueModel, m.BatchKeys, m.Seed
	// Before the first checkpoint nothing is durable. A sorted build goes on from
	// its tables, unless version 0.1.0 began it, which had keys of its own.
	if m.Loaded == 0 && (m.Workload != workload.FillSorted || m.KeyOrder == keyspace.Sorted) {
		r.Tell(result.Event{
			Phase: "prepare",
			Note:  "nothing that the load could go on from: starting it again",
		})

		if err := dbformat.Check(s.Engine, engine.Options{Dir: s.Dir, Create: true}); err != nil {
			return nil, false, err
		}

		if err := removeDatabase(s.Dir); err != nil {
			return nil, false, fmt.Errorf("remove the unfinished load: %w", err)
		}

		m.KeyOrder, create = keyspace.Hashed, true
	}

	return m, create, nil
}

// isEmpty reports whether dir holds, or can come to hold, nothing but what is not the
// engine's.
func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	others := slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return !engine.MayBeIn(e.Name())
	})
	return !others && (err == nil || errors.Is(err, os.ErrNotExist))
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

// filling is a load through the write path from several threads. Thread t of T writes
// runs t, t+T, t+2T, ... of keys: those below the slowest thread's next run are all in,
// and a resume starts there.
type filling struct {
	manifest *keyspace.Manifest
	values   *keyspace.Values
	ops      *atomicCount
	before   uint64 // keys that an earlier load has left
	runKeys  uint64
	next     []atomic.Uint64 // each thread's next run, from before on
	stop     atomic.Bool
	failed   chan error
	done     chan struct{}
}

// All threads together sort at most 1/sortedShare of a write buffer at a time. When a buffer
// becomes full, it holds only the lowest keys of each thread's run, so that some ranges have more
// keys in it than others: by calculation 4 % more or less (standard deviation), with four threads.
const sortedShare = 8

// runKeys is how many keys a thread sorts and then writes.
func (r *run) runKeys(m *keyspace.Manifest, values *keyspace.Values) uint64 {
	batch := uint64(m.BatchKeys)
	buffered, ok := r.db.(engine.WriteBuffered)
	if !ok {
		return batch
	}

	pairBytes := float64(m.KeyBytes) + values.MeanBytes()
	runBytes := float64(buffered.WriteBufferBytes()) / sortedShare / float64(r.spec.Threads)
	run := runBytes / pairBytes
	return max(1, uint64(run)/batch) * batch
}

func (r *run) fillRandom(
	ctx context.Context, m *keyspace.Manifest, values *keyspace.Values, ops *atomicCount,
) error {
	threads, runKeys := r.spec.Threads, r.runKeys(m, values)
	f := &filling{
		manifest: m,
		values:   values,
		ops:      ops,
		before:   m.Loaded,
		runKeys:  runKeys,
		next:     make([]atomic.Uint64, threads),
		failed:   make(chan error, threads),
		done:     make(chan struct{}),
	}

	var group sync.WaitGroup
	for t := range threads {
		f.next[t].Store(uint64(t))
		group.Go(func() {
			if err := r.fillThread(f, &f.next[t]); err != nil {
				f.failed <- err
				f.stop.Store(true)
			}
		})
	}

	go func() { group.Wait(); close(f.done) }()
	err := r.watchFilling(ctx, f)
	f.stop.Store(true)
	if errors.As(err, new(*backgroundFailure)) {
		return err // its threads may wait for ever
	}

	<-f.done
	close(f.failed)
	whole := err == nil || ctx.Err() != nil
	for threadErr := range f.failed {
		err, whole = errors.Join(err, threadErr), false
	}

	if whole {
		err = errors.Join(err, r.checkpoint(context.WithoutCancel(ctx), f))
	}

	return err
}

// watchFilling follows the threads until they are done, and notes how far they are.
func (r *run) watchFilling(ctx context.Context, f *filling) error {
	interval, err := r.Interval("load")
	if err != nil {
		return err
	}

	tick := time.NewTicker(session.TickEvery / 2)
	defer tick.Stop()
	for checkpointed := time.Now(); ; {
		select {
		case <-f.done:
			return interval.Progress(f.ops.Load(), true)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}

		if err := r.backgroundError(); err != nil {
			return err
		}

		n := f.ops.Load()
		r.Tell(
			result.Event{Phase: "load", Done: f.before + n, Total: f.manifest.Keys, Unit: "keys"},
		)
		if err := interval.Progress(n, false); err != nil {
			return err
		}

		if time.Since(checkpointed) >= checkpointEvery {
			if err := r.checkpoint(ctx, f); err != nil {
				return err
			}
			checkpointed = time.Now()
		}
	}
}

// checkpoint makes durable what is in, and tells the manifest.
func (r *run) checkpoint(ctx context.Context, f *filling) error {
	keys := f.manifest.Keys
	for t := range f.next {
		keys = min(keys, f.before+f.next[t].Load()*f.runKeys)
	}

	if err := r.db.Sync(ctx); err != nil {
		return fmt.Errorf("make %d loaded keys durable: %w", keys, err)
	}

	f.manifest.Loaded = keys
	return keyspace.WriteManifest(r.spec.Dir, f.manifest)
}

func (r *run) fillThread(f *filling, next *atomic.Uint64) (err error) {
	out, err := r.db.Writer()
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, out.Close()) }()
	m, step := f.manifest, uint64(len(f.next))
	made := newAscending(m, f.runKeys)
	var value []byte
	// What is stopped ends its run: a resume would write the keys of a part of it again.
	for run := next.Load(); f.before+run*f.runKeys < m.Keys && !f.stop.Load(); run += step {
		from := f.before + run*f.runKeys
		for batch := range slices.Chunk(made.keys(from, min(from+f.runKeys, m.Keys)), m.BatchKeys) {
			for _, k := range batch {
				key, index := made.key(k), from+uint64(k.at)
				value = f.values.Value(value, index, 0)
				if err := out.Put(key, value); err != nil {
					return fmt.Errorf("put key %x at op %d: %w", key, index, err)
				}
			}

			if err := out.Commit(); err != nil {
				return fmt.Errorf("commit a batch of the keys from %d on: %w", from, err)
			}

			f.ops.Add(uint64(len(batch)))
		}

		next.Store(run + step)
	}

	return nil
}

// ascending makes the keys of a run and sorts them: a memtable finds the place of a
// key faster next to that of the key before. What is loaded does not depend on it.
type ascending struct {
	maker    *keyspace.Maker
	keyBytes int
	bytes    []byte // the keys in the order of their indexes
	order    []ascendingKey
}

type ascendingKey struct {
	word uint64 // the first of the key
	at   int    // its place in the run
}

func newAscending(m *keyspace.Manifest, runKeys uint64) *ascending {
	return &ascending{
		maker:    m.KeySpace().Maker(),
		keyBytes: m.KeyBytes,
		bytes:    make([]byte, min(runKeys, m.Keys)*uint64(m.KeyBytes)),
	}
}

// keys are those of the indexes from from to to, valid until the next call.
func (a *ascending) keys(from, to uint64) []ascendingKey {
	a.order = a.order[:0]
	for at := range int(to - from) {
		k := ascendingKey{at: at}
		key := a.key(k)
		a.maker.Key(key, from+uint64(at))
		k.word = binary.BigEndian.Uint64(key)
		a.order = append(a.order, k)
	}

	slices.SortFunc(a.order, func(x, y ascendingKey) int { return cmp.Compare(x.word, y.word) })
	return a.order
}

func (a *ascending) key(k ascendingKey) []byte {
	return a.bytes[k.at*a.keyBytes : (k.at+1)*a.keyBytes]
}

// fillSorted sorts the keys, builds tables from them and ingests those.
func (r *run) fillSorted(
	ctx context.Context, m *keyspace.Manifest, values *keyspace.Values, ops *atomicCount,
) (err error) {
	builder, ok := r.db.(engine.SortedBuilder)
	if !ok {
		return fmt.Errorf("%s cannot be built from sorted keys: use --workload fillrandom",
			r.engine.Info().Name)
	}

	start := time.Now()
	var told atomic.Int64
	progress := func(phase string, count *atomicCount) func(keys uint64) {
		return func(keys uint64) {
			done := count.Add(keys)
			tenth := int64(time.Since(start) / (100 * time.Millisecond))
			if told.Swap(tenth) != tenth {
				r.Tell(result.Event{Phase: phase, Done: done, Total: m.Keys, Unit: "keys"})
			}
		}
	}

	path := filepath.Join(r.spec.Dir, engine.OwnFolder, "key-order")
	if _, err := os.Stat(path); !r.spec.Resume || err != nil {
		if err := m.KeySpace().WriteOrder(ctx, path, r.spec.Threads,
			progress("sort", new(atomicCount))); err != nil {
			return fmt.Errorf("sort the keys: %w", err)
		}
	}

	order, err := os.Open(path)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, order.Close()) }()
	spec := engine.SortedSpec{
		Keys:       m.Keys,
		KeyBytes:   m.KeyBytes,
		ValueBytes: int(values.MeanBytes()),
		Seed:       m.Seed,
		Workers:    r.spec.Threads,
		Resume:     r.spec.Resume,
	}

	if err := builder.BuildSorted(ctx, spec, func(from, to uint64) engine.Entries {
		return entries(m, values,
			io.NewSectionReader(order, int64(from*keyspace.IndexBytes),
				int64((to-from)*keyspace.IndexBytes)))
	}, progress("load", ops)); err != nil {
		return err
	}

	return os.Remove(path)
}

// entries streams the pairs of the indexes that order holds.
func entries(m *keyspace.Manifest, values *keyspace.Values, order io.Reader) engine.Entries {
	indexes := bufio.NewReaderSize(order, 64<<10)
	maker, key := m.KeySpace().Maker(), make([]byte, m.KeyBytes)
	var value []byte
	var word [keyspace.IndexBytes]byte
	return func(skip bool) ([]byte, []byte, error) {
		if _, err := io.ReadFull(indexes, word[:]); err != nil || skip {
			return nil, nil, err
		}

		index := binary.LittleEndian.Uint64(word[:])
		maker.Key(key, index)
		value = values.Value(value, index, 0)
		return key, value, nil
	}
}

// verifyKeys are read back after a load.
const verifyKeys = 2000

func (r *run) verifyLoad(m *keyspace.Manifest, values *keyspace.Values) error {
	_, err := r.Phase("verify", func(ops *atomicCount) error {
		reader, err := r.db.Reader()
		if err != nil {
			return err
		}

		keys := &keyset{
			choice:  workload.Choice{Keys: m.Keys, MissingShare: 0.1, Seed: m.Seed},
			space:   m.KeySpace(),
			values:  values,
			version: m.MaxVersion,
			any:     r.engine.Info().Has(engine.KeepsNothing),
		}

		g := &gets{keySource: keys.source(workload.MeasurePhase, 0)}
		err = timed.NewWorker(r.Clock, g, reader).Run(verifyKeys)
		ops.Add(g.found + g.missing)
		if err := errors.Join(err, reader.Close()); err != nil {
			return err
		}

		return r.noteDatabase()
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
	return "the engine no longer writes: " + e.err.Error()
}
func (e *backgroundFailure) Unwrap() error { return e.err }

// Ages of a database, besides a number of rounds.
const (
	NoAge  = "none"
	Steady = "steady" // until its level sizes and its write amplification stop changing
)

// The rule of steady, told in docs/loading.md.
const (
	agePart       = 4   // a round overwrites one in so many keys
	fewestRounds  = 3   // compared
	maxSteadyAge  = 40  // of steady
	maxAgeRounds  = 400 // of a number that is asked for
	steadyShift   = .02 // share of the bytes that a level may have more or less of
	steadyAmplify = .05 // of the write amplification
)

// AgeRounds reads an age: the most rounds, and whether they may end before.
func AgeRounds(age string) (rounds int, steady bool, err error) {
	switch age {
	case "", NoAge:
		return 0, false, nil
	case Steady:
		return maxSteadyAge, true, nil
	}

	if rounds, err = strconv.Atoi(age); err != nil || rounds < 1 || rounds > maxAgeRounds {
		return 0, false, fmt.Errorf("invalid age %q: %s, %s, or a number of rounds up to %d", age,
			NoAge, Steady, maxAgeRounds)
	}

	return rounds, false, nil
}

// age overwrites random keys in rounds, each settled, until the database is as old as its
// manifest says it is to become.
func (r *run) age(ctx context.Context, m *keyspace.Manifest, values *keyspace.Values) error {
	rounds, steady, err := AgeRounds(m.Age)
	if err != nil {
		return err
	}

	for int(m.Aged) < rounds {
		round, err := r.ageRound(ctx, m, values)
		if err != nil {
			return err
		}

		f := &r.Result.Figures
		f.Age = append(f.Age, round)
		if steady && isSteady(f.Age) {
			return nil
		}
	}

	if steady {
		r.NotKnown(fmt.Sprintf("after %d rounds the database was still changing: it is as old as "+
			"--age %d makes it",
			rounds, rounds), "steady_age")
	}

	return nil
}

// ageRound is one round, after which the manifest has it.
func (r *run) ageRound(
	ctx context.Context, m *keyspace.Manifest, values *keyspace.Values,
) (round result.AgeRound, err error) {
	round.Round = int(m.Aged) + 1
	keys := &keyset{
		choice: workload.Choice{Keys: m.Keys, Seed: m.Seed +
			uint64(round.Round)*0x9e3779b97f4a7c15},
		space:  m.KeySpace(),
		values: values,
	}

	r.spec.Writers, r.spec.BatchKeys = max(1, r.spec.Threads), m.BatchKeys
	puts := max(1, m.Keys/agePart)
	made, err := r.write(ctx, "age", keys, puts)
	if err != nil {
		return round, err
	}

	settled, err := r.Phase("settle", func(*atomicCount) error { return r.settle(ctx) })
	if err != nil {
		return round, err
	}

	database, err := r.describe()
	if err != nil {
		return round, err
	}

	round.Puts, round.Bytes = made.puts, database.Bytes
	for _, level := range database.Levels {
		for len(round.LevelBytes) <= level.Level {
			round.LevelBytes = append(round.LevelBytes, 0)
		}
		round.LevelBytes[level.Level] = level.Bytes
	}

	if wrote := engineWrites(made.Subject) + engineWrites(settled.Subject); wrote > 0 &&
		made.userBytes > 0 {
		round.WriteAmplification = figure.If(ratio(wrote, float64(made.userBytes)))
	}

	again, err := keyspace.ReadManifest(r.spec.Dir) // has the version of this round
	if err != nil {
		return round, err
	}

	m.MaxVersion, m.Aged = again.MaxVersion, m.Aged+1
	r.Result.Workload.Aged = int(m.Aged)
	return round, keyspace.WriteManifest(r.spec.Dir, m)
}

// isSteady compares the newest rounds with each other: the size of the database, what
// each level has of it, and the write amplification.
func isSteady(rounds []result.AgeRound) bool {
	if len(rounds) < fewestRounds {
		return false
	}

	newest := rounds[len(rounds)-fewestRounds:]
	last := newest[len(newest)-1]
	share := func(r result.AgeRound, level int) float64 {
		if level >= len(r.LevelBytes) {
			return 0
		}
		return float64(r.LevelBytes[level]) / math.Max(1, float64(r.Bytes))
	}

	for _, r := range newest {
		if math.Abs(float64(r.Bytes)/math.Max(1, float64(last.Bytes))-1) > steadyShift {
			return false
		}

		for level := range max(len(r.LevelBytes), len(last.LevelBytes)) {
			if math.Abs(share(r, level)-share(last, level)) > steadyShift {
				return false
			}
		}

		now, then := last.WriteAmplification, r.WriteAmplification
		if then.IsKnown() != now.IsKnown() ||
			then.IsKnown() && math.Abs(then.OrZero()/now.OrZero()-1) > steadyAmplify {
			return false
		}
	}

	return true
}
