package estimate

import (
	"fmt"
	"math"

	"github.com/statelab/statelab/internal/base/unit"
)

// LoadSpec is a database to make.
type LoadSpec struct {
	Engine     string // without a profile
	Sorted     bool   // fillsorted
	Keys       uint64
	PairBytes  float64 // key and value, mean
	Table32    bool    // values that compress
	CacheBytes int64   // of the load
	Threads    int
}

// engineCosts are of `statelab load --engine E --keys 1M` (key 32 B, value 110 B, random
// values), bytes by du every 0.15 s, where no other command is named. Rates are of a
// shared machine with two cores.
type engineCosts struct {
	space float64 // bytes of the database / bytes of keys and values
	peak  float64 // at most while loading, in the same unit
	// logs are write-ahead logs that stay for reuse, and at the most: times the cache,
	// which gives the memtables their size.
	logs, peakLogs float64
	keysPerSecond  float64
	// getNanos is the CPU of a Get. `read --page-cache warm --memory 512MiB --threads 1` of 300k
	// keys: goleveldb 4.3 us, badger 4.0, rocksdb 3.6, pebble1 3.3, bbolt 1.6, lmdb 1.0, mdbx 1.0;
	// of millions two to three times as much.
	getNanos float64
	memory   float64 // of a load, times its cache
	mapped   bool    // its cache is the page cache
	known    bool
}

func costsOf(engine string) engineCosts {
	costs := engineCosts{known: true, space: 1.09, peak: 1.4, keysPerSecond: 250e3, getNanos: 9e3, memory: 1.2}
	switch engine {
	case "pebble1", "pebble2":
		// 1M, 4M, 5M keys: 449 MB, 1.21 GB, 1.36 GB, at most 1.43, 1.42, 1.45 GB; a database of
		// 154, 615, 769 MB. Rate: 200M keys, docs/shape.md; CPU: ten caches of 5M keys.
		costs.logs, costs.peakLogs, costs.getNanos = 0.85, 2, 10.9e3
	case "rocksdb":
		costs.peak, costs.memory, costs.getNanos = 1.9, 0.5, 8.9e3 // 154 MB, at most 263 MB; 259 k keys/s
	case "goleveldb":
		costs.peak, costs.peakLogs = 1.5, 0.1 // 154 MB, at most 299 MB; 5M keys 771 MB, at most 978 MB; 323 k keys/s
	case "badger":
		costs.space, costs.peak, costs.keysPerSecond, costs.memory = 1.16, 2.3, 110e3, 2 // 164 MB, at most 322 MB; 907 MiB resident
	case "bbolt":
		costs = engineCosts{known: true, mapped: true, space: 1.78, peak: 1.78, keysPerSecond: 41e3, getNanos: 3e3} // 246 MB
	case "mdbx":
		costs = engineCosts{known: true, mapped: true, space: 1.76, peak: 1.76, keysPerSecond: 23e3, getNanos: 1.7e3} // 249 MB
	case "lmdb":
		costs = engineCosts{known: true, mapped: true, space: 1.75, peak: 1.75, keysPerSecond: 200e3, getNanos: 1.7e3} // 248 MB
	case "null", "mem":
		costs = engineCosts{known: true, keysPerSecond: 350e3, getNanos: 500}
	default:
		costs.known = false
	}
	return costs
}

// Of fillsorted of the Pebbles: `load --keys 200M --workload fillsorted` took 60 s; 20M
// keys made 1.5 M keys/s, 4M keys 1.4 M on a busy machine. 4M keys took 910 MB for a
// database of 615 MB, and 1.34 GB at most.
const (
	sortedKeysPerSecond = 2.5e6
	sortedLogs          = 0.55 // times the cache
	sortedPeakLogs      = 1.4
	sortedMemory        = 128 << 20
	sortedAmplification = 1.1
)

// Pebble preallocates each log at 1.1 memtables (a quarter of the cache), and starts one for
// every memtable; memtables double from 256 KiB, so a small database has few. 20k, 100k, 500k keys:
// 592, 900, 1,255 MB at most, 298, 311, 372 MB at the end.
const (
	pebbleLog     = 0.275 // times the cache
	firstMemTable = 256 << 10
)

// tableSpace: values from a table of 32 compress; 200M keys of 32 + 110 bytes took 22.1 GiB.
const tableSpace = 0.77

// Load is what making a database takes.
func Load(l LoadSpec, m Machine) Step {
	costs := costsOf(l.Engine)
	user := float64(l.Keys) * l.PairBytes
	compressed := 1.0
	if l.Table32 && !costs.mapped {
		compressed = tableSpace
	}
	space := compressed * costs.space
	cache := float64(l.CacheBytes)
	logs, peakLogs, rate, written := costs.logs*cache, costs.peakLogs*cache, costs.keysPerSecond, user*costs.amplification(l.Keys)
	peak, memory, basis := max(space, compressed*costs.peak), costs.memory*cache+128<<20, "measured with 1M keys"
	if l.Sorted && l.pebble() {
		logs, peakLogs, rate, written = sortedLogs*cache, sortedPeakLogs*cache, sortedKeysPerSecond, user*compressed*sortedAmplification
		peak, memory, basis = space, sortedMemory, "measured with 200M keys"
	}
	if l.pebble() && !l.Sorted {
		if user < cache {
			logs = min(logs, 2*pebbleLog*cache)
		}
		peakLogs = min(peakLogs, pebbleLog*cache*math.Ceil(math.Max(2, math.Log2(user/firstMemTable))))
		basis += "; Pebble preallocates write-ahead logs by the size of --cache"
	}
	s := Step{Kind: LoadKind, Name: fmt.Sprintf("loading %s keys with %s", unit.ShortCount(float64(l.Keys)), l.Engine), Flag: "--keys", Count: l.Keys,
		DiskBytes: bytes(user*space + logs), TableBytes: bytes(user * space), PeakDiskBytes: bytes(user*max(peak, space) + peakLogs),
		MemoryBytes: bytes(memory), fixed: bytes(peakLogs), Basis: basis}
	if l.Engine == "mem" {
		s.MemoryBytes = bytes(2*user + 128<<20)
	}
	const measuredPair = 142 // bytes of a pair that the rates are of
	s.Seconds = 1 + max(float64(l.Keys)*max(1, l.PairBytes/measuredPair)/rate, written/m.writeRate())
	if costs.mapped && s.DiskBytes > m.memory() {
		// Every key then reads a leaf page, and later writes it.
		beyond := 1 - float64(m.memory())/float64(s.DiskBytes)
		s.Seconds += 2 * beyond * float64(l.Keys) / m.readRate(1)
		s.Basis += "; the file outgrows memory, so that each key waits for a random read"
	}
	if !costs.known {
		s.Basis = "taken for an LSM tree: no measurement of " + l.Engine
	}
	return s
}

func (l LoadSpec) pebble() bool { return l.Engine == "pebble1" || l.Engine == "pebble2" }

// amplification is what the device is given for a byte of user data: 4.2 with 5M keys,
// 8.2 with 200M, for LSM trees. Files of mapped engines are written back by the kernel,
// and no such count limits them.
func (c engineCosts) amplification(keys uint64) float64 {
	if c.mapped || c.space == 0 {
		return 0
	}
	return max(2, 4.2+2.5*math.Log10(float64(max(1, keys))/5e6))
}
