package layouttest

import (
	"testing"

	"github.com/statelab/statelab/layout"
)

// Workloads are what the suite plays to every layout, by name.
func Workloads() map[string]Workload {
	return map[string]Workload{
		manyAccounts:            {Seed: 1, Accounts: 900, Slots: 80, Changes: 12},
		fewAccounts:             {Seed: 2, Accounts: 12, Slots: 400, Changes: 8},
		"keys that differ late": {Seed: 3, Accounts: 300, Slots: 100, Changes: 12, Late: true},
	}
}

const (
	manyAccounts = "many accounts"
	fewAccounts  = "few accounts"
)

func (s suite) workload(name string) Workload {
	w := Workloads()[name]
	w.KeepContracts = s.e.KeepsContracts
	return w
}

// testBlocks changes a state block by block, reopens it now and then, and holds
// every root and every lookup against the reference. At the end it deletes
// everything.
func (s suite) testBlocks(t *testing.T) {
	blocks, reopens := uint64(10_000), uint64(20)
	if testing.Short() {
		blocks, reopens = 120, 4
	}
	for name := range Workloads() {
		t.Run(name, func(t *testing.T) {
			w := s.workload(name)
			dir := newDir(t)
			o := s.create(t, dir)
			for o.Block() < blocks {
				must(t, w.Play(t.Context(), o, o.reference, s.info.Root))
				if o.Block()%(blocks/reopens) == blocks/reopens/2 {
					s.compare(t, o, w)
					o = s.turn(t, o, dir)
				}
			}
			s.compare(t, o, w)
			t.Logf("%d blocks, %d accounts, root %x", o.Block(), o.reference.Accounts(), o.Root())
			s.deleteAll(t, o, dir, w)
		})
	}
}

// deleteAll deletes all accounts that can be deleted, then makes some again.
func (s suite) deleteAll(t *testing.T, o *open, dir string, w Workload) {
	var all []layout.Change
	for n := range w.Accounts {
		if !w.KeepContracts || !w.hasSlots(n) {
			all = append(all, layout.Change{Account: w.Hash(n)})
		}
	}
	s.commit(t, o, all...)
	if s.info.Root == layout.EthereumRoot && !w.KeepContracts && o.Root() != layout.EmptyRoot {
		t.Errorf("root %x without accounts", o.Root())
	}
	o = s.turn(t, o, dir)
	s.compare(t, o, w)
	must(t, w.Play(t.Context(), o, o.reference, s.info.Root))
	s.compare(t, o, w)
	s.turn(t, o, dir)
}

// turn closes a state, has it checked and opens it again.
func (s suite) turn(t *testing.T, o *open, dir string) *open {
	t.Helper()
	must(t, o.Settle(t.Context()))
	want := Head{o.Block(), o.Root(), o.reference.Accounts()}
	must(t, o.close())
	if s.e.Sound != nil {
		must(t, s.e.Sound(dir, want))
	}
	again := s.reopen(t, dir)
	again.reference = o.reference
	if again.Block() != want.Block || again.Root() != want.Root {
		t.Fatalf("reopened at block %d with root %x, closed at %d with %x", again.Block(), again.Root(), want.Block, want.Root)
	}
	return again
}

// testTwoStatesAgree feeds two states the same blocks, one of them reopened, and a
// third one that gets one account more: a root that does not tell commits to
// nothing.
func (s suite) testTwoStatesAgree(t *testing.T) {
	w := s.workload(manyAccounts)
	dir := newDir(t)
	one, two, other := s.create(t, newDir(t)), s.create(t, dir), s.create(t, newDir(t))
	odd := layout.Change{Account: w.Hash(w.Accounts), New: &layout.Account{Nonce: 1, CodeHash: layout.EmptyCode}}
	for range 60 {
		must(t, w.Play(t.Context(), one, one.reference, s.info.Root))
		must(t, w.Play(t.Context(), two, two.reference, s.info.Root))
		changes := w.Block(one.Block())
		if one.Block() == 40 {
			changes = append(changes, odd)
		}
		s.commit(t, other, changes...)
		if one.Root() != two.Root() {
			t.Fatalf("block %d: roots %x and %x of the same blocks", one.Block(), one.Root(), two.Root())
		}
		if differ := one.Block() >= 40; (one.Root() != other.Root()) != differ {
			t.Fatalf("block %d: the root of another state differs: %v, want %v", one.Block(), !differ, differ)
		}
		if one.Block() == 30 {
			two = s.turn(t, two, dir)
		}
	}
}
