// Package advice judges programs that own databases, and computes their memory and flags: what
// limits a node, how its cache is shared between blocks and write buffers, how many files it keeps
// open, which flags give it a cache, and whether a disk feeds the reads that are left.
//
// Goals: the same numbers for whoever asks, reports or prints them. Pure: no clock, no files.
// Non-goals: which cache is the right one (explain/advise), how many blocks a Get reads (model).
//
// Read in this order: verdict.go (what limits a node), settings.go, clients.go.
package advice

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/result"
)

// RocksDBCache is the block cache of a client of RocksDB as it comes, in bytes, and the flag
// that sets another.
//
// Besu: RocksDBCLIOptions, 128 MiB by default, a cache of that size for each column family
// (createBlockBasedTableConfig in RocksDBColumnarKeyValueStorage). Nethermind:
// DbConfig.SharedBlockCacheSize, 256 MiB by default, one cache for all its databases. ethrex: pull
// request 6735, 12 GiB. reth: DEFAULT_CACHE_SIZE of its RocksDB provider, 128 MiB, set by its code
// alone. RocksDB itself has had 32 MiB since version 8.
func RocksDBCache(client clients.Client, cacheBytes int64) (defaultBytes int64, flag string) {
	switch client {
	case clients.Besu:
		return 128 * mib, fmt.Sprintf("--Xplugin-rocksdb-cache-capacity=%d", cacheBytes)
	case clients.Nethermind:
		return 256 * mib, fmt.Sprintf("--Db.SharedBlockCacheSize %d", cacheBytes)
	case clients.Ethrex:
		return 12 << 30, fmt.Sprintf("--rocksdb.block-cache-size=%d", cacheBytes)
	case clients.Reth:
		return 128 * mib, fmt.Sprintf("RocksDBBuilder::with_block_cache_size(%d)", cacheBytes)
	case clients.Statelab:
		return 32 * mib, "--cache " + exact(cacheBytes)
	}

	return 32 * mib, fmt.Sprintf("BlockBasedTableOptions::block_cache = NewLRUCache(%d)",
		cacheBytes)
}

// NoCacheFlag says how to give more memory to a database that advise cannot compute: what its
// client, "" if it is not known, has instead of a flag for a block cache. mapped: its engine has no
// block cache.
func NoCacheFlag(client clients.Client, mapped bool) string {
	switch {
	case mapped:
		owner := cmp.Or(client.Name(), "its program")
		return "It has no block cache: the operating system's page cache is its cache, so leave " +
			"memory free (" + owner + " has no flag for it). While its node runs, sudo statelab " +
			"watch --pid PID predicts what it would read with another amount of memory; " +
			"without a node, statelab sweep --memory measures it"
	case client == clients.Geth:
		return "geth's --cache and --cache.database set its block cache, half of what the " +
			"database gets (statelab sweep --cache measures what a block cache gains)"
	case client == clients.CosmosSDK:
		return "The Cosmos SDK sets no block cache by a flag; iavl-cache-size in app.toml is a " +
			"number of nodes, 781250 by default " +
			"(statelab sweep --cache measures what a block cache gains)"
	}

	return "To find out what a block cache gains, measure it with statelab sweep --cache"
}

// Setting is how a client is told the recommendation.
type Setting struct {
	Client clients.Client `json:"client"`
	Flags  []string       `json:"flags"`
	// of the database, once the flags are set
	CacheBytes      int64 `json:"cache_bytes"`
	BlockCacheBytes int64 `json:"block_cache_bytes"` // of these, while the node writes
	// OtherCacheBytes are what the same flags give to the client's other caches.
	OtherCacheBytes int64 `json:"other_cache_bytes,omitempty"`
	MemTableBytes   int64 `json:"memtable_bytes"`
	MemTables       int   `json:"memtables"` // live while the node writes
	// Where the flags stand, of a node whose configuration was read, and what they replace there:
	// "in line 3 of /etc/geth.toml, instead of 16".
	Where string `json:"where,omitempty"`
}

