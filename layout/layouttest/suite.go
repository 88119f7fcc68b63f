// Package layouttest is the conformance suite for layouts of state: what every layout
// has to show before its figures are worth anything. It runs the real layout on
// real files, and holds roots and lookups against a trie in memory that shares no
// code with any layout but the encoding of nodes, and is itself held against
// go-ethereum's (fixtures/gethchain).
//
// Its workload serves tests of one layout, too: of its checker, its file, its
// readers of old blocks.
//
// Non-goals: speed, readers of old blocks, and what is special to one layout.
//
// Read in this order: suite.go, contract.go, workload.go.
package layouttest

import (
	"os"
	"testing"

	"github.com/statelab/statelab/engine/conformance"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

var must, newDir = conformance.Must, conformance.NewDir

// Expectations say what is special to a layout.
type Expectations struct {
	// Options of every state; directory, Create and ReadOnly are the suite's.
	Options layout.Options
	// KeepsContracts: an account that has code cannot be deleted; Change fails.
	KeepsContracts bool
	// BalanceBytes are those of the largest balance that it takes; 0: 32.
	BalanceBytes int
	// Sound checks the files of a closed state; nil where a layout has no checker.
	Sound func(dir string, want Head) error
}

// Head is the newest block.
type Head struct {
	Block    uint64
	Root     layout.Hash
	Accounts int
}

// TestLayout tests l, briefly with -short. The suite runs the test that called it again
// in a child process, to kill it: what stands before the call must bear that.
func TestLayout(t *testing.T, l layout.Layout, e Expectations) {
	s := suite{l, l.Info(), e, t.Name()}
	if dir := os.Getenv(childDir); dir != "" {
		s.child(dir)
	}

	run := conformance.Runner(t, s)
	run("Info", suite.testInfo, true)
	run("Check", suite.testCheck, true)
	run("EmptyBlocks", suite.testEmptyBlocks, true)
	run("BuffersAreTheCallers", suite.testBuffersAreTheCallers, true)
	run("Refresh", suite.testRefresh, true)
	run("CountsOnlyGrow", suite.testCountsOnlyGrow, true)
	run("UncommittedIsDropped", suite.testUncommittedIsDropped, true)
	run("CreateNeedsAnEmptyDirectory", suite.testCreateNeedsAnEmptyDirectory, true)
	run("NotAState", suite.testNotAState, true)
	run("ReadOnly", suite.testReadOnly, true)
	run("ClosedHandlesAnswerErrors", suite.testClosedHandlesAnswerErrors, true)
	run("CloseEndsAllWork", suite.testCloseEndsAllWork, true)
	run("ContractsStay", suite.testContractsStay, e.KeepsContracts)
	run("TwoStatesAgree", suite.testTwoStatesAgree, s.info.Root != layout.NoRoot)
	run("Blocks", suite.testBlocks, true)
	run("SurvivesKills", suite.testSurvivesKills, true)
}

type suite struct {
	layout layout.Layout
	info   layout.Info
	e      Expectations
	test   string // that called TestLayout
}

// options of the state in dir. The counts are those of the largest workload.
func (s suite) options(dir string) layout.Options {
	o := s.e.Options
	o.Dir = dir
	if o.Accounts == 0 {
		o.Accounts, o.Slots = 1000, 30_000
	}
	return o
}

// create makes a state that is closed when the test ends, unless it is before.
func (s suite) create(t *testing.T, dir string) *open {
	t.Helper()
	o := s.options(dir)
	o.Create = true
	return s.open(t, o)
}

func (s suite) reopen(t *testing.T, dir string) *open {
	t.Helper()
	return s.open(t, s.options(dir))
}

func (s suite) open(t *testing.T, o layout.Options) *open {
	t.Helper()
	opened, err := s.layout.Open(t.Context(), o)
	must(t, err)
	handle := &open{State: opened, reference: mpt.NewReference()}
	t.Cleanup(func() { must(t, handle.close()) })
	return handle
}

// open is an open state and what it should hold.
type open struct {
	layout.State
	reference *mpt.Reference
	closed    bool
}

// close closes the state unless it is closed.
func (o *open) close() error {
	if o.closed {
		return nil
	}
	o.closed = true
	return o.Close()
}

func (s suite) commit(t *testing.T, o *open, changes ...layout.Change) {
	t.Helper()
	must(t, Commit(t.Context(), o, o.reference, s.info.Root, changes))
}

// compare looks up all of w.
func (s suite) compare(t *testing.T, o *open, w Workload) {
	t.Helper()
	r := reader(t, o)
	must(t, w.Compare(r, o.reference))
	must(t, r.Close())
}

func reader(t *testing.T, s layout.State) layout.Reader {
	t.Helper()
	r, err := s.Reader()
	must(t, err)
	return r
}

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
	w.KeepContracts, w.BalanceBytes = s.e.KeepsContracts, s.e.BalanceBytes
	return w
}

// testBlocks changes a state block by block, reopens it now and then, and holds
// every root and every lookup against the reference. At the end it deletes
// everything.
func (s suite) testBlocks(t *testing.T) {
	blocks, reopens := uint64(10_000), uint64(20)
	if testing.Short() {
		blocks, reopens = 40, 2
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
		t.Fatalf("reopened at block %d with root %x, closed at %d with %x", again.Block(),
			again.Root(), want.Block, want.Root)
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
	odd := layout.Change{
		Account: w.Hash(w.Accounts),
		New:     &layout.Account{Nonce: 1, CodeHash: layout.EmptyCode},
	}

	for range 60 {
		must(t, w.Play(t.Context(), one, one.reference, s.info.Root))
		must(t, w.Play(t.Context(), two, two.reference, s.info.Root))
		changes := w.Block(one.Block())
		if one.Block() == 40 {
			changes = append(changes, odd)
		}

		s.commit(t, other, changes...)
		if one.Root() != two.Root() {
			t.Fatalf("block %d: roots %x and %x of the same blocks", one.Block(), one.Root(),
				two.Root())
		}

		if differ := one.Block() >= 40; (one.Root() != other.Root()) != differ {
			t.Fatalf("block %d: the root of another state differs: %v, want %v", one.Block(),
				!differ, differ)
		}

		if one.Block() == 30 {
			two = s.turn(t, two, dir)
		}
	}
}
