// Package mem is an engine that keeps everything in a map: the oracle of tests
// and the lower bound of what a lookup can cost.
//
// Keys are spread over shards, each with a lock; a commit locks the shards it
// touches, in order, so that batches are atomic. Nothing reaches the disk.
package mem

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
)

// Engine keeps everything in memory.
type Engine struct{}

// Info describes the adapter.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:         "mem",
		Version:      "1",
		Route:        "built in",
		Licence:      "as statelab",
		Capabilities: []engine.Capability{engine.IsVolatile},
		Profiles:     []engine.Profile{{Name: "default", About: "a map in memory"}},
	}
}

// Check names what is wrong with o.
func (Engine) Check(o engine.Options) (errs []error) {
	if o.Profile != "" && o.Profile != "default" {
		errs = append(errs, fmt.Errorf("unknown profile %q: use default", o.Profile))
	}

	if o.CacheBytes < 0 || o.Handles < 0 {
		errs = append(errs,
			fmt.Errorf("cache %d, handles %d: neither may be negative", o.CacheBytes, o.Handles))
	}

	if len(o.Overrides) > 0 {
		names := slices.Sorted(maps.Keys(o.Overrides))
		errs = append(errs,
			engine.Fail(engine.CodeOption, "unknown option %s: mem has none",
				strings.Join(names, ", ")))
	}

	return errs
}

// Open returns an empty database: what an earlier one held is gone.
func (e Engine) Open(_ context.Context, o engine.Options) (engine.DB, error) {
	if errs := e.Check(o); len(errs) > 0 {
		return nil, fmt.Errorf("mem: open: %w", errs[0])
	}
	d := &db{seed: maphash.MakeSeed(), readOnly: o.ReadsOnly()}
	for i := range d.shards {
		d.shards[i].values = map[string][]byte{}
	}
	return d, nil
}

const shards = 64

type db struct {
	seed     maphash.Seed
	readOnly bool
	shards   [shards]shard
	written  atomic.Int64
}

type shard struct {
	sync.RWMutex
	values map[string][]byte
	bytes  int64
	_      [64]byte
}

func (d *db) shardOf(key []byte) int { return int(maphash.Bytes(d.seed, key) % shards) }

func (d *db) Reader() (engine.Reader, error) { return reader{d}, nil }

func (d *db) Writer() (engine.Writer, error) {
	if d.readOnly {
		return nil, fmt.Errorf("mem: the database is open for reading only")
	}
	return &writer{db: d}, nil
}

func (*db) Sync(context.Context) error { return nil }

func (*db) Settle(context.Context, func(engine.Settling)) error { return nil }

func (d *db) Counters() engine.Counters {
	var held int64
	for i := range d.shards {
		s := &d.shards[i]
		s.RLock()
		held += s.bytes
		s.RUnlock()
	}
	return engine.Counters{MemtableBytes: &held, UserWriteBytes: new(d.written.Load())}
}

func (*db) Shape() (engine.Shape, error) { return engine.Shape{}, nil }

// CacheBytes is 0: there is no block cache.
func (*db) CacheBytes() int64 { return 0 }

func (*db) Effective() map[string]string {
	return map[string]string{"cache_bytes": "0", "handles": "0"}
}

func (*db) Warnings() []engine.Warning { return nil }

func (*db) Close() error { return nil }

type reader struct{ db *db }

func (r reader) Get(key, dst []byte) ([]byte, bool, error) {
	s := &r.db.shards[r.db.shardOf(key)]
	s.RLock()
	defer s.RUnlock()
	value, found := s.values[string(key)]
	return append(dst[:0], value...), found, nil
}

func (reader) Close() error { return nil }

type writer struct {
	db     *db
	writes []write
	bytes  int64
}

type write struct {
	shard   int
	key     string
	value   []byte
	deleted bool
}

func (w *writer) Put(key, value []byte) error {
	w.add(write{shard: w.db.shardOf(key), key: string(key), value: append([]byte{}, value...)})
	return nil
}

func (w *writer) Delete(key []byte) error {
	w.add(write{shard: w.db.shardOf(key), key: string(key), deleted: true})
	return nil
}

func (w *writer) add(x write) {
	w.writes = append(w.writes, x)
	w.bytes += int64(len(x.key) + len(x.value))
}

func (w *writer) Commit() error {
	var touched [shards]bool
	for _, x := range w.writes {
		touched[x.shard] = true
	}

	for i := range touched {
		if touched[i] {
			w.db.shards[i].Lock()
			defer w.db.shards[i].Unlock()
		}
	}

	for _, x := range w.writes {
		w.db.shards[x.shard].apply(x)
	}

	w.db.written.Add(w.bytes)
	w.writes, w.bytes = w.writes[:0], 0
	return nil
}

func (s *shard) apply(x write) {
	if old, had := s.values[x.key]; had {
		s.bytes -= int64(len(x.key) + len(old))
	}

	if x.deleted {
		delete(s.values, x.key)
		return
	}

	s.values[x.key] = x.value
	s.bytes += int64(len(x.key) + len(x.value))
}

func (*writer) Close() error { return nil }
