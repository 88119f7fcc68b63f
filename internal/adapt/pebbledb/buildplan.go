package pebbledb

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/lsm"
)

const lastLevel = Levels - 1

// buildPlan says which keys go where. It follows from numbers and the seed
// alone, not from how many workers carry it out.
//
// The last level covers the whole key space, those above have gaps: compactions
// take whole ranges out of a level. In a gap the levels below hold more. So the
// key space falls into pieces, each with its own shares.
type buildPlan struct {
	spec   engine.SortedSpec
	tables []plannedTable
	recent []plannedTable // the ranges of L0, which are not tables; may be none
	pieces []piece        // ascending
}

// plannedTable is a file: those keys of indexes from <= i < to that are of its
// level. density is the part of them, over the level's mean.
type plannedTable struct {
	level    int
	from, to uint64
	density  float64
}

// piece is a range of indexes whose keys are divided among the levels alike: one
// of hash h belongs to the first level with h < ends[level], or to the last one.
type piece struct {
	to   uint64
	ends [Levels]uint64
}

// newBuildPlan places spec's keys as rest has them. flushKeys are the keys of a
// full memtable.
func newBuildPlan(
	spec engine.SortedSpec, rest lsm.LevelShape, bytesPerKey [Levels]float64, flushKeys float64,
	staysInL0 bool,
) buildPlan {
	p := buildPlan{spec: spec}
	random := rand.New(rand.NewPCG(spec.Seed, spec.Keys))
	var levels [Levels][]plannedTable
	for level := lastLevel; level >= rest.Base; level-- {
		covered, runFiles := shape(level, rest.Base, rest.Keys[level]/float64(spec.Keys),
			flushKeys/rest.Keys[rest.Base])
		files := int(max(1, math.Round(rest.Keys[level]*bytesPerKey[level]/rest.FileBytes[level])))
		levels[level] = cut(level, spec.Keys, files, covered, runFiles, random)
	}

	for level := rest.Base; level < lastLevel; level++ {
		levels[level+1] = overlap(levels[level+1], levels[level])
	}

	for level := lastLevel; level >= rest.Base; level-- {
		p.tables = append(p.tables, levels[level]...)
	}

	ranges, keys := p.tables, rest.Keys
	if share := flushKeys / float64(spec.Keys); staysInL0 && share < maxRecentShare {
		p.recent = cut(0, spec.Keys, recentRanges, recentCoverage, 1, random)
		ranges, keys[0] = slices.Concat(ranges, p.recent), recentCoverage*lastFlush*flushKeys
	}

	p.pieces = divide(ranges, keys, spec.Keys)
	return p
}

// claim marks the folder of a build with the plan. Tables of two plans together would lack keys,
// so a build that was begun by another plan is refused.
func (p *buildPlan) claim(folder string) error {
	sum := fnv.New64a()
	if _, err := fmt.Fprint(sum, p.tables, p.recent, p.pieces); err != nil {
		return err
	}

	mark := filepath.Join(folder, fmt.Sprintf("plan-%016x", sum.Sum64()))
	if _, err := os.Stat(mark); err == nil {
		return nil
	}

	if begun, err := os.ReadDir(folder); err != nil || len(begun) > 0 {
		return errors.Join(err, ErrOtherPlan)
	}

	return os.WriteFile(mark, nil, 0o644)
}

// ErrOtherPlan refuses to resume a build whose tables were planned otherwise.
var ErrOtherPlan = errors.New("the load was begun by another version of statelab, or with other " +
	"options; remove the database and load it again")

const (
	// recentCoverage is the part of the last flush that is left in L0, in ranges
	// apart: a quarter at most in settled loads.
	recentCoverage = 0.12
	recentRanges   = 3
	// lastFlush is how full the last memtable is on average.
	lastFlush = 0.5
	// A database of one or two flushes has not come to that yet.
	maxRecentShare = 0.5
)

