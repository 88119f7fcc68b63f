package mmapdb

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// Txn is a transaction of either library, whose types of a table and of a cursor are
// T and C.
type Txn[T any, C LibraryCursor] interface {
	Put(table T, key, value []byte, flags uint) error
	Del(table T, key, value []byte) error
	OpenCursor(table T) (C, error)
}

// LibraryCursor is the cursor of either library.
type LibraryCursor interface {
	Get(key, value []byte, operation uint) ([]byte, []byte, error)
	Del(flags uint) error
	Close()
}

// CursorOps are a library's names of the operations of a cursor and of an absent key.
type CursorOps struct {
	First, Last, Next, SetRange uint
	IsNotFound                  func(error) bool
}

func (w CursorOps) absentIsNil(err error) error {
	if w.IsNotFound(err) {
		return nil
	}
	return err
}

// SampleTable calls yield with n keys of a table: see sample.
func SampleTable[T any, C LibraryCursor](
	ctx context.Context, txn Txn[T, C], table T, w CursorOps, n int, seed uint64,
	yield func(key []byte) error,
) error {
	cursor, err := txn.OpenCursor(table)
	if err != nil {
		return fmt.Errorf("sample keys: %w", err)
	}

	defer cursor.Close()
	return sample(ctx, walker{w, func(key []byte, operation uint) ([]byte, error) {
		key, _, err := cursor.Get(key, nil, operation)
		if w.IsNotFound(err) {
			return nil, nil
		}
		return key, err
	}}, n, seed, yield)
}

// namedTables lists the named tables: the keys of the root, where its first key is the
// name of one.
func namedTables[T any, C LibraryCursor](txn Txn[T, C], root T, w CursorOps,
	tableOf func(name string) (engine.Table, error)) (found []engine.Table, err error) {
	cursor, err := txn.OpenCursor(root)
	if err != nil {
		return nil, err
	}

	defer cursor.Close()
	name, _, err := cursor.Get(nil, nil, w.First)
	for ; err == nil && len(found) < MaxTables &&
		bytes.IndexByte(name, 0) < 0; name, _, err = cursor.Get(
		nil,
		nil,
		w.Next,
	) {
		table, err := tableOf(string(name))
		if err != nil {
			break // a value, no table
		}
		found = append(found, table)
	}

	return found, w.absentIsNil(err)
}

// Apply writes b to table in txn.
func Apply[T any, C LibraryCursor](b *adapter.Batch, txn Txn[T, C], table T, w CursorOps) error {
	return b.Each(
		func(key, value []byte) error { return txn.Put(table, key, value, 0) },
		func(key []byte) error { return w.absentIsNil(txn.Del(table, key, nil)) },
		func(from, to []byte) error { return applyRange(txn, table, w, from, to) })
}

// applyRange deletes every key from <= key < to.
func applyRange[T any, C LibraryCursor](
	txn Txn[T, C], table T, w CursorOps, from, to []byte,
) error {
	cursor, err := txn.OpenCursor(table)
	if err != nil {
		return err
	}

	defer cursor.Close()
	for {
		key, _, err := cursor.Get(from, nil, w.SetRange)
		if err != nil || bytes.Compare(key, to) >= 0 {
			return w.absentIsNil(err)
		}

		if err := cursor.Del(0); err != nil {
			return err
		}
	}
}

// writer keeps a batch until Commit: a write transaction bars all other writers and is bound to its
// thread.
type writer struct {
	adapter.Batch
	db     *DB
	update func(*adapter.Batch) error
}

// NewWriter returns a writer whose batches update writes in a transaction.
func (d *DB) NewWriter(update func(*adapter.Batch) error) (engine.Writer, error) {
	if d.config.ReadOnly {
		return nil, fmt.Errorf("%s: the database is open for reading only", d.config.Name)
	}
	return &writer{db: d, update: update}, nil
}

func (w *writer) DeleteRange(from, to []byte) error { return w.AddRange(from, to) }

func (w *writer) Commit() error {
	if w.Len() == 0 {
		return nil
	}

	if err := w.update(&w.Batch); err != nil {
		return fmt.Errorf("%s: commit a batch of %d entries: %w", w.db.config.Name, w.Len(), err)
	}

	w.db.commits.Add(1)
	w.db.written.Add(w.Bytes())
	w.Reset()
	return nil
}

func (*writer) Close() error { return nil }

// walker walks keys in order. Each operation gets a key, valid until the next one, or nil where
// there is none.
type walker struct {
	CursorOps
	get func(key []byte, operation uint) ([]byte, error)
}

// maxSteps is how far a sample may lie behind the place that was drawn: without
// steps, a key after a wide gap would be drawn more often than its neighbours.
const maxSteps = 16

// sample calls yield with n keys from places drawn evenly between the first key
// and the last, read as numbers. That is evenly over the data where keys are
// hashes or a dense sequence; where a few prefixes hold most keys, the others are
// drawn too often.
func sample(ctx context.Context, c walker, n int, seed uint64, yield func(key []byte) error) error {
	places, any, err := placesIn(c)
	if err != nil || !any {
		return err
	}

	rng := rand.New(rand.NewPCG(seed, 0x6d6d6170))
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}

		key, err := draw(c, places, rng)
		if err != nil {
			return err
		}

		if err := yield(key); err != nil {
			return err
		}
	}

	return nil
}

// placesIn is the interval of all keys; any is false for an empty database.
func placesIn(c walker) (places adapter.Interval, any bool, err error) {
	key, err := c.get(nil, c.First)
	if err != nil || key == nil {
		return places, false, err
	}

	first := bytes.Clone(key)
	last, err := c.get(nil, c.Last)
	if err != nil || last == nil {
		return places, false, err
	}

	return adapter.Between(first, last), true, nil
}

func draw(c walker, p adapter.Interval, rng *rand.Rand) ([]byte, error) {
	at := rng.Uint64()
	if width := p.High - p.Low; width != math.MaxUint64 {
		at = p.Low + rng.Uint64N(width+1)
	}

	key, err := c.get(p.At(at), c.SetRange)
	for steps := rng.IntN(maxSteps); steps > 0 && key != nil && err == nil; steps-- {
		key, err = c.get(nil, c.Next)
	}

	if key == nil && err == nil { // beyond the end
		return c.get(nil, c.Last)
	}

	return key, err
}
