package iavlforest

import (
	"errors"
	"io"

	"github.com/statelab/statelab/engine"
)

// BenchProfile is the profile that sets a tree up as iavl-bench does.
const BenchProfile = "iavl-bench"

// Bench is that profile; about says what differs from the tree's first one.
func Bench(about string) engine.Profile {
	return engine.Profile{Name: BenchProfile, About: "as iavl-bench sets it up: " + about}
}

// Apart is a database beside which every store has one of its own. It holds the
// forest's versions alone, and closes all.
type Apart struct {
	Database
	stores []io.Closer
}

// Add takes the database of a store, and lets Names find the store.
func (a *Apart) Add(store string, db io.Closer) error {
	a.stores = append(a.stores, db)
	return a.Set(append(Prefix(store), "apart"...), []byte{1})
}

// Close closes the stores, then the versions.
func (a *Apart) Close() error {
	var errs []error
	for _, s := range a.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, a.Database.Close())...)
}
