package evidence

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// A trace costs memory and, of a large database, all its metadata to be read.
// Beyond these the level model has to do.
const (
	leastTracedGets     = 200_000
	maxTracedMetadata   = 1 << 30
	tracedWarmupShare   = 4 // parts of five
	tracedBlocksPerFill = 2 // a cache is full after its blocks were asked for twice over
	usualBlockBytes     = 4 << 10
)

// draw predicts the curve of e: from a trace of the database's own blocks where it can be traced, and
// else from the sizes of its levels. It tells whether there is a trace.
func (a *Asked) draw(ctx context.Context, run *result.Run, model *advise.Model, e *advise.Evidence) (traced bool, err error) {
	var t *cachesim.Trace
	gets := uint64(0)
	switch {
	case a.Table:
	case a.Gets.Spec.AccessList != "":
		if t, model.List, err = a.traceList(ctx, run); err == nil {
			gets = model.List.WarmupGets + model.List.Gets
		}
	default:
		t, gets, err = a.traceRandom(ctx, run)
	}
	if err != nil {
		return false, err
	}
	if t != nil {
		model.Cost = a.costOf(ctx, t)
	}
	e.Curve, err = advise.Draw(ctx, *model, func(done int) {
		a.Tell(result.Event{Phase: "predicting", Done: uint64(done), Unit: "points"})
	})
	e.Curve.TracedGets = int(gets)
	return t != nil, err
}

// traceRandom traces Gets that fill every cache of the curve, unless the database is too large
// for that, or changes underneath: then nil, and why is said.
func (a *Asked) traceRandom(ctx context.Context, run *result.Run) (t *cachesim.Trace, traced uint64, err error) {
	gets := max(leastTracedGets, 5*tracedBlocksPerFill*advise.MostDrawn(run.Database.Levels, run.Database.Values)/usualBlockBytes/tracedWarmupShare)
	table := a.Gets.Spec.Overrides["table"]
	if gets > curve.MostGets || metadataBytes(run) > maxTracedMetadata {
		if table != "" {
			return nil, 0, errors.New("--table: the database is too large to be traced, and the sizes of its levels do not tell kinds of keys apart: " +
				"measure with statelab sweep --table")
		}
		if err := advise.OnlyLevels(a.Dir, run.Database.Values); err != nil {
			return nil, 0, err
		}
		a.Say("the database is too large to be traced: the prediction uses the sizes of its levels")
		return nil, 0, nil
	}
	warmup := uint64(gets) * tracedWarmupShare / (tracedWarmupShare + 1)
	t, err = a.trace(ctx, warmup, uint64(gets)-warmup)
	if err != nil && ctx.Err() == nil && table == "" && run.Database.Values == nil {
		a.Say("the database cannot be traced (%v): the prediction uses the sizes of its levels", err)
		return nil, 0, nil
	}
	return t, uint64(gets), err
}

// traceList traces the Gets of an access list, once: the first half fills the cache, the other counts. A
// curve for random keys is no stand-in where that cannot be done.
func (a *Asked) traceList(ctx context.Context, run *result.Run) (*cachesim.Trace, *advise.List, error) {
	if metadata := metadataBytes(run); metadata > maxTracedMetadata {
		return nil, nil, fmt.Errorf("--accesses: a trace needs %s of filters and indexes in memory, at most %s are read: measure with statelab sweep --accesses",
			unit.Bytes(metadata), unit.Bytes(maxTracedMetadata))
	}
	spec := a.Gets.Spec
	gets, err := bench.ListGets(ctx, a.Gets.Engine, &spec)
	if err != nil {
		return nil, nil, err
	}
	if gets < 2 || gets > curve.MostGets {
		return nil, nil, fmt.Errorf("--accesses %s: its blocks ask for %s keys, advise needs from 2 to %s: use a list of other blocks", spec.AccessList,
			unit.Count(gets), unit.Count(uint64(curve.MostGets)))
	}
	list := &advise.List{Name: filepath.Base(spec.AccessList), KeyScheme: spec.KeyScheme, Gets: gets - gets/2, WarmupGets: gets / 2}
	t, err := a.trace(ctx, list.WarmupGets, list.Gets)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range t.Blocks {
		list.Bytes += int64(b.Bytes) + subject.PebbleVersion(spec.Engine).BlockCharge()
	}
	list.FirstReads = float64(firstReads(t)) / float64(list.Gets)
	return t, list, nil
}

// trace traces as many Gets.
func (a *Asked) trace(ctx context.Context, warmup, gets uint64) (*cachesim.Trace, error) {
	of := a.Gets
	of.Spec.Threads, of.Spec.WarmupAuto, of.Spec.WarmupGets, of.Spec.Gets = 1, false, warmup, gets
	t, _, err := curve.Traced(ctx, of, a.Tell)
	return t, err
}

// costOf is the advise.Model's.
func (a *Asked) costOf(ctx context.Context, t *cachesim.Trace) func(cacheBytes, reservedBytes int64) (advise.Cost, error) {
	return func(cacheBytes, reservedBytes int64) (advise.Cost, error) {
		setup := cachesim.Setup{Policy: subject.PebbleVersion(a.Gets.Spec.Engine).Policy(), Cores: a.Cores, ReservedBytes: reservedBytes}
		points, err := cachesim.Curve(ctx, t, setup, []int64{cacheBytes})
		if err != nil {
			return advise.Cost{}, fmt.Errorf("simulate a cache of %s: %w", unit.Bytes(cacheBytes), err)
		}
		return advise.Cost{BlockReadsPerGet: points[0].BlockReadsPerGet(), DataBlocksPerGet: points[0].DataBlocksPerGet()}, nil
	}
}

// firstReads are the accesses after the warm-up to blocks that were not accessed before.
func firstReads(t *cachesim.Trace) (reads int) {
	seen := make([]bool, len(t.Blocks))
	for i, number := range t.Accesses {
		if !seen[number] && uint32(i) >= t.Gets[t.WarmupGets] {
			reads++
		}
		seen[number] = true
	}
	return reads
}

func metadataBytes(run *result.Run) (bytes int64) {
	for _, l := range run.Database.Levels {
		bytes += l.IndexBytes + l.TopIndexBytes
		if l.FilterConsulted {
			bytes += l.FilterBytes
		}
	}
	return bytes
}
