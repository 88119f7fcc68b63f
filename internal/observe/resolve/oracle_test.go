package resolve

import (
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	pebble1 "github.com/cockroachdb/pebble"
	bloom1 "github.com/cockroachdb/pebble/bloom"
	pebble2 "github.com/cockroachdb/pebble/v2"
	bloom2 "github.com/cockroachdb/pebble/v2/bloom"
	vfs2 "github.com/cockroachdb/pebble/v2/vfs"
	vfs1 "github.com/cockroachdb/pebble/vfs"
)

// The oracle is the engine itself: opened read-only with a cache that admits
// nothing, over a file system that notes every read of a table. What it notes
// during a Get is what the Get asks for.

// read is a read of a table by the engine.
type read struct {
	file, offset uint64
	bytes        int
}

// notes are the reads since they were last cleared, by one goroutine.
type notes struct{ reads []read }

func (n *notes) add(path string, offset int64, bytes int) {
	number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".sst"), 10, 64)
	if err != nil {
		panic(err)
	}
	n.reads = append(n.reads, read{number, uint64(offset), bytes})
}

type oracle struct {
	*notes
	get   func(key []byte) (found bool, err error)
	seek  func(key []byte) (found bool, err error) // with an iterator that asks all filters
	close func() error

	// counted are the hits and misses of the block cache that the engine itself counts.
	counted func() int64
}

// ask returns what a Get of key reads.
func (o *oracle) ask(t testing.TB, key []byte) ([]read, bool) {
	o.notes.reads = o.notes.reads[:0]
	found, err := o.get(key)
	if err != nil {
		t.Fatal(err)
	}
	return o.notes.reads, found
}

// admitsNothing is a cache smaller than any block.
const admitsNothing = 1

// openOracle opens the engine with a cache of cacheBytes.
func openOracle(t testing.TB, f flavour, dir string, cacheBytes int64) *oracle {
	t.Helper()
	open := openOracle1
	if f.version == 2 {
		open = openOracle2
	}

	o := open(t, dir, cacheBytes)
	t.Cleanup(func() {
		if err := o.close(); err != nil {
			t.Error(err)
		}
	})

	return o
}

type notingFS1 struct {
	vfs1.FS
	notes *notes
}

func (fs notingFS1) Open(name string, options ...vfs1.OpenOption) (vfs1.File, error) {
	file, err := fs.FS.Open(name, options...)
	if err == nil && strings.HasSuffix(name, ".sst") {
		return notingFile1{file, name, fs.notes}, nil
	}
	return file, err
}

type notingFile1 struct {
	vfs1.File
	name  string
	notes *notes
}

func (f notingFile1) ReadAt(p []byte, offset int64) (int, error) {
	f.notes.add(f.name, offset, len(p))
	return f.File.ReadAt(p, offset)
}

func openOracle1(t testing.TB, dir string, cacheBytes int64) *oracle {
	o := &oracle{notes: &notes{}}
	cache := pebble1.NewCache(cacheBytes)
	defer cache.Unref()
	policy := bloom1.FilterPolicy(10)
	order := *pebble1.DefaultComparer
	order.Split = func(key []byte) int { return len(key) } // without it, iterators ask no filter
	db, err := pebble1.Open(dir, &pebble1.Options{
		Comparer:     &order,
		FS:           notingFS1{vfs1.Default, o.notes},
		Cache:        cache,
		ReadOnly:     true,
		MaxOpenFiles: 10_000,
		Logger:       silent{},
		Filters:      map[string]pebble1.FilterPolicy{policy.Name(): policy},
	})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := db.SSTables(pebble1.WithProperties()); err != nil { // opens all tables
		t.Fatal(err)
	}

	o.close = db.Close
	o.counted = func() int64 {
		m := db.Metrics()
		return m.BlockCache.Hits + m.BlockCache.Misses
	}
	o.get = func(key []byte) (bool, error) { return got(db.Get(key))(pebble1.ErrNotFound) }
	o.seek = func(key []byte) (found bool, err error) {
		i, err := db.NewIter(&pebble1.IterOptions{UseL6Filters: true})
		if err != nil {
			return false, err
		}

		found = i.SeekPrefixGE(key)
		return found, errors.Join(i.Error(), i.Close())
	}

	return o
}

type notingFS2 struct {
	vfs2.FS
	notes *notes
}

func (fs notingFS2) Unwrap() vfs2.FS { return fs.FS }

func (fs notingFS2) Open(name string, options ...vfs2.OpenOption) (vfs2.File, error) {
	file, err := fs.FS.Open(name, options...)
	if err == nil && strings.HasSuffix(name, ".sst") {
		return notingFile2{file, name, fs.notes}, nil
	}
	return file, err
}

type notingFile2 struct {
	vfs2.File
	name  string
	notes *notes
}

func (f notingFile2) ReadAt(p []byte, offset int64) (int, error) {
	f.notes.add(f.name, offset, len(p))
	return f.File.ReadAt(p, offset)
}

func openOracle2(t testing.TB, dir string, cacheBytes int64) *oracle {
	o := &oracle{notes: &notes{}}
	cache := pebble2.NewCache(cacheBytes)
	defer cache.Unref()
	policy := bloom2.FilterPolicy(10)
	db, err := pebble2.Open(dir, &pebble2.Options{
		FS:           notingFS2{vfs2.Default, o.notes},
		Cache:        cache,
		ReadOnly:     true,
		MaxOpenFiles: 10_000,
		Logger:       silent{},
		Filters:      map[string]pebble2.FilterPolicy{policy.Name(): policy},
	})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := db.SSTables(pebble2.WithProperties()); err != nil {
		t.Fatal(err)
	}

	o.close = db.Close
	o.counted = func() int64 {
		m := db.Metrics()
		return m.BlockCache.Hits + m.BlockCache.Misses
	}
	o.get = func(key []byte) (bool, error) { return got(db.Get(key))(pebble2.ErrNotFound) }
	o.seek = func(key []byte) (found bool, err error) {
		i, err := db.NewIter(&pebble2.IterOptions{UseL6Filters: true})
		if err != nil {
			return false, err
		}

		found = i.SeekPrefixGE(key)
		return found, errors.Join(i.Error(), i.Close())
	}

	return o
}

func got(_ []byte, closer io.Closer, err error) func(notFound error) (bool, error) {
	return func(notFound error) (bool, error) {
		if errors.Is(err, notFound) {
			return false, nil
		}

		if err != nil {
			return false, err
		}

		return true, closer.Close()
	}
}
