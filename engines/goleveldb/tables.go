package goleveldb

import (
	"fmt"
	"math"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/reblock"
	"github.com/statelab/statelab/internal/observe/blocktable"
)

// tunedError: see docs/tuning.md.
const tunedError = 0.05

// beyond is that of separators between hashed keys, which are as short as can be, measured.
const beyond = 0.2

// Tables are the settings of tables with these options, and what tables of LevelDB are like.
func (e Engine) Tables(o engine.Options) (kind reblock.Kind, present reblock.Tables, errs []error) {
	s, errs := resolve(e.Info(), o)
	present = reblock.Tables{BlockBytes: int64(s.BlockSize), FilterBits: float64(s.BloomBitsPerKey), LastFilters: true}
	return reblock.Kind{
		Rate: func(to reblock.Tables, _ float64) float64 {
			probes := math.Max(1, math.Floor(to.FilterBits*0.69)) // goleveldb's filter.NewBloomFilter
			return math.Pow(1-math.Exp(-probes/to.FilterBits), probes)
		},
		// A block is closed by the entry that reaches its size.
		BlockBytes: func(_ engine.Level, entryBytes float64, to reblock.Tables) float64 {
			return entryBytes * math.Ceil(float64(to.BlockBytes)/entryBytes)
		},
		FilterBytes: filterBytes,
		Cached: func(bytes float64, to reblock.Tables) float64 {
			return float64(blocktable.Buffer(int(to.BlockBytes), int(bytes)))
		},
		Beyond: beyond, Trailer: trailerBytes, Error: tunedError,
		Options: []reblock.Option{
			reblock.Values(func(t *reblock.Tables, v int64) { t.BlockBytes = v }, 1*kib, 2*kib, 4*kib, 8*kib, 16*kib, 32*kib, 64*kib),
			reblock.Values(func(t *reblock.Tables, v float64) { t.FilterBits = v }, 0, 5, 8, 10, 12, 14, 16, 20),
		},
		Words: func(t reblock.Tables) map[string]string {
			return map[string]string{"BlockSize": fmt.Sprintf("%dB", t.BlockBytes), "BloomBitsPerKey": strconv.FormatFloat(t.FilterBits, 'f', -1, 64)}
		},
		Snippet: snippet, Rewrite: "DB.CompactRange of all keys (util.Range{})",
	}, present, errs
}

// filterBytes are those of a table's filters, one for the blocks that begin in each stretch of the table, with where
// each of them begins.
func filterBytes(bits, dataBlocks, dataBytes float64) float64 {
	const stretch, offset, tail = 2048, 4, 5
	stretches := math.Ceil(dataBytes / stretch)
	return bits + math.Min(dataBlocks, stretches) + offset*stretches + tail
}

// snippet sets the options in a program.
func snippet(t reblock.Tables, cacheBytes int64) string {
	filters := ""
	if t.FilterBits > 0 {
		filters = fmt.Sprintf("options.Filter = filter.NewBloomFilter(%d)\n", int(t.FilterBits))
	}
	return fmt.Sprintf("// github.com/syndtr/goleveldb/leveldb, .../opt and .../filter\noptions.BlockCacheCapacity = %d\noptions.BlockSize = %d\n%s",
		cacheBytes, t.BlockBytes, filters)
}
