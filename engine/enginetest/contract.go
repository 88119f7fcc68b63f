package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/conformance"
)

func (s suite) testInfo(t *testing.T) {
	i := s.info
	for _, field := range emptyFields(i) {
		t.Errorf("engine.Info has no %s", field)
	}

	if len(i.Profiles) == 0 {
		t.Error("no profile")
	}

	for _, p := range i.Profiles {
		o := engine.Options{Dir: newDir(t), Profile: p.Name, Create: true}
		if errs := s.engine.Check(o); len(errs) > 0 {
			t.Errorf("profile %s: %v", p.Name, errs)
		}
	}

	for _, name := range i.StoredOptions {
		o := engine.Options{
			Dir:       newDir(t),
			Create:    true,
			Overrides: map[string]string{name: "no such value"},
		}

		if err := errors.Join(s.engine.Check(o)...); engine.CodeOf(err) == engine.CodeOption {
			t.Errorf("stored option: %v", err)
		}
	}
}

// emptyFields are those that each engine has to fill.
func emptyFields(i engine.Info) (names []string) {
	for _, field := range []struct{ name, value string }{
		{"Name", i.Name}, {"Version", i.Version}, {"Route", i.Route}, {"Licence", i.Licence},
	} {
		if field.value == "" {
			names = append(names, field.name)
		}
	}

	return names
}

func (s suite) testCheck(t *testing.T) {
	for _, o := range s.engine.Info().Options {
		if o.Name == "" || o.Values == "" || o.About == "" {
			t.Errorf("an option is not described: %+v", o)
		}

		if o.Default == "" {
			continue
		}

		if errs := s.engine.Check(engine.Options{Dir: t.TempDir(),
			Overrides: map[string]string{o.Name: o.Default}}); len(errs) > 0 {
			t.Errorf("option %s: its default %q is refused: %v", o.Name, o.Default, errs)
		}
	}

	for name, o := range map[string]engine.Options{
		"unknown profile":   {Profile: "no-such-profile"},
		"unknown override":  {Overrides: map[string]string{"NoSuchOption": "1"}},
		"negative cache":    {CacheBytes: -1},
		"negative handles":  {Handles: -1},
		"a second override": {Overrides: map[string]string{"": ""}},
	} {
		o.Dir, o.Create = newDir(t), true
		if errs := s.engine.Check(o); len(errs) == 0 {
			t.Errorf("%s: passes Check", name)
		}

		if db, err := s.engine.Open(t.Context(), o); err == nil {
			t.Errorf("%s: opens", name)
			must(t, db.Close())
		}
	}
}

func (s suite) testPutGetDelete(t *testing.T) {
	db := s.create(t)
	w, r := writer(t, db), reader(t, db)
	expectMissing(t, r, []byte("a"))
	must(t, w.Put([]byte("a"), []byte("1")))
	must(t, w.Put([]byte("b"), []byte("2")))
	expectMissing(t, r, []byte("a")) // not committed yet
	must(t, w.Commit())
	expect(t, r, []byte("a"), []byte("1"))
	expect(t, r, []byte("b"), []byte("2"))

	must(t, w.Put([]byte("a"), []byte("3")))
	must(t, w.Delete([]byte("b")))
	must(t, w.Delete([]byte("never there")))
	must(t, w.Commit())
	expect(t, r, []byte("a"), []byte("3"))
	expectMissing(t, r, []byte("b"))

	must(t, w.Commit()) // an empty batch
	must(t, db.Sync(t.Context()))
	must(t, db.Settle(t.Context(), nil))
	expect(t, r, []byte("a"), []byte("3"))
	expectMissing(t, r, []byte("b"))
	must(t, w.Close())
}

func (s suite) testValueSizes(t *testing.T) {
	db := s.create(t)
	w, r := writer(t, db), reader(t, db)
	sizes := []int{0, 1, 110, 4096, 100 << 10}
	for i, n := range sizes {
		must(t, w.Put(keyOf(uint64(i)), randomBytes(uint64(n), n)))
		must(t, w.Commit())
	}

	for range 2 { // from the memtable, then from the files
		for i, n := range sizes {
			expect(t, r, keyOf(uint64(i)), randomBytes(uint64(n), n))
		}
		must(t, db.Settle(t.Context(), nil))
	}

	must(t, w.Close())
}

