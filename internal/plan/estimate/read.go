package estimate

import (
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
)

// ReadSpec is a point of a read or a sweep.
type ReadSpec struct {
	Engine        string
	Keys          uint64
	DatabaseBytes int64 // 0: as Load makes it of Keys pairs of 142 bytes
	CacheBytes    int64 // of the engine; of a mapped one what its page cache may be
	MemoryBytes   int64 // budget; 0: none
	Threads       int
	Gets          uint64
	WarmupGets    uint64
	WarmupAuto    bool
	AccessGets    uint64 // replayed without a cache
	Direct        bool
	Cold          bool
	Rate          float64 // Gets a second; 0: closed loop
}

// pointSeconds are what a process takes besides its Gets: two points of `sweep --cache
// 16MiB,64MiB --gets 1000 --warmup 1000` over 5M keys took 1.6 s, the report included.
const pointSeconds = 1

// Read is what a point takes: nothing on disk but a few files.
func Read(r ReadSpec, m Machine) Step {
	costs := costsOf(r.Engine)
	if r.DatabaseBytes == 0 {
		r.DatabaseBytes = bytes(float64(r.Keys) * 142 * costs.space)
	}
	cache := r.CacheBytes
	if cache == 0 && costs.mapped {
		cache = m.memory()
	}
	reads := readsPerGet(cache, r.DatabaseBytes)
	warm := float64(r.WarmupGets)
	if r.WarmupAuto {
		warm = automatic(cache, r.DatabaseBytes, reads)
	}
	threads := max(1, r.Threads)
	fromDevice := 1.0
	if !r.Direct && !costs.mapped {
		fromDevice = max(0, 1-float64(m.memory())/float64(max(1, r.DatabaseBytes)))
	}
	gets := warm + float64(r.Gets)
	device := gets * reads * fromDevice
	if r.Cold { // what is read for the first time comes from the device, whatever memory there is
		device = max(device, min(gets*reads, float64(r.DatabaseBytes)/4096))
	}
	// A block read that the page cache serves: with 1 MiB of cache a Get of 300k keys takes
	// 1.0 block reads and 6.1 us more CPU than with 512 MiB.
	const bufferedNanos = 6e3
	cpu := gets*costs.getNanos + (gets*reads-device)*bufferedNanos
	seconds := device/m.readRate(threads) + cpu/1e9/min(float64(threads), m.cores())
	if r.Rate > 0 {
		seconds += max(0, float64(r.Gets)/r.Rate-seconds*float64(r.Gets)/max(1, gets))
	}
	seconds += float64(r.AccessGets) * accessesPerGet * (fromDevice/m.readRate(1) + bufferedNanos/1e9)
	memory := 100<<20 + int64(threads)<<20
	switch {
	case r.MemoryBytes > 0:
		memory += r.MemoryBytes
	case !costs.mapped:
		memory = add(memory, bytes(heapFactor*float64(r.CacheBytes)))
	}
	return Step{Kind: ReadKind, Name: fmt.Sprintf("reading with %s, cache %s", r.Engine, unit.Bytes(cache)), MemoryBytes: memory,
		Seconds: pointSeconds + seconds, Basis: "reads by the cache's share of the database, the disk's random reads, CPU of a Get"}
}

// heapFactor: a cache of 256 MiB on the Go heap made 667 MiB resident.
const heapFactor = 2.2

// accessesPerGet are the blocks that a Get of an LSM tree needs, none cached: 4 of 300k keys
// on one level, a filter, a top index and an index more for each further level.
const accessesPerGet = 12

// readsPerGet is the shape of the study's curve: one read of a data block, less what the
// cache holds of those, and up to 1.3 for metadata with caches below 0.9 % of the database.
func readsPerGet(cache, database int64) float64 {
	if database <= 0 || cache >= database {
		return 0
	}
	const metadata = 0.009
	share := float64(cache) / float64(database)
	return 1 - share + 1.3*max(0, 1-share/metadata)
}

// automatic is the warm-up that ends when the reads are steady: never less than four Gets
// for each block that the cache can hold, twice as many where the indexes do not fit.
func automatic(cache, database int64, reads float64) float64 {
	blocks := min(max(float64(min(cache, database))/4096, 10_000), 500_000)
	if reads > 1.1 {
		return 8 * blocks
	}
	return 5 * blocks
}
