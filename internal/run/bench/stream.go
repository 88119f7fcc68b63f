package bench

import (
	"context"
	"errors"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
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
	keys, err := streamKeys(ctx, e, spec)
	if err != nil {
		return 0, err
	}
	return uint64(len(keys.played.order)), nil
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
		keys, err := playedKeys(reader, spec, choice)
		return keys, errors.Join(err, reader.Close(), db.Close())
	}
	found, err := sampleKeys(ctx, db, spec.SampleKeys, spec.Seed)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	choice.Keys = found.len()
	return &keyset{choice: choice, sample: found}, nil
}
