package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
)

// gets are the Gets of one thread, for the timed loop: keys of a source, whose answers
// are checked and counted.
type gets struct {
	keySource
	asked          choice
	found, missing uint64
}

func (g *gets) Next(uint64) (key []byte, n uint64) {
	g.next(&g.asked)
	return g.asked.key, 1
}

func (g *gets) Asked() string { return fmt.Sprintf("get key %x", g.asked.key) }

// Check compares the answer with what the key must give. A fast wrong answer is
// a failure.
func (g *gets) Check(value []byte, found bool) error {
	switch {
	case found && g.asked.absent && !g.mayExist():
		return fmt.Errorf("wrong answer: a value of %d bytes for a key that was never written", len(value))
	case found:
		g.found++
		if g.asked.absent {
			return nil
		}
		if err := g.check(&g.asked, value); err != nil {
			return fmt.Errorf("wrong answer: %w", err)
		}
		return nil
	case g.asked.absent:
		g.missing++
		return nil
	}
	return errors.New("wrong answer: a key that was written is missing")
}

// choice is the next key of a worker; the bytes are the source's and valid until
// the next choice.
type choice struct {
	key    []byte
	index  uint64
	absent bool
	newest bool // the newest version was acknowledged before
}

// keySource chooses keys and knows what they must give. One per worker and phase.
type keySource interface {
	next(*choice)
	check(asked *choice, value []byte) error
	mayExist() bool // an absent key may be in the database after all
}

// generated are the keys of a database that statelab loaded.
type generated struct {
	stream  *workload.Stream
	maker   *keyspace.Maker
	checker *keyspace.Checker
	key     []byte
	// acknowledged is nil where nobody writes meanwhile.
	acknowledged *keyspace.Acknowledged
}

func (g *generated) next(c *choice) {
	c.index, c.absent = g.stream.Next()
	g.maker.Key(g.key, c.index)
	c.key, c.newest = g.key, g.acknowledged != nil && g.acknowledged.Has(c.index)
}

func (g *generated) check(asked *choice, value []byte) error {
	return g.checker.Check(value, asked.index, asked.newest)
}

func (g *generated) mayExist() bool { return false }

// unchecked are keys for an engine that keeps nothing.
type unchecked struct{ *generated }

func (unchecked) check(*choice, []byte) error { return nil }

func (unchecked) mayExist() bool { return true }

// sample are keys found in a database that somebody else wrote. What a key must
// give is what it gave the first time.
type sample struct {
	bytes   []byte   // all keys, one after the other
	ends    []uint32 // where key i ends
	seen    []atomic.Uint64
	seed    maphash.Seed
	longest int
}

// maxSampleBytes are far more than the keys that are sampled by default take.
const maxSampleBytes = 256 << 20

// sampleKeys collects about n keys of db.
func sampleKeys(ctx context.Context, db engine.DB, n int, seed uint64) (*sample, error) {
	sampler, ok := db.(engine.KeySampler)
	if !ok {
		return nil, errors.New("this engine cannot sample the keys of a database that statelab did not load")
	}
	s := &sample{seed: maphash.MakeSeed()}
	errFull := errors.New("sample is full")
	err := sampler.SampleKeys(ctx, n, seed, func(key []byte) error {
		switch {
		case len(s.ends) >= n:
			return errFull
		case len(s.bytes)+len(key) > maxSampleBytes: // those of the tables that come last would be missing
			return engine.Fail(engine.CodeUsage, "%d sampled keys take more than %d MiB", n, maxSampleBytes>>20).
				With("ask for fewer, such as --sample-keys %d", len(s.ends)/2)
		}
		s.bytes = append(s.bytes, key...)
		s.ends = append(s.ends, uint32(len(s.bytes)))
		s.longest = max(s.longest, len(key))
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, fmt.Errorf("sample keys: %w", err)
	}
	if len(s.ends) == 0 {
		return nil, errors.New("sample keys: the database holds no key")
	}
	s.shuffle(seed)
	s.seen = make([]atomic.Uint64, len(s.ends))
	return s, nil
}

// shuffle puts the keys into an order that only they and the seed decide: engines
// sample on several goroutines, and the same Gets must come in every run.
func (s *sample) shuffle(seed uint64) {
	order := make([]uint64, s.len())
	for i := range order {
		order[i] = uint64(i)
	}
	slices.SortFunc(order, func(a, b uint64) int { return bytes.Compare(s.key(a), s.key(b)) })
	rand.New(rand.NewPCG(seed, 0x6b657973)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	shuffled := sample{bytes: make([]byte, 0, len(s.bytes))}
	for _, i := range order {
		shuffled.bytes = append(shuffled.bytes, s.key(i)...)
		shuffled.ends = append(shuffled.ends, uint32(len(shuffled.bytes)))
	}
	s.bytes, s.ends = shuffled.bytes, shuffled.ends
}

func (s *sample) len() uint64 { return uint64(len(s.ends)) }

func (s *sample) key(i uint64) []byte {
	from := uint32(0)
	if i > 0 {
		from = s.ends[i-1]
	}
	return s.bytes[from:s.ends[i]]
}

// meanKeyBytes is the mean length of the sampled keys.
func (s *sample) meanKeyBytes() int { return len(s.bytes) / len(s.ends) }

// sampled draws from a sample.
type sampled struct {
	*sample
	stream *workload.Stream
	buffer []byte
}

func (s *sampled) next(c *choice) {
	if c.index, c.absent = s.stream.Next(); !c.absent {
		c.key = s.key(c.index)
		return
	}
	// An absent key looks like a present one, its last bytes changed.
	s.buffer = append(s.buffer[:0], s.key(c.index%s.len())...)
	var tail [8]byte
	binary.LittleEndian.PutUint64(tail[:], c.index*0x9e3779b97f4a7c15) // odd: different indexes, different tails
	copy(s.buffer[max(0, len(s.buffer)-len(tail)):], tail[:])
	c.key = s.buffer
}

func (s *sampled) mayExist() bool { return true }

func (s *sample) check(asked *choice, value []byte) error {
	sum := maphash.Bytes(s.seed, value) | 1 // 0 is "not read yet"
	if s.seen[asked.index].CompareAndSwap(0, sum) {
		return nil
	}
	if first := s.seen[asked.index].Load(); first != sum {
		return fmt.Errorf("a second read gave other bytes than the first (%d bytes)", len(value))
	}
	return nil
}

// reread reads up to n keys again that the run has read, so that even a key read
// once has been checked against a second read.
func (s *sample) reread(reader engine.Reader, n int) (checked int, err error) {
	var value []byte
	for i := range s.ends {
		if checked == n {
			break
		}
		if s.seen[i].Load() == 0 {
			continue
		}
		key := bytes.Clone(s.key(uint64(i)))
		got, found, err := reader.Get(key, value)
		if err != nil {
			return checked, fmt.Errorf("get key %x: %w", key, err)
		}
		if !found || maphash.Bytes(s.seed, got)|1 != s.seen[i].Load() {
			return checked, fmt.Errorf("get key %x: a second read gave another answer than the first", key)
		}
		value = got[:0]
		checked++
	}
	return checked, nil
}
