package cachesim

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
)

// request is an access as a shard gets it, with all that is counted of it.
type request struct {
	id        uint32 // of the block, in its shard
	bytes     int32  // with the cache's charge
	diskBytes int32
	shard     uint16
	class     class
	marks     Marks
}

// replay plays a trace to caches of several sizes that have the same number of
// shards. A shard's life does not depend on the others', so the trace is dealt
// to them a stretch at a time, and every shard of every size plays its part
// alone: on any processor, in little memory, which stays in that one's caches.
type replay struct {
	trace    *Trace
	requests []request // by block number
	setup    Setup
	points   []*Point
	players  []*shardReplayer // of all points, shard by shard
	accesses counts
	files    map[uint64]*file // by number, once something happens to one
}

// batchAccesses are partitioned at a time: so many that a replayer seldom finds its cache's lists
// put out of the processor's caches by the players before it, and so few that they fit in 40 MB.
var batchAccesses = 1 << 21

// shardBatches is a batch of accesses, partitioned by shard.
type shardBatches [][]request

// shardCache is a cache that can be told that ids are below n.
type shardCache interface {
	Cache
	expect(n uint32)
}

// markedCache is a cache that treats blocks by their marks.
type markedCache interface{ access(q *request) (hit bool) }

// shardReplayer is a shard of a cache and what it missed.
type shardReplayer struct {
	cache     shardCache
	marked    markedCache // the same, where marks of blocks count
	shard     int
	point     *Point
	misses    counts
	diskBytes int64
	_         cacheLinePad
}

// cacheLinePad, between what two processors write, keeps the one's writes from taking a cache line,
// or the pair of lines that is fetched at once, away from the other.
type cacheLinePad [128]byte

func newReplay(trace *Trace, setup Setup, shards int, points []*Point) *replay {
	r := &replay{
		trace:    trace,
		setup:    setup,
		points:   points,
		requests: make([]request, len(trace.Blocks)),
	}

	next := make([]uint32, shards)
	keys := make([][]clockKey, shards)
	for i := range trace.Blocks {
		b := &trace.Blocks[i]
		q := setup.request(trace, b, shards)
		q.id = next[q.shard]
		next[q.shard]++
		if setup.isHyperClock() {
			keys[q.shard] = append(keys[q.shard], trace.clockKey(b, setup.HashSeed))
		}

		r.requests[i] = q
	}

	for _, p := range points {
		for shard, cache := range newShards(setup, p.CacheBytes) {
			if clock, is := cache.(*ClockPro); is && trace.Filled > 0 {
				clock.fill(next[shard], r.meanBytes(), trace.Filled/int64(shards))
			} else {
				cache.expect(next[shard])
			}

			if clock, is := cache.(*hyperClock); is {
				clock.keys = keys[shard]
			}

			marked, _ := cache.(markedCache)
			r.players = append(r.players,
				&shardReplayer{cache: cache, marked: marked, shard: shard, point: p})
		}
	}

	return r
}

// meanBytes is what a block takes on average.
func (r *replay) meanBytes() int32 {
	sum := int64(0)
	for i := range r.requests {
		sum += int64(r.requests[i].bytes)
	}
	return int32(max(1, sum/int64(max(1, len(r.requests)))))
}

// request is an access to a block of t, without its number in the shard.
func (s Setup) request(t *Trace, b *Block, shards int) request {
	q := request{bytes: b.Bytes, diskBytes: b.DiskBytes, class: classOf(b), marks: b.Marks}
	switch version := s.version(); {
	case version != 0:
		q.bytes += int32(version.BlockCharge())
		q.shard = uint16(version.Shard(b.File, b.Offset, shards))
	case s.Policy == PooledLRUPolicy:
		q.bytes, q.shard = s.rocksCharge(b)+pooledEntryBytes,
			uint16(t.pooledShard(b, s.HashSeed, shards))
	case s.isHyperClock():
		q.bytes, q.shard = s.rocksCharge(b),
			uint16(t.clockKey(b, s.HashSeed)[0]>>32&uint64(shards-1))
	}

	return q
}

// Charge is what a block takes of the cache.
func (s Setup) Charge(b *Block) int64 { return int64(s.request(&Trace{}, b, 1).bytes) }

// version is that of Pebble whose cache is simulated; 0 is none.
func (s Setup) version() PebbleVersion {
	switch s.Policy {
	case ClockPro1Policy:
		return PebbleV1
	case ClockPro2Policy:
		return PebbleV2
	}
	return 0
}

func newShards(setup Setup, cacheBytes int64) (shards []shardCache) {
	n, reserved := int64(setup.Shards(cacheBytes)), setup.ReservedBytes>>setup.sampleShift
	cacheBytes >>= setup.sampleShift
	unreserved := (cacheBytes - reserved + n - 1) / n // of a shard of RocksDB's
	for range n {
		var shard shardCache
		switch setup.Policy {
		case LRUPolicy:
			shard = NewLRU(cacheBytes)
		case ClockPolicy:
			shard = NewClock(cacheBytes)
		case SievePolicy:
			shard = NewSieve(cacheBytes)
		case S3FIFOPolicy:
			shard = NewS3FIFO(cacheBytes)
		case PooledLRUPolicy:
			highShare := DefaultHighShare
			if setup.HighShare != nil {
				highShare = *setup.HighShare
			}
			shard = NewPooledLRU(unreserved, highShare)
		case HyperClockPolicy:
			shard = newHyperClock(unreserved, 0)
		case FixedClockPolicy:
			shard = newHyperClock(unreserved, cmp.Or(setup.EntryBytes, defaultEntry))
		default:
			clock := NewClockPro(cacheBytes / n)
			clock.Reserve((reserved + n - 1) / n)
			shard = clock
		}

		shards = append(shards, shard)
	}

	return shards
}

