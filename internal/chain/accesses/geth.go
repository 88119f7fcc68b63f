package accesses

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// Key schemes of go-ethereum: where its store has the state of the newest block. An account's hash
// and a slot's are those of their address and key.
const (
	FlatKeys = "flat" // "a" account, "o" account slot: the snapshot, which both schemes read first
	// "A" path, "O" account path: nodes of the tries by their path, a byte a nibble
	PathKeys = "path"
	HashKeys = "hash" // a node's hash
)

// KeySchemes are all.
func KeySchemes() []string { return []string{FlatKeys, PathKeys, HashKeys} }

// Get looks a key up. The value is valid until the next call.
type Get func(key []byte) (value []byte, found bool, err error)

// Keys visits the keys that go-ethereum asks its store for while it plays a list against the state
// that the store has: of each block every key once, since what a block has read stays in memory
// until it ends.
func Keys(scheme string, get Get, list Source, visit func(key []byte, found bool) error) error {
	k := &keys{
		scheme: scheme,
		get:    get,
		visit:  visit,
		player: NewStateReplayer(Info{}),
		hasher: mpt.NewHasher(),
	}

	begin := map[string]func() error{FlatKeys: k.snapshotDone, HashKeys: k.findRoot}[scheme]
	if begin != nil {
		if err := begin(); err != nil {
			return err
		}
	}

	first := true
	return Each(list, func(b *Block) error {
		if err := k.block(b); err != nil {
			return fmt.Errorf("block %d: %w", b.Number, err)
		}

		// Blocks make few accounts; those of the system, and what is deployed at one address on
		// many chains, are everywhere.
		if first && k.present < (k.accounts+3)/4 {
			return fmt.Errorf("block %d: %d of its %d accounts are in the database under %s "+
				"keys, account %v is not: the list is of another chain, or "+
				"the database keeps its state otherwise (--scheme %s)", b.Number, k.present,
				k.accounts, scheme, k.absent, othersOf(scheme))
		}

		first = false
		return nil
	})
}

func othersOf(scheme string) string {
	others := slices.DeleteFunc(KeySchemes(), func(other string) bool { return other == scheme })
	return strings.Join(others, " or ")
}

type keys struct {
	scheme            string
	get               Get
	visit             func([]byte, bool) error
	player            *StateReplayer // for hashes
	hasher            *mpt.Hasher
	root              []byte
	asked             map[string][]byte // of this block; nil: absent
	found             map[Address]*stored
	accounts, present int
	absent            Address // the first of these
}

// stored is what an account's record says.
type stored struct{ storageRoot, codeHash []byte }

// ask visits a key unless its block has asked for it.
func (k *keys) ask(key []byte) ([]byte, error) {
	if value, asked := k.asked[string(key)]; asked {
		return value, nil
	}

	value, found, err := k.get(key)
	if err != nil {
		return nil, fmt.Errorf("get key %x: %w", key, err)
	}

	value = bytes.Clone(value)
	if !found {
		value = nil
	}

	k.asked[string(key)] = value
	return value, k.visit(key, found)
}

// snapshotDone holds the snapshot's generator to having ended: accounts behind it have no flat
// record yet.
func (k *keys) snapshotDone() error {
	value, found, err := k.get([]byte("SnapshotGenerator"))
	if err != nil || !found {
		return err
	}

	record := rlp{rest: value}
	fields := record.list()
	fields.number(1) // wiping
	done := fields.number(1)
	marker := fields.string(64)
	if fields.err != nil || len(done) > 0 {
		return nil // of a version that keeps its progress otherwise
	}

	at := "before the first account"
	if len(marker) >= 32 {
		at = fmt.Sprintf("at the account with the hash %x", marker[:32])
	}

	return fmt.Errorf("the database's snapshot is not complete (it was being made, and is %s): "+
		"let the node finish it, or use --scheme %s", at, othersOf(FlatKeys))
}

// findRoot follows the marker of the newest block to its header.
func (k *keys) findRoot() error {
	wrong := errors.New("the database names no newest block (LastBlock): " +
		"it is not a chaindata of go-ethereum, or the node was killed before its first block; " +
		"--scheme flat needs no marker")
	value := func(key []byte) []byte {
		value, found, err := k.get(key)
		if err != nil || !found {
			return nil
		}
		return bytes.Clone(value)
	}

	hash := value([]byte("LastBlock"))
	number := value(append([]byte("H"), hash...))
	header := rlp{rest: value(bytes.Join([][]byte{[]byte("h"), number, hash}, nil))}
	if hash == nil || number == nil || header.rest == nil {
		return wrong
	}

	fields := header.list()
	fields.item() // parent
	fields.item() // uncles
	fields.item() // miner
	if k.root = fields.bytes(32); fields.err != nil {
		return fmt.Errorf("%w: %w", wrong, fields.err)
	}

	return nil
}

