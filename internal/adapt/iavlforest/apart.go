package iavlforest

import (
	"errors"
	"io"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

// BenchProfile is the profile that sets a tree up as iavl-bench does.
const BenchProfile = "iavl-bench"

// Bench is that profile; about says what differs from the tree's first one.
func Bench(about string) engine.Profile {
	return engine.Profile{Name: BenchProfile, About: "as iavl-bench sets it up: " + about}
}

// Below is where the stores of a forest lie: each in its part of base, or with
// BenchProfile in a database of its own, which own opens. It returns the database that
// holds the forest's versions and closes all, and what opens a store's, with the bytes
// that its keys get as a prefix.
func Below[D io.Closer](o tree.Options, base Database, part func(prefix []byte) D, own func(store string) (D, error)) (
	Database, func(store string) (D, int, error)) {
	if o.Profile != BenchProfile {
		return base, func(store string) (D, int, error) {
			prefix := Prefix(store)
			return part(prefix), len(prefix), nil
		}
	}
	a := &apart{Database: base}
	return a, func(store string) (D, int, error) {
		db, err := own(store)
		if err == nil {
			a.stores = append(a.stores, db)
			err = a.Set(append(Prefix(store), "apart"...), []byte{1}) // lets Names find the store
		}
		return db, 0, err
	}
}

// apart is a database beside which every store has one of its own. It holds the
// forest's versions alone.
type apart struct {
	Database
	stores []io.Closer
}

// Close closes the stores, then the versions.
func (a *apart) Close() error {
	var errs []error
	for _, s := range a.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, a.Database.Close())...)
}
