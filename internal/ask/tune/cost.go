package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/explain/tuned"
	"github.com/statelab/statelab/internal/model/reblock"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// Runner measures a point of an engine, in a process of its own.
type Runner func(ctx context.Context, spec *bench.Spec) (*result.Run, error)

// measureCosts measures in small databases what Gets cost a processor: all of one with blocks of two sizes, which tells what a block
// and its bytes cost, and blocks of each other compression. nil if the goal is not time.
func (s *search) measureCosts(ctx context.Context) (_ *tuned.Costs, err error) {
	if s.Goal != Time {
		return nil, nil
	}
	if s.costs = s.kept.Costs; s.costs != nil {
		return s.costs, nil
	}
	dir, err := os.MkdirTemp("", "statelab-costs-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	const small, large = 4 << 10, 32 << 10
	measure := func(blockBytes int64, compression string, lastFilters bool) (get, read float64) {
		to := s.Present
		if to.BlockBytes, to.Compression = blockBytes, compression; s.kind.GoesOn {
			to.LastFilters = lastFilters
		}
		if err == nil {
			get, read, err = s.costOf(ctx, dir, to)
		}
		return get, read
	}
	smallGet, smallRead := measure(small, reblock.NoCompression, false)
	largeGet, largeRead := measure(large, reblock.NoCompression, false)
	getByte, readByte := max(0, (largeGet-smallGet)/(large-small)), max(0, (largeRead-smallRead)/(large-small))
	c := &tuned.Costs{GetByte: getByte, Get: smallGet - small*getByte, Read: smallRead - small*readByte,
		ReadByte: map[string]float64{s.kind.Compression: readByte, reblock.NoCompression: readByte}}
	for _, to := range s.compressed()(s.Present) {
		if name := cmp.Or(to.Compression, s.kind.Compression); name != reblock.NoCompression {
			_, read := measure(large, name, false)
			c.ReadByte[name] = max(readByte, (read-c.Read)/large)
		}
	}
	if s.kind.GoesOn {
		looked, _ := measure(small, reblock.NoCompression, true)
		c.LastFilters = max(0, looked-smallGet)
	}
	s.costs, s.kept.Costs = c, c
	return c, err
}

// costOf is what a Get costs a processor that finds all blocks in the cache, and a block that it reads from the page cache, in
// nanoseconds, with tables of settings to.
func (s *search) costOf(ctx context.Context, dir string, to reblock.Tables) (get, read float64, err error) {
	dir, err = os.MkdirTemp(dir, "")
	if err != nil {
		return 0, 0, err
	}
	const dataBytes, mostKeys, leastKeys, all = 4 << 20, 30_000, 2_000, 64 << 20
	spec := bench.Spec{Schema: bench.SpecSchema, Engine: s.Gets.Spec.Engine, Dir: filepath.Join(dir, "D"), Profile: s.Gets.Spec.Profile,
		Overrides: s.kind.Words(to), PageCache: bench.AsIs, KeyHash: keyspace.Mix, BatchKeys: 100, Seed: 1, Threads: 1,
		Verb: bench.Load, Workload: workload.FillRandom, CacheBytes: all, KeyBytes: 32, ValueBytes: 110, ValueModel: "trie-node"}
	if m := s.Manifest; m != nil {
		spec.KeyBytes, spec.ValueBytes, spec.ValueModel = m.KeyBytes, m.ValueBytes, m.ValueModel
	}
	spec.Keys = uint64(min(max(dataBytes/(spec.KeyBytes+spec.ValueBytes), leastKeys), mostKeys))
	run := func() (*result.Run, error) {
		spec.Out, err = os.MkdirTemp(dir, "")
		if err != nil {
			return nil, err
		}
		return s.Run(ctx, &spec)
	}
	s.Tell(result.Event{Phase: "measuring what a Get costs"})
	if _, err := run(); err != nil {
		return 0, 0, err
	}
	spec.Verb, spec.Workload, spec.ReadOnly = bench.Read, workload.ReadRandom, true
	spec.MissingShare, spec.Gets, spec.WarmupGets = s.absent, 2*spec.Keys, 2*spec.Keys
	var cpu, reads [2]float64
	for i, cacheBytes := range []int64{all, dataBytes / 4} {
		spec.CacheBytes = cacheBytes
		measured, err := run()
		if err != nil {
			return 0, 0, err
		}
		if measured.Figures.BlockReadsPerGet == nil {
			return 0, 0, fmt.Errorf("measure what a Get costs: block reads were not counted")
		}
		cpu[i], reads[i] = measured.Figures.CPUNanosPerGet, *measured.Figures.BlockReadsPerGet
	}
	if more := reads[1] - reads[0]; more > 0 {
		read = max(0, (cpu[1]-cpu[0])/more)
	}
	return max(0, cpu[0]-reads[0]*read), read, nil
}

// time fills in what a Get of a configuration costs, unless that is not asked for.
func (s *search) time(c *tuned.Config, to reblock.Tables) error {
	if s.costs == nil {
		return nil
	}
	_, raw, err := s.means(to)
	if err != nil {
		return err
	}
	k, ns := s.costs, s.costs.Get+s.costs.GetByte*float64(to.BlockBytes)
	if s.kind.GoesOn && to.LastFilters {
		ns += k.LastFilters
	}
	for i, bytes := range raw {
		kind, compression := engine.BlockType(i), cmp.Or(to.Compression, s.kind.Compression)
		if kind == engine.Filter {
			compression = reblock.NoCompression
		}
		ns += c.ByType[kind.String()] * (k.Read + k.ReadByte[compression]*bytes)
	}
	const micro = 1e3
	c.CPU = ns / micro
	c.Time = c.CPU + c.Reads*float64(s.ReadTime.Nanoseconds())/micro
	return nil
}