const mib = 1 << 20

// GethLeastCache is the least geth gives its database.
const GethLeastCache = 16 * mib

// What go-ethereum 1.17 does with --cache, in MiB (cmd/utils/flags.go,
// ethdb/pebble): 4096 by default, cut to a third of the memory; --cache.database
// percent of it, 50 by default, go to the database, 50 more to trie, gc and
// snapshot.
const (
	gethCacheMiB       = 4096
	gethDatabaseMinMiB = GethLeastCache / mib
	gethDefaultPercent = 50
	gethOtherPercent   = 50
	// gethMostPercent keeps --cache.database below 100: nothing in geth forbids
	// more, but nobody reads it as meant.
	gethMostPercent = 90
	gethMemoryShare = 3
)

// GethMemTables are those of geth 1.17 under the writes of m: eight of an
// eighth of the cache stop writes.
func GethMemTables(m MemTables) MemTables {
	if m.CacheShare == 0 {
		m = MemTables{CacheShare: 8, Live: m.Live}
		if m.Live > 2 {
			m.Live = 4
		}
	}
	return m
}

// GethSetting gives a database cacheBytes. budgetBytes and machineBytes bound
// all of geth's caches; 0 does not.
func GethSetting(cacheBytes, budgetBytes, machineBytes int64, m MemTables) Setting {
	database := max(ceilDiv(cacheBytes, mib), gethDatabaseMinMiB)
	minimum := ceilDiv(100*database, gethMostPercent)
	all := int64(gethCacheMiB)
	if budgetBytes > 0 { // half of what is left for the other caches, half for the page cache
		all = min(all, max(0, budgetBytes/mib-database)*100/gethOtherPercent/2)
	}

	all = max(all, minimum)
	if machineBytes > 0 {
		all = min(all, machineBytes/mib/gethMemoryShare)
	}

	all = max(all, gethDatabaseMinMiB)
	return gethSettingOf(all, min(ceilDiv(100*database, all), gethMostPercent), m)
}

// gethSettingOf is what geth does with --cache all and --cache.database percent.
func gethSettingOf(all, percent int64, m MemTables) Setting {
	given := all * percent / 100 * mib
	return Setting{
		Client: clients.Geth,
		Flags: []string{fmt.Sprintf("--cache %d", all),
			fmt.Sprintf("--cache.database %d", percent)},
		CacheBytes: given, BlockCacheBytes: given - m.Reserved(given),
		OtherCacheBytes: all * gethOtherPercent / 100 * mib,
		MemTableBytes:   m.Each(given), MemTables: m.Live,
	}
}

// GethPresent is what gives a database the cache that it has, with geth's default of
// --cache.database. A node can have come to it by other Shares.
func GethPresent(cacheBytes int64, m MemTables) Setting {
	all := ceilDiv(100*cacheBytes, gethDefaultPercent*mib)
	s := gethSettingOf(all, gethDefaultPercent, m)
	s.Flags = s.Flags[:1]
	return s
}

// GethFlags are geth's flags for a database cache inside a budget for all of its caches, and what
// they give to which.
func GethFlags(cacheBytes, budgetBytes int64) string {
	s := GethSetting(cacheBytes, budgetBytes, 0, MemTables{})
	return fmt.Sprintf("geth %s: %s for the database, %s for tries, garbage and snapshots",
		strings.Join(s.Flags, " "), unit.Bytes(s.CacheBytes),
		unit.Bytes(s.OtherCacheBytes))
}

// gethMax is the largest database cache inside a budget for all of geth's.
func gethMax(budgetBytes int64) int64 {
	return int64(float64(budgetBytes) / (1 + float64(gethOtherPercent)/gethMostPercent))
}

