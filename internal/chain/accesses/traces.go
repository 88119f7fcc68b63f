package accesses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/chain/ethjson"
	"github.com/statelab/statelab/internal/chain/mpt"
)

// What clients' tracers return, in JSON:
//
//   - prestateTracer: an object of accounts, as they were before the transaction: what it touches;
//   - prestateTracer with diffMode: {"pre", "post"}: what it changes, and nothing else;
//   - trace_replayBlockTransactions with stateDiff (Erigon, Nethermind, Reth, OpenEthereum): an
//     object of accounts whose fields are "=", {"+": new}, {"-": old} or {"*": {"from", "to"}}.
//
// Each alone, in {"result"}, in a list of {"txHash", "result"} or {"stateDiff"} as a block's traces
// come, or any of these inside the envelope of JSON-RPC. Numbers are JSON numbers, 0x-hex or
// decimal strings. JSON objects have no order: the accesses of a transaction are sorted by account
// and slot.

var errNoTrace = errors.New("neither a prestate trace nor a state diff")

// DecodeTraces adds the traces of a block's transactions to b.
func DecodeTraces(b *Block, text []byte) (found ethjson.Traces, err error) {
	d := traces{b: b, hasher: mpt.NewHasher()}
	if len(text) > MaxBlockBytes {
		return found, fmt.Errorf("%d bytes of JSON, at most %d are read", len(text), MaxBlockBytes)
	}

	found, err = ethjson.Transactions(text, d.transaction)
	if err != nil {
		if at := lastAccount.FindAllString(string(text),
			-1); errors.Is(err, ethjson.ErrEndsEarly) && len(at) > 0 {
			err = fmt.Errorf("%w, at account %s", err, strings.Trim(at[len(at)-1], `"`))
		}
		return found, err
	}

	if d.count == 0 && !found.Block {
		return found, errNoTrace
	}

	return found, nil
}

// lastAccount finds addresses in text.
var lastAccount = regexp.MustCompile(`"0x[0-9a-fA-F]{40}"`)

type traces struct {
	b      *Block
	hasher *mpt.Hasher
	count  uint32
}

func (d *traces) transaction(trace ethjson.Object) error {
	if diff, has := trace["stateDiff"]; has {
		return d.stateDiff(diff)
	}

	_, pre := trace["pre"]
	_, post := trace["post"]
	if pre || post {
		return d.diff(trace["pre"], trace["post"])
	}

	return d.prestate(trace)
}

func accountsOf[T any](text []byte) (map[Address]*T, error) {
	accounts, err := ethjson.AccountsIn[T](text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoTrace, err)
	}
	return accounts, nil
}

func nonceOf(n *ethjson.Number) (*uint64, error) {
	value, ok := n.Uint64()
	if !ok {
		return nil, fmt.Errorf("a nonce of %v", Word(*n))
	}
	return &value, nil
}

// valuesOf are what a tracer tells of an account.
func valuesOf(a *ethjson.Account, address Address, hasher *mpt.Hasher) (v Values, err error) {
	v.Address = address
	if a.Nonce != nil {
		if v.Nonce, err = nonceOf(a.Nonce); err != nil {
			return v, err
		}
	}

	if a.Balance != nil {
		v.Balance = new(Word(*a.Balance))
	}

	switch {
	case a.CodeHash != nil && *a.CodeHash != (Word{}):
		v.Code = a.CodeHash
	case a.Code != nil:
		v.Code = codeHash(hasher, *a.Code)
	}

	for _, slot := range slices.SortedFunc(maps.Keys(a.Storage), compareWords) {
		v.Slots = append(v.Slots, Stored{slot, a.Storage[slot]})
	}

	return v, nil
}

func compareWords(a, b Word) int { return bytes.Compare(a[:], b[:]) }

func compareAddresses(a, b Address) int { return bytes.Compare(a[:], b[:]) }