// shape is how a level's files lie in the key space after random loading, fitted to settled loads
// (docs/loading.md): the part of it that they span, and how many are side by side between two
// gaps. A compaction out of L0 brings flushes that span all of it; the base level, limited to
// flushShare times fewer bytes, can then keep a part only. A level's keys must also leave room for
// others in the ranges they are squeezed into.
func shape(level, base int, share, flushShare float64) (covered float64, runFiles int) {
	const roomForOthers = 1.5
	switch {
	case level == lastLevel:
		return 1, 1
	case level == base:
		covered, runFiles = 0.85/(1+0.93*flushShare), 2
	case level == lastLevel-1 && level == base+1:
		covered, runFiles = 0.84/(1+0.23*flushShare), 3
	case level == base+1:
		covered, runFiles = 0.84/(1+0.54*flushShare), 2
	default:
		covered, runFiles = 0.83, 5
	}

	return min(1, max(covered, roomForOthers*share)), runFiles
}

const (
	// fileSpread is the standard deviation of a level's file sizes over their
	// mean after random loading (docs/loading.md).
	fileSpread, lastFileSpread = 0.6, 0.48
	minFileShare, maxFileShare = 0.1, 2 // of the mean
	// What came down with one flush is sparse and spans much, what has been merged
	// with several is dense and spans little: Gets ask some files far more often
	// than others. densitySpread is the standard deviation of the logarithm of a
	// file's density; at densityChanges of the borders between files it is another.
	densitySpread  = 0.55
	densityChanges = 0.8
)

// cut lays the files of a level over a covered part of the indexes.
func cut(
	level int, keys uint64, files int, covered float64, runFiles int, random *rand.Rand,
) []plannedTable {
	type span struct{ width, gap, density float64 } // the gap is behind it
	spans := make([]span, files)
	var width, gaps float64
	density, begins, spread := 1.0, true, fileSpread
	if level == lastLevel {
		spread = lastFileSpread
	}

	for i := range spans {
		s := &spans[i]
		if level > 0 && covered < 1 && (begins || random.Float64() < densityChanges) {
			density = math.Exp(densitySpread * random.NormFloat64())
		}

		s.density = density
		s.width = min(max(1+spread*random.NormFloat64(), minFileShare), maxFileShare) / density
		width += s.width
		if begins = random.IntN(runFiles) == 0 || i == files-1; begins {
			s.gap = random.ExpFloat64() + random.ExpFloat64()
			gaps += s.gap
		}
	}

	unit := float64(keys) * covered / width
	gapUnit := float64(keys) * (1 - covered) / gaps
	// The gap at the end is as good at the beginning.
	at := random.Float64() * spans[files-1].gap * gapUnit
	tables := make([]plannedTable, 0, files)
	for i, s := range spans {
		t := plannedTable{level, uint64(at), uint64(at + s.width*unit), s.density}
		if covered == 1 && i == files-1 {
			t.to = keys
		}

		if t.from < t.to {
			tables = append(tables, t)
		}

		at += s.width*unit + s.gap*gapUnit
	}

	return tables
}

// overlap returns below with tables added so that each of above spans keys of the
// level below it: ingestion lets a table sink through a gap. A table that is added is
// no wider than the mean one.
func overlap(below, above []plannedTable) []plannedTable {
	var width uint64
	for _, b := range below {
		width += (b.to - b.from) / uint64(len(below))
	}

	overlapped := make([]plannedTable, 0, len(below))
	for _, a := range above {
		from, to := a.from+(a.to-a.from)/4, a.to-(a.to-a.from)/4
		i := 0
		for i < len(below) && below[i].to < from {
			i++
		}

		overlapped, below = append(overlapped, below[:i]...), below[i:]
		if len(below) == 0 || below[0].from >= to {
			overlapped = append(overlapped, plannedTable{a.level + 1, from, min(to, from+width), 1})
		}
	}

	return append(overlapped, below...)
}

// divide cuts the key space where any range begins or ends and says how the keys
// of each piece go to the levels, so that each level gets its number of keys.
func divide(ranges []plannedTable, levelKeys [Levels]float64, keys uint64) []piece {
	parts := intersect(ranges, keys)
	pieces := make([]piece, len(parts))
	var scale [Levels]float64 // from density to the part of a piece's keys
	for level := range scale {
		scale[level] = levelKeys[level] / float64(keys)
	}

	// A level must leave room for those below it; what it cannot take there it
	// takes elsewhere. The numbers come out within a thousandth after few rounds.
	const rounds, fullest = 20, 0.8
	for range rounds {
		var got [Levels]float64
		from := uint64(0)
		for i, part := range parts {
			pieces[i].to = part.to
			var sum float64
			for level, density := range part.density {
				share := min(density*scale[level], fullest*(1-sum))
				got[level] += share * float64(part.to-from)
				sum += share
				pieces[i].ends[level] = uint64(min(sum, 1-1e-9) * math.MaxUint64)
			}

			from = part.to
		}

		for level, want := range levelKeys {
			if got[level] > 0 {
				scale[level] *= want / got[level]
			}
		}
	}

	return pieces
}

