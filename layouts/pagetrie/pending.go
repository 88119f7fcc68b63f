//go:build linux

package pagetrie

import (
	"bytes"
	"slices"

	"github.com/statelab/statelab/layout"
)

// pending are changes that wait to be made in the order of their keys: a page that
// several of them change is then copied, hashed and written once, even where the
// block has more pages than it may hold.
type pending struct {
	edits  []edit
	slots  []layout.Slot // room for the edits' slots,
	values []byte        // and for their values
	bytes  int
	most   int // bytes before they are made
}

// edit is a change that owns its bytes.
type edit struct {
	account layout.Hash
	deleted bool
	new     layout.Account
	slots   []layout.Slot
}

const (
	editBytes = 32 + 8 + 72 + 24
	slotRoom  = 32 + 24
	roomSlots = 1024 // taken at once
	roomBytes = roomSlots * valueBytes
)

// add copies a change and tells whether there are as many as may wait.
func (p *pending) add(c layout.Change) (full bool) {
	e := edit{account: c.Account, deleted: c.New == nil}
	p.bytes += editBytes
	if c.New != nil {
		e.new = *c.New
		if cap(p.slots)-len(p.slots) < len(c.Slots) { // earlier edits keep the room they have
			p.slots = make([]layout.Slot, 0, max(roomSlots, len(c.Slots)))
		}
		from := len(p.slots)
		for _, s := range c.Slots {
			p.slots = append(p.slots, layout.Slot{Key: s.Key, Value: p.copy(s.Value)})
			p.bytes += slotRoom + len(s.Value)
		}
		e.slots = p.slots[from:]
		slices.SortStableFunc(e.slots, func(a, b layout.Slot) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	}
	p.edits = append(p.edits, e)
	return p.bytes >= p.most
}

func (p *pending) copy(value []byte) []byte {
	if cap(p.values)-len(p.values) < len(value) {
		p.values = make([]byte, 0, roomBytes)
	}
	from := len(p.values)
	p.values = append(p.values, value...)
	return p.values[from:]
}

// inOrder sorts the edits by account.
func (p *pending) inOrder() []edit {
	slices.SortFunc(p.edits, func(a, b edit) int { return bytes.Compare(a.account[:], b.account[:]) })
	return p.edits
}

// clear keeps the room for the next changes.
func (p *pending) clear() {
	p.edits, p.slots, p.values, p.bytes = p.edits[:0], p.slots[:0], p.values[:0], 0
}