// testBuffersAreOurs reuses what was handed in and checks that it was copied,
// and that Get honours dst.
func (s suite) testBuffersAreOurs(t *testing.T) {
	db := s.create(t)
	w, r := writer(t, db), reader(t, db)
	key, value := []byte("key-1"), []byte("value-1")
	must(t, w.Put(key, value))
	copy(key, "KEY-2")
	copy(value, "VALUE-2")
	must(t, w.Put(key, value))
	must(t, w.Commit())
	copy(key, "~~~~~")
	copy(value, "~~~~~~~")
	expect(t, r, []byte("key-1"), []byte("value-1"))
	expect(t, r, []byte("KEY-2"), []byte("VALUE-2"))

	dst := make([]byte, 3, 64)
	first, _, err := r.Get([]byte("key-1"), dst)
	must(t, err)
	if &first[0] != &dst[0] {
		t.Error("dst was large enough but not used")
	}

	second, _, err := r.Get([]byte("KEY-2"), nil)
	must(t, err)
	if !bytes.Equal(first, []byte("value-1")) || !bytes.Equal(second, []byte("VALUE-2")) {
		t.Errorf("a later Get changed an earlier value: %q, %q", first, second)
	}

	must(t, w.Close())
}

// testReadersBesideAWriter reads while batches commit: a batch is seen whole or
// not at all by a reader that asks for its last key first.
func (s suite) testReadersBesideAWriter(t *testing.T) {
	const readers, batches, perBatch = 4, 300, 50
	db := s.create(t)
	var committed atomic.Int64
	var running sync.WaitGroup
	errs := make(chan error, readers)
	for range readers {
		running.Go(func() {
			errs <- readWhile(db, &committed, batches, perBatch)
		})
	}

	w := writer(t, db)
	for b := range int64(batches) {
		for i := range int64(perBatch) {
			n := uint64(b*perBatch + i)
			must(t, w.Put(keyOf(n), valueOf(n)))
		}

		must(t, w.Commit())
		committed.Store(b + 1)
	}

	must(t, w.Close())
	running.Wait()
	close(errs)
	for err := range errs {
		must(t, err)
	}
}

func readWhile(db engine.DB, committed *atomic.Int64, batches, perBatch int64) error {
	r, err := db.Reader()
	if err != nil {
		return err
	}

	// A commit can wait for a disk: a reader then looks every tenth of a millisecond, and leaves
	// the processor to others meanwhile.
	const looks, pause = 100, 100 * time.Microsecond
	before, same := int64(0), 0
	for n := uint64(0); ; n++ {
		have := committed.Load()
		if same++; have != before {
			before, same = have, 0
		} else if same > looks {
			time.Sleep(pause)
		}

		if have > 0 {
			i := (n * 7919) % uint64(have*perBatch)
			if err := check(r, keyOf(i), valueOf(i)); err != nil {
				return fmt.Errorf("after %d batches: %w", have, err)
			}
		}

		if next := uint64(have); have < batches {
			// If the last key of the batch under way is there, so is the first.
			_, last, err := r.Get(keyOf((next+1)*uint64(perBatch)-1), nil)
			if err != nil {
				return err
			}

			if last {
				if err := check(r, keyOf(next*uint64(perBatch)),
					valueOf(next*uint64(perBatch))); err != nil {
					return fmt.Errorf("half a batch: %w", err)
				}
			}
		}

		if have == batches {
			return r.Close()
		}
	}
}

// getAllocations is more than an engine needs for a Get, unless it declares
// otherwise; an adapter adds none.
const getAllocations = 5

func (s suite) testGetAllocatesNothing(t *testing.T) {
	db := s.create(t)
	load(t, db, 1000)
	must(t, db.Settle(t.Context(), nil))
	r := reader(t, db)
	key, dst := keyOf(500), make([]byte, 0, 1<<10)
	n := testing.AllocsPerRun(2000, func() {
		if _, found, err := r.Get(key, dst); err != nil || !found {
			t.Fatal(found, err)
		}
	})

	if n > getAllocations && !s.info.Has(engine.AllocatesPerGet) {
		t.Errorf("%v allocations a Get, want at most %d", n, getAllocations)
	}

	t.Logf("%v allocations a Get", n)
}

