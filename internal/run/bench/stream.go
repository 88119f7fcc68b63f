package bench

import (
	"context"
	"errors"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// KeyStream returns the keys that a run of spec asks for, in order: first
// spec.WarmupGets, then spec.Gets. With one thread it is the order of the run;
// with more the threads take turns, as they do on average. next returns a key
// valid until the following call, and whether it is known to be in the database.
//
// The keys of a foreign database are sampled with e, which opens it read-only.
func KeyStream(ctx context.Context, e engine.Engine, spec *Spec) (next func() (key []byte, known, more bool), err error) {
	keys, err := streamKeys(ctx, e, spec)
	if err != nil {
		return nil, err
	}
	phase, left := workload.WarmPhase, spec.WarmupGets
	sources := keys.sources(phase, spec.Threads)
	turn := 0
	return func() ([]byte, bool, bool) {
		if left == 0 && phase == workload.WarmPhase {
			phase, left, turn = workload.MeasurePhase, spec.Gets, 0
			sources = keys.sources(phase, spec.Threads)
		}
		if left == 0 {
			return nil, false, false
		}
		left--
		asked := sources[turn].next()
		turn = (turn + 1) % len(sources)
		return asked.key, !asked.absent, true
	}, nil
}

func (k *keyset) sources(phase, threads int) []keySource {
	sources := make([]keySource, threads)
	for i := range sources {
		sources[i] = k.source(phase, i)
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
	found, err := sampleKeys(ctx, db, spec.SampleKeys, spec.Seed)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	choice.Keys = found.len()
	return &keyset{choice: choice, sample: found}, nil
}
