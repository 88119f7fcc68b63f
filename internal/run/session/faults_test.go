package session_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/mem"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/internal/run/replay/replaytest"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/pagetrie"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// fault makes the nth call of one kind fail.
type fault struct {
	call string
	n    int
	err  func(context.Context) error

	mutex sync.Mutex
	calls int
}

func (f *fault) at(ctx context.Context, call string) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if call != f.call {
		return nil
	}

	if f.calls++; f.calls != f.n {
		return nil
	}

	return f.err(ctx)
}

func (f *fault) in(call string) error { return f.at(context.Background(), call) }

// faultyEngine keeps one database over all its openings.
type faultyEngine struct {
	mem.Engine
	*fault
	db engine.DB
}

func (e *faultyEngine) Info() engine.Info {
	info := e.Engine.Info()
	info.Capabilities = append(info.Capabilities, engine.CanTraceAccesses)
	return info
}

func (e *faultyEngine) Open(ctx context.Context, o engine.Options) (engine.DB, error) {
	if err := e.at(ctx, "Open"); err != nil {
		return nil, err
	}

	if e.db == nil {
		var err error
		if e.db, err = e.Engine.Open(ctx, engine.Options{Dir: o.Dir}); err != nil {
			return nil, err
		}
	}

	return &faultyDB{e.db, e.fault}, nil
}

type faultyDB struct {
	engine.DB
	*fault
}

func (d *faultyDB) Reader() (engine.Reader, error) {
	r, err := d.DB.Reader()
	return &faultyReader{r, d.fault}, errors.Join(err, d.in("Reader"))
}
func (d *faultyDB) Writer() (engine.Writer, error) {
	w, err := d.DB.Writer()
	return &faultyWriter{w, d.fault}, errors.Join(err, d.in("Writer"))
}
func (d *faultyDB) Sync(context.Context) error { return d.in("Sync") }
func (d *faultyDB) Settle(context.Context, func(engine.Settling)) error {
	return d.in("Settle")
}
func (d *faultyDB) Shape() (engine.Shape, error) { return engine.Shape{}, d.in("Shape") }
func (d *faultyDB) Counters() engine.Counters {
	return engine.Counters{Reads: new(engine.BlockReads)}
}
func (d *faultyDB) Close() error { return d.in("Close") }

type faultyReader struct {
	engine.Reader
	*fault
}

func (r *faultyReader) Get(key, dst []byte) ([]byte, bool, error) {
	if err := r.in("Get"); err != nil {
		return nil, false, err
	}
	return r.Reader.Get(key, dst)
}
func (r *faultyReader) Close() error { return r.in("Reader.Close") }

type faultyWriter struct {
	engine.Writer
	*fault
}

func (w *faultyWriter) Put(key, value []byte) error {
	return errors.Join(w.in("Put"), w.Writer.Put(key, value))
}
func (w *faultyWriter) Commit() error { return errors.Join(w.in("Commit"), w.Writer.Commit()) }
func (w *faultyWriter) Close() error  { return w.in("Writer.Close") }

type faultyTree struct {
	replaytest.Tree
	*fault
}

func (t faultyTree) Open(ctx context.Context, o tree.Options) (tree.Forest, error) {
	if err := t.at(ctx, "Open"); err != nil {
		return nil, err
	}
	f, err := t.Tree.Open(ctx, o)
	return &faultyForest{f, t.fault}, err
}

type faultyForest struct {
	tree.Forest
	*fault
}

func (f *faultyForest) Set(store int, key, value []byte) error {
	return errors.Join(f.in("Set"), f.Forest.Set(store, key, value))
}
func (f *faultyForest) Commit(ctx context.Context) (tree.Commit, error) {
	c, err := f.Forest.Commit(ctx)
	return c, errors.Join(err, f.in("Commit"))
}
func (f *faultyForest) Sync(ctx context.Context) error {
	return errors.Join(f.Forest.Sync(ctx), f.in("Sync"))
}
func (f *faultyForest) Reader() (tree.Reader, error) {
	r, err := f.Forest.Reader()
	return &faultyTreeReader{r, f.fault}, errors.Join(err, f.in("Reader"))
}
func (f *faultyForest) Shape() ([]tree.StoreShape, error) {
	s, err := f.Forest.Shape()
	return s, errors.Join(err, f.in("Shape"))
}
func (f *faultyForest) Close() error { return errors.Join(f.Forest.Close(), f.in("Close")) }

