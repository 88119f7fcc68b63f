// Package enginetest is the conformance suite: what every adapter has to show before its figures
// are worth anything. It runs the real engine on real files, in some seconds:
//
//	func TestConforms(t *testing.T) { enginetest.Run(t, myengine.Engine{}) }
//
// [Run] is for everybody. What else is exported is for the adapters of this repository, and may
// change in any release.
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
	"github.com/statelab/statelab/engine/conformance"
)

var must, newDir = conformance.Must, conformance.NewDir

// Run tests e. The suite runs the test that called it again in a child process, to kill it: what
// stands before the call must bear that.
func Run(t *testing.T, e engine.Engine) {
	if job := os.Getenv(childJob); job != "" {
		child(e, job, os.Getenv(childDir))
	}

	s := suite{engine: e, info: e.Info(), test: t.Name(), home: t.TempDir(),
		made: map[uint64]string{}}
	durable := !s.info.Has(engine.IsVolatile)
	run := conformance.Runner(t, s)
	run("Info", suite.testInfo, true)
	run("Check", suite.testCheck, true)
	run("PutGetDelete", suite.testPutGetDelete, true)
	run("ValueSizes", suite.testValueSizes, true)
	run("BuffersAreOurs", suite.testBuffersAreOurs, true)
	run("ReadersBesideAWriter", suite.testReadersBesideAWriter, true)
	run("GetAllocatesNothing", suite.testGetAllocatesNothing, true)
	run("ReadOnlyRefusesWrites", suite.testReadOnlyRefusesWrites, true)
	run("CountersOnlyGrow", suite.testCountersOnlyGrow, true)
	run("SettleEnds", suite.testSettleEnds, true)
	run("CloseEndsAllWork", suite.testCloseEndsAllWork, true)

	run("Reopen", suite.testReopen, durable)
	run("SurvivesKill", suite.testSurvivesKill, durable)
	run("NotADatabase", suite.testNotADatabase, durable)
	run("CreateNeedsAnEmptyDirectory", suite.testCreateNeedsAnEmptyDirectory, durable)
	run("Effective", suite.testEffective, durable)
	run("Shape", suite.testShape, durable)

	run("ReadsAreCacheMisses", suite.testReadsAreCacheMisses, s.info.Has(engine.CanReadBlocks))
	run("NothingReadsUnasked", suite.testNothingReadsUnasked, s.info.Has(engine.CanReadBlocks))
	run("TracedAccesses", suite.testTracedAccesses, s.info.Has(engine.CanTraceAccesses))
	run("Direct", suite.testDirect, s.info.Has(engine.CanDirect))
	run("ForeignLeavesEveryByte", suite.testForeignLeavesEveryByte,
		s.info.Has(engine.CanReadForeign))
	run("Locked", suite.testLocked, s.info.Has(engine.CanReadForeign))
	run("SampleKeys", suite.testSampleKeys, durable)
	run("MemoryBudget", suite.testMemoryBudget, s.info.Has(engine.CanBudget))
	getsMany, buildsSorted := s.optional(t)
	run("GetMany", suite.testGetMany, getsMany)
	run("BuildSorted", suite.testBuildSorted, buildsSorted)
}

type suite struct {
	engine engine.Engine
	info   engine.Info
	test   string // that called Run
	home   string
	made   map[uint64]string // databases in home by their number of keys, which are copied
}

// optional reports which of the optional interfaces a database and its readers have.
func (s suite) optional(t *testing.T) (getsMany, buildsSorted bool) {
	db := s.open(t, engine.Options{Dir: newDir(t), Create: true})
	defer func() { must(t, db.Close()) }()
	_, buildsSorted = db.(engine.SortedBuilder)
	r, err := db.Reader()
	must(t, err)
	_, getsMany = r.(engine.ManyGetter)
	must(t, r.Close())
	return getsMany, buildsSorted
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
		return fmt.Errorf("get %x: not found, although it was put and committed (and, if the "+
			"database was opened again, synced and closed before)", key)
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