// prestate is a transaction's: it tells what was there, not what is written.
func (d *traces) prestate(trace ethjson.Object) error {
	accounts, err := ethjson.Accounts[ethjson.Account](trace)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoTrace, err)
	}

	tx := d.next()
	for _, address := range slices.SortedFunc(maps.Keys(accounts), compareAddresses) {
		a := accounts[address]
		if a == nil {
			return fmt.Errorf("%w: account %v is null", errNoTrace, address)
		}

		v, err := valuesOf(a, address, d.hasher)
		if err != nil {
			return fmt.Errorf("account %v: %w", address, err)
		}

		d.add(Access{Kind: Account, Address: address, Tx: tx})
		if a.Code != nil && len(*a.Code) > 0 {
			d.add(Access{Kind: Code, Address: address, Tx: tx})
		}

		for _, s := range v.Slots {
			d.add(Access{Kind: Slot, Address: address, Slot: s.Slot, Tx: tx})
		}

		whole(&v)
		d.b.Before = append(d.b.Before, v)
	}

	return nil
}

// whole says of an account what a prestate leaves out: geth omits zeros.
func whole(v *Values) {
	v.Nonce, v.Balance, v.Code = cmp.Or(v.Nonce, new(uint64)), cmp.Or(v.Balance, new(Word)),
		cmp.Or(v.Code, &emptyCode)
}

func (d *traces) next() uint32 {
	d.count++
	return d.count
}

func (d *traces) add(a Access) { d.b.Accesses = append(d.b.Accesses, a) }

