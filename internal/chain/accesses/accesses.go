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
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/statelab/statelab/layout"
)

// Address is an account's.
type Address [20]byte

// Word is a slot's key, a value or a hash; numbers are big endian.
type Word [32]byte

// Kind of what is accessed.
type Kind byte

const (
	Account Kind = 'a'
	Slot    Kind = 's'
	Code    Kind = 'c'
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
	// Before are values from before the list, of what it touches first in this block; of a list that
	// begins with a genesis block, the whole state.
	Before []Values
	After  []Values // of what the block changed
}

// Info is what a list says of itself.
type Info struct {
	Form       string `json:"form"`       // what it was made from
	Provenance string `json:"provenance"` // as text
	// Complete: the blocks before tell the whole state that the list starts from, so roots can be held against the blocks'.
	Complete bool `json:"complete"`
	Ordered  bool `json:"ordered"` // accesses of a transaction are in the order of execution
}

// Source yields blocks in ascending order. io.EOF ends them; after any error it is finished.
type Source interface {
	Info() Info
	Next(b *Block) error
	Close() error
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
func (w *Word) trimmed() []byte {
	return bytes.TrimLeft(w[:], "\x00")
}

func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }
func (w Word) String() string    { return "0x" + hex.EncodeToString(w[:]) }

func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
func (w Word) MarshalText() ([]byte, error)    { return []byte(w.String()), nil }

func (a *Address) UnmarshalText(text []byte) error { return fromHex(a[:], text, true) }
func (w *Word) UnmarshalText(text []byte) error    { return fromHex(w[:], text, false) }

var errNoHex = errors.New("not 0x-hex")

// fromHex decodes text into the end of dst; less than all of it where whole is not asked.
func fromHex(dst, text []byte, whole bool) error {
	if len(text) < 2 || text[0] != '0' || text[1] != 'x' || len(text)-2 > 2*len(dst) || whole && len(text)-2 != 2*len(dst) {
		return fmt.Errorf("%.80q: %w of %d bytes", text, errNoHex, len(dst))
	}
	digits := text[2:]
	if len(digits)%2 == 1 {
		digits = append([]byte{'0'}, digits...)
	}
	clear(dst)
	if _, err := hex.Decode(dst[len(dst)-len(digits)/2:], digits); err != nil {
		return fmt.Errorf("%.80q: %w", text, errNoHex)
	}
	return nil
}

var emptyCode, emptyRoot = Word(layout.EmptyCode), Word(layout.EmptyRoot)
