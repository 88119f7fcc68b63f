// Command blockreads-geth opens go-ethereum's own database package with a counter under it, prints
// which blocks its Gets read, and compares their number with the misses of the block cache that
// go-ethereum reports as a metric. It imports public packages alone.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	pebblev1 "github.com/cockroachdb/pebble"
	pebblev2 "github.com/cockroachdb/pebble/v2"
	vfsv2 "github.com/cockroachdb/pebble/v2/vfs"
	vfsv1 "github.com/cockroachdb/pebble/vfs"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/pebble"
	"github.com/ethereum/go-ethereum/metrics"

	"github.com/statelab/statelab/blockreads"
	"github.com/statelab/statelab/blockreads/pebble1"
	"github.com/statelab/statelab/blockreads/pebble2"
)

const (
	accounts = 300_000
	gets     = 20_000
	cacheMiB = 16 // the smallest that go-ethereum takes
	handles  = 64
)

// A counter is a *pebble1.Counter or a *pebble2.Counter.
type counter interface {
	Snapshot() blockreads.Snapshot
	Err() error
}

// An opener opens a database of go-ethereum. The counter is of what is opened with it.
type opener func(dir, namespace string, readonly bool) (ethdb.KeyValueStore, counter, error)

// openV2 opens a database as go-ethereum does today, over Pebble v2. Its package makes the options
// of Pebble itself and sets no file system, so Pebble takes vfs.Default: it is the counter's
// while the database is opened. Nothing else may open a database at the same time.
func openV2(dir, namespace string, readonly bool) (ethdb.KeyValueStore, counter, error) {
	options := &pebblev2.Options{}
	c := pebble2.Attach(options)
	defer func(before vfsv2.FS) { vfsv2.Default = before }(vfsv2.Default)
	vfsv2.Default = options.FS
	db, err := pebble.New(dir, cacheMiB, handles, namespace, readonly)
	return db, c, err
}

// openV1 is openV2 for the databases over Pebble v1 that older versions of go-ethereum made.
func openV1(dir, namespace string, readonly bool) (ethdb.KeyValueStore, counter, error) {
	options := &pebblev1.Options{}
	c := pebble1.Attach(options)
	defer func(before vfsv1.FS) { vfsv1.Default = before }(vfsv1.Default)
	vfsv1.Default = options.FS
	db, err := pebble.NewV1(dir, cacheMiB, handles, namespace, readonly)
	return db, c, err
}

func main() {
	dir, err := os.MkdirTemp("", "blockreads-geth")
	if err != nil {
		log.Fatal(err)
	}

	err = run(filepath.Join(dir, "v1"), "v1", openV1, os.Stdout)
	if err == nil {
		err = run(filepath.Join(dir, "v2"), "v2", openV2, os.Stdout)
	}

	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

func run(dir, version string, open opener, out io.Writer) error {
	if err := load(dir, open); err != nil {
		return err
	}

	// Opened for reading only, nothing but Gets reads.
	namespace := "blockreads/" + version + "/"
	db, c, err := open(dir, namespace, true)
	if err != nil {
		return err
	}

	reads, misses, err := measure(db, c, namespace)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}

	fmt.Fprintf(out, "go-ethereum over Pebble %s: block reads per Get, %d Gets of %d accounts, "+
		"cache of %d MiB:\n%v", version, gets, accounts, cacheMiB, reads.PerGet(gets))
	counted := reads.Total().Count - reads.TableOpens // footers do not come by the block cache
	fmt.Fprintf(out, "blockreads counts %d reads by the block cache, go-ethereum %d misses\n\n",
		counted, misses)
	if counted != misses {
		return errors.New("they differ")
	}
	return nil
}

// load makes a database of accounts in snapshot form, all on the last level.
func load(dir string, open opener) error {
	db, _, err := open(dir, "load/", false)
	if err != nil {
		return err
	}

	batch := db.NewBatch()
	value := make([]byte, 70)
	for i := range accounts {
		binary.BigEndian.PutUint64(value, uint64(i))
		err = errors.Join(err, batch.Put(key(i), value))
		if batch.ValueSize() > ethdb.IdealBatchSize {
			err = errors.Join(err, batch.Write())
			batch.Reset()
		}
	}

	return errors.Join(err, batch.Write(), db.Compact(nil, nil), db.Close())
}

// key is that of an account in go-ethereum's snapshot: "a" and the hash of the address.
func key(i int) []byte {
	return append([]byte("a"), crypto.Keccak256(binary.BigEndian.AppendUint64(nil, uint64(i)))...)
}

// measure makes Gets and returns what they read, and the misses of the block cache that
// go-ethereum reports since the database was opened.
func measure(db ethdb.KeyValueStore, c counter, namespace string) (
	reads blockreads.Snapshot, misses int64, err error,
) {
	random := rand.New(rand.NewPCG(1, 1))
	for range gets {
		if _, err := db.Get(key(random.IntN(accounts))); err != nil {
			return reads, 0, err
		}
	}

	// Every few seconds go-ethereum copies what Pebble counts to its metrics. It has done so since
	// the last Get when it has seen an iterator that was opened after it, and then that it is gone.
	iterators := metrics.GetOrRegisterGauge(namespace+"iter/count", nil)
	iterator := db.NewIterator(nil, nil)
	iterator.Next()
	err = wait(func() bool { return iterators.Snapshot().Value() != 0 })
	iterator.Release()
	if err == nil {
		err = wait(func() bool { return iterators.Snapshot().Value() == 0 })
	}

	if err != nil {
		return reads, 0, err
	}

	misses = metrics.GetOrRegisterGauge(namespace+"cache/block/miss", nil).Snapshot().Value()
	return c.Snapshot(), misses, c.Err()
}

// wait returns when go-ethereum has copied what is waited for to its metrics.
func wait(copied func() bool) error {
	const limit = 2 * time.Minute
	for began := time.Now(); !copied(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > limit {
			return fmt.Errorf("go-ethereum did not update its metrics in %v", limit)
		}
	}
	return nil
}
