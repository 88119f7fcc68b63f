package layouttest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/statelab/statelab/engine/conformance"
	"github.com/statelab/statelab/layout"
)

// Names in states of a few accounts.
var (
	plain    = layout.Hash{0: 0x11, 31: 1}
	contract = layout.Hash{0: 0x11, 31: 2}
	absent   = layout.Hash{0: 0x12}
	slot     = layout.Hash{0: 0x21, 31: 1}
)

// account is a change to an account without code.
func account(name layout.Hash, nonce uint64) layout.Change {
	return layout.Change{
		Account: name,
		New:     &layout.Account{Nonce: nonce, CodeHash: layout.EmptyCode},
	}
}

// withSlot is a change to an account that has code.
func withSlot(name layout.Hash, nonce uint64, value ...byte) layout.Change {
	c := account(name, nonce)
	c.New.CodeHash = layout.Hash{1}
	c.Slots = []layout.Slot{{Key: slot, Value: value}}
	return c
}

func (s suite) testInfo(t *testing.T) {
	i := s.info
	if i.Name == "" || i.Version == "" || i.Licence == "" || i.Durability == "" ||
		i.History == "" || len(i.Profiles) == 0 {
		t.Errorf("incomplete: %+v", i)
	}

	switch i.Root {
	case layout.EthereumRoot, layout.BinaryRoot, layout.OwnRoot, layout.NoRoot:
	default:
		t.Errorf("roots by the rule %q", i.Root)
	}

	for _, p := range i.Profiles {
		o := s.options(newDir(t))
		o.Create, o.Profile = true, p.Name
		if errs := s.layout.Check(o); len(errs) > 0 || p.Name == "" || p.About == "" {
			t.Errorf("profile %+v: %v", p, errs)
		}
	}
}

// testCheck makes mistakes, alone and all at once.
func (s suite) testCheck(t *testing.T) {
	mistakes := map[string]func(*layout.Options){
		"unknown profile": func(o *layout.Options) { o.Profile = "no-such-profile" },
		"unknown option": func(o *layout.Options) {
			o.Overrides = map[string]string{"no-such-option": "1"}
		},
		"negative budget": func(o *layout.Options) { o.MemoryBytes = -1 },
	}

	all := s.options(newDir(t))
	all.Create = true
	for name, make := range mistakes {
		o := s.options(newDir(t))
		o.Create = true
		make(&o)
		make(&all)
		if errs := s.layout.Check(o); len(errs) != 1 {
			t.Errorf("%s: Check names %v", name, errs)
		}

		if opened, err := s.layout.Open(t.Context(), o); err == nil {
			t.Errorf("%s: opens", name)
			must(t, opened.Close())
		}

		if _, err := os.Stat(o.Dir); err == nil {
			t.Errorf("%s: the directory was made", name)
		}
	}

	if errs := s.layout.Check(all); len(errs) != len(mistakes) {
		t.Errorf("%d mistakes: Check names %v", len(mistakes), errs)
	}
}

func (s suite) testEmptyBlocks(t *testing.T) {
	dir := newDir(t)
	o := s.create(t, dir)
	if o.Block() != 0 {
		t.Errorf("a new state is at block %d", o.Block())
	}

	must(t, expectRoot(o.Root(), o.reference, s.info.Root))
	s.commit(t, o)
	s.commit(t, o)
	o = s.turn(t, o, dir)
	s.commit(t, o, account(plain, 1), withSlot(contract, 1, 5))
	s.commit(t, o)
	o = s.turn(t, o, dir)
	s.commit(t, o)
	r := reader(t, o)
	expectSlot(t, r, contract, 5)
	must(t, r.Close())
}