type faultyTreeReader struct {
	tree.Reader
	*fault
}

func (r *faultyTreeReader) Get(store int, key, dst []byte) ([]byte, bool, error) {
	value, found, err := r.Reader.Get(store, key, dst)
	return value, found, errors.Join(err, r.in("Get"))
}
func (r *faultyTreeReader) Close() error {
	return errors.Join(r.Reader.Close(), r.in("Reader.Close"))
}

type faultyLayout struct {
	pagetrie.Layout
	*fault
}

func (l faultyLayout) Open(ctx context.Context, o layout.Options) (layout.State, error) {
	if err := l.at(ctx, "Open"); err != nil {
		return nil, err
	}
	s, err := l.Layout.Open(ctx, o)
	return &faultyState{s, l.fault}, err
}

type faultyState struct {
	layout.State
	*fault
}

func (s *faultyState) Change(c layout.Change) error {
	return errors.Join(s.State.Change(c), s.in("Change"))
}
func (s *faultyState) Commit(ctx context.Context) (layout.Hash, error) {
	root, err := s.State.Commit(ctx)
	return root, errors.Join(err, s.in("Commit"))
}
func (s *faultyState) Settle(ctx context.Context) error {
	return errors.Join(s.State.Settle(ctx), s.in("Settle"))
}
func (s *faultyState) DiskBytes() (int64, error) {
	n, err := s.State.DiskBytes()
	return n, errors.Join(err, s.in("DiskBytes"))
}
func (s *faultyState) Reader() (layout.Reader, error) {
	r, err := s.State.Reader()
	return &faultyLayoutReader{r, s.fault}, errors.Join(err, s.in("Reader"))
}
func (s *faultyState) Close() error { return errors.Join(s.State.Close(), s.in("Close")) }

type faultyLayoutReader struct {
	layout.Reader
	*fault
}

func (r *faultyLayoutReader) Account(h layout.Hash) (layout.Account, bool, error) {
	a, found, err := r.Reader.Account(h)
	return a, found, errors.Join(err, r.in("Account"))
}
func (r *faultyLayoutReader) Slot(account, key layout.Hash, dst []byte) ([]byte, bool, error) {
	value, found, err := r.Reader.Slot(account, key, dst)
	return value, found, errors.Join(err, r.in("Slot"))
}
func (r *faultyLayoutReader) Close() error {
	return errors.Join(r.Reader.Close(), r.in("Reader.Close"))
}

// runWith runs one kind of subject, made ready without a fault, and returns its folder.
type runWith func(t *testing.T, ctx context.Context, f *fault) (out string, err error)

func quiet(result.Event) {}

func engineRun(load bool, change func(*bench.Spec)) runWith {
	return func(t *testing.T, ctx context.Context, f *fault) (string, error) {
		t.Helper()
		spec := &bench.Spec{
			Schema:     schema.EngineSpec,
			Verb:       bench.Load,
			Out:        t.TempDir(),
			Engine:     "mem",
			Dir:        t.TempDir(),
			PageCache:  bench.AsIs,
			Workload:   workload.FillRandom,
			Keys:       1000,
			KeyBytes:   32,
			KeyHash:    keyspace.Mix,
			ValueModel: keyspace.Random,
			ValueBytes: 40,
			BatchKeys:  100,
			Threads:    1,
			Seed:       1,
		}

		e := &faultyEngine{fault: f}
		if !load {
			e.fault = new(fault)
			if _, err := bench.Run(ctx, e, spec, quiet); err != nil {
				t.Fatal(err)
			}

			e.fault = f
			spec.Verb, spec.Out, spec.Workload = bench.Read, t.TempDir(), workload.ReadRandom
			spec.Gets, spec.WarmupGets, spec.AccessGets, spec.Writers, spec.Puts = 500, 300, 100,
				1, 1000
			change(spec)
		}

		_, err := bench.Run(ctx, e, spec, quiet)
		return spec.Out, err
	}
}

