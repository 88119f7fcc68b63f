package statemodel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A level from which files are compacted has as many bytes as before once it is full again, and
// none older than what was written since where a file was.
func TestLevelsFillAgain(t *testing.T) {
	s := State{
		Accounts:      1e6,
		ContractShare: 1e-6,
		SlotsPer:      1e4,
		BlockAccounts: 5000,
		UpdateBlocks:  20,
		UpdateKeys:    500,
	}

	for _, of := range []*tables{hashTables(s), pathTables(s)} {
		random, l := rand.New(rand.NewPCG(1, 2)), &of.levels[0]
		p := even
		for n := range 100 {
			from, to := random.Float64(), random.Float64()
			if n%10 == 0 {
				from = 0
			}

			if from, to = min(from, to), max(from, to); to-from > .3 {
				continue
			}

			oldest := slices.Max(p.ages)
			p = l.fill(p.without(from, to), 1)
			if !slices.IsSorted(p.places) || !slices.IsSorted(p.shares) ||
				len(p.ages) != len(p.places)-1 || len(p.shares) != len(p.places) {
				t.Fatalf("after %d files: %v", n, p)
			}

			if p.places[0] != 0 || p.at(1) != 1 || p.shares[0] != 0 ||
				math.Abs(p.before(1)-1) > 1e-9 {
				t.Fatalf("after %d files: places from %g to %g, shares from %g to %g", n,
					p.places[0], p.at(1), p.shares[0], p.before(1))
			}

			bytes := 0.0
			for i, age := range p.ages {
				bytes += (p.places[i+1] - p.places[i]) * l.bytesOf(age)
			}

			if math.Abs(bytes-1) > 1e-3 {
				t.Fatalf("after %d files: %g of the level's bytes", n, bytes)
			}

			since := p.age((from + to) / 2)
			if minimum := slices.Min(p.ages); math.Abs(since-minimum) > 1e-9 ||
				slices.Max(p.ages) > oldest+since+1e-9 {
				t.Fatalf("after %d files: age %g where a file was, %g to %g", n, since, minimum,
					slices.Max(p.ages))
			}
		}
	}
}

// Go-ethereum wrote a million accounts in the hash scheme (Pebble v2.1.4; statelab layouts
// --accounts 1M --contracts 0% --slots 0 --contract-slots 10k --keep, then the MANIFEST): 17 files
// in the base level.
func TestFilesOfTheBaseLevel(t *testing.T) {
	of := hashTables(State{
		Accounts:      1e6,
		ContractShare: 1e-6,
		SlotsPer:      1e4,
		BlockAccounts: 5000,
		UpdateBlocks:  20,
		UpdateKeys:    500,
	})

	random, files := rand.New(rand.NewPCG(3, 4)), 0.
	for range 100 {
		of.build(random)
		files += float64(len(of.levels[0].ends)) / 100
	}

	if files < 16 || files > 18.5 {
		t.Errorf("%.1f files in the base level, 17 were found", files)
	}
}
