// Command seeknode is a program that looks keys up by Gets and by iterators, and tells what the
// engine counted of them: a node for the tests of statelab watch.
//
//	seeknode pebble1|pebble2|goleveldb DIR KEYS GETS SEEKS CACHE-BYTES
//
// It writes a database unless there is one, opens its tables, says so, waits for a line, and makes
// the Gets and then the Seeks, each of an iterator of its own that goes on for some keys.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"

	pebble1 "github.com/cockroachdb/pebble"
	bloom1 "github.com/cockroachdb/pebble/bloom"
	pebble2 "github.com/cockroachdb/pebble/v2"
	bloom2 "github.com/cockroachdb/pebble/v2/bloom"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

const goesOn = 40 // keys behind a Seek

// database is what is asked of an engine.
type database interface {
	put(key, value []byte) error
	compact() error
	get(key []byte) error
	// seek makes one Seek of a kind and goes on; it returns how many Seeks the engine counted.
	seek(kind int, key []byte) (seeks int, err error)
	reads() int64 // of blocks, so far
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(engine, dir string, args []string) error {
	var n [4]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(args[i]); err != nil {
			return err
		}
	}

	keys, gets, seeks := n[0], n[1], n[2]
	_, missing := os.Stat(dir)
	db, err := map[string]func(string, int) (database, error){
		"pebble1": open1, "pebble2": open2, "goleveldb": openLevel,
	}[engine](dir, n[3])
	if err != nil {
		return err
	}

	random := rand.New(rand.NewPCG(1, 1))
	if missing != nil {
		if err := fill(db, keys, random); err != nil {
			return err
		}
	}

	for i := 0; i < keys; i += max(1, keys/1000) { // opens all tables
		if err := db.get(key(i)); err != nil {
			return err
		}
	}

	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}

	before := db.reads()
	for range gets {
		if err := db.get(key(random.IntN(keys))); err != nil {
			return err
		}
	}

	between, counted := db.reads(), 0
	for i := range seeks {
		seeks, err := db.seek(i, key(random.IntN(keys)))
		if err != nil {
			return err
		}
		counted += seeks
	}

	return json.NewEncoder(os.Stdout).Encode(map[string]int64{"seeks": int64(counted),
		"get_reads": between - before, "seek_reads": db.reads() - between})
}

func fill(db database, keys int, random *rand.Rand) error {
	value := make([]byte, 100)
	for i := range keys {
		for at := range value {
			value[at] = byte(random.Uint32())
		}
		if err := db.put(key(i), value); err != nil {
			return err
		}
	}

	return db.compact()
}

func key(n int) []byte {
	return fmt.Appendf(nil, "%016x%016x", uint64(n)*0x9e3779b97f4a7c15, n)
}

// pebbleIterator is of both versions.
type pebbleIterator interface {
	SeekGE(key []byte) bool
	SeekPrefixGE(key []byte) bool
	SeekLT(key []byte) bool
	Next() bool
	Prev() bool
}

// walk makes one Seek, unless First was one, and goes on.
func walk(it pebbleIterator, kind int, key []byte) {
	forward := true
	switch kind % 4 {
	case 1:
		it.SeekGE(key)
	case 2:
		it.SeekPrefixGE(key)
	case 3:
		it.SeekLT(append(key[:1:1], 'g'))
		forward = false
	}

	for range goesOn {
		if forward && !it.Next() || !forward && !it.Prev() {
			break
		}
	}
}

type db1 struct{ *pebble1.DB }

func open1(dir string, cacheBytes int) (database, error) {
	comparer := *pebble1.DefaultComparer
	comparer.Split = func(key []byte) int { return len(key) } // SeekPrefixGE needs one
	level := pebble1.LevelOptions{FilterPolicy: bloom1.FilterPolicy(10)}
	db, err := pebble1.Open(dir, &pebble1.Options{
		Cache:        pebble1.NewCache(int64(cacheBytes)),
		Comparer:     &comparer,
		MemTableSize: 256 << 10,
		Levels:       []pebble1.LevelOptions{level},
		Logger:       quiet{},
	})
	return db1{db}, err
}

