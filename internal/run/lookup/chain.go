package lookup

import (
	"cmp"
	"encoding/binary"
	"math"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
)

// buildBlocks is how many blocks make the state.
func buildBlocks(c protocol.Chain) uint64 {
	return (c.Accounts + c.BlockAccounts - 1) / c.BlockAccounts
}

// expectedSlots is how many slots the accounts will have, in the mean.
func expectedSlots(c protocol.Chain) uint64 {
	return c.ContractSlots + uint64(math.Ceil(float64(c.Accounts)*c.ContractShare*float64(
		c.SlotsPer,
	)))
}

// Generator makes the chain's accounts, slots and changes, the same ones every time.
// It is for one goroutine.
type Generator struct {
	chain    protocol.Chain
	accounts *keyspace.Maker
	slots    *keyspace.Maker
	words    *keyspace.Maker
	value    [32]byte
	name     layout.Hash // so that naming allocates nothing

	account map[uint64]uint64 // the block of the newest update, of those that had one
	slot    map[uint64]uint64
}

// NewGenerator generates c. It knows what the first blocks update blocks leave.
func NewGenerator(c protocol.Chain, updateBlocks uint64) *Generator {
	g := (&Generator{chain: c, account: map[uint64]uint64{}, slot: map[uint64]uint64{}}).Clone()
	for n := range updateBlocks {
		block := buildBlocks(c) + 1 + n
		if g.changesContract(block) {
			g.account[0] = block
			g.eachSlot(block, func(j uint64) { g.slot[slotNumber(0, j)] = block })
			continue
		}

		g.eachUpdate(block, func(index uint64) {
			g.account[index] = block
			if j, has := g.updatedSlot(index, block); has {
				g.slot[slotNumber(index, j)] = block
			}
		})
	}

	return g
}

// Clone is the same generator for another goroutine.
func (g *Generator) Clone() *Generator {
	maker := func(salt uint64) *keyspace.Maker {
		return keyspace.Keys{
			Count: 1,
			Bytes: 32,
			Order: keyspace.Hashed,
			Hash:  keyspace.Mix,
			Seed:  g.chain.Seed*4 + salt,
		}.Maker()
	}

	return &Generator{
		chain:    g.chain,
		accounts: maker(0),
		slots:    maker(1),
		words:    maker(2),
		account:  g.account,
		slot:     g.slot,
	}
}

// Hash names the account with an index; one at or above Accounts is absent.
func (g *Generator) Hash(index uint64) layout.Hash {
	g.accounts.Key(g.name[:], index)
	return g.name
}

// SlotHash names slot j of an account; one at or above SlotsPer is absent.
func (g *Generator) SlotHash(index, j uint64) layout.Hash {
	g.slots.Key(g.name[:], slotNumber(index, j))
	return g.name
}

func slotNumber(index, j uint64) uint64 { return index*(2*protocol.MaxSlotsPer) + j }

// Streams keep random choices for different purposes apart. Their numbers must stay as
// they are: states that were built before are looked up by them.
const (
	hasStorageStream     = iota + 1 // whether an account is a contract
	nonceStream                     // of an account
	balanceBytesStream              // how long a balance is
	balanceStream                   // its low eight bytes
	balanceTopStream                // its bytes above them
	slotStream                      // the value of a slot
	updatedSlotStream               // which slot an update changes
	updatedAccountStream            // which accounts a block changes
	lookupStream                    // which account is looked up
	contractStream                  // another one, where a slot is looked up and it has none
	lookupSlotStream                // which slot is looked up
	codeStream                      // eight bytes of code
)

// word is random, by everything in what: a stream first.
func (g *Generator) word(what ...uint64) (w uint64) {
	for _, part := range what {
		g.words.Key(g.value[:], w^part)
		w = binary.BigEndian.Uint64(g.value[8:])
	}
	return w
}

// HasStorage reports whether an account is a contract with slots.
func (g *Generator) HasStorage(index uint64) bool {
	const resolution = 1 << 32
	if index == 0 && g.chain.ContractSlots > 0 {
		return true
	}
	return g.chain.SlotsPer > 0 &&
		g.word(hasStorageStream, index)%resolution < uint64(g.chain.ContractShare*resolution)
}

// Account is what the newest block left of an account.
func (g *Generator) Account(index uint64) layout.Account {
	return g.accountAt(index, cmp.Or(g.account[index], index/g.chain.BlockAccounts+1))
}

// accountAt is what a block writes: balances of 8 to 11 bytes, as of up to some
// million ether.
func (g *Generator) accountAt(index, block uint64) layout.Account {
	a := layout.Account{Nonce: g.word(nonceStream, index)%1000 + block, CodeHash: layout.EmptyCode}
	length := 8 + g.word(balanceBytesStream, index, block)%4
	binary.BigEndian.PutUint64(a.Balance[24:], g.word(balanceStream, index, block))
	binary.BigEndian.PutUint32(a.Balance[20:], uint32(g.word(balanceTopStream, index, block)))
	clear(a.Balance[:32-length])
	if g.HasStorage(index) {
		a.CodeHash = g.SlotHash(index, protocol.MaxSlotsPer)
	}

	return a
}