// PebbleSetting is how a program that embeds Pebble, or statelab, gets a cache.
func PebbleSetting(client clients.Client, cacheBytes int64, m MemTables) Setting {
	flags := []string{fmt.Sprintf("Options.Cache = pebble.NewCache(%d)", cacheBytes),
		fmt.Sprintf("Options.MemTableSize = %d", m.Each(cacheBytes))}
	switch client {
	case clients.Statelab:
		flags = []string{"--cache " + exact(cacheBytes)}
	case clients.CosmosSDK:
		flags = flags[:1]
	}

	return Setting{
		Client:          client,
		Flags:           flags,
		CacheBytes:      cacheBytes,
		BlockCacheBytes: cacheBytes - m.Reserved(cacheBytes),
		MemTableBytes:   m.Each(cacheBytes),
		MemTables:       m.Live,
	}
}

// Separator is what stands between the flags of a command line, or the lines of a program.
func (s Setting) Separator() string {
	if s.Client == clients.AnyPebble {
		return "; "
	}
	return " "
}

// exact prints a size that parses back to itself.
func exact(bytes int64) string {
	switch {
	case bytes%mib == 0:
		return fmt.Sprintf("%dMiB", bytes/mib)
	case bytes%1024 == 0:
		return fmt.Sprintf("%dKiB", bytes/1024)
	}
	return fmt.Sprint(bytes)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// Pebble keeps as many tables open as it has handles, less those that it sets aside for other files
// (the log, the manifest), and never fewer than LeastOpenTables.
const (
	OtherHandles    = 10
	LeastOpenTables = 64
)

// Handles is what a database of so many tables needs: a quarter more for those
// that compactions make before they drop the old ones, and Pebble's own.
func Handles(tables int) int { return max(withCompactions(tables), LeastOpenTables) + OtherHandles }

// OpenTables is what a database of another engine needs for its tables, and how that comes about.
func OpenTables(tables int) (handles int, rule string) {
	return withCompactions(tables) + OtherHandles, fmt.Sprintf("%s, a quarter more that "+
		"compactions write, and %d other files", unit.Plural(tables, "table"), OtherHandles)
}

// HandlesRule says how Handles comes to its number.
func HandlesRule(tables int) string {
	number := unit.Count(tables) + " tables"
	if tables == 1 {
		number = "1 table"
	}

	if withCompactions(tables) < LeastOpenTables {
		return fmt.Sprintf("%s: Pebble makes room for at least %d, and for %d other files", number,
			LeastOpenTables, OtherHandles)
	}

	return fmt.Sprintf("%s, a quarter more that compactions write, and %d other files", number,
		OtherHandles)
}

func withCompactions(tables int) int {
	const margin = 1.25
	return int(math.Ceil(margin * float64(tables)))
}

// SetCache says in a sentence how a node of that configuration gives its database wantBytes of
// block cache instead of presentBytes; "" where nothing is known of it.
func SetCache(
	client clients.Client, c result.NodeConfig, presentBytes, wantBytes int64, memory Memory,
) (sentence string) {
	switch client = client.WithFlags(); client {
	case clients.Geth:
		change, err := ChangeGeth(c, presentBytes, wantBytes, memory)
		if err != nil {
			sentence = fmt.Sprintf("Which setting of geth makes its cache is not clear: %v.", err)
			break
		}
		sentence = change.Sentence()
	case clients.CosmosSDK:
		sentence = NoCacheFlag(client, false) + "."
		if o := strongest(c, iavlCache); o != nil {
			sentence += fmt.Sprintf(" It has %s %s.", assigned(o, o.Value), where(o, c))
		}
	case clients.AnyPebble, clients.Statelab:
		return "To set it: " + PebbleSetting(client, wantBytes, MemTables{}).Flags[0] + "."
	case clients.Besu, clients.Nethermind, clients.Ethrex, clients.Reth, clients.AnyRocksDB:
		sentence = "To set it: " + SetRocksDB(client, c, wantBytes) + "." +
			overridden(c, strongest(c, cacheOption(client))) + memoryBeside(client, c)
	default:
		return ""
	}

	return sentence + configWarnings(c)
}
