// Package ethjson reads the JSON with which Ethereum clients answer about a block: what surrounds
// the traces of its transactions, and the numbers, addresses and accounts inside.
//
// Goals: one rule for every reader of such answers. An answer is taken whole or not at all: an
// error beside a result, a result that is null, text that ends early and a value that follows a
// block are errors. Every foreign length is checked before it is believed. Non-goals: what a trace
// means (packages accesses and changeset).
package ethjson

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
)

// maxDepth of objects and lists around a trace.
const maxDepth = 8

var (
	// ErrEndsEarly says that the text stops inside a value.
	ErrEndsEarly = errors.New("cut short: the JSON ends early")

	// ErrNoObject says that a value is neither an object nor a list.
	ErrNoObject = errors.New("not a JSON object")

	// ErrNull says that a node does not have what it was asked for, and what to do.
	ErrNull = errors.New("the node answered null: it does not have this block; fetch the answer " +
		"from a node that has it")

	// ErrBatch says that the text holds several blocks, as the answer to a JSON-RPC batch does.
	ErrBatch = errors.New("a list of several blocks, as the answer to a JSON-RPC batch: a file " +
		"holds one block; write each of them to a file of its own, named after its block (jq " +
		"'.[0]' FILE > NUMBER.json for the first)")

	errTwoBlocks = errors.New("a second value behind a block: a file holds one block, or one " +
		"transaction a line")
)

// NodeError is an error that the node put into its answer.
type NodeError struct{ Text string }

// Error is the node's own text.
func (e *NodeError) Error() string { return "the node answered with an error: " + e.Text }

// Object is a JSON object whose fields are not decoded yet.
type Object map[string]json.RawMessage

// Traces are what a text was found to hold.
type Traces struct {
	Block  bool   // a list: a block, which may be empty
	Count  int    // of transactions
	Hashes []Word // of the transactions, if every trace names its own; else nil
}

// Transactions calls visit with the trace of each transaction of a block, in order. A text is a
// trace, {"result": ...} around any of these, a list of them, or traces one behind the other. A
// transaction that is there twice, by its hash, is an error.
func Transactions(text []byte, visit func(trace Object) error) (found Traces, err error) {
	w := walk{visit: visit, seen: map[Word]int{}}
	found.Block, err = w.all(text)
	found.Count = w.count
	if len(w.hashes) == w.count {
		found.Hashes = w.hashes
	}

	return found, err
}

func (w *walk) all(text []byte) (block bool, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for values := 0; ; values++ {
		var value json.RawMessage
		if err := decoder.Decode(&value); err == io.EOF && values > 0 {
			return w.block, nil
		} else if err != nil {
			return w.block, placed(err, decoder.InputOffset())
		}

		if w.block {
			return w.block, errTwoBlocks
		}

		if err := w.value(value, 0, 0); err != nil {
			return w.block, err
		}

		if values > 0 && w.block {
			return w.block, errTwoBlocks
		}
	}
}

type walk struct {
	visit  func(Object) error
	block  bool
	count  int          // of transactions
	hashes []Word       // of those that name theirs
	seen   map[Word]int // hash -> number of the transaction, from 0
}

// value visits what is in a value; siblings are how many values there are in the list around it, 0
// without one.
func (w *walk) value(text json.RawMessage, depth, siblings int) error {
	if depth > maxDepth {
		return fmt.Errorf("wrapped more than %d times", maxDepth)
	}

	if text[0] == '[' {
		if siblings > 1 {
			return ErrBatch
		}

		w.block = true
		var items []json.RawMessage
		if err := Strict(text, &items); err != nil {
			return err
		}

		if err := inOrder(items); err != nil {
			return err
		}

		for i, item := range items {
			if err := w.value(item, depth+1, len(items)); errors.Is(err, ErrBatch) {
				return err
			} else if err != nil {
				return fmt.Errorf("transaction %d: %w", i, err)
			}
		}

		return nil
	}

	result, object, err := unwrap(text)
	if err != nil {
		return err
	}

	if err := w.hash(object); err != nil {
		return err
	}

	if result != nil {
		return w.value(result, depth+1, siblings)
	}

	w.count++
	return w.visit(object)
}

