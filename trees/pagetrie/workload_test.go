package pagetrie

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/state"
)

// churn makes random blocks over few keys, so that they come, change, go and come
// back, alone and in crowds.
type churn struct {
	rng            *rand.Rand
	hasher         *mpt.Hasher
	accounts, keys int
	late           bool // keys that differ late only: deep tries, nodes shorter than a hash
}

func newChurn(seed uint64, accounts, keys int, late bool) *churn {
	return &churn{rand.New(rand.NewPCG(seed, 1)), mpt.NewHasher(), accounts, keys, late}
}

func (c *churn) key(n int) (h state.Hash) {
	if c.late {
		h[29], h[31] = byte(n>>8), byte(n)
		return h
	}
	return c.hasher.Sum(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (c *churn) block() (changes []state.Change) {
	seen := map[int]bool{}
	deletes := c.rng.IntN(10) // more in some blocks
	for range c.rng.IntN(12) {
		n := c.rng.IntN(c.accounts)
		if seen[n] {
			continue
		}
		seen[n] = true
		changes = append(changes, c.change(n, deletes))
	}
	return changes
}

func (c *churn) change(n, deletes int) state.Change {
	change := state.Change{Account: c.key(n)}
	if c.rng.IntN(20) < deletes {
		return change
	}
	change.New = &state.Account{Nonce: c.rng.Uint64() >> c.rng.IntN(64), CodeHash: state.EmptyCode}
	for i := c.rng.IntN(33); i < 32; i++ {
		change.New.Balance[i] = byte(c.rng.Uint32())
	}
	if n%3 > 0 {
		return change
	}
	change.New.CodeHash = c.key(n)
	many := 8
	if c.rng.IntN(8) == 0 {
		many = 2 * c.keys
	}
	slots := map[int]bool{}
	for range c.rng.IntN(many) {
		k := c.rng.IntN(c.keys)
		if slots[k] {
			continue
		}
		slots[k] = true
		slot := state.Slot{Key: c.key(k)}
		if c.rng.IntN(20) >= deletes {
			value := make([]byte, 1+c.rng.IntN(32))
			for i := range value {
				value[i] = byte(c.rng.Uint32())
			}
			slot.Value = bytes.TrimLeft(value, "\x00")
		}
		change.Slots = append(change.Slots, slot)
	}
	return change
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, o state.Options) *pageState {
	t.Helper()
	s, err := Layout{}.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s.(*pageState)
}

// commit makes a block in the state and in the reference and compares roots.
func commit(t testing.TB, s *pageState, reference *mpt.Reference, changes []state.Change) {
	t.Helper()
	for _, c := range changes {
		must(t, s.Change(c))
		must(t, reference.Change(c))
	}
	root, err := s.Commit(t.Context())
	must(t, err)
	if want := reference.Root(); root != want || s.Root() != want {
		t.Fatalf("block %d: root %x, want %x", s.Block(), root, want)
	}
}

// compare looks up every key that a workload can have made.
func compare(t testing.TB, r state.Reader, c *churn, reference *mpt.Reference) {
	t.Helper()
	for n := range c.accounts {
		account := c.key(n)
		got, found, err := r.Account(account)
		must(t, err)
		if want, there := reference.Account(account); found != there || got != want {
			t.Fatalf("account %x: %+v, %v; want %+v, %v", account, got, found, want, there)
		}
		for k := range c.keys {
			key := c.key(k)
			value, found, err := r.Slot(account, key, nil)
			must(t, err)
			if want := reference.Slot(account, key); found != (want != nil) || !bytes.Equal(value, want) {
				t.Fatalf("slot %x of account %x: %x, %v; want %x", key, account, value, found, want)
			}
		}
	}
}

func check(t testing.TB, dir string) Checked {
	t.Helper()
	checked, err := Check(dir)
	must(t, err)
	return checked
}
