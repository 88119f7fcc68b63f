package flat

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/layout"
)

// table is an open state.
type table struct {
	name   string
	dir    string
	db     engine.DB
	writer engine.Writer // nil: read-only
	block  atomic.Uint64
	key    []byte
	value  []byte
	closed bool
}

func (t *table) prepare(o layout.Options) error {
	reader, err := t.db.Reader()
	if err != nil {
		return err
	}

	newest, found, err := reader.Get([]byte{blockKey}, nil)
	if err := errors.Join(err, reader.Close()); err != nil {
		return err
	}

	switch {
	case found && o.Create:
		return errors.New("it holds a state already")
	case !found && !o.Create:
		return errors.New("it holds no state")
	case found && len(newest) != 8:
		return fmt.Errorf("the block's number has %d bytes", len(newest))
	case found:
		t.block.Store(binary.BigEndian.Uint64(newest))
	}

	if !o.ReadOnly {
		t.writer, err = t.db.Writer()
	}

	return err
}

func (t *table) Block() uint64 { return t.block.Load() }

func (t *table) Root() layout.Hash { return layout.Hash{} }

func (t *table) Change(c layout.Change) error {
	if err := t.writable(); err != nil {
		return err
	}

	t.key = appendAccountKey(t.key[:0], c.Account)
	var err error
	if c.New == nil {
		err = errors.Join(t.writer.Delete(t.key), t.deleteSlots(c.Account))
	} else {
		t.value = appendAccount(t.value[:0], c.New)
		err = t.writer.Put(t.key, t.value)
	}

	for _, slot := range c.Slots {
		if err != nil || c.New == nil {
			break
		}

		t.key = appendSlotKey(t.key[:0], c.Account, slot.Key)
		if len(slot.Value) == 0 {
			err = t.writer.Delete(t.key)
		} else {
			err = t.writer.Put(t.key, slot.Value)
		}
	}

	if err != nil {
		return fmt.Errorf("%s: change account %x: %w", t.name, c.Account, err)
	}

	return nil
}

func (t *table) writable() error {
	switch {
	case t.closed:
		return fmt.Errorf("%s: it is closed", t.name)
	case t.writer == nil:
		return fmt.Errorf("%s: it was opened for reading", t.name)
	}
	return nil
}

// deleteSlots deletes all slots of an account: their keys lie together.
func (t *table) deleteSlots(account layout.Hash) error {
	writer, can := t.writer.(engine.RangeDeleter)
	if !can {
		return errors.New("the engine cannot delete a range of keys, as deleting an account needs")
	}
	from, to := slotRange(account)
	return writer.DeleteRange(from, to)
}

func (t *table) Commit(ctx context.Context) (layout.Hash, error) {
	if err := t.writable(); err != nil {
		return layout.Hash{}, err
	}

	next := t.block.Load() + 1
	err := t.writer.Put([]byte{blockKey}, binary.BigEndian.AppendUint64(nil, next))
	if err == nil {
		err = t.writer.Commit()
	}

	if err == nil {
		err = t.db.Sync(ctx)
	}

	if err != nil {
		return layout.Hash{}, fmt.Errorf("%s: commit block %d: %w", t.name, next, err)
	}

	t.block.Store(next)
	return layout.Hash{}, nil
}

func (t *table) Settle(ctx context.Context) error { return t.db.Settle(ctx, nil) }

// Counters are the engine's: the blocks it read for lookups.
func (t *table) Counters() layout.Counters { return layout.CountersOf(t.db.Counters()) }

func (t *table) DiskBytes() (int64, error) {
	allocated, _, err := host.Allocated(t.dir)
	return allocated, err
}

func (t *table) Effective() map[string]string { return t.db.Effective() }

func (t *table) Memory() []engine.MemoryShare {
	if reporter, ok := t.db.(engine.MemoryReporter); ok {
		return reporter.Memory()
	}
	return nil
}

func (t *table) Close() error {
	t.closed = true
	var err error
	if t.writer != nil {
		err = t.writer.Close()
	}
	return errors.Join(err, t.db.Close())
}

type reader struct {
	db    engine.Reader // nil once it is closed
	name  string
	key   []byte
	value []byte
}

func (t *table) Reader() (layout.Reader, error) {
	if t.closed {
		return nil, fmt.Errorf("%s: it is closed", t.name)
	}
	db, err := t.db.Reader()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	return &reader{db: db, name: t.name}, nil
}

func (r *reader) Account(account layout.Hash) (a layout.Account, found bool, err error) {
	if r.db == nil {
		return a, false, r.closed()
	}

	r.key = appendAccountKey(r.key[:0], account)
	r.value, found, err = r.db.Get(r.key, r.value[:0])
	if err != nil || !found {
		return a, false, err
	}

	a, err = parseAccount(r.value)
	if err != nil {
		return a, false, fmt.Errorf("%s: account %x: %w", r.name, account, err)
	}

	return a, true, nil
}

func (r *reader) Slot(account, key layout.Hash, dst []byte) ([]byte, bool, error) {
	if r.db == nil {
		return dst[:0], false, r.closed()
	}
	r.key = appendSlotKey(r.key[:0], account, key)
	return r.db.Get(r.key, dst)
}

// Refresh: an engine's reader always reads what is newest.
func (r *reader) Refresh() error {
	if r.db == nil {
		return r.closed()
	}
	return nil
}

// Touched is unknown: what a Get touches is the engine's.
func (r *reader) Touched() layout.Touched { return layout.Touched{} }

func (r *reader) Close() error {
	db := r.db
	r.db = nil
	return db.Close()
}

func (r *reader) closed() error { return fmt.Errorf("%s: the reader is closed", r.name) }