// hash takes the hash of the transaction that an object around its trace, or beside it, names.
func (w *walk) hash(object Object) error {
	text := object["txHash"] // of debug_traceBlockByNumber
	if text == nil {
		text = object["transactionHash"] // of trace_replayBlockTransactions
	}

	var hash Word
	if text == nil || json.Unmarshal(text, &hash) != nil {
		return nil // not a hash: no tracer that is known here names it so
	}

	if first, twice := w.seen[hash]; twice {
		return fmt.Errorf("the transaction %v is there twice, also as number %d of the block", hash,
			first)
	}

	w.seen[hash] = w.count
	w.hashes = append(w.hashes, hash)
	return nil
}

// CheckTransactions holds the traces of a block against the list of transactions in its header, as
// eth_getBlockByNumber answers it: hashes, or objects with hashes. Traces without hashes are
// counted.
func CheckTransactions(found Traces, list []json.RawMessage) error {
	if found.Count != len(list) && found.Hashes == nil {
		return fmt.Errorf("%d transactions, and the block's header lists %d", found.Count,
			len(list))
	}

	for i, text := range list {
		var hash Word
		if len(text) > 0 && text[0] == '{' {
			var whole struct{ Hash *Word }
			if err := json.Unmarshal(text, &whole); err != nil || whole.Hash == nil {
				return fmt.Errorf("the block's header: transaction %d has no hash", i)
			}
			hash = *whole.Hash
		} else if err := json.Unmarshal(text, &hash); err != nil {
			return fmt.Errorf("the block's header: transaction %d: %w", i, err)
		}

		switch {
		case found.Hashes == nil:
		case i >= len(found.Hashes):
			return fmt.Errorf("transaction %d of the block's header, %v, is missing, and all "+
				"behind it", i, hash)
		case found.Hashes[i] != hash:
			return fmt.Errorf("transaction %d is %v, and the block's header has %v there: "+
				"transactions are missing or have changed places", i, found.Hashes[i], hash)
		}
	}

	if found.Count > len(list) {
		return fmt.Errorf("%d transactions, and the block's header lists %d", found.Count,
			len(list))
	}

	return nil
}

// inOrder refuses answers of a JSON-RPC batch that are not in the order of their ids, which servers
// may send in any: transactions come one after another. Requests that all had one id tell nothing.
func inOrder(items []json.RawMessage) error {
	if len(items) < 2 {
		return nil
	}

	var ids []int64
	for _, item := range items {
		var answer struct {
			Version json.RawMessage `json:"jsonrpc"`
			ID      *int64          `json:"id"`
		}

		if json.Unmarshal(item, &answer) != nil || answer.Version == nil || answer.ID == nil {
			return nil // no batch, or one whose ids are no numbers
		}

		ids = append(ids, *answer.ID)
	}

	twice := slices.ContainsFunc(items[1:], func(item json.RawMessage) bool {
		return bytes.Equal(item, items[0])
	})
	if len(slices.Compact(slices.Clone(ids))) == 1 && !twice {
		return nil
	}

	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			return fmt.Errorf("the answers of a JSON-RPC batch are not in the order of their ids "+
				"(%d comes after %d): sort them (jq 'sort_by(.id)')", ids[i], ids[i-1])
		}
	}

	for i := 1; i < len(ids); i++ {
		if ids[i] > ids[i-1]+1 {
			return fmt.Errorf("the ids of a JSON-RPC batch go from %d to %d: answers between them "+
				"are missing; ask for all transactions again, or, if the requests were numbered "+
				"with gaps, take the results alone (jq 'map(.result)')", ids[i-1], ids[i])
		}
	}

	return nil
}

// Result takes an answer out of the envelope of JSON-RPC, if it is in one.
func Result(text []byte) ([]byte, error) {
	result, _, err := unwrap(text)
	if err == nil && result != nil {
		return result, nil
	}
	return text, err
}

// unwrap returns what an object has as its result, or the object itself if it has none.
func unwrap(text []byte) (result json.RawMessage, object Object, err error) {
	if err := Strict(text, &object); err != nil {
		return nil, nil, err
	}

	if failed, has := object["error"]; has && string(failed) != "null" {
		return nil, nil, &NodeError{fmt.Sprintf("%.200s", failed)}
	}

	result, has := object["result"]
	if has && string(result) == "null" {
		return nil, nil, ErrNull
	}

	return result, object, nil
}

// UnmarshalJSON refuses a field that is given twice, one of which would be lost.
func (o *Object) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return fmt.Errorf("%w: %.80s", ErrNoObject, text)
	}

	*o = Object{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}

		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}

		key := fmt.Sprint(name)
		if _, twice := (*o)[key]; twice {
			return fmt.Errorf("the field %.80q is there twice", key)
		}

		(*o)[key] = value
	}

	return nil
}

