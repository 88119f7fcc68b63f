package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/kvlog"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result/figure"
)

// gets are the Gets of one thread, for the timed loop: keys of a source, whose answers
// are checked and counted.
type gets struct {
	keySource
	asked          choice
	found, missing uint64
}

func (g *gets) Next(uint64) (key []byte, n uint64) {
	g.next(&g.asked)
	return g.asked.key, 1
}

func (g *gets) LastRequest() string { return fmt.Sprintf("get key %x", g.asked.key) }

// Check compares the answer with what the key must give. A fast wrong answer is
// a failure.
func (g *gets) Check(value []byte, found bool) error {
	switch {
	case found && g.asked.absent && !g.mayExist():
		return fmt.Errorf("wrong answer: a value of %d bytes for a key that was never written",
			len(value))
	case found:
		g.found++
		if g.asked.absent {
			return nil
		}
		if err := g.check(&g.asked, value); err != nil {
			return fmt.Errorf("wrong answer: %w", err)
		}
		return nil
	case g.asked.absent:
		g.missing++
		return nil
	}

	return errors.New("wrong answer: a key that was written is missing")
}

// choice is the next key of a worker; the bytes are the source's and valid until
// the next choice.
type choice struct {
	key    []byte
	index  uint64
	absent bool
	newest bool // the newest version was acknowledged before
}

// keySource chooses keys and knows what they must give. One per worker and phase.
type keySource interface {
	next(*choice)
	check(asked *choice, value []byte) error
	mayExist() bool // an absent key may be in the database after all
}

// generated are the keys of a database that statelab loaded.
type generated struct {
	stream  *workload.Stream
	maker   *keyspace.Maker
	checker *keyspace.Checker
	key     []byte
	// acknowledged is nil where nobody writes meanwhile.
	acknowledged *keyspace.Acknowledged
}

func (g *generated) next(c *choice) {
	c.index, c.absent = g.stream.Next()
	g.maker.Key(g.key, c.index)
	c.key, c.newest = g.key, g.acknowledged != nil && g.acknowledged.Has(c.index)
}

func (g *generated) check(asked *choice, value []byte) error {
	return g.checker.Check(value, asked.index, asked.newest)
}

func (g *generated) mayExist() bool { return false }

// unchecked are keys for an engine that keeps nothing.
type unchecked struct{ *generated }

func (unchecked) check(*choice, []byte) error { return nil }

func (unchecked) mayExist() bool { return true }

// sample are keys found in a database that somebody else wrote. What a key must
// give is what it gave the first time.
type sample struct {
	bytes   []byte   // all keys, one after the other
	ends    []uint32 // where key i ends
	seen    []atomic.Uint64
	seed    maphash.Seed
	longest int
}

// maxSampleBytes are far more than the keys that are sampled by default take.
const maxSampleBytes = 256 << 20

// sampleKeys collects about n keys of db.
func sampleKeys(ctx context.Context, db engine.DB, n int, seed uint64) (*sample, error) {
	sampler, ok := db.(engine.KeySampler)
	if !ok {
		return nil, errors.New("this engine cannot sample the keys of a database that statelab " +
			"did not load")
	}

	s := &sample{seed: maphash.MakeSeed()}
	errFull := errors.New("sample is full")
	err := sampler.SampleKeys(ctx, n, seed, func(key []byte) error {
		switch {
		case len(s.ends) >= n:
			return errFull
		case len(s.bytes)+len(key) > maxSampleBytes:
			// those of the tables that come last would be missing
			return engine.Fail(engine.CodeUsage, "%d sampled keys take more than %d MiB", n,
				maxSampleBytes>>20).
				WithRemedy("ask for fewer, such as --sample-keys %d", len(s.ends)/2)
		}

		s.bytes = append(s.bytes, key...)
		s.ends = append(s.ends, uint32(len(s.bytes)))
		s.longest = max(s.longest, len(key))
		return nil
	})

	if err != nil && !errors.Is(err, errFull) {
		return nil, fmt.Errorf("sample keys: %w", err)
	}

	if len(s.ends) == 0 {
		return nil, engine.Fail(engine.CodeUsage, "sample keys: the database holds no key: none "+
			"was written, or all were deleted").
			WithRemedy("statelab load --db NEW --keys N makes a database to measure")
	}

	s.shuffle(seed)
	s.seen = make([]atomic.Uint64, len(s.ends))
	return s, nil
}

