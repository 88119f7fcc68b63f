package tune

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/model/reblock"
)

// libraryBlockBytes is what Pebble takes for blocks that are given no size.
const libraryBlockBytes = 4096

// Profile are the options of tables in a profile with overrides.
func Profile(profile string, overrides map[string]string) (t reblock.Tables, errs []error) {
	s, errs := pebbledb.Resolve(pebbledb.Profiles(), engine.Options{Profile: profile, Overrides: overrides})
	if len(errs) > 0 {
		return t, errs
	}
	l := s.Levels[0]
	t.BlockBytes = int64(cmp.Or(l.BlockSize, libraryBlockBytes))
	t.IndexBytes = cmp.Or(int64(l.IndexBlockSize), t.BlockBytes)
	t.FilterBits = float64(l.FilterBitsPerKey)
	return t, nil
}

// Kept are those that another program's database was last opened with, by its OPTIONS file, and the
// bits that its filters have.
func Kept(dir string, levels []engine.Level) (t reblock.Tables, err error) {
	t = reblock.Tables{BlockBytes: libraryBlockBytes, IndexBytes: libraryBlockBytes}
	name, sections, err := optionsfile.Read(dir)
	if err != nil {
		return t, err
	}
	for _, s := range sections {
		if s.Kind != "Level" || s.Name != "0" {
			continue
		}
		for key, to := range map[string]*int64{"block_size": &t.BlockBytes, "index_block_size": &t.IndexBytes} {
			if *to, err = strconv.ParseInt(s.Values[key], 10, 32); err != nil || *to < 1 {
				return t, engine.Fail(engine.CodeDamaged, "%s: %s=%.40q is no size", name, key, s.Values[key])
			}
		}
	}
	var bytes, keys int64
	for _, l := range levels {
		if l.FilterBytes > 0 {
			bytes, keys = bytes+l.FilterBytes, keys+cmp.Or(l.FilterKeys, l.Keys)
		}
	}
	if keys > 0 { // each table's filter is rounded up
		t.FilterBits = math.Floor(8*float64(bytes)/float64(keys) + 0.1)
	}
	return t, nil
}

// Rewriting says how a database comes to its options.
func Rewriting(written string) string {
	if written == "" {
		return ""
	}
	return fmt.Sprintf("Tables that are there keep their options until a compaction rewrites them. Pebble rewrites all of them with %s.", written)
}
