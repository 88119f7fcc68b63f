package flat

import (
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
)

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
