package inspect

import (
	"context"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// withFilters is the option that lets Gets consult the filters that tables have.
func withFilters(use *advice.FilterUse) costly {
	return costly{advise.CostlyOption{
		Option:  "filter_policy",
		Value:   "nullptr",
		Instead: use.PolicyText(),
		Why:     "no Get consults the filters of the tables",
		Filters: use,
	}, use.PolicyText()}
}

// filterUse tells which filters Gets of a column family, or of a database, do not consult, and says
// it in the words of advise: "" where Gets consult all that they pass. table is the family, "" all.
// For RocksDB, a wish lets it have the figures of advise, for Gets of the largest family if none is
// named, and say nothing where advise does not, since the filters would save nothing.
func filterUse(
	ctx context.Context, run *result.Run, table string, wish *Wish, cacheBytes int64,
) (use *advice.FilterUse, sentence string, err error) {
	var families []string
	if table != "" {
		families = []string{table}
	}

	dir, engineName := run.Database.Dir, run.Engine.Name
	use, err = curve.FilterUse(dir, engineName, families)
	if err != nil || use == nil {
		return nil, "", err
	}

	if of, _ := subject.EngineOf(engineName); !of.BlockTables {
		client := dbformat.Client(dir, dbformat.Found{Engine: engineName}, nil)
		return use, use.Sentence(client), nil
	}

	if wish != nil && use.Ignored() {
		if len(run.Database.Tables) == 0 { // it is the only family, and has no name there
			table = ""
		}

		advised, err := AdviseRocksDB(ctx, dir, run, table, 0, 0, Wish{
			CacheBytes: cacheBytes,
			Missing:    wish.Missing,
			Seed:       wish.Seed,
		}, func(string, ...any) {})
		switch {
		case ctx.Err() != nil:
			return nil, "", err
		case err != nil: // what the filters would save is not known
		case advised.Ignored() == nil:
			return nil, "", nil
		default:
			use = advised.Ignored()
		}
	}

	return use, use.Sentence(RocksClient(run)), nil
}
