// Command blockreads makes a small database of Pebble v2 and prints which blocks its Gets read. It
// imports public packages alone, as a program outside this repository does.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/statelab/statelab/blockreads"
	"github.com/statelab/statelab/blockreads/pebble2"
)

const (
	keys       = 300_000
	gets       = 20_000
	cacheBytes = 512 << 10
)

func main() {
	dir, err := os.MkdirTemp("", "blockreads")
	if err != nil {
		log.Fatal(err)
	}

	err = run(dir, os.Stdout)
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

func run(dir string, out io.Writer) error {
	if err := load(dir); err != nil {
		return err
	}

	lookups, err := open(dir, cacheBytes)
	if err != nil {
		return err
	}

	reads, err := lookups.reads(gets)
	if err != nil {
		return errors.Join(err, lookups.close())
	}

	fmt.Fprintf(out, "block reads per Get, %d Gets of %d keys, cache of %d KiB:\n%v", gets, keys,
		cacheBytes>>10, reads.PerGet(gets))
	return lookups.close()
}

// load makes a database whose older keys are on the last level and whose newest are in level 0.
func load(dir string) error {
	options := options()
	options.DisableAutomaticCompactions = true
	db, err := pebble.Open(dir, options)
	if err != nil {
		return err
	}

	for _, step := range []func() error{
		func() error { return write(db, 0, keys*9/10) },
		func() error {
			return db.Compact(context.Background(), []byte{0}, []byte{0xff, 0xff}, true)
		},
		func() error { return write(db, keys*9/10, keys) },
		db.Flush,
	} {
		if err := step(); err != nil {
			return errors.Join(err, db.Close())
		}
	}

	return db.Close()
}

func options() *pebble.Options {
	o := &pebble.Options{Logger: quiet{}}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

func write(db *pebble.DB, from, to int) error {
	value := make([]byte, 100)
	for i := from; i < to; i++ {
		binary.BigEndian.PutUint64(value, uint64(i))
		if err := db.Set(key(i), value, pebble.NoSync); err != nil {
			return err
		}
	}
	return nil
}

// key spreads the keys over all prefixes, as hashes do.
func key(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15) }

// lookups are Gets of an open database, counted.
type lookups struct {
	db      *pebble.DB
	counter *pebble2.Counter
	stop    func()
	random  *rand.Rand
}

func open(dir string, cacheBytes int64) (*lookups, error) {
	options := options()
	options.ReadOnly = true
	options.Cache = pebble.NewCache(cacheBytes)
	defer options.Cache.Unref() // the database holds its own reference

	counter := pebble2.Attach(options) // when all other options are set
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}

	stop, err := counter.Follow(db) // for reads by level
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}

	return &lookups{db, counter, stop, rand.New(rand.NewPCG(1, 1))}, nil
}

func (l *lookups) get() error {
	_, closer, err := l.db.Get(key(l.random.IntN(keys)))
	if err != nil {
		return err
	}
	return closer.Close()
}

// reads are those of n Gets after as many that warm the cache up.
func (l *lookups) reads(n int) (blockreads.Snapshot, error) {
	var before blockreads.Snapshot
	for i := range 2 * n {
		if i == n {
			before = l.counter.Snapshot()
		}

		if err := l.get(); err != nil {
			return before, err
		}
	}

	return l.counter.Snapshot().Sub(before), l.counter.Err()
}

func (l *lookups) close() error {
	l.stop() // before the database is closed
	return l.db.Close()
}

// quiet keeps Pebble's messages from the output.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(format string, args ...any) { log.Printf(format, args...) }
func (quiet) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