// diff is what a transaction changes. What is in pre but not in post was deleted, or for a slot set
// to zero.
func (d *traces) diff(pre, post json.RawMessage) error {
	before, err := accountsOf[ethjson.Account](pre)
	if err != nil {
		return err
	}

	after, err := accountsOf[ethjson.Account](post)
	if err != nil {
		return err
	}

	tx := d.next()
	all := map[Address]*ethjson.Account{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	for _, address := range slices.SortedFunc(maps.Keys(all), compareAddresses) {
		old, hadOld := before[address]
		now, lives := after[address]
		if old == nil {
			old = &ethjson.Account{}
		}

		was, err := valuesOf(old, address, d.hasher)
		if err != nil {
			return fmt.Errorf("account %v: %w", address, err)
		}

		is := Values{Address: address, Absent: true}
		if lives && now != nil {
			if is, err = valuesOf(now, address, d.hasher); err != nil {
				return fmt.Errorf("account %v: %w", address, err)
			}
		}

		if hadOld {
			whole(&was)
		} else {
			was.Absent = true
		}

		slots := map[Word]bool{}
		for _, s := range slices.Concat(was.Slots, is.Slots) {
			slots[s.Slot] = true
		}

		if !is.Absent {
			for slot := range slots {
				if !slices.ContainsFunc(is.Slots, func(s Stored) bool { return s.Slot == slot }) {
					is.Slots = append(is.Slots, Stored{Slot: slot})
				}
			}

			slices.SortFunc(is.Slots, func(a, b Stored) int { return compareWords(a.Slot, b.Slot) })
		}

		d.changed(tx, was, is, slices.SortedFunc(maps.Keys(slots), compareWords))
	}

	return nil
}

// changed adds the writes of an account, what was there before and what is afterwards.
func (d *traces) changed(tx uint32, was, is Values, slots []Word) {
	d.add(Access{Kind: Account, Address: was.Address, Tx: tx, Write: true})
	if is.Code != nil && *is.Code != emptyCode && (was.Code == nil || *was.Code != *is.Code) {
		d.add(Access{Kind: Code, Address: was.Address, Tx: tx, Write: true})
	}

	for _, slot := range slots {
		d.add(Access{Kind: Slot, Address: was.Address, Slot: slot, Tx: tx, Write: true})
		if !slices.ContainsFunc(was.Slots, func(s Stored) bool { return s.Slot == slot }) {
			was.Slots = append(was.Slots, Stored{Slot: slot}) // it was zero
		}
	}

	d.b.Before, d.b.After = append(d.b.Before, was), append(d.b.After, is)
}

// change is a field of a state diff.
type change struct {
	from, to json.RawMessage
	changes  bool
}

func (c *change) UnmarshalJSON(text []byte) error {
	if string(text) == `"="` {
		return nil
	}

	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || len(object) != 1 {
		return fmt.Errorf("%.80s: want \"=\", {\"+\"}, {\"-\"} or {\"*\"}", text)
	}

	c.changes = true
	c.to, c.from = object["+"], object["-"]
	if both, has := object["*"]; has {
		var parts struct{ From, To json.RawMessage }
		if err := json.Unmarshal(both, &parts); err != nil {
			return err
		}
		c.from, c.to = parts.From, parts.To
	}

	if c.from == nil && c.to == nil {
		return fmt.Errorf("%.80s: want \"=\", {\"+\"}, {\"-\"} or {\"*\"}", text)
	}

	return nil
}

// stateDiff is a transaction's, in the form that OpenEthereum made.
func (d *traces) stateDiff(text json.RawMessage) error {
	tx := d.next()
	if string(text) == "null" {
		return errors.New("the trace has no state diff: ask for trace_replayBlockTransactions " +
			"with [\"stateDiff\"]")
	}

	accounts, err := accountsOf[changedAccount](text)
	if err != nil {
		return err
	}

	for _, address := range slices.SortedFunc(maps.Keys(accounts), compareAddresses) {
		a := accounts[address]
		if a == nil {
			return fmt.Errorf("%w: account %v is null", errNoTrace, address)
		}

		was, err := a.side(address, func(c change) json.RawMessage { return c.from }, d.hasher)
		if err != nil {
			return fmt.Errorf("account %v: %w", address, err)
		}

		is, err := a.side(address, func(c change) json.RawMessage { return c.to }, d.hasher)
		if err != nil {
			return fmt.Errorf("account %v: %w", address, err)
		}

		d.changed(tx, was, is, slices.SortedFunc(maps.Keys(a.Storage), compareWords))
	}

	return nil
}

// changedAccount is what a transaction changed of an account.
type changedAccount struct {
	Balance, Nonce, Code change
	Storage              map[Word]change
}

// side is the account before or after the changes, whose values take chooses.
func (a *changedAccount) side(
	address Address, take func(change) json.RawMessage, hasher *mpt.Hasher,
) (v Values, err error) {
	t := ethjson.Account{Storage: map[Word]Word{}}
	missing := false // born, or dead
	for _, field := range []struct {
		of   change
		into any
	}{{a.Balance, &t.Balance}, {a.Nonce, &t.Nonce}, {a.Code, &t.Code}} {
		if value := take(field.of); value != nil {
			if err := ethjson.Strict(value, field.into); err != nil {
				return v, err
			}
		} else if field.of.changes {
			missing = true
		}
	}

	for slot, c := range a.Storage {
		var value Word
		if text := take(c); text != nil {
			if err := ethjson.Strict(text, &value); err != nil {
				return v, fmt.Errorf("slot %v: %w", slot, err)
			}
		}

		t.Storage[slot] = value
	}

	if v, err = valuesOf(&t, address, hasher); err == nil && missing {
		v = Values{Address: address, Absent: true}
	}

	return v, err
}

// Genesis reads the state of a genesis file, or of its alloc alone.
func Genesis(text []byte) (values []Values, err error) {
	if len(text) > MaxBlockBytes {
		return nil, fmt.Errorf("%d bytes of JSON, at most %d are read", len(text), MaxBlockBytes)
	}

	var object struct{ Alloc json.RawMessage }
	if err := ethjson.Strict(text, &object); err != nil {
		return nil, err
	}

	if object.Alloc == nil {
		object.Alloc = text
	}

	var listed ethjson.Object // an account that is there twice is an error
	if err := ethjson.Strict(object.Alloc, &listed); err != nil {
		return nil, fmt.Errorf("not a genesis file: %w", err)
	}

	accounts := make(map[string]*ethjson.Account, len(listed))
	for name, text := range listed {
		var account *ethjson.Account
		if err := ethjson.Strict(text, &account); err != nil {
			return nil, fmt.Errorf("not a genesis file: account %.60q: %w", name, err)
		}
		accounts[name] = account
	}

	hasher := mpt.NewHasher()
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		var address Address
		digits := name
		if len(name) == 40 {
			digits = "0x" + name
		}

		if err := address.UnmarshalText([]byte(digits)); err != nil || accounts[name] == nil {
			return nil, fmt.Errorf("not a genesis file: account %s", strconv.Quote(name))
		}

		v, err := valuesOf(accounts[name], address, hasher)
		if err != nil {
			return nil, fmt.Errorf("account %v: %w", address, err)
		}

		whole(&v)
		values = append(values, v)
	}

	return values, nil
}
