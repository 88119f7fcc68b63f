// Command levelnode is a program with goleveldb that knows nothing of Statelab: a node for the
// tests of statelab watch.
//
//	levelnode fill DIR KEYS                     writes a database
//	levelnode mix DIR KEYS RATE CACHE-BYTES     makes Gets and writes, so many a second, and tells how many when its input ends
//	levelnode hold DIR DIR                      opens two databases and waits for the end of its input
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(verb string, args []string) error {
	number := func(i int) int {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			panic(err)
		}
		return n
	}

	switch verb {
	case "fill":
		return fill(args[0], number(1))
	case "mix":
		return mix(args[0], number(1), number(2), number(3))
	}

	for _, dir := range args {
		db, err := open(dir, 0)
		if err != nil {
			return err
		}

		defer db.Close()
		if _, err := db.Get([]byte("none"), nil); !errors.Is(err, leveldb.ErrNotFound) {
			return err
		}
	}

	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// open opens a database whose memtables and tables are small, so that they come and go often.
func open(dir string, cacheBytes int) (*leveldb.DB, error) {
	const small = 256 << 10
	return leveldb.OpenFile(dir,
		&opt.Options{
			BlockCacheCapacity:     cacheBytes,
			WriteBuffer:            small,
			CompactionTableSize:    small,
			CompactionTotalSize:    4 * small,
			Filter:                 filter.NewBloomFilter(10),
			DisableSeeksCompaction: true,
		})
}

func key(n int) []byte {
	return fmt.Appendf(nil, "%016x", uint64(n)*0x9e3779b97f4a7c15)
}

func value(n int) []byte {
	v := make([]byte, 100)
	binary.LittleEndian.PutUint64(v, uint64(n))
	return v
}

func fill(dir string, keys int) error {
	db, err := open(dir, 0)
	if err != nil {
		return err
	}
	for n := 0; n < keys && err == nil; n++ {
		err = db.Put(key(n), value(n), nil)
	}
	return errors.Join(err, db.Close())
}

// mix makes rounds of Gets, of which a few keys get most and a tenth has no such key, each with a
// batch of writes, as a node does for each of its blocks.
func mix(dir string, keys, rate, cacheBytes int) error {
	const gets, puts = 200, 60
	db, err := open(dir, cacheBytes)
	if err != nil {
		return err
	}

	ended := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()

	random := rand.New(rand.NewPCG(1, 2))
	often := func() int { return int(float64(keys) * math.Pow(random.Float64(), 3)) }
	fmt.Println("ready")
	began, made := time.Now(), 0
	for {
		select {
		case err := <-ended:
			fmt.Println("gets", made)
			return errors.Join(err, db.Close())
		case <-time.After(time.Duration(made)*time.Second/time.Duration(rate) - time.Since(began)):
		}

		for range gets {
			n := often()
			if random.IntN(10) == 0 {
				n += keys
			}

			if _, err := db.Get(key(n), nil); err != nil && !errors.Is(err, leveldb.ErrNotFound) {
				return err
			}
		}

		made += gets
		batch := new(leveldb.Batch)
		for range puts {
			n := often()
			batch.Put(key(n), value(n+made))
		}

		if err := db.Write(batch, nil); err != nil {
			return err
		}
	}
}
