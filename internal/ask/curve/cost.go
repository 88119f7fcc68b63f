package curve

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blocktable"
)

// Cost is what Gets of a column family read while the block cache is empty, estimated from keys that are drawn evenly from its
// tables, and as many that begin like them and are absent.
type Cost struct {
	Table string `json:"table,omitempty"` // "": the whole database
	Keys  int    `json:"keys"`            // of each kind
	// Present and Absent are by block type, and "all".
	Present map[string]PerGet `json:"present"`
	Absent  map[string]PerGet `json:"absent"`
	// Outside: filters and indexes stay in memory with open tables, so that they are not read.
	Outside bool `json:"metadata_outside_cache"`
}

// PerGet are means over Gets.
type PerGet struct {
	Reads float64 `json:"reads"`
	Bytes float64 `json:"bytes"` // as stored
}

// mostInspected bounds how much is read to look into the tables of a family: filters and indexes are about one percent of it.
const mostInspected = 64 << 30

// Inspect looks into the tables of a family ("" is the default one): what their filters and indexes take goes into levels, what
// keys Gets read is returned; nil for a family without values, one that is too large, or keys 0. warnings are about the database.
func Inspect(ctx context.Context, dir, name, version, family string, levels []engine.Level, keys int) (cost *Cost, warnings []engine.Warning, err error) {
	bytes := int64(0)
	for _, l := range levels {
		bytes += l.Bytes
	}
	switch {
	case bytes == 0:
		return nil, nil, nil
	case bytes > mostInspected:
		return nil, []engine.Warning{{Code: "not_inspected",
			Text: fmt.Sprintf("the tables of %s were not looked into, since they have %s, more than %s: what their filters and indexes take in a cache is not known",
				cmp.Or(family, "the database"), unit.Bytes(bytes), unit.Bytes(mostInspected)),
			Remedy: "measure what a Get reads with statelab sweep"}}, nil
	}
	r, err := blocktable.Open(dir, family, nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	setup := Setup(trace.Header{Engine: name, EngineVersion: version}, 1)
	if err := r.Describe(levels, setup.Charge); err != nil || keys == 0 {
		return nil, r.Warnings(), err
	}
	cost = &Cost{Table: family, Keys: keys, Outside: r.Outside()}
	if cost.Present, err = emptyCache(ctx, r, 0, keys); err == nil {
		cost.Absent, err = emptyCache(ctx, r, 1, keys)
	}
	return cost, r.Warnings(), err
}

// emptyCache are the means over so many Gets, of which missing is the share of absent keys.
func emptyCache(ctx context.Context, r *blocktable.Resolver, missing float64, keys int) (map[string]PerGet, error) {
	mix, sums, numbers := blocktable.NewMix(r), [engine.NumBlockTypes]PerGet{}, []uint32(nil)
	walk := mix.Walk()
	var undrawn error
	next := mix.Keys([]float64{1}, missing, uint64(keys), 1, &undrawn)
	for key, known, more := next(); more; key, known, more = next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if numbers, _, err = walk.Get(key, known, numbers); err != nil {
			return nil, err
		}
		for _, number := range numbers {
			var b cachesim.Block
			if b, err = mix.Block(number); err != nil {
				return nil, err
			}
			sums[b.Type].Reads++
			sums[b.Type].Bytes += float64(b.DiskBytes)
		}
	}
	if undrawn != nil {
		return nil, fmt.Errorf("draw keys: %w", undrawn)
	}
	means := map[string]PerGet{}
	for kind, sum := range sums {
		if sum.Reads > 0 {
			mean := PerGet{sum.Reads / float64(keys), sum.Bytes / float64(keys)}
			means[engine.BlockType(kind).String()] = mean
			means["all"] = PerGet{means["all"].Reads + mean.Reads, means["all"].Bytes + mean.Bytes}
		}
	}
	return means, nil
}
