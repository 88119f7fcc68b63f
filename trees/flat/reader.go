package flat

import (
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/state"
)

type reader struct {
	db    engine.Reader
	name  string
	key   []byte
	value []byte
}

func (t *table) Reader() (state.Reader, error) {
	db, err := t.db.Reader()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	return &reader{db: db, name: t.name}, nil
}

func (r *reader) Account(account state.Hash) (a state.Account, found bool, err error) {
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

func (r *reader) Slot(account, key state.Hash, dst []byte) ([]byte, bool, error) {
	r.key = appendSlotKey(r.key[:0], account, key)
	return r.db.Get(r.key, dst)
}

// Refresh: an engine's reader always reads what is newest.
func (r *reader) Refresh() error { return nil }

// Touched is unknown: what a Get touches is the engine's.
func (r *reader) Touched() state.Touched { return state.Touched{} }

func (r *reader) Close() error { return r.db.Close() }
