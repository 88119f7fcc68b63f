package layouttest

import (
	"reflect"
	"testing"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// TestWorkloadsMakeEverything counts what the suite is worth nothing without.
func TestWorkloadsMakeEverything(t *testing.T) {
	const blocks = 120 // as with -short
	for name, w := range Workloads() {
		for _, keep := range []bool{false, true} {
			w.KeepContracts = keep
			seen := map[string]int{}
			reference := mpt.NewReference()
			gone := map[layout.Hash]bool{}
			for n := uint64(1); n <= blocks; n++ {
				block := w.Block(n)
				if !reflect.DeepEqual(block, w.Block(n)) {
					t.Fatalf("%s: block %d differs when it is made again", name, n)
				}

				twice := map[layout.Hash]bool{}
				for _, c := range block {
					if twice[c.Account] {
						t.Fatalf("%s: block %d changes account %x twice", name, n, c.Account)
					}

					twice[c.Account] = true
					count(seen, w, reference, gone, c)
					must(t, reference.Change(c))
				}

				if len(block) == 0 {
					seen["empty block"]++
				}
			}

			if keep && seen["contract deleted"] > 0 {
				t.Errorf("%s: %d contracts deleted", name, seen["contract deleted"])
			}

			for _, what := range []string{"account deleted", "contract deleted", "account back",
				"slot deleted", "absent slot deleted",
				"short value", "empty block"} {
				if seen[what] < 3 && !(keep && what == "contract deleted") {
					t.Errorf("%s: %d times %s in %d blocks", name, seen[what], what, blocks)
				}
			}

			if n := short(w, reference); n < 3 {
				t.Errorf("%s: %d leaves shorter than a hash", name, n)
			}
		}
	}
}

// count notes what c does to what the reference holds.
func count(
	seen map[string]int, w Workload, reference *mpt.Reference, gone map[layout.Hash]bool,
	c layout.Change,
) {
	_, exists := reference.Account(c.Account)
	held := 0
	for n := range w.Slots {
		if reference.Slot(c.Account, w.Hash(n)) != nil {
			held++
		}
	}

	switch {
	case c.New == nil && exists:
		gone[c.Account] = true
		seen["account deleted"]++
		if held > 0 {
			seen["contract deleted"]++
		}
	case c.New != nil && gone[c.Account]:
		delete(gone, c.Account)
		seen["account back"]++
	}

	for _, slot := range c.Slots {
		there := reference.Slot(c.Account, slot.Key) != nil
		switch {
		case len(slot.Value) == 0 && there:
			seen["slot deleted"]++
		case len(slot.Value) == 0:
			seen["absent slot deleted"]++
		case len(slot.Value) == 1:
			seen["short value"]++
		}
	}
}

// short counts slots whose leaf stands in its parent: a short value, under a key
// that differs from another's in its last nibble.
func short(w Workload, reference *mpt.Reference) (leaves int) {
	for a := range w.Accounts {
		for n := range w.Slots {
			key := w.Hash(n)
			if len(reference.Slot(w.Hash(a), key)) != 1 {
				continue
			}

			for nibble := range byte(16) {
				near := key
				near[31] = key[31]&0xf0 | nibble
				if near != key && reference.Slot(w.Hash(a), near) != nil {
					leaves++
					break
				}
			}
		}
	}

	return leaves
}