// shuffle puts the keys into an order that only they and the seed decide: engines
// sample on several goroutines, and the same Gets must come in every run.
func (s *sample) shuffle(seed uint64) {
	order := make([]uint64, s.len())
	for i := range order {
		order[i] = uint64(i)
	}

	slices.SortFunc(order, func(a, b uint64) int { return bytes.Compare(s.key(a), s.key(b)) })
	rand.New(rand.NewPCG(seed, 0x6b657973)).Shuffle(len(order), func(i, j int) {
		order[i], order[j] = order[j], order[i]
	})
	shuffled := sample{bytes: make([]byte, 0, len(s.bytes))}
	for _, i := range order {
		shuffled.bytes = append(shuffled.bytes, s.key(i)...)
		shuffled.ends = append(shuffled.ends, uint32(len(shuffled.bytes)))
	}

	s.bytes, s.ends = shuffled.bytes, shuffled.ends
}

func (s *sample) len() uint64 { return uint64(len(s.ends)) }

func (s *sample) key(i uint64) []byte {
	from := uint32(0)
	if i > 0 {
		from = s.ends[i-1]
	}
	return s.bytes[from:s.ends[i]]
}

// meanKeyBytes is the mean length of the sampled keys.
func (s *sample) meanKeyBytes() int { return len(s.bytes) / len(s.ends) }

// sampled draws from a sample.
type sampled struct {
	*sample
	stream *workload.Stream
	buffer []byte
}

func (s *sampled) next(c *choice) {
	if c.index, c.absent = s.stream.Next(); !c.absent {
		c.key = s.key(c.index)
		return
	}

	// An absent key looks like a present one, its last bytes changed.
	s.buffer = append(s.buffer[:0], s.key(c.index%s.len())...)
	var tail [8]byte
	// odd: different indexes, different tails
	binary.LittleEndian.PutUint64(tail[:], c.index*0x9e3779b97f4a7c15)
	copy(s.buffer[max(0, len(s.buffer)-len(tail)):], tail[:])
	c.key = s.buffer
}

func (s *sampled) mayExist() bool { return true }

func (s *sample) check(asked *choice, value []byte) error {
	sum := maphash.Bytes(s.seed, value) | 1 // 0 is "not read yet"
	if s.seen[asked.index].CompareAndSwap(0, sum) {
		return nil
	}
	if first := s.seen[asked.index].Load(); first != sum {
		return fmt.Errorf("a second read gave other bytes than the first (%d bytes)", len(value))
	}
	return nil
}

// reread reads up to n keys again that the run has read, so that even a key read
// once has been checked against a second read.
func (s *sample) reread(reader engine.Reader, n int) (checked int, err error) {
	var value []byte
	for i := range s.ends {
		if checked == n {
			break
		}

		if s.seen[i].Load() == 0 {
			continue
		}

		key := bytes.Clone(s.key(uint64(i)))
		got, found, err := reader.Get(key, value)
		if err != nil {
			return checked, fmt.Errorf("get key %x: %w", key, err)
		}

		if !found || maphash.Bytes(s.seed, got)|1 != s.seen[i].Load() {
			return checked, fmt.Errorf("get key %x: a second read gave another answer than the "+
				"first", key)
		}

		value = got[:0]
		checked++
	}

	return checked, nil
}

// KeyStream returns the keys that a run of spec asks for, in order: first
// spec.WarmupGets, then spec.Gets. With one thread it is the order of the run;
// with more the threads take turns, as they do on average, batch by batch. next returns a key
// valid until the following call, and whether it is known to be in the database.
//
// The keys of a foreign database are sampled with e, which opens it read-only.
func KeyStream(
	ctx context.Context, e engine.Engine, spec *Spec,
) (next func() (key []byte, known, more bool), err error) {
	keys, err := streamKeys(ctx, e, spec)
	if err != nil {
		return nil, err
	}

	phase, left := workload.WarmPhase, spec.WarmupGets
	sources := keys.sources(phase, spec)
	shares := sharesOf(left, spec.Threads)
	turn := 0
	var batch []choice
	return func() ([]byte, bool, bool) {
		if left == 0 && phase == workload.WarmPhase {
			phase, left, turn = workload.MeasurePhase, spec.Gets, 0
			sources, shares = keys.sources(phase, spec), sharesOf(left, spec.Threads)
		}

		if left == 0 {
			return nil, false, false
		}

		for len(batch) == 0 {
			n := min(shares[turn], uint64(max(1, spec.BatchGets)))
			shares[turn] -= n
			batch = sources[turn].take(int(n))
			turn = (turn + 1) % len(sources)
		}

		left--
		asked := batch[0]
		batch = batch[1:]
		return asked.key, !asked.absent, true
	}, nil
}

