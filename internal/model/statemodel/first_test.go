package statemodel

import (
	"math"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

// TestFirstLookupsAreAsMeasured has block reads (flat-pebble), page faults (flat-mdbx) and
// read calls (go-ethereum) of first lookups of accounts, absent accounts, slots and absent
// slots of one contract of 10,000 slots: means of 3 to 24 builds with other accounts, 100
// lookups of each in each. The model has none of these figures in it. Twice their standard
// error is 1 to 4 %; of the path scheme's slots, which are one contract in one place, 6 %.
//
//	statelab price --layout L --accounts 10k,100k,1M --at 2M --contract-at 10k --repeats 12 \
//	  --first 100 --out P
func TestFirstLookupsAreAsMeasured(t *testing.T) {
	testring.Outer(t, "it models states of millions of accounts")
	for _, c := range []struct {
		layout   string
		first    func(State, Kind) Reads
		accounts float64
		measured [kinds]float64
		within   float64
	}{
		{"geth-hash", FirstGethHash, 1e4, [kinds]float64{10.7, 8.94, 19.2, 17.7}, .03},
		{"geth-hash", FirstGethHash, 1e5, [kinds]float64{16.4, 13.5, 27.2, 25.0}, .05},
		{"geth-hash", FirstGethHash, 1e6, [kinds]float64{28.0, 22.5, 38.8, 34.4}, .055},
		{"geth-path", FirstGethPath, 1e5, [kinds]float64{5.5, 5.13, 9.0, 8.95}, .08},
		{"geth-path", FirstGethPath, 1e6, [kinds]float64{9.95, 9.22, 12.7, 12.1}, .055},
		{"flat-mdbx", FirstFlatMDBX, 1e5, [kinds]float64{1.84, 1.96, 1.98, 2}, .08},
		{"flat-mdbx", FirstFlatMDBX, 1e6, [kinds]float64{2.77, 2.77, 1.94, 1.95}, .03},
		{"flat-pebble", FirstFlatPebble, 1e4, [kinds]float64{1, 1.02, 1.98, 2}, .05},
		{"flat-pebble", FirstFlatPebble, 1e6, [kinds]float64{2.98, 2.97, 1.78, 1.8}, .05},
	} {
		s := State{
			Accounts:      c.accounts,
			ContractShare: 1 / c.accounts,
			SlotsPer:      1e4,
			BlockAccounts: 5000,
			UpdateBlocks:  20,
			UpdateKeys:    500,
		}

		for kind, measured := range c.measured {
			if got := c.first(s, Kind(kind)).Mean; math.Abs(got/measured-1) > c.within {
				t.Errorf("%s of %g accounts, kind %d: %.2f reads, measured %.2f", c.layout,
					c.accounts, kind, got, measured)
			}
		}
	}
}

// A table in one file of one level: opening has read its index, so that a Get reads a
// block of data; one in many files reads an index of two levels as well.
func TestFirstLookupsOfAFlatTable(t *testing.T) {
	testring.Outer(t, "it models states of millions of accounts")
	s := State{Accounts: 1e4, ContractShare: 1e-4, SlotsPer: 1e3}
	if got := FirstFlatPebble(s, Account).Mean; math.Abs(got-1) > .05 {
		t.Errorf("%.2f reads of a table of one file", got)
	}

	s = State{Accounts: 1e6, ContractShare: 1e-6, SlotsPer: 1e3}
	if got := FirstFlatPebble(s, Account).Mean; math.Abs(got-3) > .15 {
		t.Errorf("%.2f reads of a table of many files", got)
	}

	s.Accounts, s.ContractShare = 1e8, 1e-8
	if got := FirstFlatPebble(s, AbsentAccount).Mean; got < 6.5 || got > 7.5 {
		t.Errorf("%.2f reads of a table of three levels: two filters, three indexes, two more "+
			"blocks", got)
	}
}
