package curve

import (
	"slices"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/subject"
)

// FilterUse finds the tables of a database in dir that Gets pass without consulting a filter, by
// its newest OPTIONS file and the properties of its tables; nil: there are none, or the engine is
// neither RocksDB nor Pebble. families are the column families that Gets go to; nil: all. How many
// block reads it costs is not looked at.
func FilterUse(dir, engineName string, families []string) (*advice.FilterUse, error) {
	of, _ := subject.EngineOf(engineName)
	if of.LevelTables || !of.BlockTables && !subject.Descriptor(engineName).SimulatesLevels() {
		return nil, nil
	}

	read := blockbased.ReadFilterUse
	if !of.BlockTables {
		read, families = pebbleFilterUse(engineName), nil
	}

	all, err := read(dir)
	if err != nil {
		return nil, err
	}

	if families != nil {
		all = slices.DeleteFunc(all, func(use blockbased.FilterUse) bool {
			return !slices.Contains(families, use.Family)
		})
	}

	for _, is := range []func(blockbased.FilterUse) bool{
		func(use blockbased.FilterUse) bool { return use.Policy == "" && use.Filtered > 0 },
		func(use blockbased.FilterUse) bool { return use.Policy != "" && use.Lacking > 0 },
	} {
		if sum := sumOf(all, is); sum.Tables > 0 {
			return sum, nil
		}
	}

	return nil, nil
}

// sumOf sums up the families of which is holds.
func sumOf(all []blockbased.FilterUse, is func(blockbased.FilterUse) bool) *advice.FilterUse {
	sum := new(advice.FilterUse)
	for _, use := range all {
		if !is(use) {
			continue
		}

		if use.Family != "" {
			sum.Families = append(sum.Families, use.Family)
		}

		sum.Policy = use.Policy
		sum.Tables, sum.Filtered = sum.Tables+use.Tables, sum.Filtered+use.Filtered
		sum.Lacking += use.Lacking
		sum.BitsPerKey = max(sum.BitsPerKey, advice.WholeBits(use.BitsPerKey))
	}

	return sum
}

// pebbleFilterUse reads it of a database of Pebble, of which filters of the last level do not
// count: no Get consults them.
func pebbleFilterUse(engineName string) func(dir string) ([]blockbased.FilterUse, error) {
	return func(dir string) ([]blockbased.FilterUse, error) {
		kept, err := dbformat.ReadKeptByPebble(dir)
		if err != nil {
			return nil, err
		}

		written, err := resolve.ReadTableProperties(dir, subject.PebbleVersion(engineName))
		if err != nil {
			return nil, err
		}

		use := blockbased.FilterUse{}
		if use.Policy, err = pebblePolicy(dir, kept); err != nil {
			return nil, err
		}

		deepest := 0
		for _, t := range written {
			deepest = max(deepest, t.Level)
		}

		var bytes, keys int64
		for _, t := range written {
			switch {
			case t.Keys == 0 || t.Level == lastPebbleLevel:
				continue
			case t.FilterBytes > 0:
				use.Filtered, bytes, keys = use.Filtered+1, bytes+t.FilterBytes, keys+t.Keys
			case t.Level < deepest:
				use.Lacking++
			}

			use.Tables++
		}

		if keys > 0 {
			use.BitsPerKey = 8 * float64(bytes) / float64(keys)
		}

		return []blockbased.FilterUse{use}, nil
	}
}

// lastPebbleLevel is the one whose filters no Get consults.
const lastPebbleLevel = 6

// pebblePolicy is the filter policy that the OPTIONS file names for a level; "": none. A database
// without such a file is taken for one with a policy, as it is when it is resolved.
func pebblePolicy(dir string, kept dbformat.KeptByPebble) (policy string, err error) {
	if kept.NoFilters {
		return "", nil
	}

	_, sections, err := optionsfile.Read(dir)
	for _, s := range sections {
		if named := s.Values["filter_policy"]; s.Kind == "Level" && named != "none" {
			policy = named
		}
	}

	if policy == "" {
		policy = "not known"
	}

	return policy, err
}
