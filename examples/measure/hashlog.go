// Package hashlog is an engine in a module of its own: a log of batches, with the place of each
// value in memory, so that a Get reads once. The conformance suite of statelab tests it (go test),
// and this measures it beside Pebble:
//
//	go test -run '^$' -bench . -benchtime 1x -count 6 > results.txt
//	go run golang.org/x/perf/cmd/benchstat@latest -col /engine results.txt
package hashlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
)

// Engine opens hashlogs.
type Engine struct{}

// Info names the engine, and what it can do.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:     "hashlog",
		Version:  "1",
		Route:    "go module",
		Licence:  "as statelab",
		Profiles: []engine.Profile{{Name: "default", About: "one file, no cache"}},
		Capabilities: []engine.Capability{
			engine.CanReadBlocks, engine.HasNoCache, engine.HasNoHandles,
		},
	}
}

// Check refuses what there is not.
func (Engine) Check(o engine.Options) (errs []error) {
	if o.Profile != "" && o.Profile != "default" {
		errs = append(errs, fmt.Errorf("unknown profile %q: use default", o.Profile))
	}

	if len(o.Overrides) > 0 {
		errs = append(errs, engine.Fail(engine.CodeOption, "hashlog has no options"))
	}

	if o.CacheBytes < 0 || o.Handles < 0 {
		errs = append(errs, errors.New("a cache or a number of files below 0"))
	}

	return errs
}

// Open reads the log.
func (e Engine) Open(_ context.Context, o engine.Options) (engine.DB, error) {
	if err := errors.Join(e.Check(o)...); err != nil {
		return nil, err
	}

	flags := os.O_RDWR
	if o.ReadsOnly() {
		flags = os.O_RDONLY
	}

	if o.Create {
		flags |= os.O_CREATE | os.O_EXCL
		if err := os.MkdirAll(o.Dir, 0o755); err != nil {
			return nil, err
		}
	}

	f, err := os.OpenFile(filepath.Join(o.Dir, "hashlog"), flags, 0o644)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &engine.NotADatabaseError{Dir: o.Dir, Why: "it has no file hashlog"}
	case err != nil:
		return nil, err
	}

	d := &db{file: f, readOnly: o.ReadsOnly(), values: map[string]place{}}
	if err := d.replay(); err != nil {
		return nil, errors.Join(err, f.Close())
	}

	return d, nil
}

type db struct {
	file         *os.File
	readOnly     bool
	reads, bytes atomic.Int64

	mutex  sync.RWMutex
	values map[string]place
	end    int64 // of the last whole batch
}

type place struct {
	at   int64
	size int
}

// A batch in the log has a header: its length and its checksum.
const header = 8

// replay applies the batches of the log; one that was cut off by a kill ends it.
func (d *db) replay() error {
	log, err := io.ReadAll(d.file)
	if err != nil {
		return err
	}

	for int64(len(log))-d.end >= header {
		rest := log[d.end:]
		size := int(binary.LittleEndian.Uint32(rest))
		if size > len(rest)-header ||
			crc32.ChecksumIEEE(rest[header:header+size]) != binary.LittleEndian.Uint32(rest[4:]) {
			break
		}
		d.apply(rest[:header+size])
	}

	return nil
}

// apply notes where the values of a batch are that begins at the end of the log.
func (d *db) apply(batch []byte) {
	for at := header; at < len(batch); {
		keySize := int(binary.LittleEndian.Uint32(batch[at:]))
		valueSize := int(int32(binary.LittleEndian.Uint32(batch[at+4:]))) // -1: deleted
		key := batch[at+8 : at+8+keySize]
		at += 8 + keySize
		if valueSize < 0 {
			delete(d.values, string(key))
			continue
		}

		d.values[string(key)] = place{d.end + int64(at), valueSize}
		at += valueSize
	}

	d.end += int64(len(batch))
}

func (d *db) Reader() (engine.Reader, error) { return reader{d}, nil }

func (d *db) Writer() (engine.Writer, error) {
	if d.readOnly {
		return nil, errors.New("hashlog: open for reading only")
	}
	return &writer{db: d, batch: make([]byte, header)}, nil
}

func (d *db) Sync(context.Context) error { return d.file.Sync() }

func (*db) Settle(context.Context, func(engine.Settling)) error { return nil } // nothing goes on

func (d *db) Counters() engine.Counters {
	reads := new(engine.BlockReads)
	reads[engine.LevelUnknown][engine.Data] = engine.Tally{
		Count: d.reads.Load(),
		Bytes: d.bytes.Load(),
	}

	return engine.Counters{Reads: reads}
}

func (d *db) Shape() (engine.Shape, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	return engine.Shape{Bytes: d.end, Files: 1}, nil
}

func (*db) Effective() map[string]string {
	return map[string]string{"cache_bytes": "0", "handles": "0"}
}

func (*db) CacheBytes() int64 { return 0 }

func (*db) Warnings() []engine.Warning { return nil }

func (d *db) Close() error { return d.file.Close() }

type reader struct{ db *db }

// Get reads the value: one block read, of as many bytes as the value has.
func (r reader) Get(key, dst []byte) (value []byte, found bool, err error) {
	r.db.mutex.RLock()
	at, found := r.db.values[string(key)]
	r.db.mutex.RUnlock()
	if !found {
		return dst, false, nil
	}

	value = slices.Grow(dst[:0], at.size)[:at.size]
	r.db.reads.Add(1)
	r.db.bytes.Add(int64(at.size))
	_, err = r.db.file.ReadAt(value, at.at)
	return value, err == nil, err
}

func (reader) Close() error { return nil }

type writer struct {
	db    *db
	batch []byte
}

func (w *writer) Put(key, value []byte) error {
	w.add(key, len(value))
	w.batch = append(w.batch, value...)
	return nil
}

func (w *writer) Delete(key []byte) error {
	w.add(key, -1)
	return nil
}

func (w *writer) add(key []byte, valueSize int) {
	w.batch = binary.LittleEndian.AppendUint32(w.batch, uint32(len(key)))
	w.batch = binary.LittleEndian.AppendUint32(w.batch, uint32(valueSize))
	w.batch = append(w.batch, key...)
}

func (w *writer) Commit() error {
	binary.LittleEndian.PutUint32(w.batch, uint32(len(w.batch)-header))
	binary.LittleEndian.PutUint32(w.batch[4:], crc32.ChecksumIEEE(w.batch[header:]))
	w.db.mutex.Lock()
	defer w.db.mutex.Unlock()
	if _, err := w.db.file.WriteAt(w.batch, w.db.end); err != nil {
		return err
	}

	w.db.apply(w.batch)
	w.batch = w.batch[:header]
	return nil
}

func (*writer) Close() error { return nil }
