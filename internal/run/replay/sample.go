package replay

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/statelab/statelab/internal/chain/changeset"
)

// maxSample bounds the keys that are followed through the whole set.
const maxSample = 100_000

// sample follows some keys of a set, so that Gets can be checked without a copy
// of the state: those whose hash is small. It belongs to the reading goroutine
// while that runs.
type sample struct {
	seed  uint64
	limit uint64 // keys with a hash up to it
	most  int
	keys  map[string]expected // store number and key
}

// expected is what a Get must find.
type expected struct {
	live  bool
	value uint64 // hash
	bytes int
}

func newSample(seed uint64) *sample {
	return &sample{seed: seed, limit: math.MaxUint64, most: maxSample, keys: map[string]expected{}}
}

func (s *sample) see(changes []changeset.Change) {
	for _, c := range changes {
		if s.hash(c.Store, c.Key) > s.limit {
			continue
		}
		e := expected{live: !c.Delete}
		if e.live {
			e.value, e.bytes = xxhash.Sum64(c.Value), len(c.Value)
		}
		s.keys[sampled(c.Store, c.Key)] = e
		if len(s.keys) > s.most {
			s.thin()
		}
	}
}

// thin keeps about half of the keys.
func (s *sample) thin() {
	s.limit /= 2
	for key := range s.keys {
		if store, own := apart(key); s.hash(store, own) > s.limit {
			delete(s.keys, key)
		}
	}
}

// hash is the same for a key in every run of one seed.
func (s *sample) hash(store int, key []byte) uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
	return (xxhash.Sum64(key) ^ s.seed ^ uint64(store)*odd) * odd
}

const storeBytes = 4

func sampled(store int, key []byte) string {
	return string(append(binary.BigEndian.AppendUint32(nil, uint32(store)), key...))
}

func apart(key string) (store int, own []byte) {
	return int(binary.BigEndian.Uint32([]byte(key[:storeBytes]))), []byte(key[storeBytes:])
}

// get is one lookup and what it must find.
type get struct {
	store int
	key   []byte
	want  expected
}

// gets are lookups of present and of absent keys: half of each where there are
// present ones.
func (s *sample) gets(n uint64, seed uint64) []get {
	var present, absent []string
	for key, e := range s.keys {
		if e.live {
			present = append(present, key)
		} else {
			absent = append(absent, key)
		}
	}
	slices.SortFunc(present, strings.Compare)
	slices.SortFunc(absent, strings.Compare)
	random := rand.New(rand.NewPCG(seed, 0x676574)) // a stream of its own
	all := make([]get, 0, min(n, 2*maxSample))
	for i := uint64(0); i < uint64(cap(all)); i++ {
		var key string
		var want expected
		switch {
		case i%2 == 0 && len(present) > 0:
			key = present[random.IntN(len(present))]
			want = s.keys[key]
		case i%4 == 1 && len(absent) > 0 || len(present) == 0 && len(absent) > 0:
			key = absent[random.IntN(len(absent))] // removed
		case len(present) > 0: // never written: as long as a present key, another end
			base := []byte(present[random.IntN(len(present))])
			tail := binary.LittleEndian.AppendUint64(nil, random.Uint64())
			copy(base[max(storeBytes, len(base)-len(tail)):], tail)
			key = string(base)
			if e, known := s.keys[key]; known {
				want = e
			} else if len(key) < storeBytes+len(tail) {
				continue // so short that it may be a key of the set that is not followed
			}
		}
		if key == "" {
			return all
		}
		store, own := apart(key)
		all = append(all, get{store, own, want})
	}
	return all
}