// testBuffersAreTheCallers: Slot uses the buffer it is given, and keeps none.
func (s suite) testBuffersAreTheCallers(t *testing.T) {
	o := s.create(t, newDir(t))
	s.commit(t, o, withSlot(contract, 1, 5, 6, 7))
	r := reader(t, o)
	dst := make([]byte, 1, 32)
	got, found, err := r.Slot(contract, slot, dst)
	if err != nil || !found || &got[0] != &dst[0] {
		t.Fatalf("%x, %v, %v, not in the buffer given", got, found, err)
	}

	clear(got)
	expectSlot(t, r, contract, 5, 6, 7)
	if got, found, err := r.Slot(contract, absent, dst); err != nil || found || len(got) > 0 {
		t.Errorf("an absent slot: %x, %v, %v", got, found, err)
	}

	must(t, r.Close())
}

// testRefresh keeps one reader for many blocks.
func (s suite) testRefresh(t *testing.T) {
	w := s.workload(fewAccounts)
	o := s.create(t, newDir(t))
	r := reader(t, o)
	must(t, w.Compare(r, o.reference))
	for range 30 {
		must(t, w.Play(t.Context(), o, o.reference, s.info.Root))
		must(t, r.Refresh())
		must(t, w.Compare(r, o.reference))
	}

	must(t, r.Refresh())
	must(t, r.Close())
}

func (s suite) testCountsOnlyGrow(t *testing.T) {
	w := s.workload(fewAccounts)
	o := s.create(t, newDir(t))
	r := reader(t, o)
	before := counts(o, r)
	for range 10 {
		must(t, w.Play(t.Context(), o, o.reference, s.info.Root))
		must(t, r.Refresh())
		must(t, w.Compare(r, o.reference))
		after := counts(o, r)
		conformance.Grown(t, fmt.Sprint("block ", o.Block()), before, after)
		before = after
	}

	for _, name := range []string{"nodes", "pages"} {
		if n := before[name]; n != nil && *n < 1000 {
			t.Errorf("%d %s touched by thousands of lookups", *n, name)
		}
	}

	must(t, r.Close())
	must(t, o.Settle(t.Context()))
	if disk, err := o.DiskBytes(); err != nil || disk < 1000 {
		t.Errorf("%d bytes on the disk, %v", disk, err)
	}

	if len(o.Effective()) == 0 {
		t.Error("no option is told")
	}

	for _, share := range o.Memory() {
		if share.Use == "" || share.Bytes < 0 {
			t.Errorf("memory %+v", share)
		}
	}
}

func counts(s layout.State, r layout.Reader) map[string]*int64 {
	c, touched := s.Counters(), r.Touched()
	return map[string]*int64{
		"reads":       c.Reads,
		"read bytes":  c.ReadBytes,
		"writes":      c.Writes,
		"write bytes": c.WriteBytes,
		"nodes new":   c.NodesNew,
		"nodes":       touched.Nodes,
		"pages":       touched.Pages,
	}
}

func (s suite) testUncommittedIsDropped(t *testing.T) {
	dir := newDir(t)
	o := s.create(t, dir)
	s.commit(t, o, account(plain, 1), withSlot(contract, 1, 5))
	r := reader(t, o)
	must(t, o.Change(account(plain, 2)))
	must(t, o.Change(withSlot(contract, 2, 6)))
	must(t, r.Refresh())
	expectNonce(t, r, plain, 1)
	expectSlot(t, r, contract, 5)
	must(t, r.Close())
	o = s.turn(t, o, dir)
	r = reader(t, o)
	expectNonce(t, r, plain, 1)
	expectSlot(t, r, contract, 5)
	must(t, r.Close())
	s.commit(t, o, account(plain, 3))
}

func (s suite) testCreateNeedsAnEmptyDirectory(t *testing.T) {
	dir := newDir(t)
	o := s.create(t, dir)
	s.commit(t, o, account(plain, 1))
	must(t, o.close())
	conformance.RefusesToOverwrite(t, dir, func(dir string) (conformance.Opened, error) {
		again := s.options(dir)
		again.Create = true

		return s.layout.Open(t.Context(), again)
	})

	o = s.reopen(t, dir)
	r := reader(t, o)
	expectNonce(t, r, plain, 1)
	must(t, r.Close())
	must(t, s.create(t, t.TempDir()).close()) // exists, but is empty
}

