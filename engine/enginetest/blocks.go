package enginetest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/conformance"
)

// Enough that a 1-MiB cache serves only a part of the reads.
const (
	blockKeys = 60_000
	blockGets = 10_000
)

// testReadsAreCacheMisses compares our count at the file layer with the
// engine's own count of cache misses, for one reader and no table opened
// meanwhile: they must be equal.
func (s suite) testReadsAreCacheMisses(t *testing.T) {
	db := s.open(t, engine.Options{Dir: s.loaded(t, blockKeys)})
	defer func() { must(t, db.Close()) }()
	r := reader(t, db)
	readAll(t, r, blockKeys, blockGets)
	before, callsBefore := db.Counters(), readCalls()
	readAll(t, r, blockKeys, blockGets)
	calls := readCalls() - callsBefore
	c := db.Counters().Sub(before)
	if c.Reads == nil {
		t.Fatal("no block reads are told")
	}

	if c.TableOpens != nil && *c.TableOpens != 0 {
		t.Fatalf("%d tables were opened by Gets of warmed-up tables", *c.TableOpens)
	}

	total := c.Reads.Total()
	if wrong := judgeReads(total.Count, c.Reads.Type(engine.Data).Count, calls,
		s.info.Has(engine.HasNoCache)); wrong != "" {
		t.Error(wrong)
	}

	if c.CacheMisses != nil && total.Count != *c.CacheMisses {
		t.Errorf("%d block reads, but %d cache misses", total.Count, *c.CacheMisses)
	}

	if unknown := c.Reads.Level(engine.LevelUnknown).Count; unknown != 0 && unknown != total.Count {
		t.Errorf("%d of %d reads are of unknown level: levels are told for all reads or for none",
			unknown, total.Count)
	}

	if meta := c.Reads.Type(engine.Meta).Count; meta != 0 {
		t.Errorf("%d reads of meta blocks by Gets", meta)
	}
}

// judgeReads says what is wrong with the counts of Gets of more than a cache can hold; "": nothing.
// An engine without a cache may have everything in memory: it then makes no read calls either.
func judgeReads(reads, data, calls int64, noCache bool) string {
	switch {
	case noCache && reads == 0 && calls < blockGets/10:
		return ""
	case noCache && reads == 0:
		return fmt.Sprintf("no block read was counted in %d Gets, but the process made %d read "+
			"calls: count each read of a block (simple.Reads.Add)", blockGets, calls)
	case reads == 0 || data == 0:
		return fmt.Sprintf("%d block reads were counted in %d Gets, %d of them of data: a cache "+
			"of %d bytes cannot hold the %d keys", reads, blockGets, data, cacheBytes, blockKeys)
	}

	return ""
}

// readCalls is how many read calls this process has made; 0 where the system does not count them.
func readCalls() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}

	for line := range strings.Lines(string(text)) {
		if count, is := strings.CutPrefix(line, "syscr: "); is {
			calls, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
			if err == nil {
				return calls
			}
		}
	}

	return 0
}

// testNothingReadsUnasked checks that on a settled database, opened for
// writing, no read happens without a Get, not even by asking for the state.
func (s suite) testNothingReadsUnasked(t *testing.T) {
	db := s.open(t, engine.Options{Dir: s.loaded(t, blockKeys)})
	defer func() { must(t, db.Close()) }()
	before := db.Counters()
	time.Sleep(300 * time.Millisecond)
	if _, err := db.Shape(); err != nil {
		t.Fatal(err)
	}

	must(t, db.Settle(t.Context(), nil))
	c := db.Counters().Sub(before)
	if reads := c.Reads.Total().Count; reads != 0 {
		t.Errorf("%d reads without a Get", reads)
	}

	if c.TableOpens != nil && *c.TableOpens != 0 {
		t.Errorf("%d tables opened without a Get", *c.TableOpens)
	}
}

