package statemodel

import "math/rand/v2"

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
		opened := make([]span, len(accountPages)-1) // the page of each level that opening has read; the root is there
		for level := range opened {
			opened[level] = pageAt(random, accountPages[level], accountPages[level]+slotPages[level])
		}
		return func() (reads float64) {
			x := random.Float64()
			for level, page := range opened {
				at := x * accountPages[level]
				if kind == Slot || kind == AbsentSlot {
					at = accountPages[level] + x*slotPages[level]
				}
				if at < page.from || at >= page.from+page.wide {
					reads++
				}
			}
			return reads
		}
	})
}

// pageAt is the page at a place of a level that takes so many pages in the mean. Pages are
// from half full to full, and the first and the last end where the level does: of few
// pages, the last one is as wide as any other, however little lies behind the place.
func pageAt(random *rand.Rand, at, pages float64) span {
	const many = 1000
	if pages > many { // no end matters
		wide := (.5 + random.Float64()/2) / .75
		return span{from: at - random.Float64()*wide, wide: wide}
	}
	widths := make([]float64, max(1, int(pages+random.Float64())))
	for i := range widths {
		widths[i] = .5 + random.Float64()/2
	}
	scale := pages / sum(widths)
	page := span{}
	for _, wide := range widths {
		page.from, page.wide = page.from+page.wide, wide*scale
		if at < page.from+page.wide {
			break
		}
	}
	return page
}