func (k *keys) block(b *Block) error {
	k.asked, k.found = map[string][]byte{}, map[Address]*stored{}
	for _, a := range b.Accesses {
		if !a.First {
			continue
		}

		account, err := k.account(a.Address)
		if err != nil {
			return fmt.Errorf("account %v: %w", a.Address, err)
		}

		switch {
		case account == nil || a.Kind == Account:
		case a.Kind == Code:
			if len(account.codeHash) == 32 && !bytes.Equal(account.codeHash, emptyCode[:]) {
				_, err = k.ask(append([]byte("c"), account.codeHash...))
			}
		default:
			err = k.slot(a.Address, a.Slot, account)
		}

		if err != nil {
			return fmt.Errorf("account %v: %w", a.Address, err)
		}
	}

	return nil
}

// account asks for an account; nil: there is none.
func (k *keys) account(a Address) (*stored, error) {
	if known, asked := k.found[a]; asked {
		return known, nil
	}

	k.accounts++
	name := k.player.Name(a)
	var value []byte
	var err error
	if k.scheme == FlatKeys {
		value, err = k.ask(append([]byte("a"), name[:]...))
	} else {
		value, err = k.walk([]byte("A"), k.root, name[:])
	}

	if err != nil {
		return nil, err
	}

	if value == nil {
		if k.accounts == k.present+1 {
			k.absent = a
		}
		k.found[a] = nil
		return nil, nil
	}

	k.present++
	record := rlp{rest: value}
	fields := record.list()
	fields.string(8)
	fields.string(32)
	// both empty in a flat record without code or slots
	s := &stored{fields.string(32), fields.string(32)}
	if fields.err != nil {
		return nil, fmt.Errorf("%w: the record %x", fields.err, value)
	}

	k.found[a] = s
	return s, nil
}

func (k *keys) slot(a Address, slot Word, account *stored) error {
	name, key := k.player.Name(a), k.player.Key(slot)
	if k.scheme == FlatKeys {
		_, err := k.ask(bytes.Join([][]byte{[]byte("o"), name[:], key[:]}, nil))
		return err
	}

	if bytes.Equal(account.storageRoot, emptyRoot[:]) {
		return nil
	}

	_, err := k.walk(append([]byte("O"), name[:]...), account.storageRoot, key[:])
	return err
}

// walk goes down a trie to the value of a hashed key; nil: there is none.
func (k *keys) walk(prefix, root, hashed []byte) ([]byte, error) {
	path, hash := mpt.AppendNibbles(nil, hashed, 0, mpt.PathNibbles), root
	for at := 0; ; {
		key := hash
		if k.scheme == PathKeys {
			key = append(bytes.Clone(prefix), path[:at]...)
		}

		node, err := k.ask(key)
		if err != nil {
			return nil, err
		}

		if node == nil {
			if at == 0 {
				return nil, nil // no trie: told by the caller's count of what is present
			}

			return nil, fmt.Errorf("the node under key %x is missing: the database does not hold "+
				"the whole state of its newest block; let the node finish its synchronisation "+
				"and stop it, or use --scheme flat", key)
		}

		for node != nil { // nodes that lie within others follow each other here
			parts := partsOf(node)
			var next []byte
			switch {
			case len(parts) == 17 && at < len(path):
				next = parts[path[at]]
				at++
			case len(parts) == 2 && len(parts[0]) > 0:
				encoded := parts[0]
				nibbles := mpt.AppendNibbles(nil, encoded[1:], 0, 2*(len(encoded)-1))
				if encoded[0]&0x10 != 0 {
					nibbles = append([]byte{encoded[0] & 15}, nibbles...)
				}

				if !bytes.HasPrefix(path[at:], nibbles) {
					return nil, nil
				}

				at += len(nibbles)
				if next = parts[1]; encoded[0]&0x20 != 0 {
					return next, nil
				}
			default:
				return nil, fmt.Errorf("key %x holds no node of a trie", key)
			}

			if len(next) == 0 {
				return nil, nil
			}

			if node = nil; len(next) == 32 {
				hash = next
			} else {
				node = next
			}
		}
	}
}

// partsOf are the items of a trie's node: of each its payload, or its whole text where it is a
// list; none where it is no node.
func partsOf(node []byte) (parts [][]byte) {
	whole := rlp{rest: node}
	items := whole.list()
	for items.more() {
		before := items.rest
		payload, isList := items.item()
		if isList {
			payload = before[:len(before)-len(items.rest)]
		}

		parts = append(parts, payload)
	}

	if items.err != nil || whole.err != nil {
		return nil
	}

	return parts
}
