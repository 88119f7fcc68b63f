//go:build cgo

package rocksdb

// #include "capi.h"
// #cgo noescape rocks_get
// #cgo nocallback rocks_get
// #cgo noescape rocks_get_all
// #cgo nocallback rocks_get_all
// #cgo noescape rocks_writebatch_put_cf
// #cgo nocallback rocks_writebatch_put_cf
// #cgo noescape rocks_writebatch_delete_cf
// #cgo nocallback rocks_writebatch_delete_cf
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

type reader struct{ c *C.rocks_reader }

func (d *db) Reader() (engine.Reader, error) {
	options, err := d.readOptions(d.own())
	if err != nil {
		return nil, err
	}

	c := (*C.rocks_reader)(C.calloc(1, C.sizeof_rocks_reader))
	c.db, c.family, c.options = d.rocks, d.own().handle, options
	if families := d.asked(); len(families) > 1 {
		return d.newMixReader(reader{c}, families)
	}

	if !canGetMany() {
		return &reader{c}, nil
	}

	return d.newManyReader(reader{c})
}

// Get is one call into C, which copies the value to where the caller wants it; a
// second one only where dst was too small.
func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	dst = dst[:cap(dst)]
	for {
		n := int(C.rocks_get(r.c, chars(key), C.size_t(len(key)), chars(dst), C.size_t(len(dst))))
		switch {
		case n == C.rocks_missing:
			return dst[:0], false, nil
		case n == C.rocks_failed:
			return dst[:0], false, r.failure()
		case n <= len(dst):
			return dst[:n], true, nil
		}

		dst = make([]byte, n)
	}
}

// mixReader looks a key of a mix up in its family.
type mixReader struct {
	reader
	families []family
	options  []*C.rocksdb_readoptions_t // of each
}

func (d *db) newMixReader(r reader, families []family) (engine.Reader, error) {
	m := &mixReader{reader: r, families: families, options: []*C.rocksdb_readoptions_t{r.c.options}}
	for _, f := range families[1:] {
		o, err := d.readOptions(f)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		m.options = append(m.options, o)
	}

	return m, nil
}

func (r *mixReader) Get(mixed, dst []byte) ([]byte, bool, error) {
	table, key, known := adapter.Unmix(len(r.families), mixed)
	if !known {
		return dst[:0], false, nil
	}
	r.c.family, r.c.options = r.families[table].handle, r.options[table]
	return r.reader.Get(key, dst)
}

func (r *mixReader) Close() error {
	for _, o := range r.options[1:] {
		C.rocks_readoptions_destroy(o)
	}
	r.c.options = r.options[0]
	return r.reader.Close()
}

// getAll gets keys of size bytes each, one behind the other, in a loop of C's and
// returns how many it found.
func (r *reader) getAll(keys []byte, size int, dst []byte) (int, error) {
	found := C.rocks_get_all(r.c, chars(keys), C.size_t(size), C.size_t(len(keys)/size),
		chars(dst), C.size_t(len(dst)))
	if found == C.rocks_failed {
		return 0, r.failure()
	}
	return int(found), nil
}

func (r *reader) failure() error {
	err := errFromC(r.c.err)
	r.c.err = nil
	return explained(err)
}

// explained is an error of reading a key, with a way out where the owner's code is needed.
func explained(err error) error {
	if engine.CodeOf(err) != engine.CodeUnsupported {
		return err
	}
	return engine.Fail(engine.CodeUnsupported, "the key has merges that are still to be applied, "+
		"which needs code of the program that owns the database: %w", err).
		WithRemedy("let that program write a copy that is compacted to the last level, or choose " +
			"another table with --table")
}

func (r *reader) Close() error {
	C.rocks_readoptions_destroy(r.c.options)
	C.free(unsafe.Pointer(r.c))
	return nil
}

func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

var errReadOnly = errors.New("rocksdb: the database is open for reading only")

type writer struct {
	db    *db
	batch *C.rocksdb_writebatch_t
	bytes int64 // keys and values in the batch
}

func (d *db) Writer() (engine.Writer, error) {
	if d.settings.readOnly {
		return nil, errReadOnly
	}
	return &writer{db: d, batch: C.rocks_writebatch_create()}, nil
}

func (w *writer) Put(key, value []byte) error {
	w.bytes += int64(len(key) + len(value))
	C.rocks_writebatch_put_cf(w.batch, w.db.own().handle, chars(key), C.size_t(len(key)),
		chars(value), C.size_t(len(value)))
	return nil
}

func (w *writer) Delete(key []byte) error {
	w.bytes += int64(len(key))
	C.rocks_writebatch_delete_cf(w.batch, w.db.own().handle, chars(key), C.size_t(len(key)))
	return nil
}

func (w *writer) Commit() error {
	count := int(C.rocks_writebatch_count(w.batch))
	if count == 0 {
		return nil
	}

	var message *C.char
	C.rocks_write(w.db.rocks, w.db.writes, w.batch, &message)
	if err := errFromC(message); err != nil {
		return fmt.Errorf("rocksdb: commit a batch of %d entries: %w", count, err)
	}

	w.db.written.Add(w.bytes)
	w.bytes = 0
	C.rocks_writebatch_clear(w.batch)
	return nil
}

func (w *writer) Close() error {
	C.rocks_writebatch_destroy(w.batch)
	return nil
}
