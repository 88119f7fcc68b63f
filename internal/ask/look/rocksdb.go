package look

import (
	"context"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/result"
)

// AdviseRocksDB recommends a block cache for Gets of one column family, or of a mix of several: asked is
// what --table says, "" the largest. memoryBytes, cacheBytes and cacheShare are 0 where they are not known. The
// reads are those of a trace where the database can be traced, else of its levels; say tells why.
func AdviseRocksDB(ctx context.Context, dir string, run *result.Run, asked string, memoryBytes, cacheBytes int64, cacheShare, missing float64, seed uint64,
	say func(format string, args ...any)) (*advise.RocksAdvice, error) {
	tables, err := Tables(run)
	if err != nil {
		return nil, err
	}
	out := &advise.RocksAdvice{Source: dir, Client: RocksClient(run), MemoryBytes: memoryBytes, NowBytes: cacheBytes}
	if cacheShare > 0 {
		out.NowBytes = max(1, int64(cacheShare*float64(Bytes(run.Database))))
	}
	mix, values, err := choose(out, tables, asked, dir)
	if err != nil {
		return nil, err
	}
	if err := trace(ctx, out, dir, run, missing, seed); ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		if err := advise.OnlyLevels(dir, values); err != nil {
			return nil, err
		}
		say("the database cannot be traced (%v): the prediction uses the sizes of its levels", err)
	}
	return out, out.Judge(tables, mix, missing)
}

// trace lets the reads of out be those of a trace.
func trace(ctx context.Context, out *advise.RocksAdvice, dir string, run *result.Run, missing float64, seed uint64) error {
	var all []curve.Family
	for _, t := range out.Tables {
		all = append(all, curve.Family{Name: t.Name, Share: t.Share})
	}
	caches := map[int][]curve.Family{advise.Together: all}
	if out.Client == advise.Besu { // which has one for each family
		delete(caches, advise.Together)
		for i, f := range all {
			caches[i] = []curve.Family{{Name: f.Name, Share: 1}}
		}
	}
	traced, metadata := map[int]*curve.Steady{}, false
	for portion, families := range caches {
		s, err := curve.NewSteady(ctx, dir, run.Engine.Name, run.Engine.Version, families, missing, seed)
		if err != nil {
			return err
		}
		traced[portion] = s
		metadata = metadata || s.Metadata
		share := 1.0
		if portion != advise.Together {
			share = all[portion].Share
		}
		out.ValueReadsPerGet += share * s.ValueReads
	}
	out.Metadata = metadata
	out.Reads = func(portion int, cacheBytes int64) (float64, error) { return traced[portion].Reads(ctx, cacheBytes) }
	return nil
}

// RocksClient is the client whose database was inspected.
func RocksClient(run *result.Run) advise.Client {
	if run.Database.Written != "foreign" {
		return advise.Statelab
	}
	switch dbformat.Client(run.Database.Dir, dbformat.Found{Engine: run.Engine.Name}, run.Database.Tables) {
	case dbformat.Besu:
		return advise.Besu
	case dbformat.Nethermind:
		return advise.Nethermind
	case dbformat.Ethrex:
		return advise.Ethrex
	case dbformat.Reth:
		return advise.Reth
	}
	return advise.RocksDB
}

// choose finds the tables that are asked for, or the largest, and what they keep outside.
func choose(out *advise.RocksAdvice, tables []fidelity.Table, asked, dir string) (mix []fidelity.Portion, values *engine.Values, err error) {
	if asked == "" {
		largest := largestOf(tables)
		out.Tables = []advise.TableShare{{Name: largest.Name, Share: 1, Bytes: largest.Bytes}}
		return []fidelity.Portion{{Levels: largest.Levels, Share: 1}}, largest.Values, nil
	}
	if strings.Contains(asked, "=") {
		asked = strings.ReplaceAll(asked, ",", engine.MixSeparator)
	}
	portions, err := adapter.ParseMix(asked)
	if err != nil {
		return nil, nil, engine.Fail(engine.CodeUsage, "--table: %v", err)
	}
	for _, p := range portions {
		found, err := OnlyTable(tables, p.Name, dir)
		if err != nil {
			return nil, nil, err
		}
		values = values.Plus(found[0].Values)
		out.Tables = append(out.Tables, advise.TableShare{Name: p.Name, Share: p.Share, Bytes: found[0].Bytes})
		mix = append(mix, fidelity.Portion{Levels: found[0].Levels, Share: p.Share})
	}
	return mix, values, nil
}
