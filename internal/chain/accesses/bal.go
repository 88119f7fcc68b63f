package accesses

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// Block access lists of EIP-7928, as go-ethereum v1.17 and the fork Amsterdam have them:
//
//	list    = [account, ...]                         ascending by address
//	account = [address, [[slot, [[index, value], ...]], ...], [slot, ...],
//	           [[index, balance], ...], [[index, nonce], ...], [[index, code], ...]]
//
// Numbers have no leading zeros. A list has no order of its accesses: they come by account and
// slot, each at the transaction that changes it first. It does not tell who reads code.

var errNotBAL = errors.New("not a block access list of EIP-7928 as the Amsterdam fork has it")

// DecodeBAL decodes the block access list of a block into b's Accesses and After. Its hash is the
// header's block access list hash.
func DecodeBAL(b *Block, text []byte) (hash Word, err error) {
	hasher := mpt.NewHasher()
	if len(text) > MaxBlockBytes {
		return hash, fmt.Errorf("%w: %d bytes", errNotBAL, len(text))
	}

	whole := rlp{rest: text}
	accounts := whole.list()
	if whole.err == nil && len(whole.rest) > 0 {
		whole.fail("%d bytes after its end", len(whole.rest))
	}

	if whole.err != nil {
		return hash, fmt.Errorf("%w: %w%s", errNotBAL, whole.err, cutAccount(text))
	}

	b.Accesses, b.After = b.Accesses[:0], nil
	var last []byte
	for len(accounts.rest) > 0 {
		a := accounts.list()
		address := a.bytes(20)
		if a.err == nil && last != nil && bytes.Compare(last, address) >= 0 {
			a.fail("account 0x%x comes after 0x%x", address, last)
		}

		if err := cmp.Or(accounts.err, a.err); err != nil {
			return hash, fmt.Errorf("%w: %w", errNotBAL, err)
		}

		last = address
		if err := b.account(Address(address), a, hasher); err != nil {
			return hash, fmt.Errorf("%w: account 0x%x: %w", errNotBAL, address, err)
		}
	}

	markFirst(b.Accesses)
	return Word(hasher.Sum(text)), nil
}

// cutAccount names the account in which a cut list ends.
func cutAccount(text []byte) string {
	header := func(b []byte) (rest []byte, length uint64) { // of a list
		switch {
		case len(b) == 0 || b[0] < 0xc0:
			return nil, 0
		case b[0] < 0xf8:
			return b[1:], uint64(b[0] - 0xc0)
		}

		digits := int(b[0] - 0xf7)
		if len(b) < 1+digits {
			return nil, 0
		}

		length, _ = be64(b[1 : 1+digits])
		return b[1+digits:], length
	}

	accounts, _ := header(text)
	for {
		account, length := header(accounts)
		if len(account) < 21 || account[0] != 0x80+20 {
			return ""
		}

		if length > uint64(len(account)) {
			return fmt.Sprintf(" (it ends in account 0x%x)", account[1:21])
		}

		accounts = account[length:]
	}
}

// account decodes what is after an account's address.
func (b *Block) account(address Address, a rlp, hasher *mpt.Hasher) error {
	v := Values{Address: address}
	slots, err := touchedSlots(&a, &v)
	if err != nil {
		return err
	}

	balances, nonces, codes := a.list(), a.list(), a.list()
	a.end()
	balanceAt, balance := indexed(&balances, "balance", func(w *rlp) []byte { return w.number(32) })
	nonceAt, nonce := indexed(&nonces, "nonce", func(w *rlp) []byte { return w.number(8) })
	codeAt, code := indexed(&codes, "code", func(w *rlp) []byte { return w.string(MaxCodeBytes) })
	if err := cmp.Or(a.err, balances.err, nonces.err, codes.err); err != nil {
		return err
	}

	access := Access{
		Kind:    Account,
		Address: address,
		Write:   balance != nil || nonce != nil || code != nil,
	}

	if access.Write {
		access.Tx = min(balanceAt, nonceAt, codeAt)
	}

	b.Accesses = append(b.Accesses, access)
	if balance != nil {
		v.Balance = new(word(balance))
	}

	if nonce != nil {
		n, _ := be64(nonce)
		v.Nonce = &n
	}

	if code != nil {
		v.Code = codeHash(hasher, code)
		b.Accesses = append(b.Accesses, Access{
			Kind:    Code,
			Address: address,
			Write:   true,
			Tx:      codeAt,
		})
	}

	for _, s := range slots {
		b.Accesses = append(b.Accesses, Access{
			Kind:    Slot,
			Address: address,
			Slot:    word(s.slot),
			Write:   s.write,
			Tx:      s.tx,
		})
	}

	if len(b.Accesses) > MaxAccesses {
		return fmt.Errorf("more than %d accesses in a block", MaxAccesses)
	}

	if access.Write || len(v.Slots) > 0 {
		b.After = append(b.After, v)
	}

	return nil
}

// touched is a slot that a block reads or changes.
type touched struct {
	slot  []byte
	tx    uint32
	write bool
}

func compareTouched(a, b touched) int { return compareNumbers(a.slot, b.slot) }