func (r *replay) run(ctx context.Context) error {
	t, from := r.trace, uint32(0)
	first := t.Gets[t.WarmupGets]
	to := func(end uint32) (err error) {
		for err == nil && from < end {
			until := end
			if from < first {
				until = min(end, first)
			}

			err = r.play(ctx, t.Accesses[from:until], from >= first)
			from = until
		}

		return err
	}

	for _, e := range t.Events {
		if e.Get >= len(t.Gets) {
			break
		}

		if err := to(t.Gets[e.Get]); err != nil {
			return err
		}

		r.applyEvent(e)
	}

	if err := to(uint32(len(t.Accesses))); err != nil {
		return err
	}

	for _, p := range r.points {
		p.addAccesses(&r.accesses)
	}

	for _, p := range r.players {
		p.point.addReads(&p.misses, p.diskBytes)
		p.point.UsedBytesAtEnd += p.cache.UsedBytes()
	}

	return nil
}

// Opens reports whether the cache gets a block when its table is made, before a Get asks for it.
func (s Setup) Opens(b *Block) bool {
	return s.Policy == PooledLRUPolicy && b.Type != engine.Data && b.Type != engine.Value
}

// applyEvent applies an event to the caches. Those of LevelDB and RocksDB keep the blocks of a
// deleted table until they are displaced; the compaction that deleted it had asked for all of them.
func (r *replay) applyEvent(e Event) {
	if r.files == nil {
		r.files = map[uint64]*file{}
		for number, b := range r.trace.Blocks {
			f := r.files[b.File]
			if f == nil {
				f = &file{}
				r.files[b.File] = f
			}

			f.blocks = append(f.blocks, uint32(number))
		}

		for _, f := range r.files {
			slices.SortFunc(f.blocks, func(a, b uint32) int {
				return cmp.Compare(r.trace.Blocks[a].Offset, r.trace.Blocks[b].Offset)
			})
		}
	}

	var touched, dropped, opened []uint32
	if f := r.files[e.TableScanned]; f != nil {
		end := sort.Search(len(f.blocks), func(i int) bool {
			return r.trace.Blocks[f.blocks[i]].Offset > e.Offset
		})
		touched, f.passed = f.blocks[min(f.passed, end):end], end
	}

	if f := r.files[e.TableDeleted]; f != nil {
		if dropped = f.blocks; r.setup.version() == 0 {
			touched, f.passed = f.blocks[f.passed:], len(f.blocks)
		}
	}

	if f := r.files[e.TableAdded]; f != nil {
		opened = slices.DeleteFunc(slices.Clone(f.blocks), func(number uint32) bool {
			return !r.setup.Opens(&r.trace.Blocks[number])
		})
	}

	shards := len(r.players) / len(r.points)
	for i := 0; i < len(r.players); i += shards {
		for _, p := range r.players[i : i+shards] {
			if cache, is := p.cache.(*ClockPro); is {
				cache.Reserve(e.Reserved / int64(shards))
			}
		}

		for _, number := range touched {
			if cache, is := r.players[i+int(r.requests[number].shard)].cache.(interface {
				Touch(
					id uint32,
				)
			}); is {
				cache.Touch(r.requests[number].id)
			}
		}

		for _, number := range opened {
			r.players[i+int(r.requests[number].shard)].play(r.requests[number:number+1], false)
		}

		for _, number := range dropped {
			if cache, is := r.players[i+int(r.requests[number].shard)].cache.(*ClockPro); is {
				cache.Drop(r.requests[number].id)
			}
		}
	}
}

// file is a table, with its blocks in order, as far as a compaction has passed them.
type file struct {
	blocks []uint32
	passed int
}

// play plays one stretch while it deals the next.
func (r *replay) play(ctx context.Context, accesses []uint32, counted bool) error {
	shards := len(r.players) / len(r.points)
	dealt, next := make(shardBatches, shards), make(shardBatches, shards)
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}

		n := min(batchAccesses, len(accesses))
		var work errgroup.Group
		work.SetLimit(runtime.GOMAXPROCS(0))
		work.Go(func() error {
			r.partition(accesses[:n], next, counted)
			return nil
		})

		for _, p := range r.players {
			work.Go(func() error {
				p.play(dealt[p.shard], counted)
				return nil
			})
		}

		if err := work.Wait(); err != nil {
			return err
		}

		more, accesses = n > 0, accesses[n:]
		dealt, next = next, dealt
	}

	return nil
}

func (r *replay) partition(accesses []uint32, to shardBatches, counted bool) {
	for i := range to {
		to[i] = to[i][:0]
	}

	for _, number := range accesses {
		q := r.requests[number]
		to[q.shard] = append(to[q.shard], q)
	}

	if counted {
		for _, requests := range to {
			for i := range requests {
				r.accesses[requests[i].class]++
			}
		}
	}
}

func (p *shardReplayer) play(requests []request, counted bool) {
	for i := range requests {
		q := &requests[i]
		var hit bool
		switch {
		case q.marks&Uncached != 0:
		case p.marked != nil:
			hit = p.marked.access(q)
		default:
			hit = p.cache.Access(q.id, q.bytes)
		}

		if !hit && counted {
			p.misses[q.class]++
			p.diskBytes += int64(q.diskBytes)
		}
	}
}
