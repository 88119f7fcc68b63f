package statemodel

import (
	"math"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// State is what was built, or would be.
type State struct {
	Accounts      float64
	ContractShare float64 // of the accounts, that have storage
	SlotsPer      float64 // of each of those
	BlockAccounts float64 // that a block of the build made
	DiskBytes     float64 // of all files; measured, or carried on per account
	UpdateBlocks  float64 // that changed UpdateKeys accounts each after the build; of one contract, every second its slots
	UpdateKeys    float64
	ContractAt    float64 // place of the one contract among all accounts, 0 to 1; 0: anywhere
}

func (s State) contracts() float64 { return s.Accounts * s.ContractShare }

// depths are those of the account trie that have branches worth counting.
func (s State) depths() []mpt.Depth {
	all := mpt.ExpectedDepths(s.Accounts)
	last := 0
	for d, at := range all {
		if at.OnPath > 1e-6 {
			last = d
		}
	}
	return all[:last+1]
}

// Of the accounts that the harness makes, in the mean.
const (
	nonceBytes   = 2
	balanceBytes = 9.5
	hashBytes    = 32
	slotValue    = 20 // half 32, half 8
)

const pageBytes = 4096

// strewn are units of memory (pages, blocks) over which nodes lie strewn, and how
// lookups ask for nodes of each depth. A unit that holds a node of some depth is in
// the class of the shallowest that it holds:
//
//	units of class e = units * exp(-SUM over d < e of n_d / units) * (1 - exp(-n_e / units))
//
// and the requests for nodes of depth d go to their units of every class up to d.
// levels are given from the shallowest down; what is behind them is in any unit.
type strewn struct {
	units     float64
	unitBytes float64
	levels    []level
}

type level struct {
	nodes  float64
	visits [kinds]float64
}

// classes returns the classes of the units, and for each level the shares of its
// requests that go to each of them.
func (s strewn) classes() (classes []Class, shares [][]float64) {
	left := s.units
	for _, l := range s.levels {
		of := left * -math.Expm1(-l.nodes/s.units)
		classes = append(classes, Class{Units: math.Max(of, 1e-9), UnitBytes: s.unitBytes})
		left -= of
	}
	for d := range s.levels {
		share := make([]float64, len(s.levels))
		rest := 1.0
		for e := range d {
			share[e] = classes[e].Units / s.units
			rest -= share[e]
		}
		share[d] = math.Max(0, rest)
		shares = append(shares, share)
		for e := range share {
			for kind := range kinds {
				classes[e].Visits[kind] += s.levels[d].visits[kind] * share[e]
			}
		}
	}
	return classes, shares
}