// touchedSlots reads an account's changed slots and those that are only read: both together, in
// ascending order. The values of the changed ones go to v.
func touchedSlots(a *rlp, v *Values) (slots []touched, err error) {
	changed, last := a.list(), []byte(nil)
	for changed.more() {
		c := changed.list()
		slot := c.number(32)
		writes := c.list()
		if c.end(); c.err != nil {
			return nil, c.err
		}

		changed.ascend("slot", &last, slot)
		first, value := indexed(&writes, "value", func(w *rlp) []byte { return w.number(32) })
		if writes.err == nil && value == nil {
			writes.fail("slot 0x%x changes and has no change", slot)
		}

		if err := cmp.Or(changed.err, writes.err); err != nil {
			return nil, err
		}

		slots = append(slots, touched{slot, first, true})
		v.Slots = append(v.Slots, Stored{word(slot), word(value)})
	}

	writes := slots
	last = nil
	reads := a.list()
	for reads.more() {
		read := touched{slot: reads.number(32)}
		reads.ascend("slot", &last, read.slot)
		if _, both := slices.BinarySearchFunc(writes, read, compareTouched); both &&
			reads.err == nil {
			reads.fail("slot 0x%x is both read and changed", read.slot)
		}

		slots = append(slots, read)
	}

	slices.SortFunc(slots, compareTouched)
	return slots, cmp.Or(a.err, changed.err, reads.err)
}

// indexed reads [[index, value], ...]: the first index and the last value; an index above all and
// nil where there is none.
func indexed(list *rlp, what string, value func(*rlp) []byte) (first uint32, newest []byte) {
	first = ^uint32(0)
	last := int64(-1)
	for list.more() {
		pair := list.list()
		index, v := pair.number(4), value(&pair)
		if pair.end(); pair.err != nil {
			list.err = pair.err
			return first, nil
		}

		n, _ := be64(index)
		if int64(n) <= last {
			list.fail("a %s of transaction %d after one of %d", what, n, last)
			return first, nil
		}

		if last < 0 {
			first = uint32(n)
		}

		last, newest = int64(n), v
	}

	return first, newest
}

func word(number []byte) (w Word) {
	copy(w[32-len(number):], number)
	return w
}

// compareNumbers compares numbers without leading zeros.
func compareNumbers(a, b []byte) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}

// rlp reads items of a list, or of the whole text. After an error it has nothing more.
type rlp struct {
	rest []byte
	err  error
}

func (r *rlp) fail(text string, args ...any) {
	r.rest = nil
	if r.err == nil {
		r.err = fmt.Errorf(text, args...)
	}
}

func (r *rlp) more() bool { return r.err == nil && len(r.rest) > 0 }

func (r *rlp) end() {
	if r.more() {
		r.fail("%d bytes too many", len(r.rest))
	}
}

// item takes the next item's payload; every length has one encoding.
func (r *rlp) item() (payload []byte, isList bool) {
	if r.err != nil {
		return nil, false
	}

	if len(r.rest) == 0 {
		r.fail("it ends early")
		return nil, false
	}

	kind, length, header := r.rest[0], 0, 1
	switch {
	case kind < 0x80:
		length, header = 1, 0
	case kind < 0xb8:
		length = int(kind - 0x80)
		if length == 1 && len(r.rest) > 1 && r.rest[1] < 0x80 {
			r.fail("a byte behind a length that it does not need")
			return nil, false
		}
	case kind >= 0xc0 && kind < 0xf8:
		length, isList = int(kind-0xc0), true
	default:
		base := byte(0xb7)
		if isList = kind >= 0xf8; isList {
			base = 0xf7
		}

		digits := int(kind - base)
		if len(r.rest) < 1+digits {
			r.fail("it ends inside a length")
			return nil, false
		}

		n, ok := be64(r.rest[1 : 1+digits])
		if !ok || r.rest[1] == 0 || n < 56 || n > uint64(len(r.rest)) {
			r.fail("a length of %d bytes where %d are left", n, len(r.rest)-1-digits)
			return nil, false
		}

		length, header = int(n), 1+digits
	}

	if len(r.rest) < header+length {
		r.fail("an item of %d bytes where %d are left", length, len(r.rest)-header)
		return nil, false
	}

	payload, r.rest = r.rest[header:header+length], r.rest[header+length:]
	return payload, isList
}

func (r *rlp) list() rlp {
	payload, isList := r.item()
	if r.err == nil && !isList {
		r.fail("a string where a list belongs")
	}
	return rlp{payload, r.err}
}

// string is never nil but after an error.
func (r *rlp) string(maximum int) []byte {
	payload, isList := r.item()
	if r.err == nil && (isList || len(payload) > maximum) {
		r.fail("a list, or more than %d bytes, where a string of at most that belongs", maximum)
	}
	if r.err != nil {
		return nil
	}
	return payload
}

func (r *rlp) bytes(count int) []byte {
	payload := r.string(count)
	if r.err == nil && len(payload) != count {
		r.fail("%d bytes where %d belong", len(payload), count)
		return nil
	}
	return payload
}

func (r *rlp) number(maximum int) []byte {
	payload := r.string(maximum)
	if len(payload) > 0 && payload[0] == 0 {
		r.fail("a number with a leading zero")
		return nil
	}
	return payload
}

// ascend fails unless numbers come in ascending order.
func (r *rlp) ascend(what string, last *[]byte, number []byte) {
	if r.err == nil && *last != nil && compareNumbers(*last, number) >= 0 {
		r.fail("%s 0x%x comes after 0x%x", what, number, *last)
	}
	*last = number
}