func (s suite) testReadOnlyRefusesWrites(t *testing.T) {
	o := engine.Options{Dir: newDir(t), ReadOnly: true}
	if !s.info.Has(engine.IsVolatile) {
		o.Dir = s.loaded(t, 1000)
	}

	db := s.open(t, o)
	if _, err := db.Writer(); err == nil {
		t.Error("a read-only database hands out a writer")
	}

	if !s.info.Has(engine.IsVolatile) {
		readAll(t, reader(t, db), 1000, 1000)
	}

	must(t, db.Sync(t.Context())) // nothing to do, but no error
	must(t, db.Settle(t.Context(), nil))
	must(t, db.Close())
}

func (s suite) testCountersOnlyGrow(t *testing.T) {
	db := s.create(t)
	before := totals(db.Counters())
	w, r := writer(t, db), reader(t, db)
	for round := range uint64(20) {
		for i := range uint64(1000) {
			must(t, w.Put(keyOf(round*1000+i), valueOf(i)))
		}

		must(t, w.Commit())
		for i := range uint64(100) {
			expect(t, r, keyOf(round*1000+i), valueOf(i))
		}

		now := totals(db.Counters())
		conformance.Grown(t, fmt.Sprint("round ", round), before, now)
		before = now
	}

	must(t, w.Close())
	if n := before["UserWriteBytes"]; n != nil && *n != 20*1000*(32+110) {
		t.Errorf("%d bytes written by the user, want %d", *n, 20*1000*(32+110))
	}
}

// totals are the counters that are no gauges, by name; nil where the engine does not report one.
func totals(c engine.Counters) map[string]*int64 {
	named := map[string]*int64{
		"DirectBytes":      c.DirectBytes,
		"TableOpens":       c.TableOpens,
		"CacheHits":        c.CacheHits,
		"CacheMisses":      c.CacheMisses,
		"FilterNegative":   c.FilterNegative,
		"FilterPositive":   c.FilterPositive,
		"TableCacheHits":   c.TableCacheHits,
		"TableCacheMisses": c.TableCacheMisses,
		"UserWriteBytes":   c.UserWriteBytes,
		"WALBytes":         c.WALBytes,
		"FlushBytes":       c.FlushBytes,
		"CompactBytes":     c.CompactBytes,
		"IngestBytes":      c.IngestBytes,
		"Syncs":            c.Syncs,
		"SyncedBytes":      c.SyncedBytes,
		"Stalls":           c.Stalls,
		"StallNanos":       c.StallNanos,
	}

	if c.Reads != nil {
		all := c.Reads.Total()
		named["Reads"], named["ReadBytes"] = &all.Count, &all.Bytes
	}

	if c.BackgroundReads != nil {
		named["BackgroundReads"] = &c.BackgroundReads.Count
	}

	return named
}

// settleLimit is far beyond what settling the little that is loaded takes.
const settleLimit = 60 * time.Second

func (s suite) testSettleEnds(t *testing.T) {
	db := s.create(t)
	load(t, db, 50_000)
	start := time.Now()
	must(t, db.Settle(t.Context(), func(engine.Settling) {}))
	if d := time.Since(start); d > settleLimit {
		t.Errorf("took %v", d)
	}

	if w := db.Warnings(); len(w) > 0 {
		t.Errorf("warnings after an ordinary load: %+v", w)
	}

	before := totals(db.Counters())
	time.Sleep(300 * time.Millisecond)
	after := totals(db.Counters())
	for _, name := range []string{"FlushBytes", "CompactBytes", "Reads", "BackgroundReads"} {
		if was, is := before[name], after[name]; was != nil && *was != *is {
			t.Errorf("%s went from %d to %d after Settle", name, *was, *is)
		}
	}

	must(t, db.Sync(t.Context()))
	readAll(t, reader(t, db), 50_000, 5000)
}

// testCloseEndsAllWork closes databases behind a load, behind a Settle, and behind a Settle that
// was interrupted while it worked.
func (s suite) testCloseEndsAllWork(t *testing.T) {
	for name, settle := range map[string]func(db engine.DB){
		"NotSettled": func(engine.DB) {},
		"Settled":    func(db engine.DB) { must(t, db.Settle(t.Context(), nil)) },
		"Interrupted": func(db engine.DB) {
			conformance.Interrupted(t, func(ctx context.Context) error {
				return db.Settle(ctx, nil)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			conformance.CloseEndsAllWork(t, func(dir string) {
				db := s.open(t, engine.Options{Dir: dir, Create: true})
				load(t, db, 20_000)
				settle(db)
				must(t, db.Close())
			})
		})
	}
}
