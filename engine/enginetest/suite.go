// Package enginetest is the conformance suite: what every adapter has to show
// before its figures are worth anything. It runs the real engine on real files.
//
// Non-goals: speed, and what is special to one engine.
package enginetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/statelab/statelab/engine"
)

// Run tests e. It must be called from a top-level test, directly: the suite
// runs that test again in a child process, to kill it.
func Run(t *testing.T, e engine.Engine) {
	if job := os.Getenv(childJob); job != "" {
		child(e, job, os.Getenv(childDir))
	}

	s := suite{engine: e, info: e.Info(), home: t.TempDir(), made: map[uint64]string{}}
	durable := !s.info.Has(engine.IsVolatile)
	for _, c := range []struct {
		name  string
		run   func(suite, *testing.T)
		apply bool
	}{
		{"Info", suite.testInfo, true},
		{"Check", suite.testCheck, true},
		{"PutGetDelete", suite.testPutGetDelete, true},
		{"ValueSizes", suite.testValueSizes, true},
		{"BuffersAreOurs", suite.testBuffersAreOurs, true},
		{"ReadersBesideAWriter", suite.testReadersBesideAWriter, true},
		{"GetAllocatesNothing", suite.testGetAllocatesNothing, true},
		{"ReadOnlyRefusesWrites", suite.testReadOnlyRefusesWrites, true},
		{"CountersOnlyGrow", suite.testCountersOnlyGrow, true},
		{"SettleEnds", suite.testSettleEnds, true},
		{"CloseEndsAllWork", suite.testCloseEndsAllWork, true},

		{"Reopen", suite.testReopen, durable},
		{"SurvivesKill", suite.testSurvivesKill, durable},
		{"NotADatabase", suite.testNotADatabase, durable},
		{"CreateNeedsAnEmptyDirectory", suite.testCreateNeedsAnEmptyDirectory, durable},
		{"Effective", suite.testEffective, durable},
		{"Shape", suite.testShape, durable},

		{"ReadsAreCacheMisses", suite.testReadsAreCacheMisses, s.info.Has(engine.CanReadBlocks)},
		{"NothingReadsUnasked", suite.testNothingReadsUnasked, s.info.Has(engine.CanReadBlocks)},
		{"TracedAccesses", suite.testTracedAccesses, s.info.Has(engine.CanTraceAccesses)},
		{"Direct", suite.testDirect, s.info.Has(engine.CanDirect)},
		{"ForeignLeavesEveryByte", suite.testForeignLeavesEveryByte,
			s.info.Has(engine.CanReadForeign)},
		{"Locked", suite.testLocked, s.info.Has(engine.CanReadForeign)},
		{"SampleKeys", suite.testSampleKeys, durable},
		{"MemoryBudget", suite.testMemoryBudget, s.info.Has(engine.CanBudget)},
		{"GetMany", suite.testGetMany, s.info.Has(engine.CanGetMany)},
		{"BuildSorted", suite.testBuildSorted, s.info.Has(engine.CanIngest)},
	} {
		if c.apply {
			t.Run(c.name, func(t *testing.T) { c.run(s, t) })
		}
	}
}

type suite struct {
	engine engine.Engine
	info   engine.Info
	home   string
	made   map[uint64]string // databases in home by their number of keys, which are copied
}

// cacheBytes is small against what the tests load.
const cacheBytes = 1 << 20

func (s suite) open(t *testing.T, o engine.Options) engine.DB {
	t.Helper()
	if o.CacheBytes == 0 && o.MemoryBytes == 0 && !s.info.Has(engine.HasNoCache) {
		o.CacheBytes = cacheBytes
	}

	db, err := s.engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}

	return db
}

// create makes a database that is closed when the test ends.
func (s suite) create(t *testing.T) engine.DB {
	t.Helper()
	db := s.open(t, engine.Options{Dir: newDir(t), Create: true})
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// loaded returns the directory of a settled database of keys 0..n-1 that is closed, for the caller
// alone.
func (s suite) loaded(t *testing.T, n uint64) string {
	t.Helper()
	if s.made[n] == "" {
		made := filepath.Join(s.home, strconv.FormatUint(n, 10))
		db := s.open(t, engine.Options{Dir: made, Create: true})
		load(t, db, n)
		must(t, db.Settle(t.Context(), nil))
		must(t, db.Close())
		s.made[n] = made
	}

	dir := newDir(t)
	must(t, os.CopyFS(dir, os.DirFS(s.made[n])))
	return dir
}

func newDir(t *testing.T) string { return filepath.Join(t.TempDir(), "db") }

func load(t *testing.T, db engine.DB, n uint64) {
	t.Helper()
	w := writer(t, db)
	for i := range n {
		must(t, w.Put(keyOf(i), valueOf(i)))
		if i%1000 == 999 || i == n-1 {
			must(t, w.Commit())
		}
	}

	must(t, w.Close())
}

func writer(t *testing.T, db engine.DB) engine.Writer {
	t.Helper()
	w, err := db.Writer()
	must(t, err)
	return w
}

func reader(t *testing.T, db engine.DB) engine.Reader {
	t.Helper()
	r, err := db.Reader()
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keyOf spreads the numbers over the whole key space (a bijection, so no two
// collide) and keeps the number in the key.
func keyOf(i uint64) []byte {
	key := make([]byte, 32)
	binary.BigEndian.PutUint64(key, i*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(key[24:], i)
	return key
}

// valueOf are 110 bytes that do not compress.
func valueOf(i uint64) []byte { return randomBytes(i, 110) }

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	value := make([]byte, n)
	for j := range value {
		value[j] = byte(rng.Uint32())
	}
	return value
}

// expect fails unless r finds value under key.
func expect(t *testing.T, r engine.Reader, key, value []byte) {
	t.Helper()
	if err := check(r, key, value); err != nil {
		t.Fatal(err)
	}
}

func check(r engine.Reader, key, value []byte) error {
	got, found, err := r.Get(key, nil)
	switch {
	case err != nil:
		return fmt.Errorf("get %x: %w", key, err)
	case !found:
		return fmt.Errorf("get %x: not found", key)
	case !bytes.Equal(got, value):
		return fmt.Errorf("get %x: %d bytes that differ from the %d put", key, len(got), len(value))
	}

	return nil
}

func expectMissing(t *testing.T, r engine.Reader, key []byte) {
	t.Helper()
	got, found, err := r.Get(key, nil)
	must(t, err)
	if found {
		t.Fatalf("get %x: found %d bytes, want none", key, len(got))
	}
}

// readAll gets the keys 0..n-1 in a fixed random order and checks them.
func readAll(t *testing.T, r engine.Reader, n uint64, gets int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	for range gets {
		i := rng.Uint64N(n)
		expect(t, r, keyOf(i), valueOf(i))
	}
}