func (d db1) put(key, value []byte) error { return d.Set(key, value, pebble1.NoSync) }
func (d db1) compact() error              { return d.Compact([]byte("0"), []byte("g"), false) }
func (d db1) reads() int64                { return d.Metrics().BlockCache.Misses }

func (d db1) get(key []byte) error {
	_, closer, err := d.Get(key)
	if err == nil {
		err = closer.Close()
	}
	return err
}

func (d db1) seek(kind int, key []byte) (seeks int, err error) {
	it, err := d.NewIter(&pebble1.IterOptions{LowerBound: key})
	if err != nil {
		return 0, err
	}

	if kind%4 == 0 {
		it.First() // called by its name, as clients do
	}

	walk(it, kind, key)
	stats := it.Stats()
	return stats.ForwardSeekCount[pebble1.InterfaceCall] +
		stats.ReverseSeekCount[pebble1.InterfaceCall], it.Close()
}

type db2 struct{ *pebble2.DB }

func open2(dir string, cacheBytes int) (database, error) {
	options := &pebble2.Options{
		CacheSize:    int64(cacheBytes),
		MemTableSize: 256 << 10,
		Logger:       quiet{},
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom2.FilterPolicy(10)
	}
	db, err := pebble2.Open(dir, options)
	return db2{db}, err
}

func (d db2) put(key, value []byte) error { return d.Set(key, value, pebble2.NoSync) }
func (d db2) reads() int64                { return d.Metrics().BlockCache.Misses }

func (d db2) compact() error {
	return d.Compact(context.Background(), []byte("0"), []byte("g"), false)
}

func (d db2) get(key []byte) error {
	_, closer, err := d.Get(key)
	if err == nil {
		err = closer.Close()
	}
	return err
}

func (d db2) seek(kind int, key []byte) (seeks int, err error) {
	it, err := d.NewIter(&pebble2.IterOptions{LowerBound: key})
	if err != nil {
		return 0, err
	}

	if kind%4 == 0 {
		it.First() // called by its name, as clients do
	}

	walk(it, kind, key)
	stats := it.Stats()
	return stats.ForwardSeekCount[pebble2.InterfaceCall] +
		stats.ReverseSeekCount[pebble2.InterfaceCall], it.Close()
}

// levelDB counts its reads of tables where it makes them.
type levelDB struct {
	*leveldb.DB
	read *atomic.Int64
}

func openLevel(dir string, cacheBytes int) (database, error) {
	files, err := storage.OpenFile(dir, false)
	if err != nil {
		return nil, err
	}

	read := new(atomic.Int64)
	db, err := leveldb.Open(counting{files, read}, &opt.Options{
		BlockCacheCapacity:     cacheBytes,
		WriteBuffer:            256 << 10,
		Filter:                 filter.NewBloomFilter(10),
		DisableSeeksCompaction: true,
	})
	return levelDB{db, read}, err
}

func (d levelDB) put(key, value []byte) error { return d.Put(key, value, nil) }
func (d levelDB) reads() int64                { return d.read.Load() }

func (d levelDB) compact() error { return d.CompactRange(util.Range{}) }

func (d levelDB) get(key []byte) error {
	_, err := d.Get(key, nil)
	return err
}

func (d levelDB) seek(kind int, key []byte) (seeks int, err error) {
	it := d.NewIterator(nil, nil)
	defer it.Release()
	forward := true
	switch kind % 3 {
	case 0:
		it.First()
	case 1:
		it.Seek(key)
	case 2:
		it.Last()
		forward = false
	}

	for range goesOn {
		if forward && !it.Next() || !forward && !it.Prev() {
			break
		}
	}
	return 1, it.Error()
}

// counting is a storage that counts the reads of tables.
type counting struct {
	storage.Storage
	read *atomic.Int64
}

func (c counting) Open(fd storage.FileDesc) (storage.Reader, error) {
	r, err := c.Storage.Open(fd)
	if err == nil && fd.Type == storage.TypeTable {
		r = countingReader{r, c.read}
	}
	return r, err
}

type countingReader struct {
	storage.Reader
	read *atomic.Int64
}

func (c countingReader) ReadAt(p []byte, off int64) (int, error) {
	c.read.Add(1)
	return c.Reader.ReadAt(p, off)
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format, args...)
	os.Exit(1)
}
