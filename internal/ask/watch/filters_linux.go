package watch

import (
	"context"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/result"
)

// recordFiltered tells which tables Gets pass without consulting a filter, and what the Gets of
// some numbers would access if they consulted the filters that are there; nil: the same, or it is
// not known.
func (a *analysis) recordFiltered(
	ctx context.Context, source source, wanted []int, header trace.Header,
) (use *advice.FilterUse, t *cachesim.Trace, err error) {
	if a.cache.OpenFiles.Source == "" { // its options are in no file of the database
		return nil, nil, nil
	}

	var families []string
	for _, name := range a.families {
		families = append(families, unit.Printable(name))
	}

	use, err = curve.FilterUse(a.layout.Dir, a.w.Process.Engine, families)
	if err != nil {
		a.w.Why["filters"] = err.Error()
		return nil, nil, nil
	}

	if use == nil || !use.Ignored() {
		return use, nil, nil
	}

	if err := source.ConsultFilters(true); err != nil {
		return nil, nil, err
	}

	if t, _, err = a.record(ctx, source, wanted, header); err != nil {
		return nil, nil, err
	}

	return use, t, source.ConsultFilters(false)
}

// filterUse tells what Gets read because they consult no filters. t are the accesses of the Gets if
// they had.
func (a *analysis) filterUse(
	ctx context.Context, use *advice.FilterUse, t *cachesim.Trace, wanted []int,
) error {
	if use == nil {
		return nil
	}

	o := &result.WatchedFilters{
		Families:   use.Families,
		Policy:     use.Policy,
		Tables:     use.Tables,
		Filtered:   use.Filtered,
		Lacking:    use.Lacking,
		BitsPerKey: use.BitsPerKey,
	}

	// Gets that open tables again read more than what is simulated here.
	a.w.Filters = o
	if t == nil || a.w.Simulated == nil || a.w.OpenFiles != nil {
		return nil
	}

	firsts, _ := a.firstAccesses(t, wanted)
	for i := range firsts {
		f := &firsts[i]
		f.other = true
		f.read = f.read || f.kind == engine.Filter // no Get has asked for a filter yet
	}

	consulted, err := a.simulation(t, wanted, firsts)(ctx, a.cache.Bytes)
	if err != nil {
		return err
	}

	o.Consulted = &consulted
	return nil
}

// guessedReads are those of the first accesses that others than the Gets of the process make, in a
// cache with so many bytes for blocks; below 0: there are no such.
func guessedReads(firsts []first, cacheBytes int64) (reads int64) {
	others := false
	for _, f := range firsts {
		others = others || f.other
		if f.other && !f.fresh && f.before < cacheBytes && f.read {
			reads++
		}
	}

	if !others {
		return -1
	}

	return reads
}