// Slot appends what the newest block left of a slot to dst.
func (g *Generator) Slot(dst []byte, index, j uint64) []byte {
	return g.slotAt(dst, index, j,
		cmp.Or(g.slot[slotNumber(index, j)], index/g.chain.BlockAccounts+1))
}

// slotAt is a value of 32 bytes, or of 8 as counters and small amounts have.
func (g *Generator) slotAt(dst []byte, index, j, block uint64) []byte {
	w := g.word(slotStream, slotNumber(index, j), block)
	value := g.value[:]
	if w%2 == 0 {
		value = value[:8]
	}
	value[0] |= 1 // no leading zero
	return append(dst, value...)
}

// updatedSlot is the slot that a block's update of an account changes.
func (g *Generator) updatedSlot(index, block uint64) (j uint64, has bool) {
	if slots := g.slotsOf(index); slots > 0 {
		return g.word(updatedSlotStream, index, block) % slots, true
	}
	return 0, false
}

// slotsOf is how many slots an account has.
func (g *Generator) slotsOf(index uint64) uint64 {
	switch {
	case !g.HasStorage(index):
		return 0
	case index == 0 && g.chain.ContractSlots > 0:
		return g.chain.ContractSlots
	}
	return g.chain.SlotsPer
}

// changesContract reports whether an update block changes slots of the one contract:
// every second one does.
func (g *Generator) changesContract(block uint64) bool {
	return g.chain.ContractSlots > 0 && (block-buildBlocks(g.chain))%2 == 0
}

// eachSlot yields the slots of the one contract that a block changes, none twice.
func (g *Generator) eachSlot(block uint64, yield func(j uint64)) {
	seen := make(map[uint64]bool, g.chain.UpdateAccounts)
	for n := uint64(0); uint64(len(seen)) < g.chain.UpdateAccounts; n++ {
		if j := g.word(updatedSlotStream, block, n) % g.chain.ContractSlots; !seen[j] {
			seen[j] = true
			yield(j)
		}
	}
}

// contractUpdate is the change that a block makes to the one contract.
func (g *Generator) contractUpdate(block uint64, into *layout.Change, account *layout.Account) {
	*account = g.accountAt(0, block)
	into.Account, into.New, into.Slots = g.Hash(0), account, into.Slots[:0]
	g.eachSlot(block, func(j uint64) {
		into.Slots = append(into.Slots, layout.Slot{
			Key:   g.SlotHash(0, j),
			Value: g.slotAt(nil, 0, j, block),
		})
	})
}

// eachUpdate yields the accounts that an update block changes, no account twice.
func (g *Generator) eachUpdate(block uint64, yield func(index uint64)) {
	seen := make(map[uint64]bool, g.chain.UpdateAccounts)
	for n := uint64(0); uint64(len(seen)) < g.chain.UpdateAccounts; n++ {
		index := g.word(updatedAccountStream, block, n) % g.chain.Accounts
		// the one contract has blocks of its own
		if !seen[index] && (index > 0 || g.chain.ContractSlots == 0) {
			seen[index] = true
			yield(index)
		}
	}
}

// creation is the change that makes an account with all its slots.
func (g *Generator) creation(index uint64, into *layout.Change, account *layout.Account) {
	block := index/g.chain.BlockAccounts + 1
	*account = g.accountAt(index, block)
	into.Account, into.New, into.Slots, into.Code = g.Hash(index), account, into.Slots[:0], nil
	if g.HasStorage(index) {
		into.Code = g.code(index)
	}

	for j := range g.slotsOf(index) {
		into.Slots = append(into.Slots, layout.Slot{
			Key:   g.SlotHash(index, j),
			Value: g.slotAt(nil, index, j, block),
		})
	}
}

// code is that of an account with storage; nil: none is made.
func (g *Generator) code(index uint64) (code []byte) {
	for n := range (g.chain.CodeBytes + 7) / 8 {
		code = binary.BigEndian.AppendUint64(code, g.word(codeStream, index, n))
	}
	return code[:g.chain.CodeBytes]
}

// codeChunk appends a chunk of the code, the last one with the zeros behind it.
func (g *Generator) codeChunk(dst []byte, index, n uint64) []byte {
	code := append(g.code(index), make([]byte, layout.CodeBytes)...)
	return append(dst, code[n*layout.CodeBytes:][:layout.CodeBytes]...)
}

// update is the change that an update block makes to an account.
func (g *Generator) update(index, block uint64, into *layout.Change, account *layout.Account) {
	*account = g.accountAt(index, block)
	into.Account, into.New, into.Slots = g.Hash(index), account, into.Slots[:0]
	if j, has := g.updatedSlot(index, block); has {
		into.Slots = append(into.Slots, layout.Slot{
			Key:   g.SlotHash(index, j),
			Value: g.slotAt(nil, index, j, block),
		})
	}
}

// changeBytes is what a change says: hashes, nonce, balance and code, values.
func changeBytes(c *layout.Change) int64 {
	const accountBytes = 32 + 8 + 32 + 32
	bytes := int64(accountBytes)
	for _, s := range c.Slots {
		bytes += int64(len(s.Key) + len(s.Value))
	}
	return bytes
}
