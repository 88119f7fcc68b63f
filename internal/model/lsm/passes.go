package lsm

import "github.com/statelab/statelab/engine"

// mergedShare is the part of a level, for as many bytes as the level above has, that is written again when those come down. It is small
// since loads compact much at once, and fitted to the engines' own counters (docs/tuning.md).
const mergedShare = 0.12

// Passes is how often a key is written to tables, by the flush and by each level, while a database of these levels is loaded in
// random order.
func Passes(levels []engine.Level) float64 {
	passes, above := 1.0, int64(0)
	for _, l := range levels {
		if l.Level == 0 || l.Bytes == 0 {
			continue
		}
		if passes++; above > 0 {
			passes += mergedShare * float64(l.Bytes) / float64(above)
		}
		above = l.Bytes
	}
	return passes
}
