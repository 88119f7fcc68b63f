package pebbledb

import "github.com/statelab/statelab/engine"

// PlannedKeys are the keys of each level in the plan of a build, and what one of
// them takes.
func PlannedKeys(d *DB, spec engine.SortedSpec, open func(from, to uint64) engine.Entries) (keys, bytesPerKey [Levels]float64, err error) {
	b, err := d.sortedBuild()
	if err != nil {
		return keys, bytesPerKey, err
	}
	b.spec, b.open = spec, open
	rest, bytesPerKey, err := b.settle()
	return rest.Keys, bytesPerKey, err
}