// ListGets is how many Gets the access list of spec comes to, played once.
func ListGets(ctx context.Context, e engine.Engine, spec *Spec) (uint64, error) {
	all := *spec
	all.WarmupGets, all.Gets = 0, 0
	keys, err := streamKeys(ctx, e, &all)
	if err != nil {
		return 0, err
	}
	return uint64(len(keys.played.order)), nil
}

// CheckList reports why a file is neither an access list nor a log.
func CheckList(path string) error {
	if kvlog.IsLog(path) {
		return nil
	}
	list, err := accesses.OpenFile(path)
	if err != nil {
		return err
	}
	return list.Close()
}

func sharesOf(gets uint64, threads int) []uint64 {
	shares := make([]uint64, threads)
	for i := range shares {
		shares[i] = session.Share(gets, i, threads)
	}
	return shares
}

func (k *keyset) sources(phase int, spec *Spec) []*batches {
	sources := make([]*batches, spec.Threads)
	for i := range sources {
		sources[i] = &batches{gets: gets{keySource: k.source(phase, i)}, sorted: spec.BatchSorted}
	}
	return sources
}

func streamKeys(ctx context.Context, e engine.Engine, spec *Spec) (*keyset, error) {
	choice := workload.Choice{
		MissingShare: spec.MissingShare,
		ZipfTheta:    spec.ZipfTheta,
		Seed:         spec.Seed,
	}

	if !spec.Foreign {
		m, err := keyspace.ReadManifest(spec.Dir)
		if err != nil {
			return nil, err
		}

		values, err := m.Values()
		choice.Keys = m.Keys
		return &keyset{choice: choice, space: m.KeySpace(), values: values, version: m.MaxVersion},
			err
	}

	o := openOptions(spec)
	o.ReadOnly, o.Direct = true, false
	db, err := dbformat.Open(ctx, e, o)
	if err != nil {
		return nil, err
	}

	if spec.AccessList != "" {
		reader, err := db.Reader()
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}

		p, err := readPlayed(reader, spec)
		if err := errors.Join(err, reader.Close(), db.Close()); err != nil {
			return nil, err
		}

		choice.Keys = p.len()
		return &keyset{choice: choice, sample: p.sample, played: p, threads: spec.Threads}, nil
	}

	found, err := sampleKeys(ctx, db, spec.SampleKeys, spec.Seed)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}

	choice.Keys = found.len()
	return &keyset{choice: choice, sample: found}, nil
}

// played are the keys of an access list, in order; after the last comes the first again.
type played struct {
	*sample
	order  []uint32 // of keys
	absent []bool   // by key
	warm   uint64   // Gets before those that count
}

// readPlayed resolves the list of spec to keys of the database that reader reads.
func readPlayed(reader engine.Reader, spec *Spec) (*played, error) {
	p := &played{sample: &sample{seed: maphash.MakeSeed()}, warm: spec.WarmupGets}
	known := map[string]uint32{}
	var value []byte
	get := func(key []byte) ([]byte, bool, error) {
		got, found, err := reader.Get(key, value[:0])
		value = got
		return got, found, err
	}

	visit := func(key []byte, found func() (bool, error)) error {
		i, seen := known[string(key)]
		if !seen {
			if len(p.bytes)+len(key) > maxSampleBytes {
				return fmt.Errorf("the list asks for more than %d MiB of different keys: use one "+
					"of fewer blocks", maxSampleBytes>>20)
			}

			is, err := found()
			if err != nil {
				return err
			}

			i = uint32(len(p.ends))
			known[string(bytes.Clone(key))] = i
			p.bytes = append(p.bytes, key...)
			p.ends, p.absent, p.longest = append(p.ends, uint32(len(p.bytes))),
				append(p.absent, !is), max(p.longest, len(key))
		}

		p.order = append(p.order, i)
		return nil
	}

	var err error
	if spec.KeyScheme == kvlog.Logged {
		err = p.readLogged(spec, get, visit)
	} else {
		err = readList(spec, get, visit)
	}

	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.AccessList, err)
	}

	if len(p.order) == 0 {
		return nil, errors.New(spec.AccessList + ": no block accesses anything")
	}

	p.seen = make([]atomic.Uint64, len(p.ends))
	return p, nil
}

