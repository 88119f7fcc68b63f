package estimate

import (
	"cmp"
	"fmt"
	"math"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/subject"
)

// ReadSpec is a point of a read or a sweep.
type ReadSpec struct {
	Engine        string
	Keys          uint64
	DatabaseBytes int64 // 0: as Load makes it of Keys pairs of 142 bytes
	Files         int   // of the database; 0: as many as its bytes make
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
	Cgo           bool    // a cache in C's memory of an engine that has it on the Go heap otherwise
}

// pointSeconds are what a process takes besides its Gets: two points of `sweep --cache
// 16MiB,64MiB --gets 1000 --warmup 1000` over 5M keys took 1.6 s, the report included.
const pointSeconds = 1

// An LSM tree is opened table by table: 1,477 tables of 200M keys took a point's phase `prepare` 2.6 s of CPU.
const (
	fileSeconds = 2e-3
	fileBytes   = 16e6 // of the same database
)

func (r ReadSpec) openSeconds() float64 {
	e, _ := subject.EngineOf(r.Engine)
	switch {
	case e.Cost.Mapped || e.Cost.Space == 0:
		return 0
	case r.Files == 0:
		r.Files = int(r.DatabaseBytes / fileBytes)
	}
	return float64(r.Files) * fileSeconds
}

// Read is what a point takes: nothing on disk but a few files.
func Read(r ReadSpec, m Machine) Step {
	e, _ := subject.EngineOf(r.Engine)
	costs := e.Cost
	if r.DatabaseBytes == 0 {
		r.DatabaseBytes = bytes(float64(r.Keys) * 142 * costs.Space)
	}
	cache := r.CacheBytes
	if cache == 0 && costs.Mapped {
		cache = m.memory()
	}
	reads := readsPerGet(cache, r.DatabaseBytes)
	warm := float64(r.WarmupGets)
	if r.WarmupAuto {
		warm = automatic(cache, r.DatabaseBytes, reads)
	}
	threads := max(1, r.Threads)
	fromDevice := 1.0
	if !r.Direct && !costs.Mapped {
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
	cpu := gets*costs.GetNanos + (gets*reads-device)*bufferedNanos
	seconds := device/m.readRate(threads) + cpu/1e9/min(float64(threads), m.cores())
	if r.Rate > 0 {
		seconds += max(0, float64(r.Gets)/r.Rate-seconds*float64(r.Gets)/max(1, gets))
	}
	seconds += float64(r.AccessGets) * accessesPerGet * (fromDevice/m.readRate(1) + bufferedNanos/1e9)
	memory := 100<<20 + int64(threads)<<20
	switch {
	case r.MemoryBytes > 0:
		memory += r.MemoryBytes
	case r.Cgo:
		memory = add(memory, bytes(cgoFactor*float64(r.CacheBytes)))
	case !costs.Mapped:
		memory = add(memory, bytes(heapFactor*float64(r.CacheBytes)))
	}
	held := "cache " + unit.Bytes(cache)
	switch {
	case costs.Mapped && r.MemoryBytes > 0:
		held = "memory " + unit.Bytes(r.MemoryBytes)
	case costs.Mapped:
		held = "page cache"
	}
	return Step{Kind: ReadKind, Name: fmt.Sprintf("reading with %s, %s, threads %d", r.Engine, held, threads), MemoryBytes: memory,
		Seconds: pointSeconds + r.openSeconds() + seconds, Basis: "reads by the cache's share of the database, the disk's random reads, CPU of a Get"}
}

// heapFactor: a cache of 256 MiB on the Go heap made 667 MiB resident.
const heapFactor = 2.2

// cgoFactor: a cache of 256 MiB in C's memory made 387 MiB resident (docs/engines.md).
const cgoFactor = 1.2

// accessesPerGet are the blocks that a Get of an LSM tree needs, none cached: 4 of 300k keys
// on one level, a filter, a top index and an index more for each further level.
const accessesPerGet = 12

// metadata is the share of a database that its filters and indexes are, all but the last level's filters.
const metadata = 0.009

// readsPerGet is the shape of the study's curve: one read of a data block, less what the
// cache holds of those, and up to 1.3 for metadata with smaller caches than the metadata.
func readsPerGet(cache, database int64) float64 {
	if database <= 0 || cache >= database {
		return 0
	}
	share := float64(cache) / float64(database)
	return 1 - share + 1.3*max(0, 1-share/metadata)
}

// automatic is the warm-up that ends when the reads are steady: never less than four Gets
// for each block that the cache can hold, twice as many where the indexes do not fit. Where
// they do, the last of them are met after so many Gets for each: 200M keys took 486,400 Gets
// with 200 MiB and 662,400 with 225 MiB.
func automatic(cache, database int64, reads float64) float64 {
	blocks := min(max(float64(min(cache, database))/4096, 10_000), 500_000)
	if reads > 1.1 {
		return 8 * blocks
	}
	const getsPerIndexBlock = 11
	return max(5*blocks, getsPerIndexBlock*min(metadata*float64(database)/4096, 500_000))
}

// Of `sweep` over 200M keys: tracing 1M Gets took 15 s of CPU.
const (
	traceSeconds    = 12e-6  // a Get
	simulateSeconds = 0.5e-6 // a Get and cache
	traceBytes      = 100
)

// Curve is what the predicted curve of a sweep takes: the Gets of the longest of its points traced, and
// simulated for each cache.
func Curve(points []ReadSpec) Step {
	gets, simulated, tables := 0.0, 0.0, 0.0
	for _, r := range points {
		n := float64(r.WarmupGets)
		if r.WarmupAuto {
			n = automatic(r.CacheBytes, r.DatabaseBytes, readsPerGet(r.CacheBytes, r.DatabaseBytes))
		}
		n += 2 * float64(r.Gets) // the steady state is that of as many Gets again
		gets = max(gets, n)
		simulated += n
		tables = max(tables, r.openSeconds())
	}
	return Step{Kind: CurveKind, Name: "predicting the curve", MemoryBytes: 256<<20 + int64(gets*traceBytes),
		Seconds: tables + gets*traceSeconds + simulated*simulateSeconds, Basis: "a trace of the longest point's Gets, simulated for each cache"}
}

// LoadSpec is a database to make.
type LoadSpec struct {
	Engine     string // without a profile
	Sorted     bool   // fillsorted
	Keys       uint64
	PairBytes  float64 // key and value, mean
	Table32    bool    // values that compress
	CacheBytes int64   // of the load
}

// tableSpace: values from a table of 32 compress; 200M keys of 32 + 110 bytes took 22.1 GiB.
const tableSpace = 0.77

// Load is what making a database takes.
func Load(l LoadSpec, m Machine) Step {
	e, taken := subject.EngineOf(l.Engine)
	costs := e.Cost
	user := float64(l.Keys) * l.PairBytes
	compressed := 1.0
	if l.Table32 && !costs.Mapped {
		compressed = tableSpace
	}
	space := compressed * costs.Space
	cache := float64(l.CacheBytes)
	logs, peakLogs, rate, written := costs.Logs*cache, costs.PeakLogs*cache, costs.KeysPerSecond, user*amplification(costs, l.Keys)
	peak, memory, basis := max(space, compressed*costs.Peak), costs.Memory*cache+128<<20, "measured with 1M keys"
	switch sorted := costs.Sorted; {
	case sorted == nil:
	case l.Sorted:
		logs, peakLogs, rate, written = sorted.Logs*cache, sorted.PeakLogs*cache, sorted.KeysPerSecond, user*compressed*sorted.Amplification
		peak, memory, basis = space, sorted.Memory, "measured with 200M keys"
	default:
		if user < cache {
			logs = min(logs, 2*sorted.Log*cache)
		}
		peakLogs = min(peakLogs, sorted.Log*cache*math.Ceil(math.Max(2, math.Log2(user/sorted.FirstMemTable))))
		basis += "; Pebble preallocates write-ahead logs by the size of --cache"
	}
	s := Step{Kind: LoadKind, Name: fmt.Sprintf("loading %s keys with %s", unit.ShortCount(float64(l.Keys)), l.Engine), Flag: "--keys", Count: l.Keys,
		DiskBytes: bytes(user*space + logs), TableBytes: bytes(user * space), PeakDiskBytes: bytes(user*max(peak, space) + peakLogs),
		MemoryBytes: bytes(memory), fixed: bytes(peakLogs), Basis: basis}
	if costs.InMemory {
		s.MemoryBytes = bytes(2*user + 128<<20)
	}
	const measuredPair = 142 // bytes of a pair that the rates are of
	s.Seconds = 1 + max(float64(l.Keys)*max(1, l.PairBytes/measuredPair)/rate, written/m.writeRate())
	if costs.Mapped && s.DiskBytes > m.memory() {
		// Every key then reads a leaf page, and later writes it.
		beyond := 1 - float64(m.memory())/float64(s.DiskBytes)
		s.Seconds += 2 * beyond * float64(l.Keys) / m.readRate(1)
		s.Basis += "; the file outgrows memory, so that each key waits for a random read"
	}
	s.Basis = cmp.Or(taken, s.Basis)
	return s
}

// amplification is what the device is given for a byte of user data: 4.2 with 5M keys,
// 8.2 with 200M, for LSM trees. Files of mapped engines are written back by the kernel,
// and no such count limits them.
func amplification(c subject.EngineCost, keys uint64) float64 {
	if c.Mapped || c.Space == 0 {
		return 0
	}
	return max(2, 4.2+2.5*math.Log10(float64(max(1, keys))/5e6))
}
