package statemodel

import (
	"math"
	"math/rand/v2"
)

// FirstFlatMDBX is what the first lookup of a flat table in a B-tree faults in after
// opening, which has read the way to the block's number: it lies between accounts and
// slots. A page that is on both ways is there.
func FirstFlatMDBX(s State, kind Kind) Reads {
	room := mdbxPageBytes * filled
	slots := s.contracts() * s.SlotsPer
	var accountPages, slotPages []float64 // of each level, leaves first
	a, b := s.Accounts*(mdbxRecord+accountKey+s.accountValue())/room, slots*(mdbxRecord+slotKey+slotValue)/room
	for {
		accountPages, slotPages = append(accountPages, a), append(slotPages, b)
		if a+b <= 1 {
			break
		}
		a, b = a*(mdbxRecord+accountKey)/room, b*(mdbxRecord+slotKey)/room
	}
	return drawn(1, func(random *rand.Rand) func() float64 {
		ends := make([]float64, len(accountPages)) // where pages end
		for level := range ends {
			ends[level] = random.Float64()
		}
		return func() (reads float64) {
			x := random.Float64()
			for level, end := range ends[:len(ends)-1] { // the root is there
				opened := end + accountPages[level]
				at := end + x*accountPages[level]
				if kind == Slot || kind == AbsentSlot {
					at = opened + x*slotPages[level]
				}
				if math.Floor(at) != math.Floor(opened) {
					reads++
				}
			}
			return reads
		}
	})
}
