package geth

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/statelab/statelab/engine"
)

// store is a key-value store for go-ethereum on one of statelab's engines, which count the blocks
// that they read and can be opened with other options than a node's. Its engine's readers may be
// used by several goroutines at once, as those of Pebble may.
type store struct {
	db     engine.DB
	reader engine.Reader
}

func openStore(ctx context.Context, e engine.Engine, o engine.Options) (*store, error) {
	db, err := e.Open(ctx, o)
	if err != nil {
		return nil, err
	}

	reader, err := db.Reader()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}

	return &store{db, reader}, nil
}

var (
	errNoKey = errors.New("not found")
	// errUnused is of what the path scheme does not ask of a database of a binary trie.
	errUnused = errors.New("the store of a binary trie offers no iterators, ranges or replays")
)

func (s *store) Has(key []byte) (bool, error) {
	_, found, err := s.reader.Get(key, nil)
	return found, err
}

func (s *store) Get(key []byte) ([]byte, error) {
	value, found, err := s.reader.Get(key, nil)
	if err == nil && !found {
		err = errNoKey
	}
	return value, err
}

// once writes a batch of one change.
func (s *store) once(change func(*batch) error) error {
	b := s.batch()
	defer b.Close()
	if err := change(b); err != nil {
		return err
	}
	return b.Write()
}

func (s *store) Put(key, value []byte) error {
	return s.once(func(b *batch) error { return b.Put(key, value) })
}

func (s *store) Delete(key []byte) error {
	return s.once(func(b *batch) error { return b.Delete(key) })
}

func (s *store) SyncKeyValue() error { return s.db.Sync(context.Background()) }

func (s *store) Close() error { return errors.Join(s.reader.Close(), s.db.Close()) }

func (s *store) DeleteRange(_, _ []byte) error { return errUnused }
func (s *store) Compact(_, _ []byte) error     { return errUnused }
func (s *store) Stat() (string, error)         { return "", errUnused }

func (s *store) NewIterator(_, _ []byte) ethdb.Iterator { return noIterator{} }

// noIterator has nothing and says why.
type noIterator struct{}

func (noIterator) Next() bool    { return false }
func (noIterator) Error() error  { return errUnused }
func (noIterator) Key() []byte   { return nil }
func (noIterator) Value() []byte { return nil }
func (noIterator) Release()      {}

func (s *store) NewBatch() ethdb.Batch               { return s.batch() }
func (s *store) NewBatchWithSize(_ int) ethdb.Batch  { return s.batch() }
func (s *store) batch() *batch                       { return &batch{store: s} }
func (b *batch) Replay(_ ethdb.KeyValueWriter) error { return errUnused }
func (b *batch) DeleteRange(_, _ []byte) error       { return errUnused }

// batch is writes that are made together.
type batch struct {
	store  *store
	writer engine.Writer // nil until there is something to write
	bytes  int
}

func (b *batch) add(bytes int, change func(engine.Writer) error) (err error) {
	if b.writer == nil {
		if b.writer, err = b.store.db.Writer(); err != nil {
			return err
		}
	}
	b.bytes += bytes
	return change(b.writer)
}

func (b *batch) Put(key, value []byte) error {
	return b.add(len(key)+len(value), func(w engine.Writer) error { return w.Put(key, value) })
}

func (b *batch) Delete(key []byte) error {
	return b.add(len(key), func(w engine.Writer) error { return w.Delete(key) })
}

func (b *batch) ValueSize() int { return b.bytes }

func (b *batch) Write() error {
	if b.writer == nil {
		return nil
	}
	if err := b.writer.Commit(); err != nil {
		return fmt.Errorf("write a batch of %d bytes: %w", b.bytes, err)
	}
	b.bytes = 0
	return nil
}

// Reset drops what was not written.
func (b *batch) Reset() { b.Close() }

func (b *batch) Close() {
	if b.writer != nil {
		_ = b.writer.Close() // of Pebble it never fails
	}
	b.writer, b.bytes = nil, 0
}
