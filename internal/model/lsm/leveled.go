package lsm

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/statelab/statelab/engine"
)

// Leveled describes a load of a database of block-based tables that are compacted by levels, as
// RocksDB does: hashed keys in random order, each once. Levels plays its flushes and compactions,
// in sizes alone.
type Leveled struct {
	Keys                 uint64
	KeyBytes, ValueBytes int

	BlockBytes, RestartInterval int
	// entries for each bucket of the hash index inside data blocks; 0: none
	HashRatio                  float64
	MetadataBytes              int // target size of a partition of filters and indexes
	PartedIndex, PartedFilters bool
	FilterBits                 func(level int) float64 // of a key; 0: no filters
	ForHits                    bool                    // none on the last level
	UpperRatio, LastRatio      float64                 // stored/raw of data blocks

	MemTableBytes  int64 // that are flushed together
	L0Tables       int   // from which on L0 is compacted
	BaseBytes      int64 // of the first level below L0, at most
	Multiplier     float64
	NumLevels      int  // with L0; 0: ModelLevels, which is the most
	Dynamic        bool // levels are filled from the last one on
	FileBytes      int64
	FileMultiplier float64
}

const (
	// What a skip list keeps for an entry beyond its lengths, key and value: 412,000 entries of 152
	// bytes filled 64 MiB.
	memTableNodeBytes = 10.9
	// a block that is fuller is closed before an entry that would pass the target
	blockDeviation  = 0.9
	notWorthStoring = 0.875
	rowTrailerBytes = 8 // sequence number and kind of an entry
	sampledEntries  = 20_000
	indexRatio      = 0.8 // stored/raw of indexes, of which only sizes of files depend
	handleBytes     = 6   // offset and size of a block in an index, as variable-length numbers
	restartBytes    = 4

	// A compaction closes a table at its target size, or from half of that on where a table of the
	// next level ends. Measured on settled loads (TestPredictedLevels).
	upperFill, lastFill = 1.25, 0.98
)

// entries is the mean shape of the blocks of neighbouring hashed keys.
type cutBlocks struct {
	keys, raw float64 // of a data block
	separator float64 // bytes of a key in an index
}

// cut cuts a sample of neighbours among n hashed keys into data blocks, as the writer of tables
// does.
func (s *Leveled) cut(n float64) (c cutBlocks) {
	random := rand.NewPCG(1, 2)
	draw := rand.New(random)
	key := float64(s.KeyBytes + rowTrailerBytes)
	value := float64(s.ValueBytes)
	lengths := 1.0 + float64(varint(s.ValueBytes)) // of a shared prefix and of the value
	target := float64(s.BlockBytes)
	at := random.Uint64()
	size, count, blocks, separators, raw := 0.0, 0, 0.0, 0.0, 0.0
	hashed := func(entries int) float64 {
		if s.HashRatio == 0 {
			return 0
		}
		return 2 + float64(int(float64(entries)/s.HashRatio)|1)
	}

	interval := max(1, s.RestartInterval)
	current := func() float64 {
		return size + restartBytes*float64(1+max(1, (count+interval-1)/interval)) + hashed(count)
	}
	total := 0
	for total < sampledEntries {
		next := at + uint64(draw.ExpFloat64()*math.Ldexp(1, 64)/math.Max(n, 1))
		shared := min(bits.LeadingZeros64(at^next)/8, s.KeyBytes)
		if now := current(); count > 0 && (now >= target ||
			now > blockDeviation*target &&
				now+key+value+restartBytes+lengths+restartDue(count, interval)+
					float64(hashed(count+1)-hashed(count)) > target) {
			blocks, raw = blocks+1, raw+now
			separators += separatorOf(at, next, shared)
			size, count = 0, 0
		}

		if count%interval == 0 {
			shared = 0
		}

		size += lengths + float64(varint(s.KeyBytes+rowTrailerBytes-shared)) + key -
			float64(shared) + value
		count++
		total++
		at = next
		if blocks == 0 && total == sampledEntries-1 && count > 0 { // blocks larger than the sample
			blocks, raw, separators = 1, current(), 3
		}
	}

	full := float64(total - count)
	if full == 0 {
		full = float64(total)
	}

	return cutBlocks{
		keys:      full / blocks,
		raw:       raw / blocks,
		separator: math.Min(separators/blocks, float64(s.KeyBytes)),
	}
}

func restartDue(count, interval int) float64 {
	if count%interval == 0 {
		return restartBytes
	}
	return 0
}

// separatorOf is the length of a key between two: up to the byte that differs, and one more where
// it differs by one.
func separatorOf(a, b uint64, shared int) float64 {
	if shared >= 8 {
		return 8
	}
	byteOf := func(key uint64) uint64 { return key >> (56 - 8*shared) & 0xff }
	if byteOf(b) == byteOf(a)+1 {
		return float64(shared) + 2
	}
	return float64(shared) + 1
}

