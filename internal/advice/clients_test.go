package advice

import (
	"fmt"
	"slices"
	"testing"

	"github.com/statelab/statelab/internal/chain/clients"
)

func TestGethSetting(t *testing.T) {
	const gib = 1 << 30
	m := MemTables{CacheShare: 8, Live: 4}
	for _, c := range []struct {
		name                   string
		cache, budget, machine int64
		all, percent           int64
		gives                  int64 // MiB for the database
	}{
		{"geth's default", 2 * gib, 0, 64 * gib, 4096, 50, 2048},
		{"a little more", 2662 * mib, 0, 64 * gib, 4096, 65, 2662},
		{"more than --cache", 6 * gib, 0, 64 * gib, 6827, 90, 6144},
		{"the least", 1 * mib, 0, 64 * gib, 4096, 1, 40},
		{"a third of the machine", 2 * gib, 0, 6 * gib, 2048, 90, 1843},
		{"a budget", 2 * gib, 4 * gib, 64 * gib, 2276, 90, 2048},
		{"a wide budget", 2 * gib, 16 * gib, 64 * gib, 4096, 50, 2048},
	} {
		s := GethSetting(c.cache, c.budget, c.machine, m)
		flags := []string{fmt.Sprintf("--cache %d", c.all),
			fmt.Sprintf("--cache.database %d", c.percent)}
		if !slices.Equal(s.Flags, flags) || s.CacheBytes != c.gives*mib ||
			s.CacheBytes != c.all*c.percent/100*mib {
			t.Errorf("%s: %v gives %d MiB, want %v and %d", c.name, s.Flags, s.CacheBytes/mib,
				flags, c.gives)
		}

		if s.BlockCacheBytes*2 != s.CacheBytes {
			t.Errorf("%s: %d of %d for blocks, want half", c.name, s.BlockCacheBytes, s.CacheBytes)
		}

		if c.budget > 0 && s.CacheBytes+s.OtherCacheBytes > c.budget {
			t.Errorf("%s: %d MiB in all", c.name, (s.CacheBytes+s.OtherCacheBytes)/mib)
		}
	}
}

func TestMostCacheIsInsideTheBudget(t *testing.T) {
	const budget, tables = 8 << 30, 10_000
	if got := MaxCache(clients.AnyPebble, budget, tables); got != budget-tables*TableBytes {
		t.Errorf("pebble: %d", got)
	}

	maximum := MaxCache(clients.Geth, budget, tables)
	s := GethSetting(maximum, budget-tables*TableBytes, 0, MemTables{CacheShare: 8})
	if sum := s.CacheBytes + s.OtherCacheBytes + tables*TableBytes; sum > budget+64*mib ||
		sum < budget*9/10 {
		t.Errorf("geth: %d MiB of %d", sum/mib, budget/mib)
	}
}

func TestHandles(t *testing.T) {
	for tables, want := range map[int]int{0: 74, 15: 74, 1418: 1783, 7105: 8892} {
		if got := Handles(tables); got != want {
			t.Errorf("%d tables: %d, want %d", tables, got, want)
		}
	}
}

func TestRocksDBCache(t *testing.T) {
	for client, want := range map[clients.Client]string{
		clients.Besu:       "--Xplugin-rocksdb-cache-capacity=1073741824",
		clients.Nethermind: "--Db.SharedBlockCacheSize 1073741824",
		clients.Statelab:   "--cache 1024MiB",
		clients.AnyRocksDB: "BlockBasedTableOptions::block_cache = NewLRUCache(1073741824)",
	} {
		if bytes, got := RocksDBCache(client, 1<<30); got != want || bytes < 32*mib {
			t.Errorf("%s: %q, %d bytes by default; want %q", client, got, bytes, want)
		}
	}
}
