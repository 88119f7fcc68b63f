package bench

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/result"
)

// shelf is an engine whose databases are one map that outlives them, so that a
// load and a read can follow each other in one process. Hooks make it lie, fail
// or stall.
type shelf struct {
	mutex sync.RWMutex
	pairs map[string][]byte

	gets    atomic.Int64
	commits atomic.Int64
	onGet   func(call int64, key, value []byte, found bool) ([]byte, bool, error) // nil: the truth
	// block reads of a Get; nil: not counted
	reads func(call int64) int64
	count atomic.Int64
}

func newShelf() *shelf { return &shelf{pairs: map[string][]byte{}} }

func (*shelf) Info() engine.Info {
	return engine.Info{Name: "shelf", Version: "1", Profiles: []engine.Profile{{Name: "default"}}}
}
func (*shelf) Check(engine.Options) []error                              { return nil }
func (s *shelf) Open(context.Context, engine.Options) (engine.DB, error) { return s, nil }
func (s *shelf) Reader() (engine.Reader, error) {
	return &shelfReader{s}, nil
}
func (s *shelf) Writer() (engine.Writer, error) {
	return &shelfWriter{s, map[string][]byte{}}, nil
}
func (*shelf) Sync(context.Context) error                          { return nil }
func (*shelf) Settle(context.Context, func(engine.Settling)) error { return nil }
func (*shelf) Effective() map[string]string {
	return map[string]string{"cache_bytes": "4096"}
}
func (*shelf) CacheBytes() int64          { return 4096 }
func (*shelf) Warnings() []engine.Warning { return nil }
func (*shelf) Close() error               { return nil }
func (s *shelf) Shape() (engine.Shape, error) {
	return engine.Shape{Bytes: int64(len(s.pairs)), Files: 1}, nil
}
func (s *shelf) Counters() (c engine.Counters) {
	if s.reads != nil {
		c.Reads = new(engine.BlockReads)
		c.Reads[0][engine.Data] = engine.Tally{Count: s.count.Load(), Bytes: 4096 * s.count.Load()}
	}
	return c
}

type shelfReader struct{ *shelf }

func (r *shelfReader) Get(key, dst []byte) ([]byte, bool, error) {
	call := r.gets.Add(1)
	if r.reads != nil {
		r.count.Add(r.reads(call))
	}

	r.mutex.RLock()
	value, found := r.pairs[string(key)]
	r.mutex.RUnlock()
	if r.onGet != nil {
		return r.onGet(call, key, value, found)
	}

	return append(dst[:0], value...), found, nil
}
func (*shelfReader) Close() error { return nil }

type shelfWriter struct {
	*shelf
	batch map[string][]byte
}

func (w *shelfWriter) Put(key, value []byte) error {
	w.batch[string(key)] = bytes.Clone(value)
	return nil
}
func (w *shelfWriter) Delete(key []byte) error { return nil }
func (w *shelfWriter) Commit() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	maps.Copy(w.pairs, w.batch)
	clear(w.batch)
	w.commits.Add(1)
	return nil
}
func (*shelfWriter) Close() error { return nil }

const shelfKeys = 10_000

// loaded is a shelf that the verb load has filled, and a spec that reads it.
func loaded(t *testing.T) (*shelf, *Spec) {
	t.Helper()
	s := newShelf()
	spec := &Spec{
		Schema:     schema.EngineSpec,
		Verb:       Load,
		Out:        t.TempDir(),
		Engine:     "shelf",
		Dir:        t.TempDir(),
		PageCache:  AsIs,
		Workload:   workload.FillRandom,
		Keys:       shelfKeys,
		KeyBytes:   32,
		KeyHash:    keyspace.Mix,
		ValueModel: keyspace.Random,
		ValueBytes: 110,
		BatchKeys:  100,
		Threads:    3,
		Seed:       1,
	}

	if _, err := Run(context.Background(), s, spec, func(result.Event) {}); err != nil {
		t.Fatal(err)
	}

	return s, &Spec{Schema: schema.EngineSpec, Verb: Read, Out: t.TempDir(), Engine: "shelf",
		Dir: spec.Dir, PageCache: AsIs, Workload: workload.ReadRandom,
		Threads: 3, Gets: 10_001, Seed: 1, BatchKeys: 100, Writers: 1}
}

func runOn(t *testing.T, s *shelf, spec *Spec) *result.Run {
	t.Helper()
	r, err := Run(context.Background(), s, spec, func(result.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
