package accesses

import (
	"bytes"
	"io"
	"testing"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// TestPlayerKnowsWhatItMakes: the changes of a generated list, made in a trie in memory, leave what
// the player says.
func TestPlayerKnowsWhatItMakes(t *testing.T) {
	p, reference := NewStateReplayer(Info{}), mpt.NewReference()
	var blocks []Block
	for from := Generate(Profile{Blocks: 4, Accounts: 3000, ContractShare: .1, Seed: 9}); ; {
		var b Block
		if err := from.Next(&b); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}

		p.Before(&b)
		blocks = append(blocks, b)
	}

	make := func(changes []layout.Change) {
		for _, c := range changes {
			if err := reference.Change(c); err != nil {
				t.Fatal(err)
			}
		}
	}

	make(p.Initial())
	for i := range blocks {
		changes, err := p.Changes(&blocks[i])
		if err != nil {
			t.Fatal(err)
		}
		make(changes)
	}

	err := p.Each(func(a Address, account layout.Account, slots map[Word]Word) error {
		if got, found := reference.Account(p.Name(a)); !found || got != account {
			t.Errorf("account %v: %+v, not %+v", a, got, account)
		}

		for slot := range slots {
			got, want := reference.Slot(p.Name(a), p.Key(slot)), p.Slot(a, slot)
			if !bytes.Equal(got, want) {
				t.Errorf("slot %v of account %v: %x, not %x", slot, a, got, want)
			}
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
