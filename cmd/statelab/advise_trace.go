package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/run/bench"
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
	list   *advise.List // whose Gets they are
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
	if r.spec.AccessList != "" {
		return a.traceList(r, run, p)
	}
	gets := max(leastTracedGets, 5*tracedBlocksPerFill*advise.MostDrawn(run.Database.Levels)/usualBlockBytes/tracedWarmupShare)
	table := r.spec.Overrides["table"]
	if gets > maxCurveGets || metadataBytes(run) > maxTracedMetadata {
		if table != "" {
			return nil, errors.New("--table: the database is too large to be traced, and the sizes of its levels do not tell kinds of keys apart: " +
				"measure with statelab sweep --table")
		}
		p.say("the database is too large to be traced: the prediction uses the sizes of its levels")
		return nil, nil
	}
	spec := r.spec
	spec.Threads, spec.WarmupAuto = 1, false
	spec.WarmupGets = uint64(gets) * tracedWarmupShare / (tracedWarmupShare + 1)
	spec.Gets = uint64(gets) - spec.WarmupGets
	var file bytes.Buffer
	if _, _, _, err := a.record(&file, r.target, &spec, trace.Sample{}, engine.Part{}, func(e result.Event) { p.tell("", e) }); err != nil {
		if a.ctx.Err() != nil || table != "" {
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

// traceList traces the Gets of an access list, once: the first half fills the cache, the other counts. A
// curve for random keys is no stand-in where that cannot be done.
func (a *app) traceList(r request, run *result.Run, p *progress) (*adviceTrace, error) {
	if metadata := metadataBytes(run); metadata > maxTracedMetadata {
		return nil, fmt.Errorf("--accesses: a trace needs %s of filters and indexes in memory, at most %s are read: measure with statelab sweep --accesses",
			unit.Bytes(metadata), unit.Bytes(maxTracedMetadata))
	}
	spec := r.spec
	gets, err := bench.ListGets(a.ctx, linked(spec.Engine), &spec)
	if err != nil {
		return nil, err
	}
	if gets < 2 || gets > maxCurveGets {
		return nil, fmt.Errorf("--accesses %s: its blocks ask for %s keys, advise needs from 2 to %s: use a list of other blocks", spec.AccessList,
			unit.Count(gets), unit.Count(uint64(maxCurveGets)))
	}
	spec.Threads, spec.WarmupAuto, spec.WarmupGets = 1, false, gets/2
	spec.Gets = gets - spec.WarmupGets
	var file bytes.Buffer
	if _, _, _, err := a.record(&file, r.target, &spec, trace.Sample{}, engine.Part{}, func(e result.Event) { p.tell("", e) }); err != nil {
		return nil, err
	}
	accesses, _, err := trace.Load(&file)
	if err != nil {
		return nil, err
	}
	list := &advise.List{Name: filepath.Base(spec.AccessList), KeyScheme: spec.KeyScheme, Gets: spec.Gets, WarmupGets: spec.WarmupGets}
	for _, b := range accesses.Blocks {
		list.Bytes += int64(b.Bytes) + version1or2(spec.Engine).BlockCharge()
	}
	list.FirstReads = float64(firstReads(accesses)) / float64(spec.Gets)
	return &adviceTrace{app: a, trace: accesses, policy: policyOf(spec.Engine), cores: r.cores, gets: int(gets), list: list}, nil
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