func treeRun(t *testing.T, ctx context.Context, f *fault) (string, error) {
	t.Helper()
	return treeWith(t, ctx, f, 0)
}

func treeWith(t *testing.T, ctx context.Context, f *fault, memory int64) (string, error) {
	t.Helper()
	dir := t.TempDir()
	var set bytes.Buffer
	w, err := changeset.NewWriter(&set, changeset.Header{Order: changeset.OrderInsertion})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	must(err)
	_, err = w.Store("bank")
	must(err)
	for v := int64(1); v <= 5; v++ {
		must(w.Begin(v))
		for key := range uint64(10) {
			must(w.Change(changeset.Change{
				Key:   binary.BigEndian.AppendUint64(nil, key+uint64(v)*5),
				Value: []byte{byte(v)},
			}))
		}

		must(w.End(changeset.Roots{}))
	}

	must(w.Close())
	path := filepath.Join(dir, "set.slcs")
	must(os.WriteFile(path, set.Bytes(), 0o600))
	spec := &protocol.TreeSpec{Schema: schema.TreeSpec, Out: dir, Tree: "replaytest",
		Dir: filepath.Join(dir, "tree"), Changes: path, Gets: 100, Seed: 1,
		MemoryBytes: memory}
	_, err = replay.Run(ctx, faultyTree{fault: f}, spec, quiet)
	return spec.Out, err
}

func layoutRun(stage string) runWith {
	return func(t *testing.T, ctx context.Context, f *fault) (string, error) {
		t.Helper()
		chain := protocol.Chain{
			Seed:           3,
			Accounts:       400,
			ContractShare:  .5,
			SlotsPer:       3,
			BlockAccounts:  100,
			UpdateBlocks:   2,
			UpdateAccounts: 20,
		}

		spec := &protocol.LayoutSpec{Schema: schema.LayoutSpec, Stage: stage, Out: t.TempDir(),
			Layout: "pagetrie", Dir: filepath.Join(t.TempDir(), "state"),
			Chain: chain, Reads: 100}
		if stage == protocol.Lookup {
			build := *spec
			build.Stage = protocol.Build
			if _, err := lookup.Run(ctx, pagetrie.Layout{}, &build, quiet); err != nil {
				t.Fatal(err)
			}
		}

		_, err := lookup.Run(ctx, faultyLayout{fault: f}, spec, quiet)
		return spec.Out, err
	}
}

