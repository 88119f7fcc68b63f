package lsm

import "math"

// Loading is how tables come to levels that are sized from the last one up: in flushes, of which so
// many are compacted at once.
type Loading struct {
	BaseBytes, BufferBytes int64 // of the first level below L0, and of what is flushed
	Flushes                int
}

// WriteAmp is how often a key is written to tables, the flush included, while a database of so many
// bytes is loaded in random order, when a full buffer makes a table of so many bytes. A compaction
// of L0 rewrites the base level, and tables that go down rewrite most of those that they overlap:
// engines choose such as overlap few, by a share that is fitted to their own counters
// (docs/tuning.md).
func (l Loading) WriteAmp(bytes, flush float64) float64 {
	const rewritten = 0.7
	var levels [lastLevel + 1]float64
	written, l0 := 0.0, 0.0
	for done, n := 0.0, 1; done < bytes; n++ {
		flush = math.Min(flush, bytes-done)
		done, written, l0 = done+flush, written+flush, l0+flush
		if n%l.Flushes > 0 { // which stay in L0 at the end
			continue
		}

		base, limits := levelLimits(done, float64(l.BaseBytes))
		for level := range base { // which were the base before
			levels[base], levels[level] = levels[base]+levels[level], 0
		}

		written += l0 + levels[base]
		levels[base], l0 = levels[base]+l0, 0
		for level := base; level < lastLevel; level++ {
			if over := levels[level] - limits[level]; over > 0 {
				written += over + rewritten*over/levels[level]*levels[level+1]
				levels[level], levels[level+1] = levels[level]-over, levels[level+1]+over
			}
		}
	}

	return written / bytes
}
