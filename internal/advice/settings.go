package advice

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
)

// Settings are those of a node that decide how its cache is shared out.
type Settings struct {
	CacheBytes    int64 `json:"cache_bytes"`
	MemTableBytes int64 `json:"memtable_bytes"`
	StopMemTables int   `json:"memtables_that_stop_writes"`
	// of WithCache: a memtable is such a part of a cache
	CacheShare      int64  `json:"memtable_cache_share,omitempty"`
	Handles         int    `json:"handles"`
	TableShards     int    `json:"-"`                 // of the table cache; 0: not known
	LastLevelFilter bool   `json:"last_level_filter"` // new tables of the last level get filters
	Given           bool   `json:"given,omitempty"`   // the cache is that of --cache
	Source          string `json:"source"`            // in words
}

// SettingsOf reads what Pebble writes into its OPTIONS file each time it opens a database for
// writing: what the node runs with. Source is left to the caller.
func SettingsOf(file []optionsfile.Section) (s Settings, err error) {
	values := map[string]string{}
	for _, section := range file {
		if section.Kind == "Level" && section.Name == "6" {
			policy := section.Values["filter_policy"]
			s.LastLevelFilter = policy != "none" && policy != ""
		}

		if section.Kind == "Options" {
			maps.Copy(values, section.Values)
		}
	}

	if values["cache_size"] == "" || values["mem_table_size"] == "" {
		err = errors.New("no cache_size and mem_table_size: not an OPTIONS file of Pebble")
	}

	size := func(name string, maximum int64) (n int64) {
		if text, is := values[name]; is {
			var wrong error
			if n, wrong = strconv.ParseInt(text, 10, 64); wrong != nil || n < 0 || n > maximum {
				err = fmt.Errorf("%s=%.40q is not a size", name, text)
			}
		}

		return n
	}

	s.CacheBytes, s.MemTableBytes = size("cache_size", math.MaxInt64),
		size("mem_table_size", math.MaxInt64)
	s.StopMemTables, s.Handles = int(size("mem_table_stop_writes_threshold", math.MaxInt32)),
		int(size("max_open_files", math.MaxInt32))
	s.TableShards = int(size("table_cache_shards", math.MaxInt32))
	return s, err
}

// WithCache are the settings with another cache: memtables follow it where they
// are a part of it.
func (s Settings) WithCache(cacheBytes int64) Settings {
	if m := s.MemTables(Writes{}); m.CacheShare > 0 {
		s.MemTableBytes, s.CacheShare = m.Each(cacheBytes), m.CacheShare
	}
	s.CacheBytes, s.Source, s.Given = cacheBytes, "--cache", true
	return s
}

// MemTables are a node's write buffers. Pebble takes their memory out of the
// block cache.
type MemTables struct {
	CacheShare int64 // one is a cache's CacheShare-th part; 0: Bytes, whatever the cache
	Bytes      int64
	Live       int // of them while the node writes; 0: it does not
}

// Writes is how much a node writes.
type Writes struct {
	Known          bool
	BytesPerSecond float64
}

// calmWriteBytes a second leave two memtables live: one being filled, one being
// flushed or kept for reuse. Writers without a limit were seen to fill two to
// seven of geth's eight, most often four (docs/recommendation.md).
const calmWriteBytes = 4 << 20

// MemTables tells how the write buffers follow the cache, and how many live
// under w. Clients derive the size from the cache (geth an eighth, bench_kvdb a
// quarter); any other ratio is a size of its own.
func (s Settings) MemTables(w Writes) MemTables {
	m := MemTables{Bytes: s.MemTableBytes, CacheShare: s.CacheShare}
	for _, share := range []int64{4, 8} {
		if s.CacheBytes > 0 && s.CacheBytes/share == s.MemTableBytes {
			m.CacheShare = share
		}
	}

	switch {
	case w.Known && w.BytesPerSecond == 0:
	case w.Known && w.BytesPerSecond <= calmWriteBytes:
		m.Live = 2
	default:
		m.Live = max(2, s.StopMemTables/2)
	}

	return m
}

const (
	minMemTableBytes = 256 << 10 // Pebble's first memtable, before it doubles
	maxMemTableBytes = 1<<32 - 2 // Pebble refuses more
)

// Each is the size of a memtable beside a cache.
func (m MemTables) Each(cacheBytes int64) int64 {
	if m.CacheShare > 0 {
		return min(max(cacheBytes/m.CacheShare, minMemTableBytes), maxMemTableBytes)
	}
	return m.Bytes
}

// Reserved is what live memtables take of a cache.
func (m MemTables) Reserved(cacheBytes int64) int64 {
	return min(int64(m.Live)*m.Each(cacheBytes), cacheBytes)
}

