package cachesim

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
)

// Policy names a cache to simulate.
type Policy string

// Policies. The first two are Pebble's caches, shards and all; the others are
// textbook caches of one shard.
const (
	ClockPro1Policy Policy = "clockpro1"
	ClockPro2Policy Policy = "clockpro2"
	LRUPolicy       Policy = "lru"
	ClockPolicy     Policy = "clock"
	SievePolicy     Policy = "sieve"
	S3FIFOPolicy    Policy = "s3fifo"
)

// Policies lists all names.
func Policies() []Policy {
	return []Policy{ClockPro1Policy, ClockPro2Policy, LRUPolicy, ClockPolicy, SievePolicy, S3FIFOPolicy}
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

// Curve replays the trace against caches of each size, as many at a time as
// there are processors. Points come in the order of cacheBytes.
func Curve(ctx context.Context, trace *Trace, setup Setup, cacheBytes []int64) ([]Point, error) {
	if err := trace.check(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	if _, err := ParsePolicy(string(setup.Policy)); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	if setup.Cores < 1 || setup.ReservedBytes < 0 {
		return nil, fmt.Errorf("simulate: %d cores and %d reserved bytes: want at least 1 and 0", setup.Cores, setup.ReservedBytes)
	}
	for _, size := range cacheBytes {
		if size < 1 {
			return nil, fmt.Errorf("simulate: a cache of %d bytes", size)
		}
	}
	points := make([]Point, len(cacheBytes))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, size := range cacheBytes {
		work.Go(func() (err error) {
			points[i], err = replay(ctx, trace, setup, size)
			return err
		})
	}
	return points, work.Wait()
}

// replay runs the trace through one cache.
func replay(ctx context.Context, trace *Trace, setup Setup, cacheBytes int64) (Point, error) {
	cache := newShardedCache(trace, setup, cacheBytes)
	first := trace.Gets[trace.WarmupGets]
	if err := each(ctx, trace.Accesses[:first], func(number uint32) { cache.access(number) }); err != nil {
		return Point{}, err
	}
	// Reads are counted per block and summed up afterwards: one counter to
	// touch in the loop.
	reads := make([]uint32, len(trace.Blocks))
	err := each(ctx, trace.Accesses[first:], func(number uint32) {
		if !cache.access(number) {
			reads[number]++
		}
	})
	if err != nil {
		return Point{}, err
	}
	point := Point{CacheBytes: cacheBytes, Gets: int64(len(trace.Gets) - trace.WarmupGets)}
	for _, number := range trace.Accesses[first:] {
		point.Accesses[trace.Blocks[number].Type]++
	}
	for number, n := range reads {
		b := &trace.Blocks[number]
		point.Reads[b.Type] += int64(n)
		point.ReadsByLevel[b.Level] += int64(n)
		point.DiskBytesRead += int64(n) * int64(b.DiskBytes)
	}
	for _, shard := range cache.shards {
		point.UsedBytesAtEnd += shard.UsedBytes()
	}
	return point, nil
}

// each calls visit for every access, and looks now and then whether to stop.
func each(ctx context.Context, accesses []uint32, visit func(number uint32)) error {
	const stretch = 1 << 20
	for len(accesses) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		n := min(stretch, len(accesses))
		for _, number := range accesses[:n] {
			visit(number)
		}
		accesses = accesses[n:]
	}
	return nil
}

// shardedCache is a cache over the blocks of a trace.
type shardedCache struct {
	shards  []Cache
	shardOf []uint16 // by block number
	bytes   []int32  // by block number, with the cache's charge
}

func newShardedCache(trace *Trace, setup Setup, cacheBytes int64) *shardedCache {
	c := &shardedCache{shardOf: make([]uint16, len(trace.Blocks)), bytes: make([]int32, len(trace.Blocks))}
	var version PebbleVersion
	switch setup.Policy {
	case ClockPro1Policy:
		version = PebbleV1
	case ClockPro2Policy:
		version = PebbleV2
	case LRUPolicy:
		c.shards = []Cache{NewLRU(cacheBytes)}
	case ClockPolicy:
		c.shards = []Cache{NewClock(cacheBytes)}
	case SievePolicy:
		c.shards = []Cache{NewSieve(cacheBytes)}
	case S3FIFOPolicy:
		c.shards = []Cache{NewS3FIFO(cacheBytes)}
	}
	if version != 0 {
		for _, shard := range NewPebbleShards(cacheBytes, setup.Cores, setup.ReservedBytes) {
			c.shards = append(c.shards, shard)
		}
	}
	for i, b := range trace.Blocks {
		c.bytes[i] = b.Bytes + int32(version.BlockCharge())
		if version != 0 {
			c.shardOf[i] = uint16(version.Shard(b.File, b.Offset, len(c.shards)))
		}
	}
	return c
}

func (c *shardedCache) access(number uint32) (hit bool) {
	return c.shards[c.shardOf[number]].Access(number, c.bytes[number])
}
