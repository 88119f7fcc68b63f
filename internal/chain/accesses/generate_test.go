package accesses

import (
	"testing"
)

// TestGeneratedTrafficIsLikeBlocks holds a list against the published facts.
func TestGeneratedTrafficIsLikeBlocks(t *testing.T) {
	blocks := uint64(1000)
	if testing.Short() {
		blocks = 30
	}

	made, written := 0, 0
	tally, err := Count(Generate(Profile{
		Blocks:        blocks,
		Accounts:      1_000_000,
		ContractShare: .1,
		Seed:          1,
	}), func(b *Block) error {
		zero := map[slotOf]bool{}
		for _, v := range b.Before {
			for _, s := range v.Slots {
				zero[slotOf{v.Address, s.Slot}] = true
			}
		}

		writes := map[slotOf]bool{}
		for _, v := range b.After {
			for _, s := range v.Slots {
				writes[slotOf{v.Address, s.Slot}] = true
				written++
				if zero[slotOf{v.Address, s.Slot}] {
					made++
				}
			}
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	near := func(what string, got, want, within float64) {
		if got < want*(1-within) || got > want*(1+within) {
			t.Errorf("%s: %.1f, published %.1f", what, got, want)
		}
	}

	near("accounts", tally.AccountsPerBlock, FactAccounts, .05)
	near("slots written", tally.SlotsWrittenPerBlock, FactSlotsWritten, .05)
	near("slots only read", tally.SlotsReadPerBlock, FactSlotsRead, .05)
	near("share of writes that make a slot", float64(made)/float64(written), FactCreations, .05)
	if !testing.Short() && (tally.TopShare < FactTopShareLow || tally.TopShare > FactTopShareHigh) {
		t.Errorf("the most read hundredth of the accounts takes %.3f of the accesses",
			tally.TopShare)
	}
}
