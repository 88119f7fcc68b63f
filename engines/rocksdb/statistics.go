//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"strconv"
	"strings"
)

// statistics are RocksDB's tickers, and how often and with which sum its
// histograms were told something, by RocksDB's names. Their numbers change from
// version to version, names do not.
type statistics map[string]tally

type tally struct{ count, sum int64 }

func (d *db) statistics() statistics {
	return parseStatistics(text(C.rocks_options_statistics_get_string(d.options)))
}

// parseStatistics reads lines such as
//
//	rocksdb.block.cache.data.miss COUNT : 6364
//	rocksdb.db.write.stall P50 : 0.5 P95 : 1.0 COUNT : 2 SUM : 12
func parseStatistics(text string) statistics {
	found := statistics{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}

		var t tally
		for i := 1; i+2 < len(words); i += 3 {
			n, err := strconv.ParseInt(words[i+2], 10, 64)
			if err != nil {
				continue // a percentile
			}

			switch words[i] {
			case "COUNT":
				t.count = n
			case "SUM":
				t.sum = n
			}
		}

		found[words[0]] = t
	}

	return found
}

func (s statistics) count(name string) int64 { return s["rocksdb."+name].count }

// fileReads are reads of table files, compactions' included.
func (s statistics) fileReads() int64 {
	return s.count("last.level.read.count") + s.count("non.last.level.read.count")
}

func (s statistics) fileReadBytes() int64 {
	return s.count("last.level.read.bytes") + s.count("non.last.level.read.bytes")
}

// compactionBlocks counts blocks that compactions needed and no cache served.
const compactionBlocks = "read.block.compaction.micros"

// valueReads counts reads of blob files; each that is opened takes two. RocksDB keeps no values in
// a cache unless it is given one for them.
const valueReads = "blobdb.blob.file.read.micros"

func (s statistics) valueBytes() int64 { return s.count("blobdb.blob.file.bytes.read") }

// getBlocks counts blocks that Gets needed and no cache served.
const getBlocks = "read.block.get.micros"

func (s statistics) compactionBytes() int64 { return s.count("compact.read.bytes") }
