package trace

import (
	"math/bits"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// PerGet is how the accesses of a trace spread over its Gets, as they were written. A
// trace's first Get that stands for the opening of tables is none.
type PerGet struct {
	Levels int    `json:"levels"` // whose blocks were asked for, L0 counted once
	Most   int    `json:"most"`   // accesses of one Get
	Gets   uint64 `json:"gets"`
	// Formula is (X-1)*2+3 with X levels: the worst case of a Get as the study of
	// bench_kvdb has it. Beyond is the share of Gets with more accesses.
	Formula int     `json:"formula"`
	Beyond  float64 `json:"beyond_formula"`
	// ByAccesses are the Gets by their number of accesses, from 0 on; those with
	// more than its length are in the last.
	ByAccesses []uint64 `json:"by_accesses"`
}

const mostAccessesTold = 64

// spread counts the Gets of a writer.
type spread struct {
	opening    bool   // the next Get is the opening
	levels     uint64 // a bit each
	most       int
	byAccesses [mostAccessesTold + 1]uint64
}

func (s *spread) block(b cachesim.Block) {
	if b.Type != engine.Meta && b.Level < 64 {
		s.levels |= 1 << b.Level
	}
}

func (s *spread) get(accesses int) {
	if s.opening {
		s.opening = false
		return
	}
	s.most = max(s.most, accesses)
	s.byAccesses[min(accesses, mostAccessesTold)]++
}

func (s *spread) perGet() PerGet {
	p := PerGet{Levels: bits.OnesCount64(s.levels), Most: s.most}
	if p.Levels > 0 {
		p.Formula = (p.Levels-1)*2 + 3
	}
	beyond := uint64(0)
	for accesses, gets := range s.byAccesses {
		if p.Gets += gets; accesses > p.Formula {
			beyond += gets
		}
	}
	if p.Gets > 0 {
		p.Beyond = float64(beyond) / float64(p.Gets)
	}
	p.ByAccesses = s.byAccesses[:min(s.most, mostAccessesTold)+1]
	return p
}
