package accesses

import (
	"cmp"
	"fmt"
	"slices"
)

// Joiner keeps of what blocks and their transactions tell what a list holds: values from before the
// list once, values after a block once for each account.
type Joiner struct {
	accounts map[Address]bool
	slots    map[slotOf]bool
	last     Block
	any      bool
}

type slotOf struct {
	Address
	Word
}

// NewJoiner returns a joiner of one list.
func NewJoiner() *Joiner {
	return &Joiner{accounts: map[Address]bool{}, slots: map[slotOf]bool{}}
}

// Join makes a block of what decoders have added to it.
func (j *Joiner) Join(b *Block) error {
	if j.any {
		if err := follows(&j.last, b); err != nil {
			return err
		}
	}
	j.last, j.any = Block{Number: b.Number, Hash: b.Hash}, true
	if len(b.Accesses) > MaxAccesses {
		return fmt.Errorf("block %d has %d accesses, at most %d are read", b.Number, len(b.Accesses), MaxAccesses)
	}
	before := b.Before
	b.Before = nil
	for _, v := range before {
		v.Slots = slices.DeleteFunc(v.Slots, func(s Stored) bool {
			seen := j.slots[slotOf{v.Address, s.Slot}]
			j.slots[slotOf{v.Address, s.Slot}] = true
			return seen
		})
		if j.accounts[v.Address] {
			if len(v.Slots) == 0 {
				continue
			}
			v = Values{Address: v.Address, Slots: v.Slots}
		}
		j.accounts[v.Address] = true
		b.Before = append(b.Before, v)
	}
	b.After = lastOf(b.After)
	for _, v := range b.After { // what a block list changes is not from before the list
		j.accounts[v.Address] = true
		for _, s := range v.Slots {
			j.slots[slotOf{v.Address, s.Slot}] = true
		}
	}
	slices.SortStableFunc(b.Accesses, func(a, b Access) int { return int(a.Tx) - int(b.Tx) })
	markFirst(b.Accesses)
	return nil
}

// lastOf merges what transactions leave of an account.
func lastOf(all []Values) (merged []Values) {
	at := map[Address]int{}
	for _, v := range all {
		i, seen := at[v.Address]
		if !seen {
			at[v.Address] = len(merged)
			merged = append(merged, v)
			continue
		}
		m := &merged[i]
		if v.Absent || m.Absent {
			*m = v
			continue
		}
		m.Nonce, m.Balance, m.Code = cmp.Or(v.Nonce, m.Nonce), cmp.Or(v.Balance, m.Balance), cmp.Or(v.Code, m.Code)
		for _, s := range v.Slots {
			if k := slices.IndexFunc(m.Slots, func(have Stored) bool { return have.Slot == s.Slot }); k >= 0 {
				m.Slots[k].Value = s.Value
			} else {
				m.Slots = append(m.Slots, s)
			}
		}
	}
	slices.SortFunc(merged, func(a, b Values) int { return compareAddresses(a.Address, b.Address) })
	return merged
}