// TestAFailureInAnyPhaseIsInTheRunFolder: whatever call fails, run.json has the phase's
// name, in the error and in the list, and what the subject said.
func TestAFailureInAnyPhaseIsInTheRunFolder(t *testing.T) {
	testring.Outer(t, "it makes sixty runs")
	load := engineRun(true, nil)
	read := engineRun(false, func(*bench.Spec) {})
	overwrite := engineRun(false, func(s *bench.Spec) { s.Workload = workload.Overwrite })
	both := engineRun(false, func(s *bench.Spec) {
		// the writer's failure ends them
		s.Workload, s.Rate, s.Gets = workload.ReadWhileWriting, 5000, 1<<40
	})

	build, look := layoutRun(protocol.Build), layoutRun(protocol.Lookup)
	// Of each of four kinds 5 first lookups and 100 cold ones; then 100 to warm the caches
	// with 64 in flight, 100 with one, and 100 of each that are measured.
	const firstOpens, opens, lookups = 1 + 5*4, 1 + 5*4 + 4, 2 * 5
	for _, c := range []struct {
		name  string
		run   runWith
		call  string
		n     int
		phase string
	}{
		{"load", load, "Open", 1, "prepare"},
		{"load", load, "Writer", 1, "load"},
		{"load", load, "Put", 7, "load"},
		{"load", load, "Commit", 3, "load"},
		{"load", load, "Writer.Close", 1, "load"},
		{"load", load, "Sync", 1, "load"},
		{"load", load, "Settle", 1, "settle"},
		{"load", load, "Reader", 1, "verify"},
		{"load", load, "Get", 5, "verify"},
		{"load", load, "Reader.Close", 1, "verify"},
		{"load", load, "Shape", 1, "verify"},
		{"load", load, "Close", 1, "close"},
		{"read", read, "Open", 1, "prepare"},
		{"read", read, "Shape", 1, "prepare"},
		{"read", read, "Reader", 1, "warm"},
		{"read", read, "Get", 300, "warm"},
		{"read", read, "Reader.Close", 1, "warm"},
		{"read", read, "Reader", 2, "measure"},
		{"read", read, "Get", 301, "measure"},
		{"read", read, "Reader.Close", 2,
			"measure"},
		{"read", read, "Shape", 2, "verify"},
		{"read", read, "Close", 1, "close"},
		{"read", read, "Open", 2, "accesses"},
		{"read", read, "Get", 801, "accesses"},
		{"read", read, "Close", 2, "close"},
		{"overwrite", overwrite, "Writer", 1, "measure"},
		{"overwrite", overwrite, "Put", 1, "measure"},
		{"overwrite", overwrite, "Commit", 2, "measure"},
		{"overwrite", overwrite, "Settle", 1, "settle"},
		{"overwrite", overwrite, "Shape", 2, "settle"},
		{"readwhilewriting", both, "Commit", 1, "measure"},
		{"tree", treeRun, "Open", 1, "prepare"},
		{"tree", treeRun, "Set", 13, "replay"},
		{"tree", treeRun, "Commit", 3, "replay"},
		{"tree", treeRun, "Shape", 1,
			"replay"},
		{"tree", treeRun, "Sync", 1, "settle"},
		{"tree", treeRun, "Shape", 2, "settle"},
		{"tree", treeRun, "Reader", 1, "read"},
		{"tree", treeRun, "Get", 9, "read"},
		{"tree", treeRun, "Reader.Close", 1, "read"},
		{"tree", treeRun, "Close", 1, "close"},
		{"build", build, "Open", 1, "prepare"},
		{"build", build, "Change", 150, "build"},
		{"build", build, "Commit", 4, "build"},
		{"build", build, "Settle", 1,
			"settle"},
		{"build", build, "DiskBytes", 1, "settle"},
		{"build", build, "Change", 401, "update"},
		{"build", build, "Commit", 5, "update"},
		{"build", build, "Settle",
			2, "settle"},
		{"build", build, "Close", 1, "close"},
		{"lookup", look, "Open", 1, "prepare"},
		{"lookup", look, "Close", 1, "first_account_1"},
		{"lookup", look, "Open", 2, "first_account_1"},
		{"lookup", look, "Settle", 1, "first_account_1"},
		{"lookup", look, "DiskBytes", 1, "first_account_1"},
		{"lookup", look, "Reader", 2,
			"first_account_1"},
		{"lookup", look, "Account", 5, "first_account_1"},
		{"lookup", look, "Slot", 1, "first_slot_1"},
		{"lookup", look, "Reader.Close", 16, "first_absent_slot_1"},
		{"lookup", look, "Open", firstOpens + 1, "cold_account_1"},
		{"lookup", look, "Account", lookups + 101, "cold_absent_account_1"},
		{"lookup", look, "Slot", lookups + 1, "cold_slot_1"},
		{"lookup", look, "Account", lookups + 201, "warm_account_64"},
		{"lookup", look, "Slot",
			lookups + 401, "warm_slot_1"},
		{"lookup", look, "Account", lookups + 601, "held_account_1"},
		{"lookup", look, "Slot", lookups + 901, "held_absent_slot_64"},
		{"lookup", look, "Close", opens, "close"},
	} {
		t.Run(fmt.Sprintf("%s %s %d", c.name, c.call, c.n), func(t *testing.T) {
			const says = "the disk is on fire"
			f := &fault{
				call: c.call,
				n:    c.n,
				err:  func(context.Context) error { return errors.New(says) },
			}

			out, err := c.run(t, context.Background(), f)
			stored, readErr := result.ReadRun(out)
			if err == nil || readErr != nil {
				t.Fatalf("the run ended with %v, its folder %v", err, readErr)
			}

			if stored.Status != result.Failed || !strings.HasPrefix(stored.Error, c.phase+": ") ||
				!strings.Contains(stored.Error, says) {
				t.Errorf("%s: %q", stored.Status, stored.Error)
			}

			at := len(stored.Phases) - 1
			if at > 0 && stored.Phases[at].Name == "close" && c.phase != "close" {
				at--
			}

			if at < 0 || stored.Phases[at].Name != c.phase ||
				stored.Phases[at].Process == nil && !strings.HasPrefix(c.phase, "first") &&
					!strings.HasPrefix(c.phase, "cold") {
				t.Errorf("phases %+v", stored.Phases)
			}
		})
	}
}

