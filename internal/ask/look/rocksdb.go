package look

import (
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/result"
)

// AdviseRocksDB recommends a block cache for Gets of one column family, or of a mix of several: asked is
// what --table says, "" the largest. memoryBytes, cacheBytes and cacheShare are 0 where they are not known.
func AdviseRocksDB(dir string, run *result.Run, asked string, memoryBytes, cacheBytes int64, cacheShare, missing float64) (*advise.RocksAdvice, error) {
	tables, err := Tables(run)
	if err != nil {
		return nil, err
	}
	out := &advise.RocksAdvice{Source: dir, Client: rocksClient(run), MemoryBytes: memoryBytes, NowBytes: cacheBytes}
	if cacheShare > 0 {
		out.NowBytes = max(1, int64(cacheShare*float64(Bytes(run.Database))))
	}
	mix, err := choose(out, tables, asked, dir)
	if err != nil {
		return nil, err
	}
	return out, out.Judge(tables, mix, missing)
}

func rocksClient(run *result.Run) advise.Client {
	if run.Database.Written != "foreign" {
		return advise.Statelab
	}
	switch dbformat.Client(run.Database.Dir, dbformat.Found{Engine: run.Engine.Name}, run.Database.Tables) {
	case dbformat.Besu:
		return advise.Besu
	case dbformat.Nethermind:
		return advise.Nethermind
	}
	return advise.RocksDB
}

// choose finds the tables that are asked for, or the largest.
func choose(out *advise.RocksAdvice, tables []fidelity.Table, asked, dir string) (mix []fidelity.Portion, err error) {
	if asked == "" {
		largest := tables[0]
		for _, t := range tables {
			if t.Bytes > largest.Bytes {
				largest = t
			}
		}
		out.Tables = []advise.TableShare{{Name: largest.Name, Share: 1, Bytes: largest.Bytes}}
		return []fidelity.Portion{{Levels: largest.Levels, Share: 1}}, nil
	}
	if strings.Contains(asked, "=") {
		asked = strings.ReplaceAll(asked, ",", engine.MixSeparator)
	}
	portions, err := adapter.ParseMix(asked)
	if err != nil {
		return nil, engine.Fail(engine.CodeUsage, "--table: %v", err)
	}
	for _, p := range portions {
		found, err := OnlyTable(tables, p.Name, dir)
		if err != nil {
			return nil, err
		}
		out.Tables = append(out.Tables, advise.TableShare{Name: p.Name, Share: p.Share, Bytes: found[0].Bytes})
		mix = append(mix, fidelity.Portion{Levels: found[0].Levels, Share: p.Share})
	}
	return mix, nil
}
