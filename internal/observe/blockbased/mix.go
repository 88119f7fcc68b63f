package blockbased

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/lookuppath"
)

// MaxMembers is how many families a Mix can have: a byte says which one a key is of (MemberKey).
const MaxMembers = 256

// MemberKey is a key of a Mix: that of a Get in its member of this index, which is below
// MaxMembers.
func MemberKey(member int, key []byte) []byte { return append(memberPrefix(nil, member), key...) }

// memberPrefix appends to dst what MemberKey puts in front of a key. An index that does not fit a
// byte would ask another family, so it is a mistake of the caller's.
func memberPrefix(dst []byte, member int) []byte {
	if member < 0 || member >= MaxMembers {
		panic(fmt.Sprintf("blockbased: family %d of a mix of at most %d", member, MaxMembers))
	}
	return append(dst, byte(member))
}

// Mix is several families of one database, at most MaxMembers, whose Gets share a block cache. Its
// keys are of MemberKey.
type Mix struct {
	members []*Resolver
	firsts  []uint32 // number of each member's first block
}

// NewMix puts families together. They stay the caller's to close.
func NewMix(members ...*Resolver) *Mix {
	m := &Mix{members: members}
	next := uint32(0)
	for _, r := range members {
		m.firsts = append(m.firsts, next)
		next += r.Blocks()
	}
	return m
}

// Identity identifies the families by their tables.
func (m *Mix) Identity() string {
	var all []string
	for _, r := range m.members {
		all = append(all, r.Identity())
	}
	return strings.Join(all, "+")
}

func (m *Mix) last() int { return len(m.members) - 1 }

// Blocks implements lookuppath.Source.
func (m *Mix) Blocks() uint32 { return m.firsts[m.last()] + m.members[m.last()].Blocks() }

// DataBytes are those of all tables on disk.
func (m *Mix) DataBytes() (bytes int64) {
	for _, r := range m.members {
		for _, t := range r.All {
			bytes += t.Bytes
		}
	}
	return bytes
}

// Block implements lookuppath.Source.
func (m *Mix) Block(number uint32) (cachesim.Block, error) {
	of := m.of(number)
	return m.members[of].Block(number - m.firsts[of])
}

func (m *Mix) of(number uint32) int {
	of := m.last()
	for m.firsts[of] > number {
		of--
	}
	return of
}

// Expect implements lookuppath.Source.
func (*Mix) Expect(uint64) {}

// Opening implements lookuppath.Source.
func (m *Mix) Opening() (numbers []uint32) {
	for i, r := range m.members {
		for _, number := range r.Opening() {
			numbers = append(numbers, m.firsts[i]+number)
		}
	}
	return numbers
}

// CacheKeys are those of all members: files of one database have numbers of their own.
func (m *Mix) CacheKeys() map[uint64][2]uint64 {
	keys := map[uint64][2]uint64{}
	for _, r := range m.members {
		for file, key := range r.CacheKeys() {
			keys[file] = key
		}
	}
	return keys
}

// Walk implements lookuppath.Source.
func (m *Mix) Walk() lookuppath.PathResolver {
	w := &mixWalker{
		m:       m,
		walkers: make([]lookuppath.PathResolver, len(m.members)),
		learn:   make([][]uint32, len(m.members)),
	}

	for i, r := range m.members {
		w.walkers[i] = r.Walk()
	}

	return w
}

type mixWalker struct {
	m       *Mix
	walkers []lookuppath.PathResolver
	learn   [][]uint32
	single  []uint32 // a buffer
}

// Get implements lookuppath.PathResolver.
func (w *mixWalker) Get(
	key []byte, known bool, dst []uint32,
) (numbers []uint32, found bool, err error) {
	if len(key) == 0 || int(key[0]) >= len(w.walkers) {
		return dst[:0], false, fmt.Errorf("the key %x belongs to none of %d families", key,
			len(w.walkers))
	}

	of := int(key[0])
	numbers, found, err = w.walkers[of].Get(key[1:], known, dst)
	for i := range numbers {
		numbers[i] += w.m.firsts[of]
	}

	return numbers, found, err
}

// GetMany implements lookuppath.BatchPathResolver, of Gets that go to one family. A single one is a
// Get.
func (w *mixWalker) GetMany(
	keys [][]byte, known, found []bool, numbers []uint32,
) (_ []uint32, err error) {
	if len(keys) == 1 {
		w.single, found[0], err = w.Get(keys[0], known[0], w.single)
		return append(numbers, w.single...), err
	}

	of, from := int(keys[0][0]), len(numbers)
	for i, key := range keys {
		if int(key[0]) != of || of >= len(w.walkers) {
			return numbers, fmt.Errorf("the keys %x and %x are not of one of %d families",
				keys[0], key, len(w.walkers))
		}
		keys[i] = key[1:]
	}

	many := w.walkers[of].(lookuppath.BatchPathResolver)
	numbers, err = many.GetMany(keys, known, found, numbers)
	for i := from; i < len(numbers); i++ {
		numbers[i] += w.m.firsts[of]
	}

	return numbers, err
}

// Learn implements lookuppath.PathResolver.
func (w *mixWalker) Learn(numbers []uint32) error {
	for i := range w.learn {
		w.learn[i] = w.learn[i][:0]
	}

	for _, number := range numbers {
		of := w.m.of(number)
		w.learn[of] = append(w.learn[of], number-w.m.firsts[of])
	}

	for i, some := range w.learn {
		if err := w.walkers[i].Learn(some); err != nil {
			return err
		}
	}

	return nil
}

// Keys is a stream of Gets that go to the members in these shares: of keys that are drawn evenly
// from all that are in the database, and of absent ones, which begin as a key of the database does
// and go on at random. It returns the first error in *failed and ends there.
func (m *Mix) Keys(
	shares []float64, missing float64, gets, seed uint64, failed *error,
) lookuppath.Keys {
	rng := rand.New(rand.NewPCG(seed, 0x6d6978))
	drawers := make([]*Drawer, len(m.members))
	for i, r := range m.members {
		drawers[i] = r.Drawer(rng)
	}

	var key []byte
	return func() ([]byte, bool, bool) {
		if gets == 0 || *failed != nil {
			return nil, false, false
		}

		gets--
		of, at := 0, rng.Float64()
		for of < m.last() && at >= shares[of] {
			at -= shares[of]
			of++
		}

		key = memberPrefix(key[:0], of)
		if key, *failed = drawers[of].Draw(key); *failed != nil {
			return nil, false, false
		}

		if rng.Float64() < missing {
			for i := 1 + len(key)/2; i < len(key); i++ {
				key[i] = byte(rng.Uint32())
			}
		}

		return key, false, true // it may be absent
	}
}