// TestTheBudgetIsOneRule: subjects that report no memory of their own get the same page
// cache for the same budget.
func TestTheBudgetIsOneRule(t *testing.T) {
	const budget, slack = 64 << 20, 12 << 20
	for name, run := range map[string]runWith{
		"engine": engineRun(false, func(s *bench.Spec) { s.MemoryBytes = budget }),
		"tree": func(t *testing.T, ctx context.Context, f *fault) (string, error) {
			return treeWith(t, ctx, f, budget)
		},
	} {
		out, err := run(t, context.Background(), new(fault))
		if err != nil {
			t.Fatal(err)
		}

		stored, err := result.ReadRun(out)
		if err != nil {
			t.Fatal(err)
		}

		m := stored.Memory
		if m == nil || m.BudgetBytes != budget {
			t.Fatalf("%s: %+v", name, m)
		}

		if why := stored.Absent["page_cache_bytes"]; why != "" && m.PageCacheBytes == nil {
			t.Skip(why)
		}

		if m.PageCacheBytes == nil || *m.PageCacheBytes != budget+slack || m.HeldBy == "" {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// TestAnInterruptWhileOpeningIsNoFailure: what a subject makes of its context that is
// done is not told to the user.
func TestAnInterruptWhileOpeningIsNoFailure(t *testing.T) {
	for name, run := range map[string]runWith{
		"load":   engineRun(true, nil),
		"read":   engineRun(false, func(*bench.Spec) {}),
		"tree":   treeRun,
		"build":  layoutRun(protocol.Build),
		"lookup": layoutRun(protocol.Lookup),
	} {
		for wrapping, wrap := range map[string]func(error) error{
			"wrapped": func(err error) error { return fmt.Errorf("read the log: %w", err) },
			"told":    func(err error) error { return errors.New("read the log: " + err.Error()) },
		} {
			t.Run(name+" "+wrapping, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(context.Background())
				f := &fault{call: "Open", n: 1, err: func(ctx context.Context) error {
					cancel(errors.New("signal: terminated"))
					return wrap(ctx.Err())
				}}

				out, err := run(t, ctx, f)
				stored, readErr := result.ReadRun(out)
				if err == nil || readErr != nil {
					t.Fatalf("the run ended with %v, its folder %v", err, readErr)
				}

				if stored.Status != result.Interrupted ||
					stored.Error != "interrupted: what was measured until then is kept" {
					t.Errorf("%s: %q", stored.Status, stored.Error)
				}
			})
		}
	}
}

// TestAFullDiskNamesTheWayOut in the words of an engine that passes no ENOSPC on.
func TestAFullDiskNamesTheWayOut(t *testing.T) {
	for name, run := range map[string]runWith{
		"load":  engineRun(true, nil),
		"tree":  treeRun,
		"build": layoutRun(protocol.Build),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fault{call: "Commit", n: 2, err: func(context.Context) error {
				return errors.New("IO error: No space left on device: While appending to file: " +
					"000012.sst")
			}}

			out, err := run(t, context.Background(), f)
			stored, readErr := result.ReadRun(out)
			if err == nil || readErr != nil || stored.Code != engine.CodeDiskFull ||
				!strings.HasPrefix(stored.Remedy, "free some space") {
				t.Errorf("%q (%v, %v)", stored.FailureInfo, err, readErr)
			}
		})
	}
}
