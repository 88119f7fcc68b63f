package pebbledb

import "github.com/statelab/statelab/engine"

// PlannedKeys are the keys of each level in the plan of a build.
func PlannedKeys(
	d *DB, spec engine.SortedSpec, open func(from, to uint64) engine.Entries,
) (keys [Levels]float64, err error) {
	b, err := d.sortedBuild()
	if err != nil {
		return keys, err
	}
	b.spec, b.open = spec, open
	_, rest, err := b.plan()
	return rest.Keys, err
}
