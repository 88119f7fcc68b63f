package goleveldb

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/tablemodel"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// tunedError: see docs/tuning.md.
const tunedError = 0.05

// beyond is that of separators between hashed keys, which are as short as can be, measured.
const beyond = 0.2

// Tables are the settings of tables with these options, and what tables of LevelDB are like. Of o,
// Handles are the tables that there are.
func (e Engine) Tables(
	o engine.Options,
) (kind tablemodel.TableModel, present tablemodel.TableOptions, errs []error) {
	s, errs := resolve(e.Info(), o)
	present = tablemodel.TableOptions{
		BlockBytes:  int64(s.BlockSize),
		FilterBits:  float64(s.BloomBitsPerKey),
		LastFilters: true,
	}

	rates := map[tablemodel.TableOptions]float64{}
	said := func(t tablemodel.TableOptions) string {
		if t.Compression == "" {
			return s.Compression
		}
		return t.Compression
	}

	return tablemodel.TableModel{
		Rate: func(to tablemodel.TableOptions, _ float64) float64 {
			of := tablemodel.TableOptions{
				BlockBytes: max(to.BlockBytes, stretch),
				FilterBits: to.FilterBits,
			}

			if _, known := rates[of]; !known {
				const entryBytes = 150 // about
				rates[of] = filterRate(int(of.FilterBits), int(of.BlockBytes/entryBytes))
			}

			return rates[of]
		},
		// A block is closed by the entry that reaches its size.
		BlockBytes: func(_ engine.Level, entryBytes float64, to tablemodel.TableOptions) float64 {
			return entryBytes * math.Ceil(float64(to.BlockBytes)/entryBytes)
		},
		FilterBytes: filterBytes,
		Cached: func(kind engine.BlockType, bytes float64, to tablemodel.TableOptions) float64 {
			if kind == engine.Data { // nearly all are larger than what a buffer of their size holds
				bytes = max(bytes, float64(to.BlockBytes+trailerBytes+1))
			}
			return float64(blockbased.Buffer(int(bytes), int(to.BlockBytes)))
		},
		SeparatorGap: beyond,
		Trailer:      trailerBytes,
		Error:        tunedError,
		MemTables:    2 * int64(s.WriteBuffer),
		Compression:  s.Compression,
		Compressions: []string{tablemodel.NoCompression, tablemodel.DefaultCompression},
		Options: []tablemodel.Option{
			tablemodel.Values(func(t *tablemodel.TableOptions, v int64) { t.BlockBytes = v },
				1*kib, 2*kib, 4*kib, 8*kib, 16*kib, 32*kib, 64*kib),
			tablemodel.Values(func(t *tablemodel.TableOptions, v float64) { t.FilterBits = v }, 0,
				5, 8, 10, 12, 14, 16, 20),
		},
		OptionMap: func(t tablemodel.TableOptions) map[string]string {
			return map[string]string{
				"BlockSize":       fmt.Sprintf("%dKiB", t.BlockBytes/kib),
				"BloomBitsPerKey": strconv.FormatFloat(t.FilterBits, 'f', -1, 64),
				"Compression":     said(t),
			}
		},
		Snippet: func(t tablemodel.TableOptions, cacheBytes int64) string {
			return snippet(t, said(t), cacheBytes, s.OpenFilesCacheCapacity)
		},
		Rewrite: "DB.CompactRange of all keys (util.Range{})",
	}, present, errs
}

// filterRate is the share of keys that goleveldb's filters let pass, each of which is of a few
// keys: more than a perfect one would.
func filterRate(bits, keys int) float64 {
	const filters, absent = 300, 300
	random, passed, policy := rand.New(rand.NewPCG(1, 1)), 0, filter.NewBloomFilter(bits)
	key := func() []byte { return binary.LittleEndian.AppendUint64(nil, random.Uint64()) }
	for range filters {
		made := policy.NewGenerator()
		for range keys {
			made.Add(key())
		}

		var out util.Buffer
		made.Generate(&out)
		for range absent {
			if policy.Contains(out.Bytes(), key()) {
				passed++
			}
		}
	}

	return float64(passed) / (filters * absent)
}

// stretch is the part of a table, in bytes, for whose blocks there is one filter.
const stretch = 2048

// filterBytes are those of a table's filters, with where each of them begins.
func filterBytes(bits, dataBlocks, dataBytes float64) float64 {
	const offset, tail = 4, 5
	stretches := math.Ceil(dataBytes / stretch)
	return bits + math.Min(dataBlocks, stretches) + offset*stretches + tail
}

// snippet sets the options in a program.
func snippet(t tablemodel.TableOptions, compression string, cacheBytes int64, files int) string {
	filters := ""
	if t.FilterBits > 0 {
		filters = fmt.Sprintf("    Filter:                 filter.NewBloomFilter(%d),\n",
			int(t.FilterBits))
	}

	name := map[string]string{
		tablemodel.NoCompression:      "No",
		tablemodel.DefaultCompression: "Snappy",
	}[compression]
	return fmt.Sprintf("// github.com/syndtr/goleveldb/leveldb/opt, .../filter\n"+
		"options := &opt.Options{\n"+
		"    BlockCacheCapacity:     %d,\n"+
		"    OpenFilesCacheCapacity: %d, // all tables\n"+
		"    BlockSize:              %d,\n"+
		"    Compression:            opt.%sCompression,\n"+
		"%s}\n",
		cacheBytes, files, t.BlockBytes, name, filters)
}
