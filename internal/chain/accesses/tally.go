package accesses

import (
	"fmt"
	"maps"
	"slices"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/internal/report/doc"
)

// Tally is what a list comes to.
type Tally struct {
	Blocks uint64 `json:"blocks"`
	First  uint64 `json:"first_block"`
	Last   uint64 `json:"last_block"`
	Gaps
	Accesses uint64 `json:"accesses"`
	// Of what a block touches, in the mean of the blocks.
	AccountsPerBlock     float64 `json:"accounts_per_block"`
	SlotsReadPerBlock    float64 `json:"slots_read_per_block"` // and not written
	SlotsWrittenPerBlock float64 `json:"slots_written_per_block"`
	CodesPerBlock        float64 `json:"codes_per_block"`
	// Of the whole list.
	Accounts uint64 `json:"accounts"`
	Slots    uint64 `json:"slots"`
	// TopShare is what share of all accesses the hundredth of the accounts take that has most,
	// those of their slots counted.
	TopShare float64 `json:"top_share"`
	// Again is what share of a block's accounts and slots were touched by an earlier block of the
	// list.
	Again float64 `json:"touched_before"`
	Roots uint64  `json:"roots"`
	// Recurring are the windows that the list is long enough for.
	Recurring []Window `json:"recurring,omitempty"`
}

// Gaps are numbers of blocks that a list does not have, between its first and its last.
type Gaps struct {
	Missing uint64 `json:"missing_blocks,omitempty"`
	After   uint64 `json:"first_missing_after,omitempty"` // the block before the first gap
	newest  uint64
	any     bool
}

// add takes the next block.
func (g *Gaps) add(number uint64) {
	if g.any && number > g.newest+1 {
		if g.Missing == 0 {
			g.After = g.newest
		}
		g.Missing += number - g.newest - 1
	}
	g.any, g.newest = true, number
}

// Text says which blocks are missing; "" if none is.
func (g Gaps) Text() string {
	if g.Missing == 0 {
		return ""
	}
	return fmt.Sprintf("%s missing between the first and the last, the first of them after "+
		"block %d", unit.Plural(int(g.Missing), "block"), g.After)
}

// Count reads a list to its end.
func Count(s Source, told func(*Block) error) (Tally, error) {
	c := counting{perAccount: map[Address]uint64{}, windows: newWindows()}
	err := Each(s, func(b *Block) error {
		c.block(b)
		return told(b)
	})
	if err != nil {
		return c.Tally, err
	}

	return c.tally(), nil
}

// counting is a Tally in the making.
type counting struct {
	Tally
	perAccount map[Address]uint64
	ages       Ages
	windows    []Window
	// What blocks touched, each block for itself; first are accounts and slots, again those seen
	// before.
	accounts, read, written, codes, first, again uint64
}

func (c *counting) block(b *Block) {
	if c.Blocks++; c.Blocks == 1 {
		c.First = b.Number
	}

	c.Last = b.Number
	c.Gaps.add(b.Number)
	if b.Root != nil {
		c.Roots++
	}

	for _, a := range b.Accesses {
		c.Accesses++
		c.perAccount[a.Address]++
		if a.First && a.Kind == Code {
			c.codes++
		}
	}

	c.ages.Block(b, func(a Aged) {
		for i := range c.windows {
			c.windows[i].count(a, b.Number-c.Tally.First)
		}

		if !a.First {
			return
		}

		switch {
		case a.Kind == Account:
			c.accounts++
		case a.Write:
			c.written++
		default:
			c.read++
		}

		c.first++
		if a.Touched > 0 {
			c.again++
		} else if a.Kind == Slot {
			c.Slots++
		}
	})
}

// what is touched, however it is.
func (a Access) what() Access { return Access{Kind: a.Kind, Address: a.Address, Slot: a.Slot} }

// tally works out the shares and means.
func (c *counting) tally() Tally {
	t := c.Tally
	per := func(n uint64) float64 { return float64(n) / float64(max(1, t.Blocks)) }
	t.AccountsPerBlock, t.SlotsReadPerBlock, t.SlotsWrittenPerBlock, t.CodesPerBlock = per(
		c.accounts,
	), per(c.read), per(c.written), per(c.codes)
	t.Accounts, t.Again = uint64(len(c.perAccount)), float64(c.again)/float64(max(1, c.first))
	counts := slices.Sorted(maps.Values(c.perAccount))
	top := uint64(0)
	for _, n := range counts[len(counts)-(len(counts)+99)/100:] {
		top += n
	}

	t.TopShare = float64(top) / float64(max(1, t.Accesses))
	for _, w := range c.windows {
		if w.Cold > 0 {
			w.Again, w.Rewritten = w.Again/float64(w.Cold), w.Rewritten/float64(max(1, w.Writes))
			t.Recurring = append(t.Recurring, w)
		}
	}

	return t
}