// testTracedAccesses checks that with the cache that admits nothing every access
// is a read: as many as hits and misses of a real cache.
func (s suite) testTracedAccesses(t *testing.T) {
	dir := s.loaded(t, blockKeys)
	gets := func(o engine.Options) engine.Counters {
		o.Dir = dir
		db := s.open(t, o)
		r, err := db.Reader()
		must(t, err)
		readAll(t, r, blockKeys, blockGets)
		before := db.Counters()
		readAll(t, r, blockKeys, blockGets)
		c := db.Counters().Sub(before)
		must(t, r.Close())
		must(t, db.Close())
		return c
	}

	real := gets(engine.Options{ReadOnly: true})
	traced := gets(engine.Options{ReadOnly: true, TraceAccesses: true})
	if real.CacheHits == nil || real.CacheMisses == nil {
		t.Skip("the engine tells no hits and misses")
	}

	want := *real.CacheHits + *real.CacheMisses
	if got := traced.Reads.Total().Count; got != want {
		t.Errorf("%d traced accesses, want the %d hits and misses of a real cache", got, want)
	}

	if got := traced.Reads.Type(engine.Data).Count; got < blockGets {
		t.Errorf("%d data accesses by %d Gets that found their key", got, blockGets)
	}
}

func (s suite) testDirect(t *testing.T) {
	dir := s.loaded(t, blockKeys)
	db, err := s.engine.Open(t.Context(), engine.Options{
		Dir:        dir,
		ReadOnly:   true,
		Direct:     true,
		CacheBytes: cacheBytes,
	})

	if engine.CodeOf(err) == engine.CodeNoDirect {
		t.Skip(err)
	}

	must(t, err)
	defer func() { must(t, db.Close()) }()
	readAll(t, reader(t, db), blockKeys, blockGets)
	c := db.Counters()
	asked := c.Reads.Total()
	if c.DirectBytes == nil || *c.DirectBytes < asked.Bytes || *c.DirectBytes%512 != 0 {
		t.Errorf("%v bytes read directly for %d asked: want whole sectors around them",
			c.DirectBytes, asked.Bytes)
	}
}

func (s suite) testForeignLeavesEveryByte(t *testing.T) {
	dir := s.loaded(t, 20_000)
	before := conformance.Fingerprint(t, dir)
	db := s.open(t, engine.Options{Dir: dir, Foreign: true})
	readAll(t, reader(t, db), 20_000, 2000)
	if _, err := db.Shape(); err != nil {
		t.Error(err)
	}

	if sampler, is := db.(engine.KeySampler); is {
		must(t, sampler.SampleKeys(t.Context(), 100, 1, func([]byte) error { return nil }))
	}

	must(t, db.Settle(t.Context(), nil))
	if _, err := db.Writer(); err == nil {
		t.Error("a foreign database hands out a writer")
	}

	must(t, db.Close())
	conformance.ExpectSame(t, dir, before)
}

// testLocked opens a database that another process has open. An engine that
// cannot read safely beside a writer refuses to ignore the lock, and then must not
// offer that.
func (s suite) testLocked(t *testing.T) {
	const n = 20_000
	dir := s.loaded(t, n)
	holder, _ := s.startChild(t, jobHold, dir)
	must(t, holder.Signal(syscall.SIGSTOP)) // what changes from here on, the holder does not change
	_, err := syscall.Wait4(holder.Pid, nil, syscall.WUNTRACED, nil)
	must(t, err)
	before := conformance.Fingerprint(t, dir)
	beside, err := s.engine.Open(t.Context(), engine.Options{Dir: dir, IgnoreLock: true})
	var locked *engine.LockedError
	refused := errors.As(err, &locked)
	if !refused {
		must(t, err)
		readAll(t, reader(t, beside), n, 2000)
		must(t, beside.Close())
	}

	conformance.ExpectSame(t, dir, before)

	for _, o := range []engine.Options{{}, {ReadOnly: true}, {Foreign: true}} {
		o.Dir = dir
		db, err := s.engine.Open(t.Context(), o)
		if !errors.As(err, &locked) || locked.Hint == "" ||
			strings.Contains(locked.Hint, "--ignore-lock") == refused {
			t.Errorf("%+v: error %v, want a LockedError with a way out; --ignore-lock is "+
				"refused: %t", o, err, refused)
		}

		if err == nil {
			must(t, db.Close())
		}
	}

	// The holder still has its lock.
	if db, err := s.engine.Open(t.Context(), engine.Options{Dir: dir}); err == nil {
		t.Error("the lock of the other process is gone")
		must(t, db.Close())
	}
}
