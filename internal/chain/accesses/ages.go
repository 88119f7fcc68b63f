package accesses

// WarmBlocks is for how many blocks EIP-8289 keeps what a block has touched warm.
const WarmBlocks = 256

// Ages follows when blocks have touched and written their accounts and slots. The zero value knows
// of no block.
type Ages struct{ touched, written map[Access]uint64 } // the newest block, by what

// Aged is the first access of a transaction to an account or a slot, which EIP-2929 calls cold.
// Write says that its block writes it. Touched and Written are how many blocks before it an earlier
// block has done so; 0: none of the list has.
type Aged struct {
	Access
	Touched, Written uint64
}

// Block visits those of the block that follows, in order.
func (g *Ages) Block(b *Block, visit func(a Aged)) {
	if g.touched == nil {
		g.touched, g.written = map[Access]uint64{}, map[Access]uint64{}
	}

	since := func(blocks map[Access]uint64, what Access) uint64 {
		last, known := blocks[what]
		if !known {
			return 0
		}
		return b.Number - last
	}

	writes, seen := map[Access]bool{}, map[Access]bool{}
	for _, a := range b.Accesses {
		writes[a.what()] = writes[a.what()] || a.Write
	}

	for _, a := range b.Accesses {
		what := a.what()
		inTx := what
		if inTx.Tx = a.Tx; a.Kind == Code || seen[inTx] {
			continue
		}

		seen[inTx] = true
		aged := Aged{Access: a, Touched: since(g.touched, what), Written: since(g.written, what)}
		aged.Write = writes[what]
		visit(aged)
	}

	for what, wrote := range writes {
		g.touched[what] = b.Number
		if wrote {
			g.written[what] = b.Number
		}
	}
}

// Window is what recurs within a number of blocks. Blocks of a list count that have as many before
// them.
type Window struct {
	Blocks    uint64  `json:"blocks"`
	Cold      uint64  `json:"cold_accesses"` // of accounts and slots, the first in each transaction
	Again     float64 `json:"touched_within"`
	Writes    uint64  `json:"writes"` // accounts and slots that a block writes, each once
	Rewritten float64 `json:"written_within"`
}

// newWindows are those of the table in EIP-8289.
func newWindows() []Window {
	return []Window{
		{Blocks: 8},
		{Blocks: 32},
		{Blocks: 128},
		{Blocks: WarmBlocks},
		{Blocks: 512},
		{Blocks: 1024},
	}
}

// count adds an access of a block which has so many before it.
func (w *Window) count(a Aged, before uint64) {
	if before < w.Blocks {
		return
	}

	w.Cold++
	if a.Touched > 0 && a.Touched <= w.Blocks {
		w.Again++
	}

	if !a.First || !a.Write {
		return
	}

	w.Writes++
	if a.Written > 0 && a.Written <= w.Blocks {
		w.Rewritten++
	}
}
