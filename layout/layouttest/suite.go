// Package layouttest is the admission suite for layouts of state: what every layout
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
// Read in this order: suite.go, roots.go, contract.go, kill.go, workload.go.
package layouttest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// Expectations say what is special to a layout.
type Expectations struct {
	// Options of every state; directory, Create and ReadOnly are the suite's.
	Options layout.Options
	// KeepsContracts: an account that has code cannot be deleted; Change fails.
	KeepsContracts bool
	// Sound checks the files of a closed state; nil where a layout has no checker.
	Sound func(dir string, want Head) error
}

// Head is the newest block.
type Head struct {
	Block    uint64
	Root     layout.Hash
	Accounts int
}

// Admit tests l, briefly with -short. The suite runs the test that called it again
// in a child process, to kill it: what stands before the call must bear that.
func Admit(t *testing.T, l layout.Layout, e Expectations) {
	s := suite{l, l.Info(), e}
	if dir := os.Getenv(childDir); dir != "" {
		s.child(dir)
	}
	for _, c := range []struct {
		name  string
		run   func(suite, *testing.T)
		apply bool
	}{
		{"Info", suite.testInfo, true},
		{"Check", suite.testCheck, true},
		{"EmptyBlocks", suite.testEmptyBlocks, true},
		{"BuffersAreTheCallers", suite.testBuffersAreTheCallers, true},
		{"Refresh", suite.testRefresh, true},
		{"CountsOnlyGrow", suite.testCountsOnlyGrow, true},
		{"UncommittedIsDropped", suite.testUncommittedIsDropped, true},
		{"CreateNeedsAnEmptyDirectory", suite.testCreateNeedsAnEmptyDirectory, true},
		{"NotAState", suite.testNotAState, true},
		{"ReadOnly", suite.testReadOnly, true},
		{"ClosedHandlesAnswerErrors", suite.testClosedHandlesAnswerErrors, true},
		{"ContractsStay", suite.testContractsStay, e.KeepsContracts},
		{"TwoStatesAgree", suite.testTwoStatesAgree, s.info.Root != layout.NoRoot},
		{"Blocks", suite.testBlocks, true},
		{"SurvivesKills", suite.testSurvivesKills, true},
	} {
		if c.apply {
			t.Run(c.name, func(t *testing.T) { c.run(s, t) })
		}
	}
}

type suite struct {
	layout layout.Layout
	info   layout.Info
	e      Expectations
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

func newDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