// Total is the smallest cache that leaves blockBytes for blocks.
func (m MemTables) Total(blockBytes int64) int64 {
	live := int64(m.Live)
	if m.CacheShare == 0 {
		return blockBytes + live*m.Bytes
	}

	if live >= m.CacheShare { // only a cap on the memtables leaves anything
		return blockBytes + live*maxMemTableBytes
	}

	total := (blockBytes*m.CacheShare + m.CacheShare - live - 1) / (m.CacheShare - live)
	switch each := total / m.CacheShare; {
	case each < minMemTableBytes:
		return blockBytes + live*minMemTableBytes
	case each > maxMemTableBytes:
		return blockBytes + live*maxMemTableBytes
	}

	return total
}

// Disk is what a probe of random reads found.
type Disk struct {
	Points []ProbePoint `json:"points,omitempty"` // by reads in flight
	Absent string       `json:"absent,omitempty"` // why there are none
	// Failed tells that it was probed, and that the probe tells nothing.
	Failed bool `json:"failed,omitempty"`
}

// ProbePoint is what the disk gives to so many reads in flight.
type ProbePoint struct {
	InFlight       int     `json:"in_flight"`
	ReadsPerSecond float64 `json:"reads_per_second"`
	MeanNanos      float64 `json:"mean_ns"`
	P99Nanos       int64   `json:"p99_ns"`
}

// Most is the point of the most reads a second.
func (d Disk) Most() (best ProbePoint) {
	for _, p := range d.Points {
		if p.ReadsPerSecond > best.ReadsPerSecond {
			best = p
		}
	}
	return best
}

// Feeding is the first point that gives so many reads a second; the one that
// gives most where none does.
func (d Disk) Feeding(readsPerSecond float64) ProbePoint {
	for _, p := range d.Points {
		if p.ReadsPerSecond >= readsPerSecond {
			return p
		}
	}
	return d.Most()
}

// The share of a disk's reads from which it is close, and beyond, its limit:
// queues grow long before all of it is used.
const (
	closeToLimit = 0.5
	atLimit      = 1.0
)

// CapacityText says whether the disk can give so many reads a second.
func (d Disk) CapacityText(readsPerSecond float64) string {
	p := d.Feeding(readsPerSecond)
	if maximum := d.Most(); readsPerSecond > closeToLimit*p.ReadsPerSecond &&
		maximum.ReadsPerSecond > p.ReadsPerSecond {
		p = maximum
	}

	needs := fmt.Sprintf("needs %s reads/s of this disk's %s at %d in flight",
		unit.ShortCount(readsPerSecond), unit.ShortCount(p.ReadsPerSecond), p.InFlight)
	switch share := readsPerSecond / p.ReadsPerSecond; {
	case share > atLimit:
		return needs + ": the disk is the limit"
	case share > closeToLimit:
		return needs + ": close to the disk's limit"
	}

	return needs + ": not the disk"
}

// Latency is the device time of a Get: its block reads follow one another.
func (d Disk) Latency(readsPerGet, readsPerSecond float64) time.Duration {
	return time.Duration(math.Round(readsPerGet * d.Feeding(readsPerSecond).MeanNanos))
}

// Share is one use of the memory.
type Share struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// PageCacheShare is the use of the part of a memory budget that no cache of the client takes.
const PageCacheShare = "left for the page cache"

// TableBytes is what an open table takes beside the cache: 2 to 3 KB of the Go
// heap were measured, and the kernel's file is as much again
// (docs/recommendation.md).
const TableBytes = 8 << 10

// LeastCache is the smallest cache that is ever recommended.
const LeastCache = 1 << 16

// MaxCache is the largest cache of a database inside a budget of memory for
// it, and for what the client's flags give to its other caches.
func MaxCache(client clients.Client, budgetBytes int64, tables int) int64 {
	left := budgetBytes - TableBytes*int64(tables)
	if client == clients.Geth {
		left = gethMax(left)
	}
	return max(left, LeastCache)
}

// MinMemory is the smallest budget in which the client can run with so many tables, in
// bytes.
func MinMemory(client clients.Client, tables int) int64 {
	minimum := int64(LeastCache)
	if client == clients.Geth {
		s := GethSetting(0, 1, 0, MemTables{})
		minimum = s.CacheBytes + s.OtherCacheBytes
	}
	return minimum + TableBytes*int64(tables)
}

// Shares divides a budget; without one the page cache is whatever is left of
// the machine, and not told.
func Shares(s Setting, tables int, budgetBytes int64) []Share {
	list := []Share{
		{"cache, for blocks", s.BlockCacheBytes},
		{"cache, for memtables", s.CacheBytes - s.BlockCacheBytes},
	}

	if s.OtherCacheBytes > 0 {
		list = append(list, Share{"geth's other caches", s.OtherCacheBytes})
	}

	list = append(list, Share{"open tables", TableBytes * int64(tables)})
	if budgetBytes > 0 {
		rest := budgetBytes
		for _, share := range list {
			rest -= share.Bytes
		}
		list = append(list, Share{PageCacheShare, max(rest, 0)})
	}

	return list
}