// Strict decodes one value and nothing after it.
func Strict(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(into); err != nil {
		return placed(err, decoder.InputOffset())
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// placed says of an error of the decoder where it is.
func placed(err error, offset int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrEndsEarly
	}
	if syntax, is := errors.AsType[*json.SyntaxError](err); is {
		return fmt.Errorf("offset %d: %w", max(offset, syntax.Offset), err)
	}
	return err
}

// Account is what a tracer tells of an account; nil is what it does not tell.
type Account struct {
	Balance  *Number       `json:"balance"`
	Nonce    *Number       `json:"nonce"`
	Code     *Bytes        `json:"code"`
	CodeHash *Word         `json:"codeHash"`
	Storage  map[Word]Word `json:"storage"`
}

// Accounts decodes the fields of an object of accounts. Errors name the account.
func Accounts[T any](object Object) (map[Address]*T, error) {
	accounts := make(map[Address]*T, len(object))
	for name, part := range object {
		var address Address
		if err := address.UnmarshalText([]byte(name)); err != nil {
			return nil, err
		}

		var account *T
		if err := Strict(part, &account); err != nil {
			return nil, fmt.Errorf("account %v: %w", address, err)
		}

		accounts[address] = account
	}

	return accounts, nil
}

// AccountsIn is Accounts of an object that is not decoded yet; none of no text.
func AccountsIn[T any](text []byte) (map[Address]*T, error) {
	var object Object
	if text != nil {
		if err := Strict(text, &object); err != nil {
			return nil, err
		}
	}
	return Accounts[T](object)
}

// Address is an account's, 0x-hex as text.
type Address [20]byte

// Word is a slot's key, a value or a hash, 0x-hex as text, perhaps without leading zeros; numbers
// are big endian.
type Word [32]byte

// Bytes are 0x-hex as text.
type Bytes []byte

// String is the address in hex, with 0x.
func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// String is the word in hex, with 0x and all its 64 digits.
func (w Word) String() string { return "0x" + hex.EncodeToString(w[:]) }

// MarshalText is String, for JSON.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// MarshalText is String, for JSON.
func (w Word) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads hex of exactly 20 bytes.
func (a *Address) UnmarshalText(text []byte) error { return fromHex(a[:], text, true) }

// UnmarshalText reads hex of at most 32 bytes; nodes leave leading zeros out.
func (w *Word) UnmarshalText(text []byte) error { return fromHex(w[:], text, false) }

// UnmarshalText reads hex of any length.
func (b *Bytes) UnmarshalText(text []byte) error {
	*b = make([]byte, max(len(text)-2, 0)/2)
	return fromHex(*b, text, true)
}

// Number is at most 256 bits, big endian: a JSON number, 0x-hex or a decimal string.
type Number Word

// UnmarshalJSON reads a number, or a string of decimal digits or hex.
func (n *Number) UnmarshalJSON(text []byte) error {
	digits := string(bytes.Trim(text, `"`))
	if len(digits) > 80 {
		return fmt.Errorf("%.80q is not a number of 256 bits", digits)
	}

	value, ok := new(big.Int).SetString(digits, 10)
	if len(digits) > 2 && digits[:2] == "0x" {
		value, ok = new(big.Int).SetString(digits[2:], 16)
	} else if digits == "0x" {
		value, ok = new(big.Int), true
	}

	if !ok || value.Sign() < 0 || value.BitLen() > 256 {
		return fmt.Errorf("%.80q is not a number of 256 bits", digits)
	}

	value.FillBytes(n[:])
	return nil
}

// Uint64 is the number if it has at most 64 bits.
func (n *Number) Uint64() (value uint64, ok bool) {
	big := new(big.Int).SetBytes(n[:])
	return big.Uint64(), big.IsUint64()
}

var errNoHex = errors.New("not 0x-hex")

// fromHex decodes text into the end of dst; less than all of it where whole is not asked.
func fromHex(dst, text []byte, whole bool) error {
	digits, found := bytes.CutPrefix(text, []byte("0x"))
	if !found || len(digits) > 2*len(dst) || whole && len(digits) != 2*len(dst) {
		return fmt.Errorf("%.80q: %w of %d bytes", text, errNoHex, len(dst))
	}

	if len(digits)%2 == 1 {
		digits = append([]byte{'0'}, digits...)
	}

	clear(dst)
	if _, err := hex.Decode(dst[len(dst)-len(digits)/2:], digits); err != nil {
		return fmt.Errorf("%.80q: %w", text, errNoHex)
	}

	return nil
}