func (s suite) testNotAState(t *testing.T) {
	isAny := func(err error) bool { return err != nil } // no layout has to tell why
	conformance.RefusesForeignFolders(t, isAny, func(dir string) (conformance.Opened, error) {
		return s.layout.Open(t.Context(), s.options(dir))
	})
}

func (s suite) testReadOnly(t *testing.T) {
	w, dir := s.workload(fewAccounts), newDir(t)
	o := s.create(t, dir)
	for range 5 {
		must(t, w.Play(t.Context(), o, o.reference, s.info.Root))
	}

	must(t, o.Settle(t.Context()))
	must(t, o.close())
	options := s.options(dir)
	options.ReadOnly = true
	read := s.open(t, options)
	read.reference = o.reference
	s.compare(t, read, w)
	if err := read.Change(account(plain, 1)); err == nil {
		if _, err := read.Commit(t.Context()); err == nil {
			t.Error("a state that is open for reading was changed")
		}
	}

	must(t, read.close())
	o = s.reopen(t, dir)
	o.reference = read.reference
	if o.Block() != 5 {
		t.Errorf("block %d after a read-only session, want 5", o.Block())
	}

	s.compare(t, o, w)
}

func (s suite) testClosedHandlesAnswerErrors(t *testing.T) {
	o := s.create(t, newDir(t))
	s.commit(t, o, account(plain, 1), withSlot(contract, 1, 5))
	r := reader(t, o)
	must(t, r.Close())
	if _, _, err := r.Account(plain); err == nil {
		t.Error("a closed reader looks accounts up")
	}

	if _, _, err := r.Slot(contract, slot, nil); err == nil {
		t.Error("a closed reader looks slots up")
	}

	if err := r.Refresh(); err == nil {
		t.Error("a closed reader moves on")
	}

	must(t, o.close())
	if _, err := o.Reader(); err == nil {
		t.Error("a closed state has readers")
	}

	if err := o.Change(account(plain, 2)); err == nil {
		if _, err := o.Commit(t.Context()); err == nil {
			t.Error("a closed state commits")
		}
	}
}

// testCloseEndsAllWork closes states behind their last block, behind a Settle, and behind a Settle
// that was interrupted while it worked.
func (s suite) testCloseEndsAllWork(t *testing.T) {
	w := s.workload(manyAccounts)
	for name, settle := range map[string]func(o *open){
		"NotSettled":  func(*open) {},
		"Settled":     func(o *open) { must(t, o.Settle(t.Context())) },
		"Interrupted": func(o *open) { conformance.Interrupted(t, o.Settle) },
	} {
		t.Run(name, func(t *testing.T) {
			conformance.CloseEndsAllWork(t, func(dir string) {
				o := s.create(t, dir)
				for range 10 {
					must(t, w.Play(t.Context(), o, o.reference, s.info.Root))
				}

				settle(o)
				must(t, o.close())
			})
		})
	}
}

// testContractsStay wants the deletion of a contract to fail, and nothing of it to
// be seen.
func (s suite) testContractsStay(t *testing.T) {
	dir := newDir(t)
	o := s.create(t, dir)
	s.commit(t, o, account(plain, 1), withSlot(contract, 1, 5))
	s.commit(t, o, layout.Change{Account: plain}, layout.Change{Account: absent})
	if err := o.Change(layout.Change{Account: contract}); err == nil {
		t.Error("a contract is deleted")
	}

	o = s.turn(t, o, dir)
	r := reader(t, o)
	expectNonce(t, r, contract, 1)
	expectSlot(t, r, contract, 5)
	if a, found, err := r.Account(plain); err != nil || found {
		t.Errorf("a deleted account: %+v, %v, %v", a, found, err)
	}

	must(t, r.Close())
}

func expectNonce(t *testing.T, r layout.Reader, name layout.Hash, nonce uint64) {
	t.Helper()
	if a, found, err := r.Account(name); err != nil || !found || a.Nonce != nonce {
		t.Errorf("account %x: %+v, %v, %v; want nonce %d", name, a, found, err, nonce)
	}
}

