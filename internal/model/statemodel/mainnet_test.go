package statemodel

import (
	"math"
	"testing"
)

// TestContractsAreThoseOfTheTable: all slots are in a class, the classes are of their decades, and
// there are no more contracts than on the main network; another total has contracts of other sizes.
func TestContractsAreThoseOfTheTable(t *testing.T) {
	share, contracts := 0.0, 0.0
	for i, c := range ContractsAt(mainnetAccounts, mainnetSlots) {
		share, contracts = share+c.Share, contracts+c.Share*mainnetSlots/c.Slots
		if decade := math.Floor(math.Log10(c.Slots)); decade != float64(i) {
			t.Errorf("class %d is of %.3g slots", i, c.Slots)
		}
	}

	// half of them have no slot
	if math.Abs(share-1) > 1e-9 || contracts < .2*mainnetContracts ||
		contracts > .5*mainnetContracts {
		t.Errorf("shares of %v, %.3g contracts", share, contracts)
	}

	before, twice := ContractsAt(1e8, 1e9), ContractsAt(1e8, 2e9)
	last := len(before) - 1
	if r := twice[last].Slots / before[last].Slots; math.Abs(r-2) > 1e-9 {
		t.Errorf("twice the slots in as many contracts: the largest are %.3g times larger", r)
	}

	s := State{Accounts: 1e8}.Spread(1e9, before[last])
	if got := s.contracts() * s.SlotsPer; math.Abs(got/1e9-1) > 1e-9 || !s.Grown {
		t.Errorf("%.4g slots in %+v", got, s)
	}
}