func varint(n int) int { return max(1, (bits.Len(uint(n))+6)/7) }

// Block is the mean content of a data block among n hashed keys, and how many entries it has.
func (s *Leveled) Block(n float64) (bytes, entries float64) {
	c := s.cut(n)
	return c.raw, c.keys
}

// perKey are bytes that a key of a level adds: to the data of a table, and to all of it.
func (s *Leveled) perKey(level, last int, c cutBlocks) (data, table float64) {
	ratio := s.UpperRatio
	if level == last {
		ratio = s.LastRatio
	}

	if ratio > notWorthStoring {
		ratio = 1
	}

	data = (c.raw*ratio + blockTrailerBytes) / c.keys
	return data, data + s.indexEntry(c)*indexRatio/c.keys + s.filterBits(level, last)/8
}

func (s *Leveled) filterBits(level, last int) float64 {
	if s.FilterBits == nil || s.ForHits && level == last {
		return 0
	}
	return s.FilterBits(level)
}

// indexEntry is a separator, its two lengths, the block's handle and a restart point.
func (s *Leveled) indexEntry(c cutBlocks) float64 {
	return 2 + c.separator + handleBytes + restartBytes
}

// Levels is the level table after all flushes and the compactions that they cause.
func (s *Leveled) Levels() []engine.Level {
	shapes := map[int]cutBlocks{}
	shape := func(n float64) cutBlocks {
		half := int(2 * math.Log2(math.Max(n, 1))) // its blocks depend little on the number of keys
		if _, is := shapes[half]; !is {
			shapes[half] = s.cut(math.Exp2((float64(half) + 0.5) / 2))
		}
		return shapes[half]
	}

	perFlush := s.perFlush(float64(s.KeyBytes+rowTrailerBytes+s.ValueBytes), s.ValueBytes)
	var keys, files [ModelLevels]float64 // below L0
	var l0 []float64
	perKey := func(level int) float64 {
		_, table := s.perKey(level, lastLevelWith(keys), shape(keys[level]))
		return table
	}
	bytes := func(level int) float64 { return keys[level] * perKey(level) }

	compacted := func(l0 ...float64) {
		base, _ := s.limits(bytes)
		for _, n := range l0 {
			keys[base] += n
		}
	}

	flushes, few := 0, 2*max(1, s.L0Tables)
	for left := float64(s.Keys); left > 0; flushes++ {
		flushed := math.Min(left, perFlush)
		left -= flushed
		if l0 = append(l0, flushed); len(l0) < max(1, s.L0Tables) {
			continue
		}

		compacted(l0...)
		l0 = l0[:0]
		s.rest(&keys, perKey)
	}

	base, _ := s.limits(bytes)
	switch {
	case flushes > few && !s.Dynamic:
		// Loads of seven sizes ended while L0 was full, so that it was compacted once more.
		compacted(l0...)
		l0 = l0[:0]
		s.rest(&keys, perKey)
	case flushes > few:
		// After many flushes chance decides how many tables are left in L0, fewer than make a
		// compaction: one here.
		compacted(l0[min(1, len(l0)):]...)
		if l0 = l0[:min(1, len(l0))]; len(l0) == 0 {
			l0, keys[base] = []float64{perFlush}, keys[base]-perFlush
		}
	}

	last := lastLevelWith(keys)
	for level := 1; level < ModelLevels; level++ {
		data, _ := s.perKey(level, last, shape(keys[level]))
		files[level] = math.Ceil(
			keys[level] * data / s.fileBytes(level, base) / s.fill(level, keys),
		)
	}

	levels := make([]engine.Level, ModelLevels)
	for number := range levels {
		levels[number] = engine.Level{Level: number, Sublevels: 1, InCacheKnown: true}
	}

	for _, n := range l0 {
		keys[0] += n
	}

	files[0] = float64(len(l0))
	for number := range levels {
		if keys[number] >= 1 {
			c := shape(keys[number])
			if number == 0 {
				c = shape(keys[0] / files[0])
			}
			s.describe(&levels[number], last, keys[number], math.Max(1, files[number]), c)
		}
	}

	levels[0].Sublevels = max(1, len(l0))
	return levels
}

// perFlush is how many entries of so many bytes, their keys' trailers among them, a flush writes.
func (s *Leveled) perFlush(entryBytes float64, valueBytes int) float64 {
	return math.Max(1, math.Floor(float64(s.MemTableBytes)/
		(entryBytes+1+float64(varint(valueBytes))+memTableNodeBytes)))
}

