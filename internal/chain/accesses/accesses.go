// Package accesses reads, writes and makes access lists: what each block of a chain reads and
// writes of the state, and what it leaves of what it wrote.
//
// Goals: one form for block access lists (EIP-7928), traces and state diffs of clients, tables of
// the Xatu data set, and generated traffic; order kept as far as the source has it; every foreign
// length checked before it is believed.
// Non-goals: executing blocks, receipts, what a transaction costs in gas. What blocks write of
// whole chains is in package changeset.
//
// Read in this order: accesses.go, player.go, container.go; then a file for each foreign form.
package accesses

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/statelab/statelab/internal/chain/ethjson"
	"github.com/statelab/statelab/layout"
)

// Address is an account's.
type Address = ethjson.Address

// Word is a slot's key, a value or a hash; numbers are big endian.
type Word = ethjson.Word

// Kind of what is accessed.
type Kind byte

// Kinds of accesses, as lists store them.
const (
	Account Kind = 'a' // an account is looked up or written
	Slot    Kind = 's' // a storage slot
	Code    Kind = 'c' // code by its hash
)

// Access is one touch of the state.
type Access struct {
	Kind  Kind
	Write bool
	First bool // of this account, slot or code in its block: later ones are warm in a client
	// Tx is the transaction's position in the block; 0 where the source does not tell.
	Tx      uint32
	Address Address
	Slot    Word // zero but of a slot
}

// Values are what is known of an account at one point of the chain. Nil is unknown, or unchanged.
type Values struct {
	Address Address  `json:"account"`
	Absent  bool     `json:"absent,omitempty"` // there is no such account
	Nonce   *uint64  `json:"nonce,omitempty"`
	Balance *Word    `json:"balance,omitempty"`
	Code    *Word    `json:"code_hash,omitempty"`
	Slots   []Stored `json:"slots,omitempty"`
}

// Stored is a slot with its value; zero is no slot.
type Stored struct {
	Slot  Word `json:"slot"`
	Value Word `json:"value"`
}

// Block is what one block does to the state.
type Block struct {
	Number uint64
	// Hash, Parent and Root (of the state after the block) are nil where the source does not tell.
	Hash, Parent, Root *Word
	Accesses           []Access
	// Before are values from before the list, of what it touches first in this block; of a list
	// that begins with a genesis block, the whole state.
	Before []Values
	After  []Values // of what the block changed
}

// Info is what a list says of itself.
type Info struct {
	Form       string `json:"form"`       // what it was made from
	Provenance string `json:"provenance"` // as text
	// Complete: the blocks before tell the whole state that the list starts from, so roots can be
	// held against the blocks'.
	Complete bool `json:"complete"`
	Ordered  bool `json:"ordered"` // accesses of a transaction are in the order of execution
	// NotChecked are sentences on what could not be checked of its completeness.
	NotChecked []string `json:"not_checked,omitempty"`
}

// Source yields blocks in ascending order. io.EOF ends them; after any error it is finished.
type Source interface {
	Info() Info
	Next(b *Block) error
	Close() error
}

// Each visits all blocks, each of which is valid until the next.
func Each(s Source, visit func(b *Block) error) error {
	var b Block
	for {
		if err := s.Next(&b); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}

		if err := visit(&b); err != nil {
			return err
		}
	}
}

// Limits of every form: what exceeds them is damage.
const (
	MaxBlockBytes = 256 << 20 // of a block in its foreign form, decoded
	MaxAccesses   = 4 << 20   // in a block
	MaxCodeBytes  = 1 << 16   // EIP-7907 and the Amsterdam fork
)

// markFirst sets First.
func markFirst(accesses []Access) {
	seen := make(map[Access]bool, len(accesses))
	for i := range accesses {
		what := accesses[i].what()
		accesses[i].First = !seen[what]
		seen[what] = true
	}
}

// uintWord is a number as a word.
func uintWord(n uint64) (w Word) {
	binary.BigEndian.PutUint64(w[24:], n)
	return w
}

// trimmed is a slot's value as layouts take it; nil for zero.
func trimmed(w *Word) []byte { return bytes.TrimLeft(w[:], "\x00") }

var emptyCode, emptyRoot = Word(layout.EmptyCode), Word(layout.EmptyRoot)

// Joiner keeps of what blocks and their transactions tell what a list holds: values from before the
// list once, values after a block once for each account.
type Joiner struct {
	accounts map[Address]bool
	slots    map[slotOf]bool
	order    order
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
	if err := j.order.add(b); err != nil {
		return err
	}

	if len(b.Accesses) > MaxAccesses {
		return fmt.Errorf("block %d has %d accesses, at most %d are read", b.Number,
			len(b.Accesses), MaxAccesses)
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

		m.Nonce, m.Balance, m.Code = cmp.Or(v.Nonce, m.Nonce), cmp.Or(v.Balance, m.Balance),
			cmp.Or(v.Code, m.Code)
		for _, s := range v.Slots {
			if k := slices.IndexFunc(m.Slots,
				func(have Stored) bool { return have.Slot == s.Slot }); k >= 0 {
				m.Slots[k].Value = s.Value
			} else {
				m.Slots = append(m.Slots, s)
			}
		}
	}

	slices.SortFunc(merged, func(a, b Values) int { return compareAddresses(a.Address, b.Address) })
	return merged
}
