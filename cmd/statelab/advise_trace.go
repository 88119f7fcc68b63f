package main

import (
	"bytes"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/result"
)

// adviceTrace is a stream of Gets that fills every cache of the curve, as the
// database's own filters and indexes answer it.
type adviceTrace struct {
	app    *app
	trace  *cachesim.Trace
	policy cachesim.Policy
	cores  int
	gets   int
}

// A trace costs memory and, of a large database, all its metadata to be read.
// Beyond these the level model has to do.
const (
	leastTracedGets     = 200_000
	maxTracedMetadata   = 1 << 30
	tracedWarmupShare   = 4 // parts of five
	tracedBlocksPerFill = 2 // a cache is full after its blocks were asked for twice over
	usualBlockBytes     = 4 << 10
)

// traceForAdvice traces the database unless it is too large for that, or changes
// underneath: then nil, and why is said.
func (a *app) traceForAdvice(r request, run *result.Run, p *progress) (*adviceTrace, error) {
	gets := max(leastTracedGets, 5*tracedBlocksPerFill*advise.MostDrawn(run.Database.Levels)/usualBlockBytes/tracedWarmupShare)
	if gets > maxCurveGets || metadataBytes(run) > maxTracedMetadata {
		p.say("the database is too large to be traced: the prediction uses the sizes of its levels")
		return nil, nil
	}
	spec := r.spec
	spec.Threads, spec.WarmupAuto = 1, false
	spec.WarmupGets = uint64(gets) * tracedWarmupShare / (tracedWarmupShare + 1)
	spec.Gets = uint64(gets) - spec.WarmupGets
	var file bytes.Buffer
	if _, _, err := a.record(&file, r.target, &spec, trace.Sample{}, engine.Part{}, func(e result.Event) { p.tell("", e) }); err != nil {
		if a.ctx.Err() != nil {
			return nil, err
		}
		p.say("the database cannot be traced (%v): the prediction uses the sizes of its levels", err)
		return nil, nil
	}
	accesses, _, err := trace.Load(&file)
	if err != nil {
		return nil, err
	}
	return &adviceTrace{app: a, trace: accesses, policy: policyOf(spec.Engine), cores: r.cores, gets: int(gets)}, nil
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

// cost is the advise.Model's.
func (t *adviceTrace) cost(cacheBytes, reservedBytes int64) (advise.Cost, error) {
	setup := cachesim.Setup{Policy: t.policy, Cores: t.cores, ReservedBytes: reservedBytes}
	points, err := cachesim.Curve(t.app.ctx, t.trace, setup, []int64{cacheBytes})
	if err != nil {
		return advise.Cost{}, fmt.Errorf("simulate a cache of %s: %w", unit.Bytes(cacheBytes), err)
	}
	p := points[0]
	return advise.Cost{BlockReadsPerGet: p.BlockReadsPerGet(), DataBlocksPerGet: p.DataBlocksPerGet()}, nil
}
