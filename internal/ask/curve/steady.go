package curve

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blocktable"
	"github.com/statelab/statelab/internal/observe/getpath"
)

// Family is a column family and its share of the Gets.
type Family struct {
	Name  string
	Share float64
}

// Steady is what Gets of some column families read with a block cache that they share, when it has
// been in use for long.
type Steady struct {
	trace *cachesim.Trace
	setup cachesim.Setup
	bytes int64 // of all blocks in a cache, about
	// Metadata are blocks of filters and indexes among those that the cache is asked for.
	Metadata bool
	// ValueReads are reads per Get of values outside the tables, which no block cache spares.
	ValueReads float64
}

// A trace of random Gets fills a cache after it has asked for each block some times.
const (
	steadyWarmups = 3 // Gets for each block
	steadyGets    = 100_000
	mostSteady    = MostGets / (steadyWarmups + 1) // blocks
)

// NewSteady draws keys of the families in dir evenly, of which missing is the share of absent ones, and
// resolves their Gets as version of the engine would make them. A database that is too large for that
// is an error.
func NewSteady(ctx context.Context, dir, name, version string, families []Family, missing float64, seed uint64) (s *Steady, err error) {
	var members []*blocktable.Resolver
	defer func() {
		for _, r := range members {
			err = errors.Join(err, r.Close())
		}
	}()
	var shares []float64
	for _, f := range families {
		r, err := blocktable.Open(dir, f.Name, nil)
		if err != nil {
			return nil, err
		}
		members, shares = append(members, r), append(shares, f.Share)
	}
	mix := blocktable.NewMix(members...)
	blocks := uint64(mix.Blocks())
	if blocks > mostSteady {
		return nil, fmt.Errorf("%d blocks are too many to be traced in memory: at most %d are", blocks, mostSteady)
	}
	header := trace.Header{Engine: name, EngineVersion: version, CacheKeys: mix.CacheKeys(), WarmupGets: int(max(steadyGets, steadyWarmups*blocks))}
	opening := mix.Opening()
	gets := uint64(header.WarmupGets) + max(steadyGets, blocks)
	if len(opening) > 0 {
		header.Opening = true
		header.WarmupGets++
	}
	var file bytes.Buffer
	out, err := trace.NewWriter(&file, header)
	if err != nil {
		return nil, err
	}
	var failed error
	offered, err := getpath.Record(ctx, mix, opening, mix.Keys(shares, missing, gets, seed, &failed), gets, trace.Sample{}, out)
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	if _, err := out.Close(offered); err != nil {
		return nil, err
	}
	s = &Steady{setup: Setup(header, 1)}
	if s.trace, _, err = trace.Load(&file); err != nil {
		return nil, err
	}
	for i := range s.trace.Blocks {
		b := &s.trace.Blocks[i]
		if b.Marks&cachesim.Uncached != 0 {
			continue
		}
		s.bytes += s.setup.Charge(b)
		s.Metadata = s.Metadata || b.Type != engine.Data
	}
	for _, number := range s.trace.Accesses[s.trace.Gets[s.trace.WarmupGets]:] {
		if s.trace.Blocks[number].Type == engine.Value {
			s.ValueReads++
		}
	}
	s.ValueReads /= float64(len(s.trace.Gets) - s.trace.WarmupGets)
	s.bytes = int64(float64(s.bytes) * float64(blocks) / float64(max(1, len(s.trace.Blocks))))
	return s, nil
}

// Reads are block reads per Get with a cache, but for ValueReads, those of metadata among them if they are in the cache. A
// cache that holds all blocks reads none.
func (s *Steady) Reads(ctx context.Context, cacheBytes int64) (perGet float64, err error) {
	const roomForUnevenShards = 1.25
	if float64(cacheBytes) > roomForUnevenShards*float64(s.bytes) {
		return 0, nil
	}
	points, err := cachesim.Curve(ctx, s.trace, s.setup, []int64{cacheBytes})
	if err != nil {
		return 0, err
	}
	return points[0].BlockReadsPerGet() - s.ValueReads, nil
}
