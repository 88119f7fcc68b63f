package layouttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// Workload makes random blocks over few keys, so that accounts and slots come,
// change, go and come back, alone and in crowds. Block n of a workload is the same
// in every process.
type Workload struct {
	Seed     uint64
	Accounts int // different ones; every third has slots
	Slots    int // different keys of slots, shared by all accounts
	Changes  int // a block has 0 to so many
	// Late: all keys differ late only, else every fourth does. Paths are long then,
	// and nodes shorter than a hash.
	Late bool
	// KeepContracts deletes no account that has slots, nor its code.
	KeepContracts bool
	// BalanceBytes are those of the largest balance; 0: 32.
	BalanceBytes int
}

// Hash names account n, or slot n of any account.
func (w Workload) Hash(n int) (h layout.Hash) {
	if !w.Late && n%4 < 3 {
		return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}

	if !w.Late {
		n /= 4
	}

	h[29], h[31] = byte(n>>9), byte(n>>1)
	if n&1 == 0 {
		h[28] = 1 // no account is all zeros: go-ethereum means the account trie by that
		return h
	}

	for i := range h { // from all ones down
		h[i] = ^h[i]
	}

	return h
}

// Block makes block n.
func (w Workload) Block(n uint64) (changes []layout.Change) {
	rng := rand.New(rand.NewPCG(w.Seed, n))
	deletes := rng.IntN(10) // of 20; more in some blocks
	if rng.IntN(16) == 0 {
		deletes = 19
	}

	for _, account := range someOf(rng, w.Changes, w.Accounts) {
		changes = append(changes, w.change(rng, account, deletes))
	}

	return changes
}

func (w Workload) change(rng *rand.Rand, account, deletes int) layout.Change {
	c := layout.Change{Account: w.Hash(account)}
	hasSlots := w.hasSlots(account)
	if rng.IntN(20) < deletes && !(hasSlots && w.KeepContracts) {
		return c
	}

	c.New = &layout.Account{Nonce: rng.Uint64() >> rng.IntN(64), CodeHash: layout.EmptyCode}
	fill(rng, c.New.Balance[rng.IntN(33):])
	if w.BalanceBytes > 0 {
		clear(c.New.Balance[:len(c.New.Balance)-w.BalanceBytes])
	}

	if !hasSlots {
		return c
	}

	if w.KeepContracts || rng.IntN(8) > 0 {
		c.New.CodeHash = w.Hash(account + rng.IntN(2))
	}

	maximum := 8
	if rng.IntN(8) == 0 {
		maximum = w.Slots
	}

	for _, key := range someOf(rng, maximum, w.Slots) {
		slot := layout.Slot{Key: w.Hash(key)}
		if rng.IntN(20) >= deletes {
			slot.Value = make([]byte, 1+rng.IntN(2)*rng.IntN(32))
			fill(rng, slot.Value)
			slot.Value[0] |= 1
		}

		c.Slots = append(c.Slots, slot)
	}

	return c
}

func (w Workload) hasSlots(account int) bool { return account%3 == 0 }

// someOf draws up to most different numbers below n.
func someOf(rng *rand.Rand, maximum, n int) (drawn []int) {
	seen := map[int]bool{}
	for range rng.IntN(maximum + 1) {
		if i := rng.IntN(n); !seen[i] {
			seen[i] = true
			drawn = append(drawn, i)
		}
	}
	return drawn
}

func fill(rng *rand.Rand, bytes []byte) {
	for i := range bytes {
		bytes[i] = byte(rng.Uint32())
	}
}

// Play commits the block after s's newest one to s, and makes it in the reference,
// which stands where s does. It fails if their roots differ.
func (w Workload) Play(
	ctx context.Context, s layout.State, reference *mpt.Reference, rule layout.RootRule,
) error {
	return Commit(ctx, s, reference, rule, w.Block(s.Block()+1))
}

// Commit is Play with changes of the caller's. It overwrites their slots as soon as
// the state has seen them.
func Commit(
	ctx context.Context, s layout.State, reference *mpt.Reference, rule layout.RootRule,
	changes []layout.Change,
) error {
	block := s.Block() + 1
	for _, c := range changes {
		if err := reference.Change(c); err != nil {
			return fmt.Errorf("block %d: reference: %w", block, err)
		}

		if err := s.Change(c); err != nil {
			return fmt.Errorf("block %d: %w", block, err)
		}

		for i := range c.Slots {
			c.Slots[i].Key = layout.Hash{1}
			clear(c.Slots[i].Value)
		}
	}

	root, err := s.Commit(ctx)
	if err != nil {
		return fmt.Errorf("block %d: %w", block, err)
	}

	if s.Block() != block || s.Root() != root {
		return fmt.Errorf("block %d with root %x was committed, the state is at %d with %x", block,
			root, s.Block(), s.Root())
	}

	if err := expectRoot(root, reference, rule); err != nil {
		return fmt.Errorf("block %d: %w", block, err)
	}

	return nil
}

func expectRoot(root layout.Hash, reference *mpt.Reference, rule layout.RootRule) error {
	want := root // of the layout's own: nobody else knows it
	switch rule {
	case layout.EthereumRoot:
		want = reference.Root()
	case layout.NoRoot:
		want = layout.Hash{}
	}

	if root != want {
		return fmt.Errorf("root %x, want %x", root, want)
	}

	return nil
}

// Replayed is what the first blocks make.
func (w Workload) Replayed(blocks uint64) (*mpt.Reference, error) {
	reference := mpt.NewReference()
	for n := uint64(1); n <= blocks; n++ {
		for _, c := range w.Block(n) {
			if err := reference.Change(c); err != nil {
				return nil, fmt.Errorf("block %d: %w", n, err)
			}
		}
	}

	return reference, nil
}

// Content is what lookups must find: the reference, or a copy of it.
type Content interface {
	Account(account layout.Hash) (a layout.Account, found bool)
	Slot(account, key layout.Hash) []byte // nil: there is none
}

// Compare looks up every account and slot that the workload can make, and some
// that it cannot.
func (w Workload) Compare(r layout.Reader, want Content) error {
	value := make([]byte, 0, 32)
	for n := range w.Accounts {
		account := w.Hash(n)
		got, found, err := r.Account(account)
		if wanted, exists := want.Account(account); err != nil || found != exists ||
			found && got != wanted {
			return fmt.Errorf("account %x: %+v, %v, error %w; want %+v, %v", account, got, found,
				err, wanted, exists)
		}

		from, to := 0, w.Slots+1
		if !w.hasSlots(n) {
			from, to = n%w.Slots, n%w.Slots+1
		}

		for k := from; k < to; k++ {
			key := w.Hash(k)
			got, found, err := r.Slot(account, key, value)
			if wanted := want.Slot(account, key); err != nil || found != (wanted != nil) ||
				!bytes.Equal(got, wanted) {
				return fmt.Errorf("slot %x of account %x: %x, %v, error %w; want %x", key, account,
					got, found, err, wanted)
			}
		}
	}

	if a, found, err := r.Account(w.Hash(w.Accounts)); err != nil || found {
		return fmt.Errorf("account %x, which no block makes: %+v, %v, error %w",
			w.Hash(w.Accounts), a, found, err)
	}

	return nil
}