func expectSlot(t *testing.T, r layout.Reader, name layout.Hash, want ...byte) {
	t.Helper()
	if value, found, err := r.Slot(name, slot, nil); err != nil || !found ||
		string(value) != string(want) {
		t.Errorf("slot of %x: %x, %v, %v; want %x", name, value, found, err, want)
	}
}

// childDir is set where the process is the writer that gets killed.
const childDir = "STATELAB_STATETEST_DIR"

func (s suite) killed() Workload {
	return Workload{
		Seed:          5,
		Accounts:      900,
		Slots:         60,
		Changes:       60,
		KeepContracts: s.e.KeepsContracts,
		BalanceBytes:  s.e.BalanceBytes,
	}
}

// child commits block after block, and says so, until it is killed.
func (s suite) child(dir string) {
	fmt.Fprintln(os.Stderr, s.write(context.Background(), dir))
	os.Exit(1)
}

func (s suite) write(ctx context.Context, dir string) error {
	o, err := s.layout.Open(ctx, s.options(dir))
	if err != nil {
		return err
	}

	for {
		for _, c := range s.killed().Block(o.Block() + 1) {
			if err := o.Change(c); err != nil {
				return err
			}
		}

		root, err := o.Commit(ctx)
		if err != nil {
			return err
		}

		if _, err := fmt.Printf("%d %x\n", o.Block(), root); err != nil {
			return err
		}
	}
}

// testSurvivesKills kills a writer at random moments, as kill -9 does. What it said
// it had committed is there, with its root; one block more may be.
func (s suite) testSurvivesKills(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 3
	}

	w, dir := s.killed(), newDir(t)
	o := s.create(t, dir)
	reference, at := o.reference, uint64(1)
	must(t, w.Play(t.Context(), o, reference, s.info.Root))
	must(t, o.close())
	rng := rand.New(rand.NewPCG(6, 6))
	for range kills {
		said, root := s.kill(t, dir, time.Duration(rng.IntN(100_000))*time.Microsecond)
		o := s.reopen(t, dir)
		if o.Block() != said && o.Block() != said+1 {
			t.Fatalf("at block %d after a kill, the last that was committed is %d", o.Block(), said)
		}

		if o.Block() == said && o.Root() != root {
			t.Fatalf("block %d: root %x after a kill, %x before", said, o.Root(), root)
		}

		for ; at < o.Block(); at++ {
			for _, c := range w.Block(at + 1) {
				must(t, reference.Change(c))
			}
		}

		must(t, expectRoot(o.Root(), reference, s.info.Root))
		o.reference = reference
		s.compare(t, o, w)
		must(t, s.turn(t, o, dir).close())
	}

	t.Logf("%d kills, %d blocks", kills, at)
}

// kill starts a writer and kills it some time after its first block. It returns the
// last block that the writer said it had committed.
func (s suite) kill(
	t *testing.T, dir string, after time.Duration,
) (said uint64, root layout.Hash) {
	t.Helper()
	cmd := conformance.Child(s.test, childDir+"="+dir)
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	out := bufio.NewReader(pipe)
	if _, err := out.Peek(1); err != nil {
		t.Fatalf("the writer said nothing: %v, %v", err, cmd.Wait())
	}

	time.Sleep(after)
	must(t, cmd.Process.Kill())
	said, root = lastBlock(out)
	if err := cmd.Wait(); said == 0 || cmd.ProcessState.Exited() {
		t.Fatalf("the writer ended by itself: %v, at block %d", err, said)
	}

	return said, root
}

// lastBlock reads to the end; the last line may be torn.
func lastBlock(from io.Reader) (block uint64, root layout.Hash) {
	for {
		var b uint64
		var hash []byte
		if _, err := fmt.Fscanf(from, "%d %x\n", &b, &hash); err != nil || len(hash) != len(root) {
			return block, root
		}
		block, root = b, layout.Hash(hash)
	}
}
