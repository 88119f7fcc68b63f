package accesses

import (
	"io"
	"testing"
)

// listed is a list in memory.
type listed []Block

func (l *listed) Info() Info   { return Info{} }
func (l *listed) Close() error { return nil }
func (l *listed) Next(b *Block) error {
	if len(*l) == 0 {
		return io.EOF
	}
	*b, *l = (*l)[0], (*l)[1:]
	return nil
}

// TestRecurrenceByHand: EIP-8289's own scenario. A slot that block 1 touches, and block 2 for the
// last time, is warm up to block 258, and cold in block 259; of two transactions of a block, each
// pays for its first access.
func TestRecurrenceByHand(t *testing.T) {
	slot := Access{Kind: Slot, Address: Address{1}, Slot: Word{31: 2}}
	var blocks listed
	for n := uint64(1); n <= 260; n++ {
		b := Block{Number: n}
		touch := func(tx uint32, a Access) { a.Tx = tx; b.Accesses = append(b.Accesses, a) }
		switch n {
		case 1, 2, 258:
			touch(1, slot)
		case 259: // two transactions, of which one writes; then the first again
			written := slot
			written.Write = true
			touch(1, Access{Kind: Account, Address: Address{9}})
			touch(1, slot)
			touch(2, written)
			touch(2, slot)
		case 260:
			written := slot
			written.Write = true
			touch(1, written)
			touch(1, Access{Kind: Code, Address: Address{1}})
		}

		markFirst(b.Accesses)
		blocks = append(blocks, b)
	}

	var ages Ages
	seen := map[uint64][]Aged{}
	for i := range blocks {
		ages.Block(&blocks[i], func(a Aged) {
			seen[blocks[i].Number] = append(seen[blocks[i].Number], a)
		})
	}

	if of := seen[258]; len(of) != 1 || of[0].Touched != 256 {
		t.Errorf("block 258: %+v, want one access 256 blocks after the last", of)
	}

	if of := seen[259]; len(of) != 3 || of[0].Touched != 0 || of[1].Touched != 1 ||
		of[2].Touched != 1 || !of[1].Write || of[1].First != true || of[2].First {
		t.Errorf("block 259: %+v", of)
	}

	if of := seen[260]; len(of) != 1 || of[0].Written != 1 {
		t.Errorf("block 260: %+v", of)
	}

	tally, err := Count(&blocks, func(*Block) error { return nil })
	if err != nil {
		t.Fatal(err)
	}

	// Within 8 blocks, of those with 8 before them: 258 (not), three of 259 (two), 260 (one).
	// Within 256, of blocks 257 on: all but the account of 259. Writes: the slot in 259 (not
	// written before) and in 260.
	want := map[uint64]Window{8: {8, 5, 3. / 5, 2, .5}, 256: {256, 5, 4. / 5, 2, .5}}
	for _, w := range tally.Recurring {
		if of, listed := want[w.Blocks]; listed && w != of {
			t.Errorf("%+v, want %+v", w, of)
		}

		if w.Blocks > 256 {
			t.Errorf("%+v of a list of 260 blocks", w)
		}
	}

	if len(tally.Recurring) != 4 || tally.SlotsWrittenPerBlock != 2./260 || tally.Slots != 1 {
		t.Errorf("%+v", tally)
	}
}
