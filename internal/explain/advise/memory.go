package advise

// Share is one use of the memory.
type Share struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

const pageCacheShare = "left for the page cache"

// tableBytes is what an open table takes beside the cache: 2 to 3 KB of the Go
// heap were measured, and the kernel's file is as much again
// (docs/choosing-a-cache.md).
const tableBytes = 8 << 10

// leastCache is the smallest cache that is ever recommended.
const leastCache = 1 << 16

// MostCache is the largest cache of a database inside a budget of memory for
// it, and for what the client's flags give to its other caches.
func MostCache(client Client, budgetBytes int64, tables int) int64 {
	left := budgetBytes - tableBytes*int64(tables)
	if client == Geth {
		left = gethMost(left)
	}
	return max(left, leastCache)
}

// LeastMemory is the smallest budget in which the client can run with so many tables, in
// bytes.
func LeastMemory(client Client, tables int) int64 {
	least := int64(leastCache)
	if client == Geth {
		s := gethSetting(0, 1, 0, MemTables{})
		least = s.CacheBytes + s.OtherCacheBytes
	}
	return least + tableBytes*int64(tables)
}

// shares divides a budget; without one the page cache is whatever is left of
// the machine, and not told.
func shares(s Setting, tables int, budgetBytes int64) []Share {
	list := []Share{
		{"cache, for blocks", s.BlockCacheBytes},
		{"cache, for memtables", s.CacheBytes - s.BlockCacheBytes},
	}
	if s.OtherCacheBytes > 0 {
		list = append(list, Share{"geth's other caches", s.OtherCacheBytes})
	}
	list = append(list, Share{"open tables", tableBytes * int64(tables)})
	if budgetBytes > 0 {
		rest := budgetBytes
		for _, share := range list {
			rest -= share.Bytes
		}
		list = append(list, Share{pageCacheShare, max(rest, 0)})
	}
	return list
}
