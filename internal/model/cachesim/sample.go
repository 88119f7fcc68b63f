package cachesim

import (
	"context"
	"fmt"
	"math"

	"github.com/statelab/statelab/engine"
)

// A sample of a trace keeps all accesses to one of 2^shift blocks, chosen by a
// hash, and is replayed to caches 2^shift times smaller: SHARDS with a fixed
// rate (Waldspurger et al., FAST 2015). Each block type's miss rate is the
// sample's; how often each type is asked for is counted exactly.
//
// The error comes from the sample itself. Its blocks are divided by other bits
// of the hash into eight samples, eight times smaller. The spread of what they
// estimate gives the 95 % interval of chance (Student's t); how far their mean
// is from the whole sample's estimate shows what scaling costs, where blocks
// are no longer small against a cache, and is added.
type sample struct {
	shift    int
	gets     int64                       // of the trace, behind the warm-up
	accesses [engine.NumBlockTypes]int64 // of those Gets
	parts    [sampleParts]*Trace
}

const (
	sampleParts      = 8
	log2SampleParts  = 3
	studentOfSeven95 = 2.365 // two-sided, seven degrees of freedom
)

// Sampler makes a sample of a trace that is never in memory as a whole.
type Sampler struct {
	sample
	warmupGets int
	whole      *Trace
	kept       []keptBlock // by number in the trace
}

// keptBlock is where a block of the trace is in the sample: its number in the
// whole, plus one, and in its part. 0: not there.
type keptBlock struct {
	whole, part uint32
	of          uint8
}

// NewSampler returns a sampler of one of 2^shift blocks.
func NewSampler(shift, warmupGets int) *Sampler {
	s := &Sampler{sample: sample{shift: shift}, warmupGets: warmupGets, whole: &Trace{}}
	for i := range s.parts {
		s.parts[i] = &Trace{}
	}
	return s
}

// Get adds a Get that asks for blocks of these numbers.
func (s *Sampler) Get(numbers []uint32, blocks []Block) error {
	for i := len(s.kept); i < len(blocks); i++ {
		s.kept = append(s.kept, s.keep(&blocks[i]))
	}

	if s.warmupGets > 0 {
		s.warmupGets--
	} else {
		if s.gets == 0 {
			s.begin()
		}

		s.gets++
		for _, number := range numbers {
			s.accesses[blocks[number].Type]++
		}
	}

	for _, number := range numbers {
		if k := s.kept[number]; k.whole != 0 {
			if len(s.whole.Accesses) == math.MaxUint32 {
				return fmt.Errorf("sample: more than %d accesses: sample fewer blocks",
					uint32(math.MaxUint32))
			}

			s.whole.Accesses = append(s.whole.Accesses, k.whole-1)
			s.parts[k.of].Accesses = append(s.parts[k.of].Accesses, k.part)
		}
	}

	return nil
}

// begin ends the warm-up. What was one Get or many does not matter any more.
func (s *Sampler) begin() {
	for _, t := range append(s.parts[:], s.whole) {
		t.WarmupGets, t.Gets = 1, []uint32{0, uint32(len(t.Accesses))}
	}
}

func (s *Sampler) keep(b *Block) keptBlock {
	h := b.File*0x9e3779b97f4a7c15 ^ b.Offset
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	if h&(1<<s.shift-1) != 0 {
		return keptBlock{}
	}

	of := uint8(h >> (64 - log2SampleParts))
	part := s.parts[of]
	s.whole.Blocks, part.Blocks = append(s.whole.Blocks, *b), append(part.Blocks, *b)
	return keptBlock{uint32(len(s.whole.Blocks)), uint32(len(part.Blocks)) - 1, of}
}

// Trace is the sample, for Curve.
func (s *Sampler) Trace() *Trace {
	if s.gets == 0 {
		s.begin()
		s.whole.WarmupGets = len(s.whole.Gets) // none is left
	}
	s.whole.sample = &s.sample
	return s.whole
}

// curve estimates what caches of these sizes do to the whole trace.
func (s *sample) curve(
	ctx context.Context, whole *Trace, setup Setup, cacheBytes []int64,
) ([]Point, error) {
	estimates, err := s.play(ctx, whole, setup, cacheBytes, s.shift)
	if err != nil {
		return nil, err
	}

	ofParts := make([][]Point, len(s.parts))
	for i, part := range s.parts {
		if ofParts[i], err = s.play(ctx, part, setup, cacheBytes,
			s.shift+log2SampleParts); err != nil {
			return nil, err
		}
	}

	for i := range estimates {
		e := &estimates[i]
		missRate := func(p *Point, t int) float64 {
			return float64(p.Reads[t]) / float64(p.Accesses[t])
		}
		readsPerGet := func(p *Point) (reads float64, err error) {
			for t, n := range s.accesses {
				switch {
				case n == 0:
				case e.Accesses[t] == 0:
					return 0, fmt.Errorf("the sample has no block of type %s: sample more blocks",
						engine.BlockType(t))
				case p.Accesses[t] == 0:
					reads += missRate(e, t) * float64(n)
				default:
					reads += missRate(p, t) * float64(n)
				}
			}

			return reads / float64(s.gets), nil
		}

		estimate, err := readsPerGet(e)
		if err != nil {
			return nil, err
		}

		var sum, squares float64
		for _, part := range ofParts {
			reads, err := readsPerGet(&part[i])
			if err != nil {
				return nil, err
			}

			sum += reads - estimate
			squares += (reads - estimate) * (reads - estimate)
		}

		mean := sum / sampleParts
		variance := max(0, squares-sum*mean) / (sampleParts - 1)
		e.ReadsPerGetError = studentOfSeven95*math.Sqrt(variance/sampleParts) + math.Abs(mean)
		for t, n := range s.accesses {
			if n > 0 {
				e.Reads[t] = int64(math.Round(missRate(e, t) * float64(n)))
			}
		}

		e.Gets, e.Accesses = s.gets, s.accesses
		for _, n := range []*int64{&e.DiskBytesRead, &e.UsedBytesAtEnd} {
			*n <<= s.shift
		}

		for level := range e.ReadsByLevel {
			e.ReadsByLevel[level] <<= s.shift
		}
	}

	return estimates, nil
}

func (s *sample) play(
	ctx context.Context, t *Trace, setup Setup, cacheBytes []int64, shift int,
) ([]Point, error) {
	setup.sampleShift = shift
	plain := *t
	plain.sample = nil
	return Curve(ctx, &plain, setup, cacheBytes)
}
