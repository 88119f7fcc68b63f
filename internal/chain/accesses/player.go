package accesses

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// StateReplayer turns blocks into changes of a state, and knows what every lookup of it must find.
// What the list does not tell of the state it makes up, the same each time: an account that is
// touched, or whose slot is, exists. Not safe for concurrent use.
type StateReplayer struct {
	complete bool
	accounts map[Address]*held
	hasher   *mpt.Hasher
	names    map[Address]layout.Hash
	keys     map[Word]layout.Hash
}

type held struct {
	layout.Account
	exists bool
	slots  map[Word]Word
}

// NewStateReplayer returns a player of a list that says info of itself.
func NewStateReplayer(info Info) *StateReplayer {
	return &StateReplayer{
		complete: info.Complete,
		accounts: map[Address]*held{},
		hasher:   mpt.NewHasher(),
		names:    map[Address]layout.Hash{},
		keys:     map[Word]layout.Hash{},
	}
}

// Name is what layouts call an account.
func (p *StateReplayer) Name(a Address) layout.Hash {
	name, known := p.names[a]
	if !known {
		name = p.hasher.Sum(a[:])
		p.names[a] = name
	}
	return name
}

// Key is what layouts call a slot.
func (p *StateReplayer) Key(slot Word) layout.Hash {
	key, known := p.keys[slot]
	if !known {
		key = p.hasher.Sum(slot[:])
		p.keys[slot] = key
	}
	return key
}

// Before adds what a block tells of the state before the list, and what has to be made up for it,
// to that state. Every block of a list is to be given, in order, before any is played.
func (p *StateReplayer) Before(b *Block) {
	for i := range b.Before {
		v := &b.Before[i]
		if !p.complete && p.accounts[v.Address] == nil && !v.Absent && !v.tells() {
			p.madeUp(v.Address) // slots alone are told
		}
		p.set(v)
	}

	if p.complete {
		return
	}

	for _, a := range b.Accesses {
		h := p.accounts[a.Address]
		if h == nil {
			h = p.madeUp(a.Address)
		}

		if a.Kind != Slot {
			continue
		}

		if _, known := h.slots[a.Slot]; !known {
			h.slots[a.Slot] = p.hashOf("slot", a.Address[:], a.Slot[:])
			h.exists = true
		}
	}
}

func (p *StateReplayer) hashOf(what string, parts ...[]byte) Word {
	return Word(p.hasher.Sum(slices.Concat(append([][]byte{[]byte(what)}, parts...)...)))
}

// madeUp is an account that nothing is told of.
func (p *StateReplayer) madeUp(a Address) *held {
	h := &held{
		exists:  true,
		slots:   map[Word]Word{},
		Account: layout.Account{CodeHash: layout.EmptyCode},
	}

	word := p.hashOf("account", a[:])
	h.Nonce = uint64(word[0])
	copy(h.Balance[22:], word[1:10])
	p.accounts[a] = h
	return h
}

// set takes over what is known of an account.
func (p *StateReplayer) set(v *Values) *held {
	h := p.accounts[v.Address]
	if h == nil {
		h = &held{slots: map[Word]Word{}, Account: layout.Account{CodeHash: layout.EmptyCode}}
		p.accounts[v.Address] = h
	}

	if v.Absent {
		*h = held{slots: map[Word]Word{}, Account: layout.Account{CodeHash: layout.EmptyCode}}
		return h
	}

	if v.Nonce != nil {
		h.Nonce = *v.Nonce
	}

	if v.Balance != nil {
		h.Balance = *v.Balance
	}

	if v.Code != nil {
		h.CodeHash = *v.Code
	}

	for _, s := range v.Slots {
		h.slots[s.Slot] = s.Value
	}

	if !v.tells() {
		return h
	}

	// EIP-161: an account without nonce, balance and code is none.
	h.exists = h.Nonce != 0 || h.Balance != [32]byte{} || h.CodeHash != layout.EmptyCode
	return h
}

// tells reports whether anything but slots is told.
func (v *Values) tells() bool { return v.Nonce != nil || v.Balance != nil || v.Code != nil }

// Initial are the changes that make the state before the list, sorted by account.
func (p *StateReplayer) Initial() (changes []layout.Change) {
	for _, address := range slices.SortedFunc(maps.Keys(p.accounts), func(a, b Address) int {
		return bytes.Compare(a[:], b[:])
	}) {
		h := p.accounts[address]
		if !h.exists {
			continue
		}

		c := layout.Change{Account: p.Name(address), New: new(h.Account)}
		for _, slot := range slices.SortedFunc(maps.Keys(h.slots), func(a, b Word) int {
			return bytes.Compare(a[:], b[:])
		}) {
			if value := h.slots[slot]; value != (Word{}) {
				c.Slots = append(c.Slots, layout.Slot{Key: p.Key(slot), Value: trimmed(&value)})
			}
		}

		changes = append(changes, c)
	}

	return changes
}

// Changes are what a block does, after which lookups find what it leaves. The slices are the
// caller's.
func (p *StateReplayer) Changes(b *Block) (changes []layout.Change, err error) {
	for i := range b.After {
		v := &b.After[i]
		before := p.accounts[v.Address]
		if before == nil && !p.complete {
			return nil, fmt.Errorf("block %d changes account %v, which is not among its "+
				"accesses: import the block again, with what it reads", b.Number, v.Address)
		}

		had := before != nil && before.exists
		old := map[Word]Word{}
		if before != nil {
			for _, s := range v.Slots {
				old[s.Slot] = before.slots[s.Slot]
			}
		}

		h := p.set(v)
		switch {
		case !h.exists && !had:
			continue
		case !h.exists:
			clear(h.slots)
			changes = append(changes, layout.Change{Account: p.Name(v.Address)})
			continue
		}

		c := layout.Change{Account: p.Name(v.Address), New: new(h.Account)}
		for _, s := range v.Slots {
			if s.Value != old[s.Slot] { // a slot that is set and cleared in a block is no change
				c.Slots = append(c.Slots, layout.Slot{
					Key:   p.Key(s.Slot),
					Value: bytes.Clone(trimmed(&s.Value)),
				})
			}
		}

		changes = append(changes, c)
	}

	return changes, nil
}

// Account is what a lookup must find.
func (p *StateReplayer) Account(a Address) (account layout.Account, exists bool) {
	h := p.accounts[a]
	if h == nil {
		return layout.Account{}, false
	}
	return h.Account, h.exists
}

// Slot is what a lookup must find; nil: nothing.
func (p *StateReplayer) Slot(a Address, slot Word) []byte {
	h := p.accounts[a]
	if h == nil || !h.exists {
		return nil
	}
	value := h.slots[slot]
	return trimmed(&value)
}

// Each calls visit with every account that exists, and its slots that are not zero.
func (p *StateReplayer) Each(
	visit func(a Address, account layout.Account, slots map[Word]Word) error,
) error {
	for a, h := range p.accounts {
		if !h.exists {
			continue
		}

		if err := visit(a, h.Account, h.slots); err != nil {
			return err
		}
	}

	return nil
}

// codeHash is the hash of code.
func codeHash(h *mpt.Hasher, code []byte) *Word {
	if len(code) == 0 {
		return &emptyCode
	}
	return new(Word(h.Sum(code)))
}

func be64(b []byte) (n uint64, ok bool) {
	if len(b) > 8 {
		return 0, false
	}
	var all [8]byte
	copy(all[8-len(b):], b)
	return binary.BigEndian.Uint64(all[:]), true
}