// part is a piece before its keys are divided: the density of each level there, 0
// in a gap. The last level takes what is left, whatever its density.
type part struct {
	to      uint64
	density [Levels]float64
}

func intersect(ranges []plannedTable, keys uint64) (parts []part) {
	bounds := []uint64{keys}
	var levels [Levels][]plannedTable
	for _, r := range ranges {
		bounds = append(bounds, r.from, r.to)
		levels[r.level] = append(levels[r.level], r)
	}

	slices.Sort(bounds)
	from := uint64(0)
	for _, to := range slices.Compact(bounds) {
		if to == 0 {
			continue
		}

		next := part{to: to}
		for level, left := range levels {
			for len(left) > 0 && left[0].to <= from {
				left = left[1:]
			}

			levels[level] = left
			if level != lastLevel && len(left) > 0 && left[0].from <= from {
				next.density[level] = left[0].density
			}
		}

		parts = append(parts, next)
		from = to
	}

	return parts
}

// placer tells the level of ascending indexes.
type placer struct {
	spec   engine.SortedSpec
	pieces []piece // the first one holds the last index asked for
}

// placer returns a placer for indexes from first on.
func (p *buildPlan) placer(first uint64) placer {
	i := sort.Search(len(p.pieces), func(i int) bool { return p.pieces[i].to > first })
	return placer{p.spec, p.pieces[i:]}
}

// holds reports whether the key of index belongs to level, and its sequence number.
func (p *placer) holds(level int, index uint64) (number uint64, held bool) {
	for index >= p.pieces[0].to {
		p.pieces = p.pieces[1:]
	}

	h := levelHash(index, p.spec.Seed)
	ends := &p.pieces[0].ends
	if level > 0 && h < ends[level-1] {
		return 0, false
	}

	return sequenceNumber(level, h, p.spec.Keys), h < ends[level] || level == lastLevel
}

// sequenceNumber is the number that random loading gives a key. In any range of
// keys the upper levels hold the newest ones, and hashes order the levels: a key's
// hash is its age. Compactions into the last level set the number to 0. Numbers
// decide how well blocks compress.
func sequenceNumber(level int, h, newest uint64) uint64 {
	if level == lastLevel {
		return 0
	}
	age, _ := bits.Mul64(h, newest)
	return newest - age
}

// levelHash is the finaliser of splitmix64 (Steele, Lea, Flood 2014), under a
// salt of its own: the level of a key must not follow from its bytes.
func levelHash(index, seed uint64) uint64 {
	x := index*0x9e3779b97f4a7c15 ^ seed ^ 0x510e527fade682d1
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// TableFile is where a table is written to: objstorage.Writable of both
// versions. Their own writes out every block by a call of its own.
type TableFile struct {
	file   *os.File // nil: bytes are but counted
	buffer *bufio.Writer
	bytes  int64
}

const tableBufferBytes = 256 << 10

func newTableFile(file *os.File) *TableFile {
	f := &TableFile{file: file}
	if file != nil {
		f.buffer = bufio.NewWriterSize(file, tableBufferBytes)
	}
	return f
}

// Write writes all of p.
func (f *TableFile) Write(p []byte) error {
	f.bytes += int64(len(p))
	if f.file == nil {
		return nil
	}
	_, err := f.buffer.Write(p)
	return err
}

// Finish makes the file durable and closes it.
func (f *TableFile) Finish() error {
	if f.file == nil {
		return nil
	}
	err := f.buffer.Flush()
	if err == nil {
		err = f.file.Sync()
	}
	return errors.Join(err, f.file.Close())
}

// Abort closes the file, whose table is not going to be used. The build removes
// it; its error would hide the one that led here.
func (f *TableFile) Abort() {
	if f.file != nil {
		_ = f.file.Close()
	}
}
