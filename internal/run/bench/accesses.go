package bench

import (
	"context"
	"errors"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/workload"
)

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
			if name == engine.Meta.String() { // tables are opened once, whatever the cache
				n = rangeDeletions(d)
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

// rangeDeletions are the Meta reads that a Get makes of tables that are open.
func rangeDeletions(c engine.Counters) int64 {
	if c.RangeDeletionReads == nil {
		return 0
	}
	return *c.RangeDeletionReads
}
