package inspect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/result"
)

// AdviseRocksDBTrace recommends a block cache of RocksDB for the Gets of the trace in a file, such
// as that of a watched process: the first of them fill the cache that is simulated, and the others
// count. Sizes are 0 where they are not known; without cacheBytes, the present cache is that of the
// database's LOG, of the node's configuration, or its client's default. With a growth, it tells
// what they would read of a larger state.
func AdviseRocksDBTrace(
	ctx context.Context, of curve.TraceRequest, run *result.Run, path string,
	memoryBytes, cacheBytes, configuredBytes int64, to advise.Grown, seed uint64,
) (*advise.RocksAdvice, error) {
	dir := run.Database.Dir
	tables, err := Tables(run)
	if err != nil {
		return nil, err
	}

	t, header, err := loadTrace(of, path)
	if err != nil {
		return nil, err
	}

	log, _ := optionsfile.ReadLog(dir) // without a LOG, nothing is known of the caches
	if n := len(log.Caches); n > 1 {
		return nil, engine.Fail(engine.CodeUsage, "--trace %s: %s tells of %d block caches, and a "+
			"trace does not tell which of them a Get went to", path,
			filepath.Join(dir, optionsfile.LogName), n)
	}

	cacheBytes, source := presentCache(log, cacheBytes, configuredBytes)
	setup := curve.Setup(header, 1)
	list := &advise.List{
		Name:       filepath.Base(path),
		Gets:       uint64(len(t.Gets) - t.WarmupGets),
		WarmupGets: uint64(t.WarmupGets),
	}
	out := &advise.RocksAdvice{
		Source:      dir,
		Client:      RocksClient(run),
		MemoryBytes: memoryBytes,
		NowBytes:    cacheBytes,
		List:        list,
		Reads: func(_ int, cacheBytes int64) (float64, error) {
			return readsOfTrace(ctx, t, setup, cacheBytes)
		},
	}

	floor := countTrace(out, t, setup)
	out.Basis = fmt.Sprintf("block reads per Get of the trace that a simulated %s makes; the "+
		"present cache is the one %s", setup.Policy, source)
	if out.Filters, err = curve.FilterUse(dir, run.Engine.Name, nil); err != nil {
		return nil, err
	}

	if err = out.JudgeTrace(tables, floor); err == nil && to.Factor > 0 {
		err = growTrace(ctx, out, run, t, setup, to, seed)
	}

	return out, err
}

// readsOfTrace are block reads per Get of a trace with a cache.
func readsOfTrace(
	ctx context.Context, t *cachesim.Trace, setup cachesim.Setup, cacheBytes int64,
) (float64, error) {
	points, err := cachesim.Curve(ctx, t, setup, []int64{cacheBytes})
	if err != nil {
		return 0, fmt.Errorf("simulate a cache of %s: %w", unit.Bytes(cacheBytes), err)
	}
	return points[0].BlockReadsPerGet(), nil
}

// presentCache is the present block cache of a database, 0 for its client's default, and how it is
// known. Sizes are 0 where they are not: of --cache, and of the node's configuration.
func presentCache(log optionsfile.Log, asked, configured int64) (bytes int64, source string) {
	only, logged := log.OnlyCache()
	switch {
	case asked > 0:
		return asked, "of --cache"
	case logged:
		return only.Bytes, "in " + optionsfile.LogName
	case configured > 0:
		return configured, "of the node's configuration"
	}
	return 0, "its client's default"
}

// loadTrace loads a trace of a database of the engine that is asked for, with Gets that count.
func loadTrace(of curve.TraceRequest, path string) (*cachesim.Trace, trace.Header, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, trace.Header{}, fmt.Errorf("--trace: %w", err)
	}

	defer file.Close() // read only
	t, header, err := trace.Load(file)
	if err != nil {
		return nil, header, fmt.Errorf("--trace %s: %w", path, err)
	}

	if err := of.Fits(path, header); err != nil {
		return nil, header, err
	}

	if len(t.Gets) <= t.WarmupGets {
		return nil, header, engine.Fail(engine.CodeUsage, "--trace %s: it has no Get behind those "+
			"that fill the cache: watch for longer", path)
	}

	return t, header, nil
}

// countTrace adds what the blocks of a trace come to, and returns what a cache that holds all of
// them reads per Get: each the first time, and each time what no cache holds.
func countTrace(out *advise.RocksAdvice, t *cachesim.Trace, setup cachesim.Setup) (floor float64) {
	for i := range t.Blocks {
		b := &t.Blocks[i]
		if b.Marks&cachesim.Uncached == 0 {
			out.List.Bytes += setup.Charge(b)
			out.Metadata = out.Metadata || b.Type != engine.Data
		}
	}

	first, uncached, counted := 0, 0, t.Gets[t.WarmupGets]
	seen := make([]bool, len(t.Blocks))
	for i, number := range t.Accesses {
		never := t.Blocks[number].Marks&cachesim.Uncached != 0
		switch {
		case uint32(i) < counted:
		case never:
			uncached++
		case !seen[number]:
			first++
		}

		seen[number] = true
	}

	gets := float64(out.List.Gets)
	out.List.FirstReads = float64(first) / gets
	out.UncachedReadsPerGet = float64(uncached) / gets
	return float64(first+uncached) / gets
}
