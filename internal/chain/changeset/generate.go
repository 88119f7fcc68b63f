package changeset

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
)

// minKeyBytes keeps generated keys unique: eight of their bytes are a bijection of
// their number.
const minKeyBytes = 8

// Generate makes the set that g describes: the same for the same g.
//
// The first version creates the initial keys. Each later one updates and deletes
// keys that are there, creates as many as it deletes, and some more, so that the
// final count is reached in the last. The operations of all stores are mixed.
func Generate(g Generation) (Source, error) {
	if errs := g.Check(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	s := &generator{plan: g, rng: rand.New(rand.NewPCG(g.Seed, 0))}
	for _, name := range g.Profiles {
		profile, _ := profileOf(name)
		for _, shape := range profile.Shapes {
			s.names = append(s.names, shape.Store)
			s.stores = append(s.stores, newGenerated(shape, g, uint64(len(s.stores))))
		}
	}
	if g.EmptyStore {
		s.names = append(s.names, emptyStore)
	}
	return s, nil
}

type generator struct {
	plan    Generation
	rng     *rand.Rand
	names   []string
	stores  []*generated
	version int64
	busy    []int // stores with operations left in this version
	open    bool

	// An operation that did not fit.
	pending    bool
	store      int
	key, value []byte
	remove     bool
}

func (s *generator) Info() Info {
	return Info{Format: FormatGenerated, Order: OrderInsertion, Stores: s.names, Complete: true, First: 1, Last: s.plan.Versions, Provenance: s.plan.String()}
}

func (s *generator) Close() error { return nil }

func (s *generator) Next(b *Batch) error {
	if !s.open {
		if s.version == s.plan.Versions {
			return io.EOF
		}
		s.begin()
	}
	b.begin(s.version)
	for s.pending || len(s.busy) > 0 {
		if !s.pending {
			s.operate()
		}
		if s.pending = !b.offer(s.store, s.key, s.value, s.remove); s.pending {
			return nil
		}
	}
	b.Last, s.open = true, false
	return nil
}

// begin plans the next version.
func (s *generator) begin() {
	s.version++
	s.open = true
	s.busy = s.busy[:0]
	for i, store := range s.stores {
		store.begin(s.version)
		if store.left() > 0 {
			s.busy = append(s.busy, i)
		}
	}
}

// operate does one of the operations that are left.
func (s *generator) operate() {
	at := s.rng.IntN(len(s.busy))
	s.store = s.busy[at]
	store := s.stores[s.store]
	var number uint64
	number, s.remove = store.operate(s.rng)
	s.key, s.value = store.appendKey(s.key[:0], number), s.value[:0]
	if !s.remove && !(s.plan.EmptyValueShare > 0 && s.rng.Float64() < s.plan.EmptyValueShare) {
		s.value = appendRandom(s.value, s.rng, valueBytes(s.rng, store.shape))
	}
	if store.left() == 0 {
		s.busy[at] = s.busy[len(s.busy)-1]
		s.busy = s.busy[:len(s.busy)-1]
	}
}

// generated is one store: the numbers of the keys that are there.
type generated struct {
	shape   Shape
	salt    uint64
	initial int
	changes int
	growth  float64 // keys per version
	grown   float64 // owed
	deleted float64 // owed

	live []uint64
	made uint64 // keys so far

	creates, updates, deletes int // left in this version
	run, at                   int // of neighbours still to be updated
}

func newGenerated(shape Shape, g Generation, number uint64) *generated {
	s := &generated{shape: shape, salt: mix(g.Seed ^ mix(number+1)), initial: max(1, int(math.Round(shape.Initial*g.Scale))),
		changes: max(1, int(math.Round(shape.ChangesPerVersion*g.Scale)))}
	if g.Versions > 1 {
		s.growth = max(0, shape.Final*g.Scale-float64(s.initial)) / float64(g.Versions-1)
	}
	return s
}

func (s *generated) begin(version int64) {
	if version == 1 {
		s.creates = s.initial
		return
	}
	s.deletes = whole(&s.deleted, float64(s.changes)*s.shape.DeleteShare)
	s.updates = s.changes - s.deletes
	s.creates = whole(&s.grown, s.growth) + s.deletes
}

// whole adds more to what is owed and takes the whole part of it.
func whole(owed *float64, more float64) int {
	*owed += more
	n := math.Floor(*owed)
	*owed -= n
	return int(n)
}

func (s *generated) left() int { return s.creates + s.updates + s.deletes }

// operate chooses an operation that is left and its key.
func (s *generated) operate(rng *rand.Rand) (number uint64, remove bool) {
	kind := rng.IntN(s.left())
	switch {
	case kind < s.creates:
		s.creates--
		return s.create(), false
	case len(s.live) == 0: // nothing to update or delete
		if s.updates > 0 {
			s.updates--
		} else {
			s.deletes--
		}
		return s.create(), false
	case kind < s.creates+s.updates:
		s.updates--
		return s.live[s.choose(rng)], false
	}
	s.deletes--
	at := rng.IntN(len(s.live))
	number = s.live[at]
	s.live[at] = s.live[len(s.live)-1]
	s.live = s.live[:len(s.live)-1]
	return number, true
}

func (s *generated) create() uint64 {
	number := s.made
	s.made++
	s.live = append(s.live, number)
	return number
}

// choose is the place of the key to update.
func (s *generated) choose(rng *rand.Rand) int {
	n := len(s.live)
	switch {
	case s.shape.ZipfTheta > 0:
		return zipf(rng.Float64(), n, s.shape.ZipfTheta)
	case s.shape.RunKeys > 0:
		if s.run == 0 || s.at >= n {
			s.at, s.run = rng.IntN(n), s.shape.RunKeys
		}
		s.run--
		s.at++
		return s.at - 1
	}
	return rng.IntN(n)
}

// zipf turns a uniform u into a rank below n whose density falls as rank^-theta:
// the inverse of the continuous distribution on [1, n+1), theta not 1.
func zipf(u float64, n int, theta float64) int {
	top := math.Pow(float64(n+1), 1-theta)
	rank := int(math.Pow(u*(top-1)+1, 1/(1-theta))) - 1
	return min(max(rank, 0), n-1)
}

// prefixBytes of a key are its group's: a kind and an owner's address.
const prefixBytes = 21

// appendKey is the key of a number: for groups the prefix first, then eight bytes
// that tell all numbers apart, then filling.
func (s *generated) appendKey(dst []byte, number uint64) []byte {
	rng := splitmix(number ^ s.salt)
	length := max(minKeyBytes, int(math.Round(s.shape.KeyMean+s.shape.KeyDev*rng.normal())))
	if s.shape.GroupKeys > 0 {
		length = max(length, prefixBytes+minKeyBytes)
		owner := splitmix(number/uint64(s.shape.GroupKeys) ^ s.salt)
		dst = append(dst, 2)
		dst = owner.append(dst, prefixBytes-1)
		length -= prefixBytes
	}
	dst = binary.BigEndian.AppendUint64(dst, mix(number^s.salt))
	return rng.append(dst, length-minKeyBytes)
}

// valueBytes is a normal length; what falls below 1 is drawn again, closer to the
// mean.
func valueBytes(rng *rand.Rand, shape Shape) int {
	length := int(shape.ValueMean + shape.ValueDev*rng.NormFloat64())
	if length < 1 {
		length = int(shape.ValueMean + shape.ValueMean/3*rng.NormFloat64())
	}
	return min(max(length, 1), MaxValueBytes)
}

func appendRandom(dst []byte, rng *rand.Rand, n int) []byte {
	filler := splitmix(rng.Uint64())
	return filler.append(dst, n)
}

// splitmix is the generator of that name (Steele, Lea, Flood 2014).
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	return mix(uint64(*s))
}

func (s *splitmix) append(dst []byte, n int) []byte {
	for ; n >= 8; n -= 8 {
		dst = binary.LittleEndian.AppendUint64(dst, s.next())
	}
	if n > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], s.next())
		dst = append(dst, last[:n]...)
	}
	return dst
}

// normal is Box and Muller's.
func (s *splitmix) normal() float64 {
	const unit = 1.0 / (1 << 53)
	u := float64(s.next()>>11+1) * unit
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*float64(s.next()>>11)*unit)
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
