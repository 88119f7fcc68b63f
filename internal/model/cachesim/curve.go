package cachesim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
)

// Policy names a cache to simulate.
type Policy string

// Policies. The first two are Pebble's caches and the next three RocksDB's LRUCache and
// HyperClockCache, whose table grows or is fixed, shards and all; the others are textbook caches of
// one shard.
const (
	ClockPro1Policy  Policy = "clockpro1"
	ClockPro2Policy  Policy = "clockpro2"
	PooledLRUPolicy  Policy = "rocksdb-lru"
	HyperClockPolicy Policy = "rocksdb-hyper-clock"
	FixedClockPolicy Policy = "rocksdb-hyper-clock-fixed"
	LRUPolicy        Policy = "lru"
	ClockPolicy      Policy = "clock"
	SievePolicy      Policy = "sieve"
	S3FIFOPolicy     Policy = "s3fifo"
)

// Policies lists all names.
func Policies() []Policy {
	return []Policy{ClockPro1Policy, ClockPro2Policy, PooledLRUPolicy, HyperClockPolicy,
		FixedClockPolicy, LRUPolicy, ClockPolicy, SievePolicy, S3FIFOPolicy}
}

// ParsePolicy checks a name.
func ParsePolicy(name string) (Policy, error) {
	var names []string
	for _, p := range Policies() {
		if string(p) == name {
			return p, nil
		}
		names = append(names, string(p))
	}
	return "", fmt.Errorf("unknown cache policy %q: one of %s", name, strings.Join(names, ", "))
}

// Setup is what a cache is like apart from its size.
type Setup struct {
	Policy        Policy
	Cores         int   // Pebble divides its cache by them
	ReservedBytes int64 // taken by memtables (Pebble)
	// HashSeed decides which block is in which shard, and Before83 how much a block is charged with
	// (RocksDB): blockbased.CacheOf knows both.
	HashSeed uint32
	Before83 bool
	// EntryBytes is how large a block is said to be to the fixed HyperClockCache, which is made for
	// so many; 0: 8 KiB.
	EntryBytes int64
	// HighShare of RocksDB's LRUCache is for blocks of high priority (high_pri_pool_ratio); nil:
	// its default, a half.
	HighShare *float64

	sampleShift int // caches are 2^sampleShift times smaller than they are called
}

func (s Setup) isHyperClock() bool {
	return s.Policy == HyperClockPolicy || s.Policy == FixedClockPolicy
}

// Point is what a cache of one size did to a trace, after its warm-up.
type Point struct {
	CacheBytes     int64
	Gets           int64
	Accesses       [engine.NumBlockTypes]int64
	Reads          [engine.NumBlockTypes]int64 // accesses that missed
	ReadsByLevel   [engine.MaxLevels + 1]int64
	DiskBytesRead  int64
	UsedBytesAtEnd int64
	// ReadsPerGetError is how far BlockReadsPerGet may be off, with 95 %
	// confidence, if the trace is a sample; 0: it is exact.
	ReadsPerGetError float64
}

// BlockReadsPerGet is the mean number of accesses that missed.
func (p *Point) BlockReadsPerGet() float64 {
	var reads int64
	for _, n := range p.Reads {
		reads += n
	}
	return float64(reads) / float64(p.Gets)
}

// DataBlocksPerGet is the mean number of blocks of keys and values that a Get
// needed, cached or not.
func (p *Point) DataBlocksPerGet() float64 {
	return float64(p.Accesses[engine.Data]+p.Accesses[engine.Value]) / float64(p.Gets)
}

// HitRates are hits/accesses by type, of types that were asked for, and "all".
func (p *Point) HitRates() map[string]float64 {
	rates := make(map[string]float64)
	var accesses, reads int64
	for t, n := range p.Accesses {
		accesses, reads = accesses+n, reads+p.Reads[t]
		if n > 0 {
			rates[engine.BlockType(t).String()] = 1 - float64(p.Reads[t])/float64(n)
		}
	}

	if accesses > 0 {
		rates["all"] = 1 - float64(reads)/float64(accesses)
	}

	return rates
}

// Shards is how many parts a cache of so many bytes is divided into.
func (s Setup) Shards(cacheBytes int64) int { return groupOf(&Trace{}, s, cacheBytes).shards }

// Curve replays the trace against caches of each size, on all processors.
// Points come in the order of cacheBytes.
func Curve(ctx context.Context, trace *Trace, setup Setup, cacheBytes []int64) ([]Point, error) {
	if err := trace.check(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}

	if _, err := ParsePolicy(string(setup.Policy)); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}

	if setup.Cores < 1 || setup.ReservedBytes < 0 {
		return nil, fmt.Errorf("simulate: %d cores and %d reserved bytes: want at least 1 and 0",
			setup.Cores, setup.ReservedBytes)
	}

	if trace.sample != nil {
		return trace.sample.curve(ctx, trace, setup, cacheBytes)
	}

	points := make([]Point, len(cacheBytes))
	members := map[group][]int{}
	for i, size := range cacheBytes {
		if size < 1 {
			return nil, fmt.Errorf("simulate: a cache of %d bytes", size)
		}

		points[i] = Point{CacheBytes: size, Gets: int64(len(trace.Gets) - trace.WarmupGets)}
		g := groupOf(trace, setup, size)
		members[g] = append(members[g], i)
	}

	for g, indexes := range members {
		some := make([]*Point, len(indexes))
		for n, i := range indexes {
			some[n] = &points[i]
		}

		var err error
		if g.stack && len(some) <= maxStackSizes {
			err = playStack(ctx, trace, setup, some)
		} else {
			err = newReplay(trace, setup, g.shards, some).run(ctx)
		}

		if err != nil {
			return nil, fmt.Errorf("simulate: %w", err)
		}
	}

	return points, nil
}

// group tells which cache sizes can be replayed in one pass.
type group struct {
	shards int
	stack  bool // see lrustack.go
}

func groupOf(trace *Trace, setup Setup, cacheBytes int64) group {
	switch setup.Policy {
	case ClockPro1Policy, ClockPro2Policy:
		return group{shards: ShardCount(cacheBytes, setup.Cores)}
	case PooledLRUPolicy, HyperClockPolicy, FixedClockPolicy:
		return group{shards: setup.rocksShards(cacheBytes)}
	case LRUPolicy:
		fits := len(trace.Events) == 0 && !slices.ContainsFunc(trace.Blocks, func(b Block) bool {
			return int64(b.Bytes) > cacheBytes>>setup.sampleShift || b.Marks&Uncached != 0
		})
		return group{shards: 1, stack: fits}
	}

	return group{shards: 1}
}

// class is a block's type and level in one number, to count by.
type class uint8

const numClasses = int(engine.NumBlockTypes) * (engine.MaxLevels + 1)

func (c class) blockType() engine.BlockType { return engine.BlockType(c / (engine.MaxLevels + 1)) }

func classOf(b *Block) class { return class(int(b.Type)*(engine.MaxLevels+1) + int(b.Level)) }

// counts are counted accesses or misses by class.
type counts [numClasses]int64

func (p *Point) addReads(misses *counts, diskBytes int64) {
	for c, n := range misses {
		p.Reads[c/(engine.MaxLevels+1)] += n
		p.ReadsByLevel[c%(engine.MaxLevels+1)] += n
	}
	p.DiskBytesRead += diskBytes
}

func (p *Point) addAccesses(accesses *counts) {
	for c, n := range accesses {
		p.Accesses[c/(engine.MaxLevels+1)] += n
	}
}