// fill is the mean size of a level's tables by their target: whole where nothing was cut for the
// next level.
func (s *Leveled) fill(level int, keys [ModelLevels]float64) float64 {
	above := 0.0
	for l := 1; l < level; l++ {
		above += keys[l]
	}

	switch {
	case level < lastLevelWith(keys):
		return upperFill
	case above > 0:
		return lastFill
	}

	return 1
}

func lastLevelWith(keys [ModelLevels]float64) int {
	for level := lastLevel; level > 0; level-- {
		if keys[level] > 0 {
			return level
		}
	}
	return lastLevel
}

// FileDepth is how often the multiplier of sizes of tables applies on a level.
func FileDepth(level, base int, dynamic bool) int {
	if dynamic {
		level -= base
	}
	return max(0, level-1)
}

func (s *Leveled) fileBytes(level, base int) float64 {
	return float64(s.FileBytes) * math.Pow(cmp.Or(s.FileMultiplier, 1),
		float64(FileDepth(level, base, s.Dynamic)))
}

// deepest is the number of the deepest level that there may be.
func (s *Leveled) deepest() int { return cmp.Or(s.NumLevels, ModelLevels) - 1 }

// limits are the base level, to which L0 is compacted, and the size from which on each level gives
// tables to the next one (RocksDB's VersionStorageInfo::CalculateBaseBytes).
func (s *Leveled) limits(
	bytes func(level int) float64,
) (base int, limits [ModelLevels]float64) {
	deepest := s.deepest()
	limits[deepest] = math.Inf(1)
	if !s.Dynamic {
		size := float64(s.BaseBytes)
		for level := 1; level < deepest; level++ {
			limits[level] = size
			size *= s.Multiplier
		}

		return 1, limits
	}

	first, maximum := deepest, 0.0
	for level := deepest; level > 0; level-- {
		if size := bytes(level); size > 0 {
			first, maximum = level, math.Max(maximum, size)
		}
	}

	base, size := first, maximum/math.Pow(s.Multiplier, float64(deepest-first))
	for ; base > 1 && size > float64(s.BaseBytes); base-- {
		size /= s.Multiplier
	}

	size = math.Max(1, math.Min(size, float64(s.BaseBytes)))
	for level := base; level < deepest; level++ {
		limits[level] = math.Max(size, float64(s.BaseBytes))
		size *= s.Multiplier
	}

	return base, limits
}

// rest moves whole tables down until no level is above its limit.
func (s *Leveled) rest(keys *[ModelLevels]float64, perKey func(level int) float64) {
	base, limits := s.limits(func(level int) float64 { return keys[level] * perKey(level) })
	for level := base; level < s.deepest(); level++ {
		over := keys[level]*perKey(level) - limits[level]
		if over <= 0 {
			continue
		}

		file := s.fileBytes(level, base) * upperFill
		moved := math.Min(keys[level], math.Ceil(over/file)*file/perKey(level))
		keys[level] -= moved
		keys[level+1] += moved
	}
}

// describe sets the figures of a level of n keys in so many tables.
func (s *Leveled) describe(l *engine.Level, last int, n, files float64, c cutBlocks) {
	blocks := math.Ceil(n / c.keys)
	data, _ := s.perKey(l.Level, last, c)
	entry := s.indexEntry(c)
	l.Files, l.Keys, l.DataBlocks = int(files), int64(n), int64(blocks)
	l.DataBytes, l.DataCacheBytes = int64(n*data), int64(blocks*c.raw)
	l.RawKeyBytes, l.RawValueBytes = int64(n)*int64(s.KeyBytes+rowTrailerBytes),
		int64(n)*int64(s.ValueBytes)
	l.IndexCacheBytes = int64(blocks * entry)
	if s.PartedIndex {
		perPart := math.Max(1, math.Floor((float64(s.MetadataBytes)-entry-restartBytes)/entry)+1)
		// the last one of a table is half full
		l.IndexBlocks = int64(math.Round(blocks/perPart + files/2))
		l.TopIndexCacheBytes = int64(float64(l.IndexBlocks) * entry)
	} else {
		l.SingleIndexes, l.SingleIndexCacheBytes = int64(files), l.IndexCacheBytes
	}

	l.IndexBytes, l.TopIndexBytes, l.SingleIndexBytes = l.IndexCacheBytes, l.TopIndexCacheBytes,
		l.SingleIndexCacheBytes
	if filter := s.filterBits(l.Level, last); filter > 0 {
		l.FilterBytes, l.FilterKeys, l.FilterConsulted = int64(n*filter/8+files*filterFileBytes),
			l.Keys, true
		l.FilterCacheBytes = l.FilterBytes
	}

	l.Bytes = l.DataBytes + int64(float64(l.IndexBytes+l.TopIndexBytes)*indexRatio) + l.FilterBytes
}