// Verified is what reading a list to its end has found.
type Verified struct {
	Blocks, Roots uint64 // roots that were made again
	Gaps          Gaps
}

// Text says what Verify has found of a list that is not damaged.
func (v Verified) Text(of Info) string {
	text := unit.Count(v.Blocks) + " blocks, "
	if missing := v.Gaps.Text(); missing != "" {
		text += "not whole: " + missing
	} else {
		text += "whole"
	}

	switch {
	case v.Roots > 0:
		return fmt.Sprintf("%s; %s state roots made again from what they write, all equal", text,
			unit.Count(v.Roots))
	case of.Complete:
		return text + "; no state root could be checked: its blocks name no state root"
	}

	return text + "; no state root could be checked: the list does not tell the whole state " +
		"before it (genesis.json)"
}

// Verify reads a list to its end. Of a complete one it makes the state in reference, which is
// empty, and holds its root against each block's.
func Verify(
	s Source, reference *mpt.Reference, told func(block uint64) error,
) (v Verified, err error) {
	player := NewStateReplayer(s.Info())
	err = Each(s, func(b *Block) error {
		if err := told(b.Number); err != nil {
			return err
		}

		v.Blocks++
		v.Gaps.add(b.Number)
		if !s.Info().Complete {
			return nil
		}

		if len(b.Before) > 0 && v.Blocks > 1 {
			return fmt.Errorf("block %d tells of the state before the list, "+
				"which the first block has told in full: import the list again from genesis.json "+
				"and lists of one chain", b.Number)
		}

		if v.Blocks == 1 {
			player.Before(b)
			for _, c := range player.Initial() {
				if err := reference.Change(c); err != nil {
					return err
				}
			}
		}

		changes, err := player.Changes(b)
		if err != nil {
			return err
		}

		for _, c := range changes {
			if err := reference.Change(c); err != nil {
				return fmt.Errorf("block %d: %w", b.Number, err)
			}
		}

		if b.Root == nil {
			return nil
		}

		v.Roots++
		if root := reference.Root(); root != *b.Root {
			return fmt.Errorf("block %d: what it writes makes the state root %v, its header says "+
				"%v: the list leaves out a change, or is of another chain; import it again from "+
				"the node that has this block", b.Number, Word(root), *b.Root)
		}

		return nil
	})

	return v, err
}

// Facts are what statelab accesses info prints.
type Facts struct {
	Schema string `json:"schema"`
	File   string `json:"file"`
	Info
	Tally
}

// FactsOf reads the list in a file to its end.
func FactsOf(file string, list Source, told func(*Block) error) (Facts, error) {
	tally, err := Count(list, told)
	return Facts{schema.AccessFacts, file, list.Info(), tally}, err
}

// Document says what the list holds.
func (f Facts) Document() *doc.Document {
	d := &doc.Document{Title: "A list of accesses"}
	d.Answer("", fmt.Sprintf("%s: %s blocks, %d to %d, %s accesses.", f.File, unit.Count(f.Blocks),
		f.First, f.Last, unit.Count(f.Accesses)))

	var facts [][2]string
	row := func(what, format string, values ...any) {
		facts = append(facts, [2]string{what, fmt.Sprintf(format, values...)})
	}
	row("accounts a block touches", "%.1f", f.AccountsPerBlock)
	row("slots it only reads", "%.1f", f.SlotsReadPerBlock)
	row("slots it writes", "%.1f", f.SlotsWrittenPerBlock)
	row("accounts in all", "%s", unit.Count(f.Accounts))
	row("slots in all", "%s", unit.Count(f.Slots))
	row("touched by an earlier block", "%.1f %%", 100*f.Again)
	for _, w := range f.Recurring {
		row(fmt.Sprintf("cold accesses touched in the %d blocks before", w.Blocks),
			"%.1f %%; of its writes, %.1f %% written in them", 100*w.Again, 100*w.Rewritten)
	}

	row("accesses of the busiest 1 % of the accounts", "%.1f %%", 100*f.TopShare)
	if missing := f.Gaps.Text(); missing != "" {
		d.Warnings = append(d.Warnings, doc.Warning{Text: missing})
	}

	for _, sentence := range f.NotChecked {
		d.Warnings = append(d.Warnings, doc.Warning{Text: "not checked: " + sentence})
	}

	row("blocks with a state root", "%d", f.Roots)
	before := "made up, but for what the list tells"
	if f.Complete {
		before = "known in full"
	}

	row("state before the list", "%s", before)
	row("form", "%s", f.Form)
	row("provenance", "%s", f.Provenance)

	d.Add("What it holds", doc.Block{Facts: facts})
	return d
}
