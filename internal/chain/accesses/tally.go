package accesses

import (
	"io"
	"slices"
)

// Tally is what a list comes to.
type Tally struct {
	Blocks   uint64 `json:"blocks"`
	First    uint64 `json:"first_block"`
	Last     uint64 `json:"last_block"`
	Accesses uint64 `json:"accesses"`
	// Of what a block touches, in the mean of the blocks.
	AccountsPerBlock     float64 `json:"accounts_per_block"`
	SlotsReadPerBlock    float64 `json:"slots_read_per_block"` // and not written
	SlotsWrittenPerBlock float64 `json:"slots_written_per_block"`
	CodesPerBlock        float64 `json:"codes_per_block"`
	// Of the whole list.
	Accounts uint64 `json:"accounts"`
	Slots    uint64 `json:"slots"`
	// TopShare is what share of all accesses the hundredth of the accounts take that has most, those of their slots counted.
	TopShare float64 `json:"top_share"`
	// Again is what share of a block's accounts and slots were touched by an earlier block of the list.
	Again float64 `json:"touched_before"`
	Roots uint64  `json:"roots"`
}

// Count reads a list to its end.
func Count(s Source, told func(*Block) error) (t Tally, err error) {
	var b Block
	perAccount, seen := map[Address]uint64{}, map[Access]bool{}
	var accounts, read, written, codes, first, again uint64
	for {
		if err := s.Next(&b); err == io.EOF {
			break
		} else if err != nil {
			return t, err
		}
		if t.Blocks++; t.Blocks == 1 {
			t.First = b.Number
		}
		t.Last = b.Number
		if b.Root != nil {
			t.Roots++
		}
		writes := map[Access]bool{}
		for _, a := range b.Accesses {
			if a.Write {
				writes[Access{Kind: a.Kind, Address: a.Address, Slot: a.Slot}] = true
			}
		}
		for _, a := range b.Accesses {
			t.Accesses++
			perAccount[a.Address]++
			if !a.First {
				continue
			}
			what := Access{Kind: a.Kind, Address: a.Address, Slot: a.Slot}
			switch {
			case a.Kind == Account:
				accounts++
			case a.Kind == Code:
				codes++
			case writes[what]:
				written++
			default:
				read++
			}
			if a.Kind == Code {
				continue
			}
			first++
			if seen[what] {
				again++
			} else if a.Kind == Slot {
				t.Slots++
			}
			seen[what] = true
		}
		if told != nil {
			if err := told(&b); err != nil {
				return t, err
			}
		}
	}
	per := func(n uint64) float64 { return float64(n) / float64(max(1, t.Blocks)) }
	t.AccountsPerBlock, t.SlotsReadPerBlock, t.SlotsWrittenPerBlock, t.CodesPerBlock = per(accounts), per(read), per(written), per(codes)
	t.Accounts, t.Again = uint64(len(perAccount)), float64(again)/float64(max(1, first))
	counts := make([]uint64, 0, len(perAccount))
	for _, n := range perAccount {
		counts = append(counts, n)
	}
	slices.SortFunc(counts, func(a, b uint64) int { return int(int64(b) - int64(a)) })
	top := uint64(0)
	for _, n := range counts[:(len(counts)+99)/100] {
		top += n
	}
	t.TopShare = float64(top) / float64(max(1, t.Accesses))
	return t, nil
}
