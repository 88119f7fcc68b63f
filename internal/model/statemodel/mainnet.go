package statemodel

import (
	"math"
	"sync"
)

// The contracts of Ethereum's main network at block 22,284,325 (April 2025), as Ignacio Hagopian's
// "Tree shape" (stateless.fyi) counts them: how many slots they have in all, and those of the
// largest, of one in a hundred and of the median.
const (
	mainnetAccounts  = 288_871_029
	mainnetContracts = 47_994_700
	mainnetSlots     = 1_287_949_062
	mainnetLargest   = 68_794_129
	mainnetP99       = 47
)

// MainnetTable names where the sizes of contracts are from.
const MainnetTable = "stateless.fyi, Tree shape, block 22,284,325"

// ContractClass is contracts of about so many slots, and their share of all slots.
type ContractClass struct{ Slots, Share float64 }

// ContractsAt are contracts that have so many slots in all, in a state with so many accounts,
// divided as on the main network: as large a share of the accounts, and each as many times larger.
func ContractsAt(accounts, slots float64) (classes []ContractClass) {
	times := slots / accounts / (mainnetSlots / float64(mainnetAccounts))
	for _, c := range mainnetClasses() {
		classes = append(classes, ContractClass{Slots: max(1, c.Slots*times), Share: c.Share})
	}
	return classes
}

// mainnetClasses has a class for each decade of sizes. Of contracts in the order of their size, the
// table has four points of the curve from rank to size, and the area below it. Between the largest
// and one in a hundred the curve is a parabola on logarithmic scales, bent so that the area is
// right; from there to the median, which has no slot, it is a straight line down to one slot.
var mainnetClasses = sync.OnceValue(func() []ContractClass {
	ranked := func(bend float64) []ContractClass {
		const steps = 2000
		at99, median := math.Log(mainnetContracts*.01), math.Log(mainnetContracts*.5)
		top, low := math.Log(mainnetLargest), math.Log(mainnetP99)
		decades := make([]ContractClass, 9)
		add := func(from, to float64, logSlots func(part float64) float64) {
			for i := range steps {
				part := (float64(i) + .5) / steps
				slots := logSlots(part)
				ranks := math.Exp(from+(to-from)*float64(i+1)/steps) -
					math.Exp(from+(to-from)*float64(i)/steps)
				of := &decades[int(slots/math.Ln10)]
				of.Share += ranks * math.Exp(slots)
				of.Slots += ranks * math.Exp(slots) * slots
			}
		}

		decades[7] = ContractClass{Share: mainnetLargest, Slots: mainnetLargest * top}
		add(0, at99, func(part float64) float64 {
			return top + (low-top)*part + bend*part*(1-part)
		})
		add(at99, median, func(part float64) float64 { return low * (1 - part) })
		return decades
	}

	area := func(of []ContractClass) (slots float64) {
		for _, c := range of {
			slots += c.Share
		}
		return slots
	}

	low, high := 0.0, 4.0
	for range 50 {
		if bend := (low + high) / 2; area(ranked(bend)) < mainnetSlots {
			low = bend
		} else {
			high = bend
		}
	}

	var classes []ContractClass
	decades := ranked(low)
	for _, c := range decades {
		if c.Share > 0 {
			classes = append(classes,
				ContractClass{Slots: math.Exp(c.Slots / c.Share), Share: c.Share / area(decades)})
		}
	}

	return classes
})

// Spread is the state with so many slots in contracts of one class of ContractsAt, all of them as
// large: what takes part in a lookup of their slots is then in it as often as in the state of all.
func (s State) Spread(slots float64, of ContractClass) State {
	s.SlotsPer, s.ContractShare = of.Slots, slots/of.Slots/s.Accounts
	s.ContractAt, s.Grown = 0, true
	return s
}