// readList visits the keys that the access list of spec comes to.
func readList(
	spec *Spec, get accesses.Get, visit func(key []byte, found func() (bool, error)) error,
) error {
	list, err := accesses.OpenFile(spec.AccessList)
	if err != nil {
		return fmt.Errorf("open the access list: %w", err)
	}
	defer list.Close() // it is only read
	return accesses.Keys(spec.KeyScheme, get, list, func(key []byte, found bool) error {
		return visit(key, func() (bool, error) { return found, nil })
	})
}

// readLogged visits the keys of a log's Gets: those that a run of spec makes, or all.
func (p *played) readLogged(
	spec *Spec, get accesses.Get, visit func(key []byte, found func() (bool, error)) error,
) error {
	log, err := kvlog.Open(spec.AccessList)
	if err != nil {
		return err
	}

	defer log.Close() // it is only read
	var op kvlog.Op
	for wanted := spec.WarmupGets + spec.Gets; spec.WarmupAuto || wanted == 0 ||
		uint64(len(p.order)) < wanted; {
		if err := log.Next(&op); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}

		if op.Kind != kvlog.Get && op.Kind != kvlog.Has {
			continue
		}

		if err := visit(op.Key, func() (bool, error) {
			_, found, err := get(op.Key)
			return found, err
		}); err != nil {
			return err
		}
	}

	return nil
}

// playing plays a worker's share: the workers take turns.
type playing struct {
	*played
	at, step uint64
}

func (p *played) source(phase, worker, threads int) *playing {
	at := uint64(worker)
	if phase == workload.MeasurePhase {
		at += p.warm
	}
	return &playing{played: p, at: at, step: uint64(threads)}
}

func (p *playing) next(c *choice) {
	i := p.order[p.at%uint64(len(p.order))]
	p.at += p.step
	c.key, c.index, c.absent = p.key(uint64(i)), uint64(i), p.absent[i]
}

func (p *playing) mayExist() bool { return false }

// accesses learns how many blocks of each type a Get needs. Some engines count
// them. Else, since they do not depend on the cache, a cache that admits nothing
// shows every access as a block read.
func (r *run) accesses(ctx context.Context, keys *keyset, m *measured) error {
	if len(r.spec.Accesses) > 0 {
		r.hitRates(r.spec.Accesses, m)
		return nil
	}

	if counted := m.Subject.Accesses; counted != nil && m.gets > 0 {
		found := map[string]float64{}
		for _, kind := range engine.BlockTypes() {
			if n := counted[kind]; n > 0 {
				found[kind.String()] = float64(n) / float64(m.gets)
			}
		}

		r.hitRates(found, m)
		return nil
	}

	if !r.engine.Info().Has(engine.CanTraceAccesses) {
		r.MarkUnavailable("this engine cannot show accesses that its cache served",
			figure.BlockAccessesPerGet.ByType(), figure.HitRate)
		return nil
	}

	gets := min(r.spec.AccessGets, m.gets)
	if gets == 0 || r.spec.Workload == workload.ReadWhileWriting {
		r.MarkUnavailable("not asked for: --access-gets says how many Gets are replayed without "+
			"a cache",
			figure.BlockAccessesPerGet.ByType(), figure.HitRate)
		return nil
	}

	if err := r.close(); err != nil {
		return err
	}

	found := map[string]float64{}
	_, err := r.Phase("accesses", func(ops *atomicCount) error {
		o := openOptions(r.spec)
		o.TraceAccesses, o.CacheBytes, o.MemoryBytes, o.Direct = true, 0, 0, false
		o.ReadOnly = true
		effective := r.Result.Engine
		cache, memory := r.Result.Cache, r.Result.Memory
		if err := r.open(ctx, o); err != nil {
			return err
		}

		r.Result.Engine, r.Result.Cache, r.Result.Memory = effective, cache, memory
		// Worker 0's measured Gets, alone and one by one: two could share one read.
		one := new(team)
		if err := r.addReader(one, keys.source(workload.MeasurePhase, 0), false); err != nil {
			return err
		}

		before := r.db.Counters()
		err := r.drive(ctx, one, stretch{phase: "accesses", gets: gets, ops: ops})
		d := r.db.Counters().Sub(before)
		for name, tally := range byType(d.Reads) {
			n := tally.Count
			// tables are opened once, whatever the cache: a Get reads range deletions alone
			if name == engine.Meta.String() {
				n = *cmp.Or(d.RangeDeletionReads, new(int64))
			}

			if n > 0 {
				found[name] = float64(n) / float64(max(1, ops.Load()))
			}
		}

		return errors.Join(err, one.close.all())
	})
	if err != nil {
		return err
	}

	r.hitRates(found, m)
	return nil
}
