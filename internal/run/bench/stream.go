package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/traffic"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/run/session"
)

// KeyStream returns the keys that a run of spec asks for, in order: first
// spec.WarmupGets, then spec.Gets. With one thread it is the order of the run;
// with more the threads take turns, as they do on average, batch by batch. next returns a key
// valid until the following call, and whether it is known to be in the database.
//
// The keys of a foreign database are sampled with e, which opens it read-only.
func KeyStream(ctx context.Context, e engine.Engine, spec *Spec) (next func() (key []byte, known, more bool), err error) {
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
	if traffic.Is(path) {
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
	choice := workload.Choice{MissingShare: spec.MissingShare, ZipfTheta: spec.ZipfTheta, Seed: spec.Seed}
	if !spec.Foreign {
		m, err := keyspace.ReadManifest(spec.Dir)
		if err != nil {
			return nil, err
		}
		values, err := m.Values()
		choice.Keys = m.Keys
		return &keyset{choice: choice, space: m.KeySpace(), values: values, version: m.MaxVersion}, err
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
				return fmt.Errorf("the list asks for more than %d MiB of different keys: use one of fewer blocks", maxSampleBytes>>20)
			}
			is, err := found()
			if err != nil {
				return err
			}
			i = uint32(len(p.ends))
			known[string(bytes.Clone(key))] = i
			p.bytes = append(p.bytes, key...)
			p.ends, p.absent, p.longest = append(p.ends, uint32(len(p.bytes))), append(p.absent, !is), max(p.longest, len(key))
		}
		p.order = append(p.order, i)
		return nil
	}
	var err error
	if spec.KeyScheme == traffic.Logged {
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
func readList(spec *Spec, get accesses.Get, visit func(key []byte, found func() (bool, error)) error) error {
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
func (p *played) readLogged(spec *Spec, get accesses.Get, visit func(key []byte, found func() (bool, error)) error) error {
	log, err := traffic.Open(spec.AccessList)
	if err != nil {
		return err
	}
	defer log.Close() // it is only read
	var op traffic.Op
	for wanted := spec.WarmupGets + spec.Gets; spec.WarmupAuto || wanted == 0 || uint64(len(p.order)) < wanted; {
		if err := log.Next(&op); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if op.Kind != traffic.Get && op.Kind != traffic.Has {
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
		r.Absent("this engine cannot show accesses that its cache served", "block_accesses_per_get_by_type", "hit_rate")
		return nil
	}
	gets := min(r.spec.AccessGets, m.gets)
	if gets == 0 || r.spec.Workload == workload.ReadWhileWriting {
		r.Absent("not asked for: --access-gets says how many Gets are replayed without a cache", "block_accesses_per_get_by_type", "hit_rate")
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
			if name == engine.Meta.String() { // tables are opened once, whatever the cache: a Get reads range deletions alone
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
