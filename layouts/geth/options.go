package geth

import (
	"strconv"

	"github.com/ethereum/go-ethereum/triedb"
	"github.com/ethereum/go-ethereum/triedb/hashdb"
	"github.com/ethereum/go-ethereum/triedb/pathdb"

	"github.com/statelab/statelab/engine"
)

const (
	profile = "geth"

	// minMemoryBytes is the least that ethdb/pebble gives its block cache.
	minMemoryBytes = 16 << 20
	// minCleanBytes is what fastcache takes at least: 512 buckets of 64 KiB.
	minCleanBytes = 32 << 20
	// defaultMemoryBytes is --cache of a node that is not on the main network.
	defaultMemoryBytes = 1 << 30
	// handles are the open files of Pebble.
	handles = 512
)

// split is how a budget is spent. Pebble takes its write buffers from its block
// cache. The clean cache holds whole nodes, or flat states where lookups read
// those.
type split struct {
	pebbleBytes int64
	cleanBytes  int64
}

// splitMemory gives half to Pebble and half to the one clean cache that lookups use,
// all to Pebble where half is less than that cache would take. A node started with
// --cache gives 50 % to Pebble, 15 % to the clean nodes, 10 % to the flat state and
// 25 % to nodes that wait to be written, which are none here.
func splitMemory(budgetBytes int64) split {
	if budgetBytes == 0 {
		budgetBytes = defaultMemoryBytes
	}
	if budgetBytes/2 < minCleanBytes {
		return split{pebbleBytes: budgetBytes}
	}
	return split{pebbleBytes: budgetBytes / 2, cleanBytes: budgetBytes / 2}
}

func (s split) pebbleMiB() int { return int(s.pebbleBytes >> 20) }

func (s split) shares(l scheme) []engine.MemoryShare {
	shares := []engine.MemoryShare{{Use: "block cache and write buffers", Bytes: s.pebbleBytes, Basis: "limit", Holds: engine.Blocks}}
	if s.cleanBytes > 0 {
		use := "clean trie nodes"
		if l.flat {
			use = "clean flat states"
		}
		shares = append(shares, engine.MemoryShare{Use: use, Bytes: s.cleanBytes, Basis: "limit", Holds: engine.CleanState})
	}
	return shares
}

// trieConfig are the settings of the trie database: nothing may go on in the
// background that a lookup or a commit would then be charged for.
func (l scheme) trieConfig(s split, readOnly bool) *triedb.Config {
	if !l.byPath {
		return &triedb.Config{HashDB: &hashdb.Config{CleanCacheSize: int(s.cleanBytes)}}
	}
	path := *pathdb.Defaults
	path.ReadOnly = readOnly
	path.TrieCleanSize, path.StateCleanSize = int(s.cleanBytes), 0
	if l.flat {
		path.TrieCleanSize, path.StateCleanSize = 0, int(s.cleanBytes)
	}
	path.NoAsyncFlush, path.NoAsyncGeneration, path.SnapshotNoBuild = true, true, false
	return &triedb.Config{PathDB: &path}
}

func (l scheme) effective(s split) map[string]string {
	scheme := "hash"
	if l.byPath {
		scheme = "path"
	}
	return map[string]string{
		"state.scheme":      scheme,
		"pebble_bytes":      strconv.FormatInt(s.pebbleBytes, 10),
		"clean_cache_bytes": strconv.FormatInt(s.cleanBytes, 10),
		"handles":           strconv.Itoa(handles),
	}
}
