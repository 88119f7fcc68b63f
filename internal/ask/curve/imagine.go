package curve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// SyntheticDB is a database that does not exist: loaded in random order.
type SyntheticDB struct {
	Keys                 uint64
	KeyBytes, ValueBytes int
	ValueModel, Profile  string
	// Compression is the ratio of stored to raw size of data blocks: of all levels, or of the upper
	// ones and the last; none: the value model's.
	Compression []float64
}

// values is a load of Pebble's with keys and values like its own.
func (i SyntheticDB) values() lsm.SteadyStateSpec {
	spec := lsm.BenchKVDB(i.Keys)
	spec.KeyBytes, spec.ValueBytes = i.KeyBytes, i.ValueBytes
	if ratios, err := lsm.ValueCompression(i.ValueModel); err == nil {
		spec.Compression = ratios
	}

	// has sizes of its own
	if values, err := keyspace.NewValues(i.ValueModel, 0, 1); err == nil &&
		i.ValueModel == keyspace.TrieNode {
		spec.ValueBytes = int(values.MeanBytes())
	}

	last := len(spec.Compression) - 1
	for level := range spec.Compression {
		switch n := len(i.Compression); {
		case n > 0 && level == last:
			spec.Compression[level] = i.Compression[n-1]
		case n > 0:
			spec.Compression[level] = i.Compression[0]
		}
	}

	return spec
}

// Levels fills in the levels of such a database of an engine, with some options replaced. The
// errors are about the setting of a flag.
func (i SyntheticDB) Levels(
	engineName string, overrides map[string]string, in *predict.Input,
) (flag string, errs []error) {
	if e, _ := subject.EngineOf(engineName); !e.BlockTables {
		spec, errs := i.natural()
		if len(errs) == 0 {
			in.Levels = lsm.SteadyStateLevels(spec)
		}
		return "profile", errs
	}

	var err error
	if in.Levels, in.Blocks, err = i.leveled(overrides); err == nil {
		return "", nil
	}

	if _, unknown := rocksoptions.Find(i.Profile); unknown == nil {
		return "set", []error{err}
	}

	return "profile", []error{err}
}

// FirstProfile is the profile that an engine has if none is named.
func FirstProfile(engineName string) string {
	if e, _ := subject.EngineOf(engineName); e.BlockTables {
		return rocksoptions.Profiles()[0].Name
	}
	return pebbledb.Profiles()[0].Name
}

// natural are its levels with Pebble. The errors say what is wrong with the profile.
func (i SyntheticDB) natural() (lsm.SteadyStateSpec, []error) {
	spec := i.values()
	s, errs := pebbledb.Resolve(pebbledb.Profiles(), engine.Options{Profile: i.Profile})
	if len(errs) > 0 {
		return spec, errs
	}

	// What the profile does not set is Pebble's own default.
	spec.LBaseMaxBytes = cmp.Or(s.LBaseMaxBytes, spec.LBaseMaxBytes)
	for n, level := range s.Levels {
		spec.TargetFileBytes[n] = cmp.Or(level.TargetFileSize, 2<<20<<n)
		if n > 0 && level.FilterBitsPerKey == 0 && !level.NoFilter {
			spec.FilterLevels[n] = false
		}
	}

	if s.Levels[0].FilterBitsPerKey == 0 {
		spec.FilterBitsPerKey = 0
	}

	spec.BlockBytes = cmp.Or(s.Levels[0].BlockSize, spec.BlockBytes)
	spec.IndexBlockBytes = cmp.Or(s.Levels[0].IndexBlockSize, spec.BlockBytes)
	return spec, nil
}

// leveled are the levels of such a database of RocksDB, with some options replaced, and how its
// Gets ask for blocks.
func (i SyntheticDB) leveled(
	overrides map[string]string,
) ([]engine.Level, *predict.BlockTables, error) {
	values := i.values()
	layout, err := rocksoptions.Find(i.Profile)
	if err != nil {
		return nil, nil, err
	}

	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if known := rocksoptions.Modelled(); !slices.Contains(known, name) {
			return nil, nil, engine.Fail(engine.CodeOption, "option %s: the prediction does not "+
				"depend on it; it depends on %s", name, strings.Join(known, ", "))
		}
	}

	options := layout.All(overrides)
	load, reads, err := rocksoptions.ModelFromOptions(options)
	if err != nil {
		return nil, nil, err
	}

	load.Keys, load.KeyBytes, load.ValueBytes = i.Keys, values.KeyBytes, values.ValueBytes
	load.UpperRatio, load.LastRatio = rocksoptions.Stored(options, values.Compression[0],
		values.Compression[len(values.Compression)-1])
	return load.Levels(), reads, nil
}

// OfLevels predicts from a level table alone, for each of the cache sizes of in.
func OfLevels(
	ctx context.Context, in predict.Input, engine, profile string, reserve Reserve,
	tell result.EventFunc,
) ([]result.PredictedPoint, error) {
	var all []result.PredictedPoint
	sizes := in.CacheBytes
	for i, size := range sizes {
		tell(result.Event{
			Phase: "predicting",
			Done:  uint64(i),
			Total: uint64(len(sizes)),
			Unit:  "cache sizes",
		})

		var err error
		if in.ReservedBytes, err = reserve(engine, profile, size, false); err != nil {
			return nil, err
		}

		in.CacheBytes = sizes[i : i+1]
		points, err := predict.Run(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("predict: %w", err)
		}

		all = append(all, points[0].PredictedPoint)
	}

	return all, nil
}

// MemTables are what memtables take of the cache of an engine; 0 where it has none of them.
func MemTables(name, profile string, cacheBytes int64, readOnly bool) int64 {
	if !subject.Descriptor(name).MemTablesInCache {
		return 0
	}
	bytes, err := pebbledb.OpenReserveBytes(name, profile, cacheBytes, readOnly)
	if err != nil {
		return 0 // a profile that is not known is reported as such
	}
	return bytes
}
