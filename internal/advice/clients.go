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
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
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
			"memory free " +
			"(" + owner + " has no flag for it; statelab sweep --memory measures what memory gains)"
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

// GethChange is the smallest change of geth's flags that gives its database at least cacheBytes.
type GethChange struct {
	Flags      []string // to set, such as "--cache.database 60"
	Keeps      string   // the flag that they go with, such as "--cache 32"; "": none is named
	IsDefault  bool     // Keeps is geth's default, and not on the command line
	CacheBytes int64    // that the database then gets
	OtherBytes int64    // more for geth's other caches, by the same flags
	// AllOtherBytes are those of geth's other caches, then.
	AllOtherBytes int64
}

// ChangeGeth looks for the smallest change of the command line args, program first, with which the
// database has wantBytes instead of presentBytes. machineBytes bound all of geth's caches as geth
// itself does; 0: not. It fails if args do not give the database what it has: then a configuration
// file or the environment does, or another program wrote the database's options.
func ChangeGeth(args []string, presentBytes, wantBytes, machineBytes int64) (GethChange, error) {
	all, allGiven, err := gethNumber(args, "cache", gethCacheMiB)
	if err != nil {
		return GethChange{}, err
	}

	percent, _, err := gethNumber(args, "cache.database", gethDefaultPercent)
	if err != nil {
		return GethChange{}, err
	}

	if machineBytes > 0 {
		all = min(all, machineBytes/mib/gethMemoryShare)
	}

	given := max(all*percent/100, gethDatabaseMinMiB) * mib
	if given != presentBytes {
		return GethChange{}, fmt.Errorf("its flags give the database %s, and it runs with %s: a "+
			"configuration file or a variable of the environment sets it",
			unit.Bytes(given), unit.Bytes(presentBytes))
	}

	want := ceilDiv(wantBytes, mib)
	if share := ceilDiv(100*want, all); share <= gethMostPercent {
		return GethChange{
			Flags:      []string{fmt.Sprintf("--cache.database %d", share)},
			Keeps:      fmt.Sprintf("--cache %d", all),
			IsDefault:  !allGiven,
			CacheBytes: all * share / 100 * mib,

			AllOtherBytes: all * gethOtherPercent / 100 * mib,
		}, nil
	}

	// More for all caches, of which the database gets as much as it can: its share alone of what
	// is given to all would give the others most of what is new.
	more := ceilDiv(100*want, gethMostPercent)
	if machineBytes > 0 && more > machineBytes/mib/gethMemoryShare {
		return GethChange{}, fmt.Errorf("geth gives its caches at most a third of the memory: %s",
			unit.Bytes(machineBytes/gethMemoryShare))
	}

	return GethChange{
		Flags: []string{fmt.Sprintf("--cache %d", more),
			fmt.Sprintf("--cache.database %d", gethMostPercent)},
		CacheBytes: more * gethMostPercent / 100 * mib,
		OtherBytes: (more - all) * gethOtherPercent / 100 * mib,

		AllOtherBytes: more * gethOtherPercent / 100 * mib,
	}, nil
}

// GethFrom is the setting after the smallest change of args, or, where they are nil, of flags with
// which a geth with its default of --cache.database has presentBytes.
func GethFrom(
	args []string, presentBytes, wantBytes, machineBytes int64, m MemTables,
) (Setting, error) {
	if args == nil {
		args = []string{"geth", fmt.Sprintf("--cache=%d", ceilDiv(100*presentBytes,
			gethDefaultPercent*mib))}
	}

	change, err := ChangeGeth(args, presentBytes, wantBytes, machineBytes)
	if err != nil {
		return Setting{}, err
	}

	return Setting{
		Client: clients.Geth, Flags: change.Flags, CacheBytes: change.CacheBytes,
		BlockCacheBytes: change.CacheBytes - m.Reserved(change.CacheBytes),
		OtherCacheBytes: change.AllOtherBytes,
		MemTableBytes:   m.Each(change.CacheBytes), MemTables: m.Live,
	}, nil
}

// gethNumber is the number that a flag of geth has on a command line, of several the last.
func gethNumber(args []string, flag string, otherwise int64) (n int64, given bool, err error) {
	n = otherwise
	for i, arg := range args {
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || name != flag {
			continue
		}

		if !joined {
			if i+1 == len(args) {
				return 0, true, fmt.Errorf("--%s has no value", flag)
			}
			value = args[i+1]
		}

		if n, err = strconv.ParseInt(value, 10, 64); err != nil || n < 0 {
			return 0, true, fmt.Errorf("--%s %.40q is not a number", flag, value)
		}

		given = true
	}

	return n, given, nil
}

// Sentence says what to set, and what stays.
func (c GethChange) Sentence() string {
	text := "To set it: " + strings.Join(c.Flags, " ")
	switch {
	case c.Keeps != "" && c.IsDefault:
		text += fmt.Sprintf(" (geth's default %s and your other flags stay).", c.Keeps)
	case c.Keeps != "":
		text += fmt.Sprintf(" with your %s (the rest of your flags stays).", c.Keeps)
	default:
		text += " (the rest of your flags stays"
		if c.OtherBytes >= mib {
			text += fmt.Sprintf("; geth's other caches get %s more, too",
				unit.Bytes(c.OtherBytes))
		}
		text += ")."
	}

	return text
}

// SetCache says in a sentence how the program that runs with args, its name first, gives its
// database wantBytes of block cache instead of presentBytes; "" where nothing is known of it.
func SetCache(
	client clients.Client, args []string, presentBytes, wantBytes, machineBytes int64,
) string {
	switch client = client.WithFlags(); client {
	case clients.Geth:
		change, err := ChangeGeth(args, presentBytes, wantBytes, machineBytes)
		if err != nil {
			return fmt.Sprintf("Which flag of geth sets it is not clear: %v.", err)
		}
		return change.Sentence()
	case clients.CosmosSDK:
		return NoCacheFlag(client, false) + "."
	case clients.AnyPebble, clients.Statelab:
		return "To set it: " + PebbleSetting(client, wantBytes, MemTables{}).Flags[0] + "."
	case clients.Besu, clients.Nethermind, clients.Ethrex, clients.Reth, clients.AnyRocksDB:
		_, flag := RocksDBCache(client, wantBytes)
		return "To set it: " + flag + "."
	}

	return ""
}
