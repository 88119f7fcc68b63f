// Package flat keeps accounts and slots as plain keys of a key-value engine: no
// trie, no root. It is the floor: no layout that commits to its state can look an
// account up with less than its engine takes for one key.
//
// Goals: one Get a lookup, whatever the engine.
// Non-goals: a root, proofs, old blocks; tuning of engines, which have profiles.
package flat

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
)

// Layout is a flat table on an engine.
type Layout struct {
	Name   string // such as flat-pebble
	Engine engine.Engine
	// Profile of the engine; "" is its first.
	Profile string
	// Built are options of the engine for a table that has been built and is opened again.
	Built map[string]string
}

// Info describes the layout.
func (l Layout) Info() layout.Info {
	e := l.Engine.Info()
	return layout.Info{
		Name:       l.Name,
		Version:    e.Name + " " + e.Version,
		Licence:    e.Licence,
		Root:       layout.NoRoot,
		Durability: "a commit syncs the engine: a killed process keeps it",
		History:    "the newest block",
		Profiles: []engine.Profile{
			{Name: profile, About: "accounts and slots as keys of " + e.Name},
		},
	}
}

const profile = "default"

// Check names what is wrong with o.
func (l Layout) Check(o layout.Options) (errs []error) {
	if o.Profile != "" && o.Profile != profile {
		errs = append(errs, fmt.Errorf("unknown profile %q: use %s", o.Profile, profile))
	}
	return append(errs, l.Engine.Check(l.options(o))...)
}

func (l Layout) options(o layout.Options) engine.Options {
	if !o.Create && len(l.Built) > 0 {
		built := maps.Clone(l.Built)
		maps.Copy(built, o.Overrides)
		o.Overrides = built
	}

	return engine.Options{
		Dir:         o.Dir,
		Profile:     l.Profile,
		Create:      o.Create,
		ReadOnly:    o.ReadOnly,
		MemoryBytes: o.MemoryBytes,
		Direct:      o.Direct,
		Overrides:   o.Overrides,
		Log:         o.Log,
	}
}

// Open opens or creates the table in o.Dir.
func (l Layout) Open(ctx context.Context, o layout.Options) (layout.State, error) {
	if err := errors.Join(l.Check(o)...); err != nil {
		return nil, err
	}

	db, err := l.Engine.Open(ctx, l.options(o))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}

	t := &table{name: l.Name, dir: o.Dir, db: db}
	if err := t.prepare(o); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: open %s: %w", l.Name, o.Dir, err), db.Close())
	}

	return t, nil
}

// Keys are a letter and the hashes. The slots of an account lie together.
const (
	accountPrefix = 'a'
	slotPrefix    = 's'
	blockKey      = 'b' // the newest block's number
)

func appendAccountKey(dst []byte, account layout.Hash) []byte {
	return append(append(dst, accountPrefix), account[:]...)
}

func appendSlotKey(dst []byte, account, key layout.Hash) []byte {
	return append(append(append(dst, slotPrefix), account[:]...), key[:]...)
}

// slotRange are the keys of all slots of an account: from <= key < to.
func slotRange(account layout.Hash) (from, to []byte) {
	from = append([]byte{slotPrefix}, account[:]...)
	to = append([]byte{slotPrefix}, account[:]...)
	for i := len(to) - 1; ; i-- {
		if to[i]++; to[i] != 0 { // the prefix is not 0xff: it stops a carry
			return from, to[:i+1]
		}
	}
}

// appendAccount writes the nonce, the balance without leading zeros behind its
// length, and the code's hash unless there is none.
func appendAccount(dst []byte, a *layout.Account) []byte {
	balance := bytes.TrimLeft(a.Balance[:], "\x00")
	dst = binary.AppendUvarint(dst, a.Nonce)
	dst = append(append(dst, byte(len(balance))), balance...)
	if a.CodeHash != layout.EmptyCode {
		dst = append(dst, a.CodeHash[:]...)
	}
	return dst
}

var errRecord = errors.New("it is no record of an account")

func parseAccount(text []byte) (a layout.Account, err error) {
	nonce, n := binary.Uvarint(text)
	if n <= 0 || n == len(text) {
		return a, errRecord
	}

	length, rest := int(text[n]), text[n+1:]
	if length > len(a.Balance) || length > len(rest) {
		return a, errRecord
	}

	a.Nonce = nonce
	copy(a.Balance[len(a.Balance)-length:], rest[:length])
	switch rest = rest[length:]; len(rest) {
	case 0:
		a.CodeHash = layout.EmptyCode
	case len(a.CodeHash):
		copy(a.CodeHash[:], rest)
	default:
		return a, errRecord
	}

	return a, nil
}
